-- Why what runs is not to run again: its schedule was stopped meanwhile. A build that does not know of
-- it runs such a timer again.
ALTER TABLE tourbillon_timer ADD COLUMN stopped INTEGER;
CREATE INDEX tourbillon_timer_stopped ON tourbillon_timer (stopped) WHERE stopped IS NOT NULL;
