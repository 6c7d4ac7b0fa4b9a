#!/usr/bin/env bash
# Durable timers, their harness and the service: style, the tests of all three stores with a
# PostgreSQL made for them, what others read of the service, its page, the examples and short storms
# on both databases and on a replicated one. By hand, for longer storms: ci/durable-faults.sh and
# ci/durable-failover.sh.
. "$(dirname "$0")/lib.sh"

cargo clippy --quiet "${durable[@]}" --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --package tourbillon-durable \
    --package tourbillon-http-limits --no-deps --all-features
# The pages of a program are for its developers, who see what is private.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
    cargo doc --quiet "${durable[@]}" --package tourbillon-http-limits --no-deps \
    --document-private-items
for features in "" sqlite postgres tls sqlx-0_8 serde metrics-0_24 tracing conformance; do
    cargo check --quiet --locked --package tourbillon-durable --lib \
        --no-default-features --features "$features"
done
some_tests ci/durable-postgres.sh cargo test --quiet --no-fail-fast "${durable[@]}"
# Storms mostly wait, so they run beside the rest. What they say is shown at the end.
said=$(mktemp)
trap 'wait; cat "$said"; rm "$said"' EXIT
{ ci/durable-faults.sh short --seed 7 && ci/durable-failover.sh short --seed 7; } >"$said" 2>&1 &
storms=$!
ci/durable-canaries.sh simulation
# Not beside the tests: what they build has one path.
ci/durable-interfaces.sh
ci/durable-page.sh
ci/durable-example.sh
wait "$storms"
