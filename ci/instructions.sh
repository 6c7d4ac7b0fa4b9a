#!/usr/bin/env bash
# Counts the instructions of the hot paths and compares them with those kept in
# benches/instructions.txt: fails if one has got dearer by 5 %. Where valgrind is missing it unpacks
# Debian's package privately; says so and passes where neither is to be had. With `--renew` it keeps
# today's counts.
. "$(dirname "$0")/lib.sh"

if ! find_valgrind; then
    echo "not checked: no valgrind is to be had here"
    exit 0
fi
valgrind --version
cargo bench --quiet --bench instructions -- "$@"
