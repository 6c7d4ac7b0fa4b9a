#!/usr/bin/env bash
# Mutates the files of the protocol, or those named, and runs the models on each mutant, with one
# preemption, which takes them a few seconds. A mutant that survives is to be tried with
# LOOM_MAX_PREEMPTIONS=2 and with the ordinary tests, and then killed by a new model or argued away.
. "$(dirname "$0")/lib.sh"
need_cargo_tool cargo-nextest
need_cargo_tool cargo-mutants
[ $# -gt 0 ] ||
    set -- src/driver/thread.rs src/engine/{alarm,parker,shard,entry}.rs
files=()
for file; do files+=(--file "$file"); done
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-1}
RUSTFLAGS="--cfg tourbillon_model" cargo mutants --test-tool nextest --profile loom \
    --timeout 90 --output target --exclude-re 'Debug|tests::' "${files[@]}" -- --lib
