#!/usr/bin/env bash
# Checks the library and those of its own rooms, or the packages that are named, all their features
# included, with the Rust version that Cargo.toml declares: with rustup's toolchain if there is one,
# else with Debian's.
#
#   ci/msrv.sh [PACKAGE...]
#   ci/msrv.sh tourbillon-wstd     with the version that this one declares, which rustup installs
#                                  if it may; also tourbillon-wasip3
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
manifest=Cargo.toml
own=crates/$(sed 's/^tourbillon-//' <<<"${1:-}")/Cargo.toml
! grep -qs '^rust-version = ' "$own" || manifest=$own
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$manifest")
export CARGO_TARGET_DIR=target/msrv
packages=("${@/#/--package=}")
[ $# -gt 0 ] || packages=(--package tourbillon "${crates[@]}")
features=(--all-features)
if [[ " $* " = *" tourbillon-durable "* ]]; then
    # All but one, whose dependency has a minimum Rust of its own.
    mapfile -t features < <(sed -n '/^\[features\]/,/^\[dep/s/^\([a-z0-9_-]*\) = .*/\1/p' \
        crates/durable/Cargo.toml | grep -vx -e default -e sqlx-0_9)
    features=("${features[@]/#/--features=tourbillon-durable/}")
fi

# Newer than Debian's.
[ "$manifest" != "$own" ] || [ -z "${TOURBILLON_INSTALL:-}" ] || ! command -v rustup >/dev/null ||
    alone rustup toolchain install --profile minimal --no-self-update "$version" >&2 || true
if rustup run "$version" rustc --version >/dev/null 2>&1; then
    exec rustup run "$version" cargo check --lib --quiet "${features[@]}" "${packages[@]}"
fi

if ! unpack_rust minimum "$version."; then
    not_checked "minimum Rust version" "neither rustup nor Debian has Rust $version here"
    exit
fi
export "${rust[@]}"
"$RUSTC" --version
cargo check --lib --quiet "${features[@]}" "${packages[@]}"
