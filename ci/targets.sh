#!/usr/bin/env bash
# Checks that the library builds for other targets, or for those named: with rustup's std of a
# target where that is installed, else with Debian's rustc and a std that it checks as well. Runs
# nothing.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

[ $# -gt 0 ] || set -- i686-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc \
    x86_64-unknown-freebsd wasm32-wasip1 wasm32-unknown-unknown
installed=$(rustc --print sysroot)/lib/rustlib

missing=
for target; do
    say "$target"
    if [ -d "$installed/$target/lib" ]; then
        cargo check --quiet --locked --lib --target "$target"
    elif unpack_rust source "" rust-web-src; then
        env "${rust[@]}" RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=target/targets \
            cargo check --quiet --locked --lib -Zbuild-std=std,panic_abort --target "$target"
    else
        missing+=" $target"
    fi
done
[ -z "$missing" ] ||
    not_checked "targets:$missing" "neither rustup nor Debian has a std of them here"
