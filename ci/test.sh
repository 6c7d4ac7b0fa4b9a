#!/usr/bin/env bash
# The tests, with every feature: the library's, as README runs them, and those of what stands on it;
# linted as they are built.
. "$(dirname "$0")/lib.sh"
linted some_tests cargo test --all-features --package tourbillon "${crates[@]}"
