#!/usr/bin/env bash
# Durable timers, their harness and the service: style, the tests of all three stores with a
# PostgreSQL made for them, what others read of the service, its page, the examples and short storms
# on both databases and on a replicated one. By hand, for longer storms: ci/durable-faults.sh and
# ci/durable-failover.sh.
. "$(dirname "$0")/lib.sh"
packages=(--package tourbillon-durable --package tourbillon-durable-harness --package tourbillond)

cargo clippy --quiet --locked "${packages[@]}" --all-targets --all-features -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --package tourbillon-durable \
    --package tourbillon-http-limits --no-deps --all-features
# The pages of a program are for its developers, who see what is private.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --quiet --locked "${packages[@]}" \
    --package tourbillon-http-limits --no-deps --all-features --document-private-items
for features in "" sqlite postgres tls sqlx-0_8 serde metrics-0_24 tracing conformance; do
    cargo check --quiet --locked --package tourbillon-durable --lib \
        --no-default-features --features "$features"
done
some_tests ci/durable-postgres.sh cargo test --quiet --locked --no-fail-fast "${packages[@]}" \
    --all-features
ci/durable-canaries.sh simulation
# Not beside the tests: what they build has one path.
ci/durable-interfaces.sh
ci/durable-page.sh
ci/durable-example.sh
ci/durable-faults.sh short --seed 7
ci/durable-failover.sh short --seed 7
