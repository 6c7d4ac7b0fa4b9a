#!/usr/bin/env bash
# The companion crate in durable/, a workspace of its own: style, the tests of all three stores
# with a PostgreSQL made for them, what others read of the service, the example and short storms on
# both databases. By hand: ci/durable-faults.sh, for longer storms.
. "$(dirname "$0")/lib.sh"
manifest=(--locked --manifest-path durable/Cargo.toml)

cargo fmt --check --all --manifest-path durable/Cargo.toml
cargo clippy --quiet "${manifest[@]}" --workspace --all-targets --all-features -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet "${manifest[@]}" --no-deps --all-features
for features in "" sqlite postgres tls serde metrics-0_24 tracing conformance; do
    cargo check --quiet "${manifest[@]}" -p tourbillon-durable --lib --no-default-features \
        --features "$features"
done
some_tests ci/durable-postgres.sh cargo test --quiet "${manifest[@]}" --workspace --all-features
ci/durable-canaries.sh simulation
ci/durable-interfaces.sh
ci/durable-example.sh
ci/durable-faults.sh short --seed 7
