-- Why what runs is not to run again: its schedule was stopped meanwhile. No claim writes it, and no index
-- has it of what is claimed. A build that does not know of it runs such a timer again.
ALTER TABLE tourbillon.timer ADD COLUMN stopped smallint;
CREATE INDEX timer_stopped ON tourbillon.timer (id) WHERE stopped IS NOT NULL;
