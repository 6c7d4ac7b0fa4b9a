#!/usr/bin/env bash
# The tests, with every feature; those of the limits on HTTP clients, too, which the library's need.
. "$(dirname "$0")/lib.sh"
some_tests cargo test --all-features --package tourbillon --package tourbillon-http-limits
