#!/usr/bin/env bash
# Runs the examples of durable timers: reminders on SQLite and on PostgreSQL, and bills in
# transactions of sqlx. Both kill their worker and check what became of everything. Ends with an
# error if something is not as it has to be.
. "$(dirname "$0")/lib.sh"

on_postgres() { ci/durable-postgres.sh ci/limited.sh 300 "$@" </dev/null; }
examples=${CARGO_TARGET_DIR:-target}/debug/examples
cargo build --quiet "${durable[@]}" --example durable_reminders --example durable_bills
say "reminders on SQLite"
ci/limited.sh 300 "$examples/durable_reminders" </dev/null
say "reminders on PostgreSQL"
on_postgres "$examples/durable_reminders" --store {}
say "bills"
on_postgres "$examples/durable_bills" {}
