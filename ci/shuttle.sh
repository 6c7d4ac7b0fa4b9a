#!/usr/bin/env bash
# Random schedules of large scenarios under shuttle: 300 of each, or as many as the first argument
# says.
. "$(dirname "$0")/lib.sh"
need_cargo_tool cargo-nextest
RUSTFLAGS="--cfg tourbillon_model --cfg tourbillon_shuttle" CARGO_TARGET_DIR=target/shuttle \
    TOURBILLON_SCHEDULES=${1:-300} \
    cargo nextest run --cargo-profile loom --profile loom --lib schedules
