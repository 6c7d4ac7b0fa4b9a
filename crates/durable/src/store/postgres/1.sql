-- What runs has a node and an epoch; what is pending has none. No index mentions them, nor how often
-- a timer was claimed, so that a claim and a hand-back are heap-only updates. A page has room for
-- two versions of each of its rows: timers that were inserted one after the other are often due
-- so, and claimed in one statement. Timers with equal times are in the order of their ids, so that
-- a scan reads no more of them than it returns. What changes stands last: the log of a claim then
-- begins there. Behind it stands what no claim names, so that the log of a claim does not have it
-- again, and what lies beside the row is not copied: `detail`, what the last failed attempt left, NULL
-- for nothing; `stopped`, why a timer that runs is not to run again, as its schedule was stopped
-- meanwhile; and `version`, which counts the changes that clients make, NULL for 1. So a timer that
-- does not fail and that nobody changes takes no more room. Names are in the order of their bytes, in
-- their indexes too: so a prefix is a range.
CREATE TABLE tourbillon.timer (
    id uuid PRIMARY KEY,
    schedule uuid,
    name text COLLATE "C",
    kind text NOT NULL,
    scheduled_for timestamptz NOT NULL,
    shard smallint NOT NULL CHECK (shard >= 0),
    retry_attempts integer NOT NULL DEFAULT 10 CHECK (retry_attempts >= 0),
    retry_first interval NOT NULL DEFAULT '1 second' CHECK (retry_first >= '0'),
    retry_longest interval NOT NULL DEFAULT '5 minutes' CHECK (retry_longest >= '0'),
    has_queue boolean NOT NULL DEFAULT false,
    -- Its timers run one after another: all but one of them are due at 'infinity'.
    lane text COLLATE "C" CHECK (lane <> ''),
    payload bytea NOT NULL DEFAULT '',
    due timestamptz NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    attempt integer NOT NULL DEFAULT 0,
    epoch bigint,
    node uuid,
    detail text,
    stopped smallint,
    version integer
) WITH (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000
);
-- The condition holds for each row. It keeps other statements away: an index with a condition is
-- used only for a statement that has it, too. Without it, one that looks up ids may walk over this
-- whole index. To the planner that costs as little as the primary key where its statistics say that
-- there are no rows, as they do for a moment after each vacuum in which all timers were short-lived.
CREATE INDEX timer_due ON tourbillon.timer (due, id) WHERE shard >= 0;
CREATE UNIQUE INDEX timer_occurrence ON tourbillon.timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
CREATE UNIQUE INDEX timer_name ON tourbillon.timer (name)
    WHERE schedule IS NULL AND name IS NOT NULL;
CREATE INDEX timer_stopped ON tourbillon.timer (id) WHERE stopped IS NOT NULL;
-- For lists, and counts of them. None has a column that a claim writes. Its condition is another: a
-- statement for a kind has no choice between the two.
CREATE INDEX timer_kind ON tourbillon.timer (kind, due, id) WHERE retry_attempts >= 0;
-- The queues of schedules, without timers that are held.
CREATE INDEX timer_queue ON tourbillon.timer (schedule, scheduled_for)
    WHERE schedule IS NOT NULL AND due = 'infinity' AND lane IS NULL;
-- The front of each lane, one by constraint, and the waiting timers behind it. Neither has a timer
-- without a lane, or a column that a claim writes.
CREATE UNIQUE INDEX timer_front ON tourbillon.timer (lane)
    WHERE lane IS NOT NULL AND due < 'infinity';
CREATE INDEX timer_lane ON tourbillon.timer (lane, scheduled_for, id)
    WHERE lane IS NOT NULL AND due = 'infinity';

CREATE TABLE tourbillon.schedule (
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    kind text NOT NULL,
    spec text NOT NULL,
    policies text NOT NULL,
    payload bytea NOT NULL,
    shard smallint NOT NULL,
    enabled boolean NOT NULL,
    version bigint NOT NULL,
    next timestamptz,
    -- End of its pause, if in the future.
    paused timestamptz,
    lane text COLLATE "C",
    -- Version of the zone data that `next` was computed by, and the offset from UTC, in seconds.
    wall text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
-- A node reads the first of each of its shards, in one order.
CREATE INDEX schedule_next ON tourbillon.schedule (shard, next, id) WHERE enabled;
-- A schedule is in one of them: each of its steps writes to every index that it is in.
CREATE INDEX schedule_enabled ON tourbillon.schedule (kind, name) WHERE enabled;
CREATE INDEX schedule_disabled ON tourbillon.schedule (kind, name) WHERE NOT enabled;

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

-- One record a timer, and one an occurrence, by constraint. Of a dead timer `payload`, `retry_...`
-- and `lane` are kept: it takes them to run it again.
CREATE TABLE tourbillon.history (
    timer uuid PRIMARY KEY,
    schedule uuid,
    name text COLLATE "C",
    kind text NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempts integer NOT NULL,
    failures integer NOT NULL,
    outcome smallint NOT NULL,
    reason smallint,
    detail text NOT NULL,
    node uuid,
    recorded timestamptz NOT NULL,
    payload bytea,
    retry_attempts integer,
    retry_first interval,
    retry_longest interval,
    lane text COLLATE "C"
) WITH (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1
);
CREATE UNIQUE INDEX history_occurrence ON tourbillon.history (schedule, scheduled_for)
    WHERE schedule IS NOT NULL;
-- By kind: a list of all kinds reads the first of each.
CREATE INDEX history_kind ON tourbillon.history (kind, recorded, timer);
CREATE INDEX history_name ON tourbillon.history (name, recorded, timer) WHERE name IS NOT NULL;
-- Records without success. They are few.
CREATE INDEX history_outcome ON tourbillon.history (kind, outcome, recorded, timer)
    WHERE outcome <> 1;

-- For other programs, and for their own transactions; no store calls them. They check the same as
-- clients of the crate, and their defaults are those of `NewTimer::new`. A plan is made as in a
-- connection of a store, with indexes only: it is kept while the tables grow.

-- Makes a timer that fires once; in a lane, when its turn comes, with the next round of
-- maintenance. `created` is false if `timer` existed before, by the name or by the id; it may be
-- over.
CREATE FUNCTION tourbillon.once(
    kind text,
    at timestamptz,
    name text DEFAULT NULL,
    payload bytea DEFAULT '',
    id uuid DEFAULT NULL,
    retry_attempts integer DEFAULT 10,
    retry_first interval DEFAULT '1 second',
    retry_longest interval DEFAULT '5 minutes',
    lane text DEFAULT NULL,
    OUT timer uuid,
    OUT created boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    drawn uuid;
BEGIN
    IF kind IS NULL OR octet_length(kind) NOT BETWEEN 1 AND 200 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a kind is empty or too long';
    ELSIF octet_length(name) NOT BETWEEN 1 AND 200 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a name is empty or too long';
    ELSIF octet_length(lane) NOT BETWEEN 1 AND 200 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a lane is empty or too long';
    ELSIF payload IS NULL OR octet_length(payload) > 65536 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'a payload is missing or has more than 64 KiB';
    ELSIF at IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a time is missing';
    ELSIF (retry_attempts >= 0 AND retry_first >= '0' AND retry_longest >= '0') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING MESSAGE = 'retries are missing or negative';
    END IF;
    -- A UUID of version 7: the milliseconds, then random bits.
    drawn := encode(set_bit(set_bit(overlay(
        uuid_send(gen_random_uuid())
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::int8) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex');
    drawn := coalesce(id, drawn);
    FOR round IN 1..5 LOOP
        WITH new AS (
            SELECT drawn AS id, once.name AS name, once.kind AS kind, at AS scheduled_for,
                   CASE WHEN once.lane IS NULL THEN greatest(at, now()) ELSE 'infinity' END AS due,
                   (get_byte(uuid_send(drawn), 15) & 63)::int2 AS shard,
                   once.lane AS lane, once.payload AS payload, once.retry_attempts AS retry_attempts,
                   once.retry_first AS retry_first, once.retry_longest AS retry_longest
            WHERE NOT EXISTS (SELECT 1 FROM tourbillon.history AS h WHERE h.timer = drawn)
        )
        INSERT INTO tourbillon.timer
            (id, name, kind, scheduled_for, due, shard, lane, payload, retry_attempts, retry_first,
             retry_longest)
        SELECT new.id, new.name, new.kind, new.scheduled_for, new.due, new.shard, new.lane,
               new.payload, new.retry_attempts, new.retry_first, new.retry_longest
        FROM new ON CONFLICT DO NOTHING;
        created := FOUND;
        -- The insert may have waited for the end of a timer with the id, whose record only a later
        -- statement sees.
        IF created AND EXISTS (SELECT 1 FROM tourbillon.history AS h WHERE h.timer = drawn) THEN
            DELETE FROM tourbillon.timer AS t WHERE t.id = drawn;
            created := false;
        END IF;
        IF created THEN
            timer := drawn;
            RETURN;
        END IF;
        SELECT t.id INTO timer FROM tourbillon.timer AS t
        WHERE t.schedule IS NULL AND t.name = once.name;
        IF NOT FOUND THEN
            SELECT t.id INTO timer FROM tourbillon.timer AS t WHERE t.id = drawn
            UNION ALL SELECT h.timer FROM tourbillon.history AS h WHERE h.timer = drawn;
        END IF;
        IF FOUND THEN
            -- A commit that waits as long as the commit of that timer had to.
            PERFORM pg_logical_emit_message(true, 'tourbillon', '');
            RETURN;
        END IF;
        -- The conflicting row has gone.
    END LOOP;
    RAISE serialization_failure USING
        MESSAGE = 'conflicting timers came and went at every try';
END $$;

-- Says why the timer of this name was not changed; nothing if it is pending again.
CREATE FUNCTION tourbillon.unchanged(
    name text,
    OUT answer text,
    OUT timer uuid,
    OUT attempt integer
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    SELECT CASE WHEN t.node IS NOT NULL THEN 'running' END, t.id, t.attempt
    INTO answer, timer, attempt
    FROM tourbillon.timer AS t WHERE t.schedule IS NULL AND t.name = unchanged.name;
    IF NOT FOUND THEN
        answer := 'gone';
    END IF;
    IF answer IS NOT NULL THEN
        -- A commit that waits as long as the commit that was read had to.
        PERFORM pg_logical_emit_message(true, 'tourbillon', '');
    END IF;
END $$;

-- Takes back the timer of this name that belongs to no schedule. `answer` is `done`: once this has
-- committed, no attempt starts; `running`, with the number of the attempt: nothing is changed; or
-- `gone`: there is none.
CREATE FUNCTION tourbillon.cancel(
    name text,
    OUT answer text,
    OUT timer uuid,
    OUT attempt integer
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ended record;
BEGIN
    FOR round IN 1..5 LOOP
        -- A row whose claim it waited for is locked, though it is not deleted. What undoes this block
        -- unlocks the row, so that the attempt can end meanwhile.
        BEGIN
            DELETE FROM tourbillon.timer AS t
            WHERE t.schedule IS NULL AND t.name = cancel.name AND t.node IS NULL
            RETURNING t.id, t.name, t.kind, t.scheduled_for, t.attempt, t.failures, t.detail
            INTO ended;
            IF NOT FOUND THEN
                RAISE no_data_found;
            END IF;
            INSERT INTO tourbillon.history
                (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, reason,
                 detail, node, recorded)
            VALUES (ended.id, NULL, ended.name, ended.kind, ended.scheduled_for, ended.attempt,
                    ended.failures, 4, 6, coalesce(ended.detail, ''), NULL, now())
            ON CONFLICT DO NOTHING;
            timer := ended.id;
            answer := CASE WHEN FOUND THEN 'done' ELSE 'gone' END;
            RETURN;
        EXCEPTION WHEN no_data_found THEN
            NULL;
        END;
        SELECT * INTO answer, timer, attempt FROM tourbillon.unchanged(name);
        IF answer IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE serialization_failure USING
        MESSAGE = 'the timer is claimed and handed back again and again';
END $$;

-- Gives the timer of this name that belongs to no schedule another time, and holds it at 'infinity'.
-- Answers as `cancel` does.
CREATE FUNCTION tourbillon.reschedule(
    name text,
    at timestamptz,
    OUT answer text,
    OUT timer uuid,
    OUT attempt integer
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF at IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a time is missing';
    END IF;
    FOR round IN 1..5 LOOP
        BEGIN
            UPDATE tourbillon.timer AS t
            SET scheduled_for = at, version = coalesce(t.version, 1) + 1,
                due = greatest(at, now(), CASE
                    WHEN t.lane IS NOT NULL AND t.due = 'infinity' THEN t.due
                END)
            WHERE t.schedule IS NULL AND t.name = reschedule.name AND t.node IS NULL
            RETURNING t.id INTO timer;
            IF NOT FOUND THEN
                RAISE no_data_found;
            END IF;
            answer := 'done';
            RETURN;
        EXCEPTION WHEN no_data_found THEN
            NULL;
        END;
        SELECT * INTO answer, timer, attempt FROM tourbillon.unchanged(name);
        IF answer IS NOT NULL THEN
            RETURN;
        END IF;
    END LOOP;
    RAISE serialization_failure USING
        MESSAGE = 'the timer is claimed and handed back again and again';
END $$;

-- Ends the occurrence of an attempt: it succeeded. Fails if the attempt is not under way (TB001), or
-- if its timer was inserted by other means and has a record already (TB002), and with it the
-- transaction.
CREATE FUNCTION tourbillon.complete(
    timer uuid,
    attempt integer,
    node uuid,
    epoch bigint,
    detail text DEFAULT ''
) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    ended record;
BEGIN
    IF detail IS NULL OR octet_length(detail) > 8192 THEN
        RAISE invalid_parameter_value USING MESSAGE = 'a detail is missing or has more than 8 KiB';
    END IF;
    DELETE FROM tourbillon.timer AS t
    WHERE t.id = complete.timer AND t.attempt = complete.attempt
        AND t.node = complete.node AND t.epoch = complete.epoch
    RETURNING t.schedule, t.name, t.kind, t.scheduled_for, t.failures INTO ended;
    IF NOT FOUND THEN
        RAISE SQLSTATE 'TB001' USING MESSAGE = 'the attempt is not under way';
    END IF;
    INSERT INTO tourbillon.history
        (timer, schedule, name, kind, scheduled_for, attempts, failures, outcome, detail, node,
         recorded)
    VALUES (complete.timer, ended.schedule, ended.name, ended.kind, ended.scheduled_for,
            complete.attempt, ended.failures, 1, complete.detail, complete.node, now())
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE SQLSTATE 'TB002' USING MESSAGE = 'the timer has a record already';
    END IF;
END $$;
