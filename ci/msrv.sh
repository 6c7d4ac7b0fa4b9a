#!/usr/bin/env bash
# Checks the library and those of its own rooms, or the packages that are named, all their features
# included, with the Rust version that Cargo.toml declares: with rustup's toolchain if there is one,
# else with Debian's.
#
#   ci/msrv.sh [PACKAGE...]
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
export CARGO_TARGET_DIR=target/msrv
[ $# -gt 0 ] || set -- tourbillon tourbillon-cron tourbillon-crontab tourbillon-http-limits \
    tourbillon-metrics tourbillon-tower
packages=("${@/#/--package=}")

if rustup run "$version" rustc --version >/dev/null 2>&1; then
    exec rustup run "$version" cargo check --lib --quiet --all-features "${packages[@]}"
fi

if ! unpack_rust minimum "$version."; then
    not_checked "minimum Rust version" "neither rustup nor Debian has Rust $version here"
    exit
fi
export "${rust[@]}"
"$RUSTC" --version
cargo check --lib --quiet --all-features "${packages[@]}"
