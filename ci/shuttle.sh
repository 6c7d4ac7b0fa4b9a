#!/usr/bin/env bash
# Random schedules of large scenarios under shuttle: 300 of each, or as many as the first argument
# says.
. "$(dirname "$0")/lib.sh"
program=$(model_program . shuttle)
names_of "$program" | grep schedules | TOURBILLON_SCHEDULES=${1:-300} run_models "$program"
