#!/usr/bin/env bash
# Storms of forks (tests/it/fork/storm.rs), more than the tests have: 1,000 rounds, or as many as
# the first argument says.
. "$(dirname "$0")/lib.sh"
rounds=${1:-1000}

say "$rounds rounds of forks"
TOURBILLON_ALONE=1 TOURBILLON_FORKS=$rounds some_tests cargo test --quiet --all-features --test it \
    -- --exact --nocapture fork::storm::children_forked_in_a_storm_have_timers
