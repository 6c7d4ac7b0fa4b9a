#!/usr/bin/env bash
# Checks every feature alone, lints and tests without any (`.ci/run` has with all), and shows that
# the library then has the dependencies that it had. With `pairs`: checks each feature with each
# other one, and no more at a time: no code is there for more than one, so what could clash is a
# pair.
. "$(dirname "$0")/lib.sh"

mapfile -t features < <(sed -n '/^\[features\]/,/^\[dep/s/^\([a-z0-9_-]*\) = .*/\1/p' Cargo.toml)
[ ${#features[@]} -gt 0 ]
builds() {
    echo "$1"
    cargo check --quiet --locked --lib --features "$1"
}
if [ "${1:-}" = pairs ]; then
    for one in "${!features[@]}"; do
        for other in "${features[@]:one + 1}"; do builds "${features[one]},$other"; done
    done
    exit
fi

dependencies=$(cargo tree --locked --edges normal --prefix none --format '{lib}' |
    sed 's/^tourbillon$//' | sort -u | xargs)
echo "without features it depends on: $dependencies"
[ "$dependencies" = "futures_core libc pin_project_lite" ]
for one in "${features[@]}"; do builds "$one"; done
# Their documentation has been tested with all.
linted some_tests cargo test --quiet --all-targets
