#!/usr/bin/env bash
# Seeded bugs: a fence removed, a lease ignored, a cursor for a set, a notice trusted. Each has to
# be found. Those of ci/mutants/durable-canaries are put into a copy of the tree and shown to the
# simulation. The others are in the harness, between a node and its store: the checker has to find
# them in storms. About two minutes.
#
#   ci/durable-canaries.sh simulation        the simulation alone
#   ci/durable-canaries.sh                   both, with storms on SQLite
#   ci/durable-canaries.sh postgres          both, with storms on PostgreSQL
#   ci/durable-canaries.sh --seed 7          the same choices again
. "$(dirname "$0")/lib.sh"
unset TOURBILLON_MUTANT

tree=target/canaries/durable
list=$(faulty_copy "$tree" ci/mutants/durable-canaries crates/durable)
[ -n "$list" ] || { echo "the list of canaries is empty"; exit 1; }

# simulate NUMBER: runs the simulation on the copy with that bug; 0 is none.
simulate() {
    (
        target=$PWD/target/canaries/build
        cd "$tree"
        TOURBILLON_MUTANT=$1 DURABLE_SEEDS=300..340 CARGO_TARGET_DIR=$target some_tests \
            cargo test --quiet --package tourbillon-durable --no-default-features --lib \
            a_world_with_many_faults_loses_nothing
    )
}

simulate 0
survivors=0
while IFS=$'\t' read -r number _ name; do
    found=found
    log=$(simulate "$number" 2>&1) || true
    grep -q '^test result: .* 1 failed' <<<"$log" || {
        grep -q '^test result: ok\. 1 passed' <<<"$log" ||
            { printf 'the simulation did not run: %s\n%s\n' "$name" "$log"; exit 1; }
        survivors=$((survivors + 1)) found="NOT FOUND"
    }
    printf '%s\n    %s\n' "$name" "$found"
done <<<"$list"
printf '\n%s canaries, %s survived\n' "$(wc -l <<<"$list")" "$survivors"
[ "$survivors" = 0 ]

[ "${1:-}" != simulation ] || exit 0
. ci/durable-lib.sh
case ${1:-} in
postgres) on_postgres canaries --seconds 12 "${@:2}" ;;
*) on_sqlite canaries --seconds 12 "$@" ;;
esac
