#!/usr/bin/env bash
# Storms of nodes that have a bug each: a fence removed, a lease ignored, a cursor for a set, a
# notice trusted. The checker has to find each. About a minute and a half.
. "$(dirname "$0")/lib.sh"

cargo build --quiet --locked --manifest-path durable/Cargo.toml -p tourbillon-durable-harness
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
durable/target/debug/harness canaries --store "sqlite:$folder/" --seconds 12 "$@"
