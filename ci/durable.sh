#!/usr/bin/env bash
# The companion crate in durable/, a workspace of its own: style, tests on memory and SQLite, the
# conformance suite on a PostgreSQL made for it, the example on both, and a short storm of faults.
. "$(dirname "$0")/lib.sh"
manifest=(--locked --manifest-path durable/Cargo.toml)

cargo fmt --check --all --manifest-path durable/Cargo.toml
cargo clippy --quiet "${manifest[@]}" --workspace --all-targets --all-features -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet "${manifest[@]}" --no-deps --all-features
for features in "" sqlite postgres serde metrics-0_24 tracing conformance; do
    cargo check --quiet "${manifest[@]}" -p tourbillon-durable --lib --no-default-features \
        --features "$features"
done
cargo test --quiet "${manifest[@]}" --workspace --features serde,metrics-0_24,tracing
ci/durable-postgres.sh
ci/durable-example.sh
ci/durable-faults.sh --seconds 8
