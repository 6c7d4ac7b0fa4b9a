-- Names in the order of their bytes, in the indexes that they have: so a prefix is a range.
ALTER TABLE tourbillon.timer ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE tourbillon.schedule ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE tourbillon.history ALTER COLUMN name TYPE text COLLATE "C";

-- For lists, and counts of them. Nothing that a claim writes is in any.
CREATE INDEX timer_kind ON tourbillon.timer (kind, due, id);
-- The queues of schedules, without timers that are held.
CREATE INDEX timer_queue ON tourbillon.timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL AND due = 'infinity';

-- A schedule is in one of them: each of its steps writes to every index that it is in.
CREATE INDEX schedule_enabled ON tourbillon.schedule (kind, name) WHERE enabled;
CREATE INDEX schedule_disabled ON tourbillon.schedule (kind, name) WHERE NOT enabled;

-- In place of one without the kind: a record is as dear as before.
CREATE INDEX history_kind ON tourbillon.history (kind, recorded, timer);
DROP INDEX tourbillon.history_recorded;
CREATE INDEX history_name ON tourbillon.history (name, recorded, timer) WHERE name IS NOT NULL;
-- What did not succeed, which is little.
CREATE INDEX history_outcome ON tourbillon.history (kind, outcome, recorded, timer)
    WHERE outcome <> 1;
