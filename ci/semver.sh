#!/usr/bin/env bash
# Compares the public interface of each published crate with that of its last release, which is a
# tag `NAME-vVERSION`. There is nothing to compare before the first.
. "$(dirname "$0")/lib.sh"

mapfile -t packages < <(sed -nE 's/^[0-9]+\. `(tourbillon[a-z-]*)`$/\1/p' RELEASING.md)
[ ${#packages[@]} -gt 0 ]
for package in "${packages[@]}"; do
    last=$(git tag --list "$package-v[0-9]*" --sort -version:refname | head -n 1)
    if [ -z "$last" ]; then
        echo "$package: no release yet"
        continue
    fi
    need_cargo_tool cargo-semver-checks
    say "$package since $last"
    cargo semver-checks --package "$package" --all-features --baseline-rev "$last"
done
