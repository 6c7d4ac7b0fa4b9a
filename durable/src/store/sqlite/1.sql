-- Ids are UUIDs as blobs; times are microseconds since the Unix epoch.

CREATE TABLE tourbillon_schedule (
    id BLOB NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    spec TEXT NOT NULL,
    policies TEXT NOT NULL,
    payload BLOB NOT NULL,
    enabled INTEGER NOT NULL,
    version INTEGER NOT NULL,
    next INTEGER,
    shard INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tourbillon_schedule_next ON tourbillon_schedule (next) WHERE enabled = 1;

-- Running, if it has an owner.
CREATE TABLE tourbillon_timer (
    id BLOB NOT NULL PRIMARY KEY,
    schedule BLOB,
    name TEXT,
    kind TEXT NOT NULL,
    scheduled_for INTEGER NOT NULL,
    due INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    retry TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    owner BLOB,
    epoch INTEGER,
    payload BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tourbillon_timer_due ON tourbillon_timer (due);
CREATE INDEX tourbillon_timer_owner ON tourbillon_timer (owner, epoch) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX tourbillon_timer_occurrence ON tourbillon_timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE UNIQUE INDEX tourbillon_timer_name ON tourbillon_timer (name)
    WHERE schedule IS NULL AND name IS NOT NULL;

-- Alive, until its lease is found expired. The dead are kept for their epochs.
CREATE TABLE tourbillon_node (
    id BLOB NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL,
    alive INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE UNIQUE INDEX tourbillon_history_timer ON tourbillon_history (timer);
CREATE UNIQUE INDEX tourbillon_history_occurrence ON tourbillon_history (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
