#!/usr/bin/env bash
# Checks every feature alone and with each other one, tests without any (`.ci/run` has tested with
# all of them), and shows that the library then has the dependencies that it had.
. "$(dirname "$0")/lib.sh"

dependencies=$(cargo tree --locked --edges normal --prefix none --format '{lib}' |
    sed 's/^tourbillon$//' | sort -u | xargs)
echo "without features it depends on: $dependencies"
[ "$dependencies" = "futures_core libc pin_project_lite" ]

# No more than two at a time: no code is there for more than one feature, so what could clash is a
# pair.
mapfile -t features < <(sed -n '/^\[features\]/,/^\[dep/s/^\([a-z0-9_-]*\) = .*/\1/p' Cargo.toml)
[ ${#features[@]} -gt 0 ]
cargo check --quiet --locked --lib
for one in "${!features[@]}"; do
    for other in "${features[@]:one}"; do
        echo "${features[one]},$other"
        cargo check --quiet --locked --lib --features "${features[one]},$other"
    done
done
some_tests cargo test --quiet
