#!/usr/bin/env bash
# Counts the instructions of the hot paths and compares them with those kept in
# benches/instructions.txt: fails if one has got dearer by 5 %. With `--renew` it keeps
# today's counts.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

if ! find_valgrind; then
    not_checked "instruction counts" "there is no valgrind here"
    exit
fi
valgrind --version
# Nothing is counted of other crates, which the package has for its other benches.
cargo bench --quiet --config 'profile.bench.package."*".opt-level=0' \
    --package tourbillon-benches --bench instructions -- "$@"
