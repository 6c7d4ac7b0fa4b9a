#!/usr/bin/env bash
# Durable timers, their harness and the service: style, the tests of all three stores with a
# PostgreSQL made for them, the service's page, the examples and a short storm on both databases.
# By hand, for longer storms: ci/durable-faults.sh and ci/durable-failover.sh.
#
#   ci/durable.sh                 what a change has to pass
#   ci/durable.sh postgres        its tests of PostgreSQL alone, on a server that there is, and
#   ci/durable.sh others          all other tests: ci/durable-postgres.sh ci/durable.sh postgres
#   ci/durable.sh nightly         what that leaves out: each feature alone, the documentation, all
#                                 of the SQLite store on real time, storms with and without faults
#                                 and of failover, seeded bugs, what others read of the service, and
#                                 other versions of PostgreSQL
. "$(dirname "$0")/lib.sh"
trap 'trap "" INT TERM; kill 0; wait; exit 130' INT TERM
# Its own, so that it waits for no other check that builds. They would share nothing: these have
# other features.
export CARGO_TARGET_DIR=$PWD/target/durable

# The pages are for developers, who see what is private, and for others.
docs() {
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
        cargo doc --quiet "${durable[@]}" --no-deps --document-private-items
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --package tourbillon-durable \
        --no-deps --all-features
}
# features FEATURES...: the library builds with each of these sets, and no other feature.
features() {
    local features
    for features; do
        cargo check --quiet --locked --package tourbillon-durable --lib \
            --no-default-features --features "$features"
    done
}

tests_of() { some_tests cargo test --quiet --no-fail-fast "${durable[@]}" "$@"; }
# Those of PostgreSQL mostly wait for it. One needs its server for itself, as it counts what the
# snapshots of all others keep.
postgres() {
    local alone=floor::reads_do_not_pass_what_a_snapshot_keeps
    tests_of --test postgres -- --test-threads 8 --skip "$alone"
    tests_of --test postgres -- --exact "$alone"
}
# All other programs, by the names that their files give them. SQLite in real time: what races for a
# row, and what comes of a node that dies.
others() {
    local source name rivals programs=(--lib --bins)
    for source in crates/{durable,durable-harness,tourbillond}/tests/{*.rs,*/main.rs}; do
        [ -e "$source" ] || continue
        name=${source#*/tests/}
        name=${name%.rs}
        name=${name%/main}
        [ "$name" = postgres ] || programs+=(--test "$name")
    done
    tests_of "${programs[@]}" -- --skip on_real_time::
    tests_of --doc
    rivals=$(cases_of nodes && cases_of rivals)
    mapfile -t rivals <<<"$rivals"
    tests_of --test sqlite -- --exact "${rivals[@]/#/on_real_time::}"
}
# cases_of GROUP: the names of these conformance tests.
cases_of() {
    awk -v group="$1:" '/^cases! /, /^}/ {
            if (NF == 1 && $1 ~ /:$/) { of = $1; next }
            if (of == group && NF == 1 && $1 != "}") { found++; sub(/;/, "", $1); print $1 }
        }
        END { exit !found }' crates/durable/src/store/conformance.rs
}
on_real_time() { tests_of --test sqlite -- on_real_time::; }

# part COMMAND...: runs it, and says how long it took.
part() {
    local began=$SECONDS
    "$@"
    printf '%5s s  %s\n' "$((SECONDS - began))" "$*"
}
# beside COMMAND...: the same beside what follows. What it prints is shown at the end.
beside() {
    logs+=("$(mktemp)")
    part "$@" >"${logs[-1]}" 2>&1 &
    begun+=($!)
}
# Waits for what was begun beside the rest, and prints it. Returns how the first ended that failed.
ended() {
    local each status=0
    for each in "${!begun[@]}"; do
        wait "${begun[each]}" || status=${status/#0/$?}
        cat "${logs[each]}"
        rm "${logs[each]}"
    done
    begun=() logs=()
    return "$status"
}
begun=() logs=()
trap 'status=$?; ended || status=${status/#0/$?}; exit "$status"' EXIT

case ${1:-} in
"")
    # As `linted` does, for all that follows.
    export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings
    part features ""
    # The page mostly waits, for a browser: it begins as soon as there is a program.
    part build_durable tourbillond
    TOURBILLOND=$CARGO_TARGET_DIR/debug/tourbillond beside ci/durable-page.sh
    part cargo test --quiet --no-run "${durable[@]}" --all-targets
    # Nothing is built from here on.
    beside ci/durable-postgres.sh ci/durable.sh postgres
    beside ci/durable-faults.sh short --seed 7
    beside ci/durable-example.sh
    part ci/durable-postgres.sh ci/durable.sh others
    ;;
postgres | others)
    "$1"
    ;;
nightly)
    part docs
    part features "" sqlite postgres tls tokio-postgres-0_7 sqlx-0_8 sqlx-0_9 serde metrics-0_24 \
        tracing conformance
    part cargo test --quiet --no-run "${durable[@]}"
    beside ci/durable-faults.sh --seed 7
    part on_real_time
    part ci/durable-faults.sh calm --seed 7
    part ended
    part ci/durable-failover.sh --seed 7
    part ci/durable-interfaces.sh
    part ci/durable-canaries.sh
    part ci/durable-versions.sh
    part ci/durable-citus.sh
    ;;
*) echo "ci/durable.sh [postgres | others | nightly]" && exit 2 ;;
esac
