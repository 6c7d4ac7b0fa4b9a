#!/usr/bin/env bash
# Checks that the libraries that are published build with the oldest versions of their dependencies
# that they declare. Of the dependencies of those it takes the newest. `crates/crontab` is left out:
# a program is installed with the newest, and nix pins a libc newer than the library's oldest.
#
# Then checks that durable timers resolve beside other crates that bring an SQLite (a program has
# one at most), and that their SQLite store passes its tests with the ends of its range.
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
    # There is one futures-core for the crate and those it stands on, whose oldest may be too old.
    if own=$(grep '^futures-core = ' "crates/$name/Cargo.toml"); then
        sed -i "s|^futures-core = .*|$own|" Cargo.toml crates/cron/Cargo.toml
    fi
    rm -f Cargo.lock
    # That option is not stable in any toolchain.
    RUSTC_BOOTSTRAP=1 cargo update --quiet -Z direct-minimal-versions
    cargo tree --workspace --all-features --depth 1 --prefix none | sort -u
    cargo check --quiet --locked --workspace --lib --all-features
done

# beside DEPENDENCY: a program has durable timers and this dependency; says the version of rusqlite.
beside() {
    cat >../beside/Cargo.toml <<TOML
[package]
name = "beside"
edition = "2024"
[dependencies]
pollster = "1"
tourbillon = { path = "../tree" }
$1
[dependencies.tourbillon-durable]
path = "../tree/crates/durable"
features = ["conformance", "sqlx-0_8", "sqlx-0_9"]
[workspace]
TOML
    rm -f ../beside/Cargo.lock
    cargo generate-lockfile --quiet --manifest-path ../beside/Cargo.toml
    echo "$1: $(grep -A1 '^name = "rusqlite"' ../beside/Cargo.lock | sed -n 's/^version = //p')"
}
say "durable, beside another SQLite"
sed -i 's|^members = .*|members = ["crates/durable"]|' Cargo.toml
rm -rf ../beside && mkdir -p ../beside/src ../beside/tests
touch ../beside/src/lib.rs
cp -r crates/durable/tests/sqlite ../beside/tests
for sqlx in 0.8 0.9; do beside "sqlx = { version = \"$sqlx\", features = [\"sqlite\"] }"; done
for orm in 1 2; do beside "sea-orm = { version = \"$orm\", features = [\"sqlx-sqlite\"] }"; done
beside 'diesel = { version = "2", features = ["sqlite"] }'
# The ends of the range pass the store's tests.
for rusqlite in 0.32 0.43; do
    beside "rusqlite = \"$rusqlite\""
    some_tests cargo test --quiet --locked --manifest-path ../beside/Cargo.toml --test sqlite -- \
        --skip on_real_time::
done
