#!/usr/bin/env bash
# The stress tests, optimised: three seconds of each churn, or as many as the first argument says,
# and ten million timers. A wake-up that is lost is a test that hangs, hence the time limit.
. "$(dirname "$0")/lib.sh"
export TOURBILLON_STRESS_SECONDS=${1:-3}
limit_runs $((600 + 10 * TOURBILLON_STRESS_SECONDS))
some_tests cargo test --release --quiet --test stress -- --ignored --nocapture
