#!/usr/bin/env bash
# Checks that the libraries that are published build with the oldest versions of their dependencies
# that they declare. Of the dependencies of those it takes the newest. `crates/crontab` is left out:
# a program is installed with the newest, and nix pins a libc newer than the library's oldest.
. "$(dirname "$0")/lib.sh"
copy=target/minimal/tree
rm -rf $copy && mkdir -p $copy
git ls-files -z | tar --null -T - -c | tar -x -C $copy
export CARGO_TARGET_DIR=$PWD/target/minimal/target
cd $copy

sed -i '/^members = \[/,/^\]/c members = []' Cargo.toml
# Each alone, without what only its tests need: the oldest of one may be too old for another.
for name in compat-tokio cron durable http-limits metrics tokio tower wasip3 wstd; do
    say "$name"
    sed -i "s|^members = .*|members = [\"crates/$name\"]|" Cargo.toml
    for manifest in Cargo.toml "crates/$name/Cargo.toml"; do
        awk '/^\[/ { tests = /dev-dependencies/ } !tests' "$manifest" >"$manifest.new"
        mv "$manifest.new" "$manifest"
    done
    rm -f Cargo.lock
    # That option is not stable in any toolchain.
    RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
    cargo tree --workspace --all-features --depth 1 --prefix none | sort -u
    cargo check --quiet --locked --workspace --lib --all-features
done
