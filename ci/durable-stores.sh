#!/usr/bin/env bash
# Several servers of PostgreSQL beside each other, each with a node and timers of its own, as stores
# behind a router are. Prints a row of the bench `hundred` for each, as those that
# crates/durable/docs/GROWING.md has.
#
#   ci/durable-stores.sh 4 30000 15          four servers, 30,000 timers in 15 s on each
#   HALT=4 ci/durable-stores.sh 2 30000 15   the first server is stopped for 4 s in the middle
. "$(dirname "$0")/lib.sh"

if [ "${1:-}" != at ]; then
    stores=${1:-2} timers=${2:-30000} seconds=${3:-15}
    cargo build --quiet --locked --release --package tourbillon-durable-harness
    folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillon-stores.XXXXXX")
    trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
    mkdir "$folder/ready"
    for ((number = 1; number <= stores; number++)); do
        ci/durable-postgres.sh ci/durable-stores.sh at "$folder" "$number" "$timers" "$seconds" {} &
        processes[number]=$!
    done
    # All begin once the last server is there.
    while [ "$(ls "$folder/ready" | wc -l)" -lt "$stores" ]; do
        for process in "${processes[@]}"; do kill -0 "$process"; done
        sleep 0.05
    done
    touch "$folder/go"
    for process in "${processes[@]}"; do wait "$process"; done
    exit
fi

folder=$2 number=$3 timers=$4 seconds=$5 address=$6

# Stops all processes of the server for a while, once half of the timers are over.
halt() {
    local server
    # What the bench waits for before the first is due.
    sleep "$((2 + timers / 10000 + seconds / 2))"
    server=$(head -n 1 "$TOURBILLON_POSTGRES_DATA/postmaster.pid")
    # shellcheck disable=SC2046 # each is a process
    set -- "$server" $(ps -o pid= --ppid "$server")
    kill -STOP "$@" 2>/dev/null || true
    sleep "$HALT"
    kill -CONT "$@" 2>/dev/null || true
}

touch "$folder/ready/$number"
until [ -e "$folder/go" ]; do sleep 0.05; done
if [ "$number" = 1 ] && [ -n "${HALT:-}" ]; then halt & fi
target/release/harness bench hundred --store "$address" --timers "$timers" --seconds "$seconds"
wait
