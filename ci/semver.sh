#!/usr/bin/env bash
# Compares the public interface of each published crate with that of its last release, which is a
# tag `NAME-vVERSION`. There is nothing to compare before the first.
. "$(dirname "$0")/lib.sh"
VERSION=0.51.0

# Makes the tool callable: the one that is installed, or one under target/ where installing is
# allowed. Fails if there is none.
find_tool() {
    local tools=$PWD/target/tools
    ! cargo semver-checks --version >/dev/null 2>&1 || return 0
    PATH=$PATH:$tools/bin
    ! cargo semver-checks --version >/dev/null 2>&1 || return 0
    [ -n "${TOURBILLON_INSTALL:-}" ] &&
        cargo install --quiet --debug --locked --root "$tools" "cargo-semver-checks@$VERSION"
}

mapfile -t packages < <(sed -nE 's/^[0-9]+\. `(tourbillon[a-z-]*)`$/\1/p' RELEASING.md)
[ ${#packages[@]} -gt 0 ]
for package in "${packages[@]}"; do
    last=$(git tag --list "$package-v[0-9]*" --sort -version:refname | head -n 1)
    if [ -z "$last" ]; then
        echo "$package: no release yet"
        continue
    fi
    if ! find_tool; then
        not_checked "compatibility" "there is no cargo-semver-checks"
        exit
    fi
    say "$package since $last"
    cargo semver-checks --package "$package" --all-features --baseline-rev "$last"
done
