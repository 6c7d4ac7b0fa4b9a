#!/usr/bin/env bash
# Runs crates that nobody here wrote over our timers, and executors whose loop turns them by hand;
# see integration/. Prints which versions were run. With names of packages there, those.
. "$(dirname "$0")/lib.sh"
limit_runs 300
cd integration

left_out=()
[ $# -gt 0 ] || set -- hyper tower clippy executors
for consumer; do
    say "$consumer"
    cargo tree --locked --package "consumer-$consumer" --edges dev --depth 1 --prefix none |
        grep -oE '^[a-z0-9_-]+ v[0-9][^ ]*' | grep -v '^consumer-'
    # What has examples is examples: they end in assertions.
    if [ ! -d "$consumer/examples" ]; then
        some_tests cargo test --locked --quiet --package "consumer-$consumer"
        continue
    fi
    for source in "$consumer"/examples/*.rs; do
        example=$(basename "$source" .rs)
        printf '%s: ' "$example"
        status=0
        cargo run --locked --quiet --package "consumer-$consumer" --example "$example" || status=$?
        case $status in
        0) ;;
        77) left_out+=("$example") ;;
        *) exit "$status" ;;
        esac
    done
done
cd ..
for example in "${left_out[@]}"; do
    not_checked "$example" "it does not start here"
done
