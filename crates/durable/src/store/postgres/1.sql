-- What runs has a node and an epoch; what is pending has none. No index mentions them, nor how often
-- a timer was claimed, so that a claim and a hand-back are heap-only updates. A page has room for
-- two versions of each of its rows: timers that were inserted one after the other are often due
-- so, and claimed in one statement. Timers with equal times are in the order of their ids, so that
-- a scan reads no more of them than it returns. What changes stands last: the log of a claim then
-- begins there.
CREATE TABLE tourbillon.timer (
    id uuid PRIMARY KEY,
    schedule uuid,
    name text,
    kind text NOT NULL,
    scheduled_for timestamptz NOT NULL,
    shard smallint NOT NULL,
    retry text NOT NULL,
    payload bytea NOT NULL,
    due timestamptz NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    epoch bigint,
    node uuid
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);
CREATE INDEX timer_due ON tourbillon.timer (due, id);
CREATE UNIQUE INDEX timer_occurrence ON tourbillon.timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE UNIQUE INDEX timer_name ON tourbillon.timer (name)
    WHERE schedule IS NULL AND name IS NOT NULL;

CREATE TABLE tourbillon.schedule (
    id uuid PRIMARY KEY,
    name text NOT NULL UNIQUE,
    kind text NOT NULL,
    spec text NOT NULL,
    policies text NOT NULL,
    payload bytea NOT NULL,
    shard smallint NOT NULL,
    enabled boolean NOT NULL,
    version bigint NOT NULL,
    next timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX schedule_next ON tourbillon.schedule (next, id) WHERE enabled;

-- Who lives. A row goes with its life.
CREATE TABLE tourbillon.node (
    id uuid PRIMARY KEY,
    epoch bigint NOT NULL,
    expires timestamptz NOT NULL,
    beat timestamptz NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- The last epoch of each node, and when it last joined or died.
CREATE TABLE tourbillon.identity (
    id uuid PRIMARY KEY,
    epoch bigint NOT NULL,
    seen timestamptz NOT NULL
);

-- One record a timer, and one an occurrence, by constraint.
CREATE TABLE tourbillon.history (
    timer uuid PRIMARY KEY,
    schedule uuid,
    name text,
    kind text NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    outcome smallint NOT NULL,
    reason smallint,
    detail text NOT NULL,
    node uuid,
    recorded timestamptz NOT NULL
) WITH (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1
);
CREATE INDEX history_recorded ON tourbillon.history (recorded, timer);
CREATE UNIQUE INDEX history_occurrence ON tourbillon.history (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
