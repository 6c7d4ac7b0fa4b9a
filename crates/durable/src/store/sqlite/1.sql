-- What runs has a node and an epoch; what is pending has none. There are no shards here: a node reads
-- the rows of one file, and picks its own by their ids. Rows are in the order of their ids, which is
-- about the order that they are made in.
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
    retry TEXT NOT NULL,
    payload BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tourbillon_timer_due ON tourbillon_timer (due, id);
CREATE UNIQUE INDEX tourbillon_timer_occurrence ON tourbillon_timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE UNIQUE INDEX tourbillon_timer_name ON tourbillon_timer (name)
    WHERE schedule IS NULL AND name IS NOT NULL;
-- Only of what runs, so that finding orphans costs nothing while millions wait.
CREATE INDEX tourbillon_timer_running ON tourbillon_timer (node, epoch) WHERE node IS NOT NULL;

CREATE TABLE tourbillon_schedule (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    spec TEXT NOT NULL,
    policies TEXT NOT NULL,
    payload BLOB NOT NULL,
    enabled INTEGER NOT NULL,
    version INTEGER NOT NULL,
    next INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tourbillon_schedule_next ON tourbillon_schedule (next, id) WHERE enabled;

-- A node that lives has an end of its lease. One that died is kept for its epoch; `seen` then says
-- when it died.
CREATE TABLE tourbillon_node (
    id BLOB PRIMARY KEY NOT NULL,
    epoch INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    expires INTEGER
) STRICT, WITHOUT ROWID;

-- In the order of its lists, so that what is new comes at the end and what is old goes in one piece.
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
    PRIMARY KEY (recorded, timer)
) STRICT, WITHOUT ROWID;
CREATE INDEX tourbillon_history_timer ON tourbillon_history (timer);
CREATE UNIQUE INDEX tourbillon_history_occurrence ON tourbillon_history (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
