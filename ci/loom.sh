#!/usr/bin/env bash
# The loom models, exhaustively up to a number of preemptions (2, or the first argument). With
# `unbounded`: all there is to explore, of those models where that ends within minutes. They pass
# with one as well, as ci/mutants.sh asks: a model may count what one cannot bring about.
# Never set LOOM_MAX_DURATION or LOOM_MAX_PERMUTATIONS: they stop early and report success.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_MAX_PREEMPTIONS TOURBILLON_UNBOUNDED

# Without a driver thread, and of two threads.
ending=(advance_races_arm advance_races_drop advance_races_new_waker advance_races_reset
    advances_add_up turn_races_an_earlier_remote_insert the_lock_excludes_and_publishes)

program=$(linted model_program .)
if [ "${1:-2}" = unbounded ]; then
    names_of "$program" | grep -E "::($(IFS='|' && echo "${ending[*]}"))\$" |
        TOURBILLON_UNBOUNDED=1 run_models "$program"
else
    names_of "$program" | LOOM_MAX_PREEMPTIONS=${1:-2} run_models "$program"
fi
