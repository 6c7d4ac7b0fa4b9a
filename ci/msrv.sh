#!/usr/bin/env bash
# Checks the library, all its features included, with the Rust version that Cargo.toml declares:
# with rustup's toolchain if there is one, else with Debian's package of that version, unpacked
# privately.
. "$(dirname "$0")/lib.sh"
version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
export CARGO_TARGET_DIR=target/msrv

if rustup run "$version" rustc --version >/dev/null 2>&1; then
    exec rustup run "$version" cargo check --lib --quiet --all-features
fi

dir=$PWD/target/msrv/rustc
if [ ! -x "$dir/usr/bin/rustc" ] && command -v apt-get dpkg >/dev/null; then
    mkdir -p "$dir/deb"
    (
        cd "$dir/deb"
        apt-get update -qq || true
        full=$(apt-cache madison rustc-web |
            awk -v v="$version." 'index($3, v) == 1 { print $3; exit }')
        [ -n "$full" ] &&
            apt-get download -qq "rustc-web=$full" "libstd-rust-web-dev=$full" \
                "libstd-rust-web-$version=$full" libllvm19 &&
            for package in *.deb; do dpkg -x "$package" "$dir"; done
    ) >/dev/null 2>&1 || true
fi
if [ ! -x "$dir/usr/bin/rustc" ]; then
    not_checked "minimum Rust version" "neither rustup nor Debian has Rust $version here"
    exit
fi
llvm=$(find "$dir" -name 'libLLVM*.so*' | head -n 1)
export LD_LIBRARY_PATH=${llvm%/*}:$dir/usr/lib/x86_64-linux-gnu
export RUSTC=$dir/usr/bin/rustc
"$RUSTC" --version
cargo check --lib --quiet --all-features
