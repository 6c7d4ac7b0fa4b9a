#!/usr/bin/env bash
# Checks every feature alone and with each other one, tests without any (`.ci/run` has tested with
# all of them), and shows that the library then has the dependencies that it had.
. "$(dirname "$0")/lib.sh"

dependencies=$(cargo tree --locked --edges normal --prefix none --format '{lib}' |
    sed 's/^tourbillon$//' | sort -u | xargs)
echo "without features it depends on: $dependencies"
[ "$dependencies" = "crossbeam_utils futures_core libc pin_project_lite" ]

need_cargo_tool cargo-hack
# No more than two at a time: no code is there for more than one feature, so what could clash is a
# pair.
cargo hack check --quiet --feature-powerset --depth 2 --no-dev-deps
some_tests cargo test --quiet
