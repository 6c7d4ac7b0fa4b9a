#!/usr/bin/env bash
# Seeded bugs: a fence removed, a lease ignored, a cursor for a set, a notice trusted. Each has to
# be found. Those of ci/mutants/durable-canaries are put into a copy of the tree and shown to the
# simulation, and to the tests of an idle node: some faults make it late, and lose nothing. That of
# ci/mutants/durable-replication is a repeat that waits for no standby: tests that lose a primary
# list what was acknowledged and is lost with it. The others are in the harness, between a node and
# its store: the checker has to find them in storms. About four minutes.
#
#   ci/durable-canaries.sh simulation        the simulation and the idle node alone
#   ci/durable-canaries.sh replication       the test of replication alone
#   ci/durable-canaries.sh                   all, with storms on SQLite
#   ci/durable-canaries.sh postgres          all, with storms on PostgreSQL
#   ci/durable-canaries.sh --seed 7          the same choices again
. "$(dirname "$0")/lib.sh"
unset TOURBILLON_MUTANT

# simulate TREE, replicate TREE: runs the tests of a copy.
simulate() {
    DURABLE_SEEDS=300..340 some_tests cargo test --quiet --manifest-path "$1/Cargo.toml" \
        --package tourbillon-durable --no-default-features --lib -- \
        a_world_with_many_faults_loses_nothing node::tests::idle
}
replicate() {
    some_tests ci/durable-postgres.sh cargo test --quiet --manifest-path "$1/Cargo.toml" \
        --package tourbillon-durable --features tokio-postgres-0_7 --test postgres \
        what_is_acknowledged_survives_the_primary
}

# seek LIST TESTS: puts the bugs of a list into a copy of the tree, and shows each to the tests.
# Fails if they pass with one of them, or fail without.
seek() {
    local tree=target/canaries/$1 list log number name found survivors=0
    list=$(faulty_copy "$tree" "ci/mutants/$1" crates/durable)
    [ -n "$list" ] || { echo "the list of canaries is empty"; exit 1; }
    # The simulation needs no database and no runtime, and this crate once: most of what is built.
    [ "$2" != simulate ] || sed -i '/^\[dev-dependencies\]/,/^\[/ {
            /^\(rusqlite\|smol\|sqlx-0_[89]\|tokio\|tourbillon-durable\) = /d
        }' "$tree/crates/durable/Cargo.toml"
    local -x CARGO_TARGET_DIR=$PWD/target/canaries/build
    "$2" "$tree"
    while IFS=$'\t' read -r number _ name; do
        found=found
        log=$(TOURBILLON_MUTANT=$number "$2" "$tree" 2>&1 </dev/null) || true
        grep -q '^test result: FAILED\. .* [1-9][0-9]* failed' <<<"$log" || {
            grep -q '^test result: ok\. [1-9]' <<<"$log" ||
                { printf 'the tests did not run: %s\n%s\n' "$name" "$log"; exit 1; }
            survivors=$((survivors + 1)) found="NOT FOUND"
        }
        printf '%s\n    %s\n' "$name" "$found"
        sed -n 's/^acknowledged, /    &/p' <<<"$log"
    done <<<"$list"
    printf '\n%s canaries, %s survived\n' "$(wc -l <<<"$list")" "$survivors"
    [ "$survivors" = 0 ]
}

[ "${1:-}" = replication ] || seek durable-canaries simulate
[ "${1:-}" != simulation ] || exit 0
seek durable-replication replicate
[ "${1:-}" != replication ] || exit 0
. ci/durable-lib.sh
case ${1:-} in
postgres) on_postgres canaries --seconds 12 "${@:2}" ;;
*) on_sqlite canaries --seconds 12 "$@" ;;
esac
