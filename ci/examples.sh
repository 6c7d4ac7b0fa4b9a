#!/usr/bin/env bash
# Builds every example and runs it; each must end by itself with exit code 0.
. "$(dirname "$0")/lib.sh"
cargo build --release --quiet --examples
for source in examples/*.rs; do
    example=$(basename "$source" .rs)
    say "$example"
    timeout 120 "target/release/examples/$example" </dev/null
done
