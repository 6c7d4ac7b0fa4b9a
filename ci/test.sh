#!/usr/bin/env bash
# The tests, with every feature.
. "$(dirname "$0")/lib.sh"
some_tests cargo test --all-features
some_tests cargo test --package tourbillon-http-limits
