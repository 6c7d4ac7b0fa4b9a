#!/usr/bin/env bash
# The tests, with every feature.
. "$(dirname "$0")/lib.sh"
cargo test --all-features
