-- Functions that make a one-shot in a transaction of the caller's own, on PostgreSQL from 15 on:
-- docs/OPERATIONS.md, "In your own transaction". The owner of the schema `tourbillon` runs this
-- file, and again after an upgrade:
--
--   psql "$STORE" -v ON_ERROR_STOP=1 --single-transaction -f call.sql
--   psql "$STORE" -c "SELECT tourbillond.allow('shop', 'shop_web')"
--
-- If the store's address names another `schema`, replace `tourbillon.` and `'tourbillon'` first.

CREATE SCHEMA IF NOT EXISTS tourbillond;

-- A time in RFC 3339, in UTC, with as many digits as it needs.
CREATE OR REPLACE FUNCTION tourbillond.rfc3339(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT rtrim(rtrim(to_char(timezone('UTC', at), 'YYYY-MM-DD"T"HH24:MI:SS.US'), '0'), '.')
           || 'Z'
$$;

-- The lowest 64 bits of a whole number.
CREATE OR REPLACE FUNCTION tourbillond.low(number numeric) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
    SELECT (mod(mod(number + 9223372036854775808, 18446744073709551616) + 18446744073709551616,
                18446744073709551616) - 9223372036854775808)::bigint
$$;

-- The end of splitmix64.
CREATE OR REPLACE FUNCTION tourbillond.mix(bits bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    bits := tourbillond.low(bits + 11400714819323198485);
    bits := tourbillond.low((bits # ((bits >> 30) & ((1::bigint << 34) - 1))) * 13787848793156543929);
    bits := tourbillond.low((bits # ((bits >> 27) & ((1::bigint << 37) - 1))) * 10723151780598845931);
    RETURN bits # ((bits >> 31) & ((1::bigint << 33) - 1));
END $$;

-- The id of the one-shot that follows this one under its key: `TimerId::of_revival`.
CREATE OR REPLACE FUNCTION tourbillond.next_id(id uuid) RETURNS uuid
LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    digits text := replace(id::text, '-', '');
    high bigint := ('x' || left(digits, 16))::bit(64)::bigint;
    low bigint := ('x' || right(digits, 16))::bit(64)::bigint;
    first bigint;
    second bigint;
BEGIN
    first := tourbillond.mix(tourbillond.mix(high)
        # ((low << 29) | ((low >> 35) & ((1::bigint << 29) - 1))));
    second := tourbillond.mix(first
        # ((high << 13) | ((high >> 51) & ((1::bigint << 13) - 1))) # low);
    -- A UUID of version 7, of the same millisecond.
    RETURN left(digits, 12) || to_hex((first & 4095) | 28672)
        || to_hex((second & ((1::bigint << 62) - 1)) | (1::bigint << 63));
END $$;

-- Makes a one-shot as the API does, with the same row, or finds that it is there or was. Only for
-- the owner of the tables, and for the functions that `allow` makes.
CREATE OR REPLACE FUNCTION tourbillond.call(
    app text,
    key text,
    url text,
    body text,
    at timestamptz,
    method text DEFAULT 'POST',
    headers jsonb DEFAULT '{}',
    retry_attempts integer DEFAULT 5,
    retry_first interval DEFAULT '10 seconds',
    retry_longest interval DEFAULT '2 minutes',
    schedules integer DEFAULT 10000,
    OUT run uuid,
    OUT created boolean
) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    full_name text := app || '/' || key;
    definition text;
    -- The payload up to the definition's end, and all of it.
    begins bytea;
    content bytea;
    id uuid;
    is_same boolean;
    last tourbillon.history%ROWTYPE;
    next tourbillon.history%ROWTYPE;
BEGIN
    IF (app ~ '^[A-Za-z0-9_.-]{1,40}$' AND app NOT IN ('.', '..')) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'an app has 1 to 40 characters of `A-Z a-z 0-9 - _ .`';
    ELSIF (key ~ '^[A-Za-z0-9_.:@+~-]{1,120}$' AND key NOT IN ('.', '..')) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'a key has 1 to 120 characters of `A-Z a-z 0-9 - _ . : @ + ~`';
    ELSIF (url ~* '^https?://.') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the URL begins with neither http:// nor https://';
    ELSIF (at >= '1970-01-01 00:00Z' AND at < '9999-12-30 00:00Z') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the time is missing or not within the years 1970 to 9999';
    ELSIF (method IN ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')) IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the method is none of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS';
    ELSIF (retry_attempts BETWEEN 1 AND 1000 AND retry_first <= retry_longest
           AND retry_first >= CASE WHEN retry_attempts > 1 THEN '1 second' ELSE '0' END::interval
           AND retry_longest <= '1 day') IS NOT TRUE THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'retries are 1 to 1000 attempts, with pauses of a second to a day';
    ELSIF EXISTS (
        SELECT 1 FROM jsonb_each(headers) AS h
        WHERE (jsonb_typeof(h.value) = 'string'
               OR jsonb_typeof(h.value -> 'secret') = 'string'
                   AND h.value = jsonb_build_object('secret', h.value -> 'secret')) IS NOT TRUE
    ) THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'a header is a string, or `{"secret": NAME}`';
    END IF;
    -- The texts of the service, byte by byte: it compares them, too.
    definition := format(
        '{"when":{"at":"%s"},"callback":{"method":"%s","url":%s%s%s}%s,"enabled":true}',
        tourbillond.rfc3339(at), method, to_json(url),
        (SELECT ',"headers":{' || string_agg(format('%s:%s', to_json(h.key),
             CASE jsonb_typeof(h.value)
                 WHEN 'string' THEN h.value::text
                 ELSE format('{"secret":%s}', h.value -> 'secret')
             END), ',' ORDER BY h.key COLLATE "C") || '}'
         FROM jsonb_each(headers) AS h),
        CASE WHEN body <> '' THEN format(',"body":%s', to_json(body)) END,
        CASE WHEN (retry_attempts, retry_first, retry_longest) <> (5, '10 seconds', '2 minutes')
            THEN format(',"retry":{"attempts":%s,"first":"%ss","longest":"%ss"}', retry_attempts,
                trim_scale(extract(epoch FROM retry_first)),
                trim_scale(extract(epoch FROM retry_longest)))
        END);
    begins := convert_to(format('{"key":"%s","definition":%s,"created":', key, definition), 'UTF8');
    content := begins || convert_to(format('"%s","at_us":%s}', tourbillond.rfc3339(now()),
        (extract(epoch FROM at) * 1000000)::bigint), 'UTF8');
    IF octet_length(content) > 49152 THEN
        RAISE invalid_parameter_value USING MESSAGE = format(
            'the definition has %s bytes with it, and 49152 are the most', octet_length(content));
    END IF;

    FOR round IN 1..5 LOOP
        created := false;
        last := NULL;
        IF EXISTS (SELECT 1 FROM tourbillon.schedule AS s WHERE s.name = full_name) THEN
            RAISE unique_violation USING
                MESSAGE = format('the key `%s` belongs to a repeating schedule', key);
        END IF;
        SELECT t.id, substr(t.payload, 1, octet_length(begins)) = begins INTO run, is_same
        FROM tourbillon.timer AS t WHERE t.schedule IS NULL AND t.name = full_name;
        IF NOT FOUND THEN
            id := encode(substr(sha256(convert_to(full_name, 'UTF8')), 1, 16), 'hex');
            SELECT h.* INTO next FROM (
                SELECT * FROM tourbillon.history AS h WHERE h.name = full_name
                ORDER BY h.recorded DESC, h.timer DESC LIMIT 1000
            ) AS h WHERE h.schedule IS NULL ORDER BY h.recorded DESC, h.timer DESC LIMIT 1;
            -- A DELETE of a one-shot that is over leaves a record without a name.
            WHILE FOUND LOOP
                last := next;
                id := tourbillond.next_id(last.timer);
                SELECT h.* INTO next FROM tourbillon.history AS h WHERE h.timer = id;
            END LOOP;
            -- 4 is cancelled: the key is free.
            IF last.outcome <> 4 THEN
                run := last.timer;
                is_same := CASE
                    WHEN last.payload IS NULL THEN right(last.detail, 50) = format(
                        E'\n{"definition":"%s"}',
                        left(encode(sha256(convert_to(definition, 'UTF8')), 'hex'), 32))
                    ELSE substr(last.payload, 1, octet_length(begins)) = begins
                END;
            END IF;
        END IF;
        IF is_same THEN
            -- A commit that waits as long as the commit of that one-shot had to.
            PERFORM pg_logical_emit_message(true, 'tourbillon', '');
            RETURN;
        ELSIF last.outcome <> 4 THEN
            RAISE unique_violation USING MESSAGE = format(
                'the key `%s` belongs to a one-shot that is over; free the key with DELETE', key);
        ELSIF run IS NOT NULL THEN
            RAISE unique_violation USING MESSAGE = format(
                'the key `%s` has another definition; replace it with PUT', key);
        ELSIF schedules <= (SELECT count(*) FROM (
            SELECT 1 FROM tourbillon.timer AS t
            WHERE t.schedule IS NULL AND t.name > app || '/' AND t.name < app || '0'
            UNION ALL
            SELECT 1 FROM tourbillon.schedule AS s
            WHERE s.name > app || '/' AND s.name < app || '0'
            LIMIT schedules
        ) AS named) THEN
            RAISE configuration_limit_exceeded USING MESSAGE = format(
                'the app has %s schedules, which is its limit; delete some', schedules);
        END IF;
        SELECT o.timer, o.created INTO run, created FROM tourbillon.once(
            'http.' || app, at, name => full_name, payload => content, id => id,
            retry_attempts => retry_attempts, retry_first => retry_first,
            retry_longest => retry_longest) AS o;
        IF created THEN
            -- Nodes take note of it with the commit. What is due later they find by themselves.
            IF at <= clock_timestamp() + interval '1 second' THEN
                PERFORM pg_notify('tourbillon', lpad(
                    to_hex(1::bigint << (get_byte(uuid_send(run), 15) & 63)), 16, '0'));
            END IF;
            RETURN;
        END IF;
    END LOOP;
    RAISE serialization_failure USING MESSAGE = 'others are changing the key; try again';
END $$;

-- Lets a role make one-shots of an app: makes `tourbillond.call_APP`, with the parameters of `call`
-- but for the app and its limit, and grants it. The limit is `limits.schedules` of the app; NULL
-- for none.
CREATE OR REPLACE FUNCTION tourbillond.allow(
    app text,
    role regrole,
    schedules integer DEFAULT 10000
) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format($sql$
        CREATE OR REPLACE FUNCTION tourbillond.%1$I(
            key text,
            url text,
            body text,
            at timestamptz,
            method text DEFAULT 'POST',
            headers jsonb DEFAULT '{}',
            retry_attempts integer DEFAULT 5,
            retry_first interval DEFAULT '10 seconds',
            retry_longest interval DEFAULT '2 minutes',
            OUT run uuid,
            OUT created boolean
        ) LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %2$L;
        REVOKE ALL ON FUNCTION tourbillond.%1$I FROM PUBLIC;
        GRANT EXECUTE ON FUNCTION tourbillond.%1$I TO %3$s;
        GRANT USAGE ON SCHEMA tourbillond TO %3$s
    $sql$, 'call_' || app, format('SELECT * FROM tourbillond.call(%L, key, url, body, at, method, '
        'headers, retry_attempts, retry_first, retry_longest, %L)', app, schedules), role);
END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA tourbillond FROM PUBLIC;
