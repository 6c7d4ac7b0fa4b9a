#!/usr/bin/env bash
# Formatting, lints, documentation and the rules of CONTRIBUTING.md that a script can check.
. "$(dirname "$0")/lib.sh"
cargo fmt --check
cargo fmt --check --all --manifest-path shim/Cargo.toml
cargo clippy --quiet --all-targets -- -D warnings
cargo clippy --quiet --all-targets --workspace --manifest-path shim/Cargo.toml \
    --target-dir target/dependents/target -- -D warnings
RUSTFLAGS="--cfg tourbillon_model" CARGO_TARGET_DIR=target/loom \
    cargo clippy --quiet --lib --profile loom --tests -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --document-private-items
ci/tidy.sh
