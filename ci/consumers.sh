#!/usr/bin/env bash
# Runs crates that nobody here wrote over our timers, and executors whose loop turns them by hand;
# see integration/. Prints which versions were run. With the name of a package there, that one.
. "$(dirname "$0")/lib.sh"
limit_runs 300
cd integration

for consumer in ${1:-hyper quinn tower executors}; do
    say "$consumer"
    cargo tree --locked --package "consumer-$consumer" --edges dev --depth 1 --prefix none |
        grep -oE '^[a-z0-9_-]+ v[0-9][^ ]*' | grep -v '^consumer-'
    # With executors there are programs alone.
    [ "$consumer" = executors ] ||
        some_tests cargo test --locked --quiet --package "consumer-$consumer"
    for source in "$consumer"/examples/*.rs; do
        [ -e "$source" ] || continue
        example=$(basename "$source" .rs)
        printf '%s: ' "$example"
        cargo run --locked --quiet --package "consumer-$consumer" --example "$example"
    done
done
