#!/usr/bin/env bash
# Fuzzes each target in turn: for 60 seconds, or for as many as the first argument says, or so many
# inputs if that is -runs=N. Starts from what is kept in fuzz/seeds and fuzz/regressions; what it
# finds on the way goes to fuzz/corpus, and an input that fails to fuzz/artifacts.
# A failing input is minimised (cargo +nightly fuzz tmin) and kept in fuzz/regressions/TARGET, where
# `cargo test` replays it.
. "$(dirname "$0")/lib.sh"
need_cargo_tool cargo-fuzz
case ${1:-60} in
-runs=*) limit=$1 ;;
*) limit=-max_total_time=${1:-60} ;;
esac

# fuzz TARGET SANITIZER
fuzz() {
    say "$1"
    mkdir -p "fuzz/corpus/$1"
    # Copies, since the fuzzer replaces an input by a shorter one where it finds it.
    for kept in "fuzz/seeds/$1"/* "fuzz/regressions/$1"/*; do
        [ ! -f "$kept" ] || cp "$kept" "fuzz/corpus/$1/"
    done
    cargo +nightly fuzz run --sanitizer "$2" "$1" -- \
        "$limit" -max_len=96 -timeout=20 -print_final_stats=1 -verbosity=0
}

# Those without unsafe code go without the sanitizer, which is slow.
fuzz wheel none
fuzz tick none
fuzz engine address
