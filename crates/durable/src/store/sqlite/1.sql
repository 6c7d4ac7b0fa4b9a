-- What runs has a node and an epoch; what is pending has none. A timer has no shard here: a node reads
-- the rows of one file, and picks its own by their ids. Rows are in the order of their ids, which is
-- about the order that they are made in. `detail` is what the last failed attempt left. `stopped` says
-- why a timer that runs is not to run again: its schedule was stopped meanwhile. `version` counts the
-- changes that clients make to a timer, so that one does not undo another's unseen.
CREATE TABLE tourbillon_timer (
    id BLOB PRIMARY KEY NOT NULL,
    schedule BLOB,
    name TEXT,
    kind TEXT NOT NULL,
    scheduled_for INTEGER NOT NULL,
    due INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    node BLOB,
    epoch INTEGER,
    -- Of its policy for failed attempts the spans are in microseconds.
    retry_attempts INTEGER NOT NULL DEFAULT 10 CHECK (retry_attempts BETWEEN 0 AND 2147483647),
    retry_first INTEGER NOT NULL DEFAULT 1000000 CHECK (retry_first >= 0),
    retry_longest INTEGER NOT NULL DEFAULT 300000000 CHECK (retry_longest >= 0),
    has_queue INTEGER NOT NULL DEFAULT 0 CHECK (has_queue IN (0, 1)),
    -- Its timers run one after another: all but one of them are due at the end of time.
    lane TEXT CHECK (lane <> ''),
    payload BLOB NOT NULL DEFAULT x'',
    detail TEXT NOT NULL DEFAULT '',
    stopped INTEGER,
    version INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
CREATE INDEX tourbillon_timer_due ON tourbillon_timer (due, id);
CREATE UNIQUE INDEX tourbillon_timer_occurrence ON tourbillon_timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE UNIQUE INDEX tourbillon_timer_name ON tourbillon_timer (name)
    WHERE schedule IS NULL AND name IS NOT NULL;
-- Only of running timers, so that finding orphans costs nothing while millions wait.
CREATE INDEX tourbillon_timer_running ON tourbillon_timer (node, epoch) WHERE node IS NOT NULL;
CREATE INDEX tourbillon_timer_stopped ON tourbillon_timer (stopped) WHERE stopped IS NOT NULL;
-- For lists, and counts of them. Nothing that a claim writes is in any.
CREATE INDEX tourbillon_timer_kind ON tourbillon_timer (kind, due, id);
-- The queues of schedules, without timers that are held.
CREATE INDEX tourbillon_timer_queue ON tourbillon_timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL AND due = 9223372036854775807 AND lane IS NULL;
-- The front of each lane, one by constraint, and the waiting timers behind it.
CREATE UNIQUE INDEX tourbillon_timer_front ON tourbillon_timer (lane)
    WHERE lane IS NOT NULL AND due < 9223372036854775807;
CREATE INDEX tourbillon_timer_lane ON tourbillon_timer (lane, scheduled_for, id)
    WHERE lane IS NOT NULL AND due = 9223372036854775807;

CREATE TABLE tourbillon_schedule (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    spec TEXT NOT NULL,
    policies TEXT NOT NULL,
    payload BLOB NOT NULL,
    enabled INTEGER NOT NULL,
    version INTEGER NOT NULL,
    next INTEGER,
    shard INTEGER NOT NULL,
    -- End of its pause, if in the future.
    paused INTEGER,
    lane TEXT,
    -- Version of the zone data that `next` was computed by, and the offset from UTC, in seconds.
    wall TEXT
) STRICT, WITHOUT ROWID;
-- A node reads the first of each of its shards, in one order.
CREATE INDEX tourbillon_schedule_next ON tourbillon_schedule (shard, next, id) WHERE enabled;
-- A schedule is in one of them: each of its steps writes to every index that it is in.
CREATE INDEX tourbillon_schedule_enabled ON tourbillon_schedule (kind, name) WHERE enabled;
CREATE INDEX tourbillon_schedule_disabled ON tourbillon_schedule (kind, name) WHERE NOT enabled;

-- A node that lives has an end of its lease. One that died is kept for its epoch; `seen` then says
-- when it died.
CREATE TABLE tourbillon_node (
    id BLOB PRIMARY KEY NOT NULL,
    epoch INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER
) STRICT, WITHOUT ROWID;

-- In the order of its lists, so that new rows come at the end and old ones go in one piece. Of a
-- dead timer `payload`, `retry_...` and `lane` are kept: they are needed to run it again.
CREATE TABLE tourbillon_history (
    recorded INTEGER NOT NULL,
    timer BLOB NOT NULL,
    schedule BLOB,
    name TEXT,
    kind TEXT NOT NULL,
    scheduled_for INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    outcome INTEGER NOT NULL,
    reason INTEGER,
    detail TEXT NOT NULL,
    node BLOB,
    payload BLOB,
    retry_attempts INTEGER,
    retry_first INTEGER,
    retry_longest INTEGER,
    lane TEXT,
    PRIMARY KEY (recorded, timer)
) STRICT, WITHOUT ROWID;
-- One record a timer, and one an occurrence, by constraint.
CREATE UNIQUE INDEX tourbillon_history_timer ON tourbillon_history (timer);
CREATE UNIQUE INDEX tourbillon_history_occurrence ON tourbillon_history (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE INDEX tourbillon_history_kind ON tourbillon_history (kind, recorded, timer);
CREATE INDEX tourbillon_history_name ON tourbillon_history (name, recorded, timer)
    WHERE name IS NOT NULL;
-- Records without success. They are few.
CREATE INDEX tourbillon_history_outcome ON tourbillon_history (kind, outcome, recorded, timer)
    WHERE outcome <> 1;
