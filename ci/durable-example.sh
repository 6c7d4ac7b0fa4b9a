#!/usr/bin/env bash
# Runs the examples of durable timers: reminders on SQLite and on PostgreSQL, bills in transactions
# of sqlx, and the tool that moves a place. The first two kill their worker and check what became of
# everything. The tool is killed twice and started again, and what came of it is compared with what
# there was. Ends with an error if something is not as it has to be.
. "$(dirname "$0")/lib.sh"

# sql STATEMENTS: their answer from the database.
sql() { "$TOURBILLON_POSTGRES_BIN/psql" -qtAX -v ON_ERROR_STOP=1 -c "$1" "$TOURBILLON_POSTGRES"; }

# holds CONDITION: whether it holds in the database; expect CONDITION: fails if it does not.
holds() { [ "$(sql "SELECT $1")" = t ]; }
expect() { holds "$1" || { echo "it does not hold that $1"; exit 1; }; }

# kill_once CONDITION: starts the tool, and kills it as soon as the condition holds in the database.
# Fails if the tool ends by itself.
kill_once() {
    "${tool[@]}" &
    local process=$!
    until holds "$1"; do
        kill -0 "$process"
        sleep 0.02
    done
    kill -KILL "$process"
    if wait "$process"; then exit 1; fi
    echo "it was killed"
}

# Moves a place between two schemas of one database, each a store of its own.
move() {
    local holder
    tool=("${CARGO_TARGET_DIR:-target}/debug/examples/durable_move" mine
        "$TOURBILLON_POSTGRES?schema=old" "$TOURBILLON_POSTGRES?schema=new")
    # There is nothing to move yet, but the tables are made.
    "${tool[@]}"
    sql "SELECT count(*) FROM generate_series(1, 3000) AS n,
            old.once('mail', now() + interval '1 day', 'mine ' || n, key => 'mine')" >/dev/null
    sql "SELECT count(*) FROM generate_series(1, 300) AS n,
            old.once('mail', now() + interval '1 day', 'other ' || n, key => 'other')" >/dev/null
    # One runs, on a node that lives for long enough.
    sql "INSERT INTO old.node (id, epoch, expires, beat)
            VALUES (gen_random_uuid(), 1, now() + interval '1 day', now());
        UPDATE old.timer SET node = (SELECT id FROM old.node), epoch = 1, attempt = 1
            WHERE name = 'mine 1';
        CREATE TABLE before AS TABLE old.timer"

    # While another transaction has one of them locked, it can take some and not all.
    PGAPPNAME=holder sql "BEGIN; SELECT FROM old.timer WHERE name = 'mine 1500' FOR UPDATE;
        SELECT pg_sleep(600)" &>/dev/null &
    holder=$!
    until holds "count(*) = 1 FROM pg_stat_activity
        WHERE application_name = 'holder' AND wait_event = 'PgSleep'"; do
        kill -0 "$holder"
    done
    kill_once "count(*) > 0 FROM old.history"
    sql "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
        WHERE application_name = 'holder'" >/dev/null
    if wait "$holder"; then exit 1; fi
    expect "count(*) > 1000 FROM old.timer WHERE name LIKE 'mine %'"

    # While one runs, it waits.
    kill_once "count(*) = 1 FROM old.timer WHERE name LIKE 'mine %'"
    sql "SELECT old.complete(id, attempt, node, epoch) FROM old.timer
        WHERE name = 'mine 1'" >/dev/null
    "${tool[@]}"

    # Nothing is lost, there twice, or changed.
    sql "CREATE VIEW moved AS SELECT * FROM before WHERE name LIKE 'mine %' AND name <> 'mine 1';
        CREATE VIEW stayed AS SELECT * FROM before WHERE name LIKE 'other %'"
    expect "(SELECT count(*) FROM moved) = 2999 AND (SELECT count(*) FROM stayed) = 300"
    for pair in "moved new.timer" "stayed old.timer"; do
        read -r one other <<<"$pair"
        expect "NOT EXISTS ((TABLE $one EXCEPT ALL TABLE $other)
            UNION ALL (TABLE $other EXCEPT ALL TABLE $one))"
    done
    # The end of the one that ran is recorded, and of each of the others that it was taken.
    expect "array_agg(name) = '{mine 1}' FROM old.history WHERE outcome = 1"
    expect "array_agg(timer ORDER BY timer) = (SELECT array_agg(id ORDER BY id) FROM moved)
        FROM old.history WHERE reason = 12"
    expect "(SELECT count(*) FROM old.history) = 3000 AND NOT EXISTS (SELECT FROM new.history)"
    echo "2999 timers are as they were, on the new store"
}

if [ "${1:-}" = move ]; then
    move
    exit
fi
on_postgres() { ci/durable-postgres.sh ci/limited.sh 300 "$@" </dev/null; }
examples=${CARGO_TARGET_DIR:-target}/debug/examples
cargo build --quiet "${durable[@]}" --example durable_reminders --example durable_bills \
    --example durable_move
say "reminders on SQLite"
ci/limited.sh 300 "$examples/durable_reminders" </dev/null
say "reminders on PostgreSQL"
on_postgres "$examples/durable_reminders" --store {}
say "bills"
on_postgres "$examples/durable_bills" {}
say "a place that is moved"
on_postgres ci/durable-example.sh move
