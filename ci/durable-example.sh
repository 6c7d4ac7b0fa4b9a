#!/usr/bin/env bash
# Runs the examples of durable timers: reminders on SQLite and on PostgreSQL, and bills in
# transactions of sqlx. They kill their worker, check what became of everything, and end with an
# error if that is not as it has to be.
. "$(dirname "$0")/lib.sh"
limit_runs 300
options=(--quiet --locked --package tourbillon-durable --features postgres,sqlx-0_8)
on_postgres() { ci/durable-postgres.sh "$@" </dev/null; }
say "reminders on SQLite"
cargo run "${options[@]}" --example durable_reminders </dev/null
say "reminders on PostgreSQL"
on_postgres cargo run "${options[@]}" --example durable_reminders -- --store {}
say "bills"
on_postgres cargo run "${options[@]}" --example durable_bills -- {}
