#!/usr/bin/env bash
# Storms of hostile foreign code (tests/it/hostile.rs), more than the tests have: 2,000 of each
# kind, or as many as the first argument says; then a fiftieth of that under valgrind, which reports
# memory that is used after it was freed.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
count=${1:-2000}

# storms COUNT: so many of each kind.
storms() {
    for kind in virtual_clock driver thread; do
        TOURBILLON_STORMS=$1 some_tests cargo test --quiet --all-features --test it -- \
            --ignored --exact --nocapture "hostile::child_storms_a_$kind"
    done
}

say "$count storms of each kind"
storms "$count"

if ! find_valgrind; then
    not_checked "storms under valgrind" "there is none here"
    exit
fi
few=$((count < 50 ? 1 : count / 50))
say "$few storms of each kind under $(valgrind --version)"
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=valgrind --quiet --error-exitcode=9"
storms "$few"
