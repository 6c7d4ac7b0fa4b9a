-- For lists, and counts of them. Nothing that a claim writes is in any.
CREATE INDEX tourbillon_timer_kind ON tourbillon_timer (kind, due, id);
-- The queues of schedules, without timers that are held.
CREATE INDEX tourbillon_timer_queue ON tourbillon_timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL AND due = 9223372036854775807;

-- A schedule is in one of them: each of its steps writes to every index that it is in.
CREATE INDEX tourbillon_schedule_enabled ON tourbillon_schedule (kind, name) WHERE enabled;
CREATE INDEX tourbillon_schedule_disabled ON tourbillon_schedule (kind, name) WHERE NOT enabled;

CREATE INDEX tourbillon_history_kind ON tourbillon_history (kind, recorded, timer);
CREATE INDEX tourbillon_history_name ON tourbillon_history (name, recorded, timer)
    WHERE name IS NOT NULL;
-- What did not succeed, which is little.
CREATE INDEX tourbillon_history_outcome ON tourbillon_history (kind, outcome, recorded, timer)
    WHERE outcome <> 1;
