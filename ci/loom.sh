#!/usr/bin/env bash
# The loom models, exhaustively up to a number of preemptions (2, or the first argument).
# Never set LOOM_MAX_DURATION or LOOM_MAX_PERMUTATIONS: they stop early and report success.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS
need_cargo_tool cargo-nextest
LOOM_MAX_PREEMPTIONS=${1:-2} models --profile loom
