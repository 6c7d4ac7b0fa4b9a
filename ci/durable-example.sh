#!/usr/bin/env bash
# Runs the example of durable timers on SQLite, and on PostgreSQL in a cluster made for it. It kills
# its worker, checks what became of everything, and ends with an error if that is not as it has to
# be.
. "$(dirname "$0")/lib.sh"
limit_runs 300
example=(cargo run --quiet --locked --package tourbillon-durable
    --features postgres --example durable_reminders)
say "SQLite"
"${example[@]}" </dev/null
say "PostgreSQL"
ci/durable-postgres.sh "${example[@]}" -- --store {} </dev/null
