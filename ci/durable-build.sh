#!/usr/bin/env bash
# How long a first build of the service takes: its two programs by the release profile, in an empty
# folder, with all crates fetched before. Prints the number of crates, and the time by the clock and
# of all processors together.
. "$(dirname "$0")/lib.sh"

cargo fetch --quiet --locked
target=$(mktemp -d)
trap 'rm -rf "$target"' EXIT
# As a program has it by default.
unset RUSTFLAGS CARGO_INCREMENTAL
export CARGO_TARGET_DIR=$target/built
package=(--locked --offline --package tourbillond)
TIMEFORMAT='%R %U %S'
{ time cargo build --quiet --release --bins "${package[@]}" 2>&1; } 2>"$target/time"
crates=$(cargo tree "${package[@]}" --edges normal,build --prefix none --format '{p}' |
    sed 's/ (\*)$//' | sort -u | wc -l)
read -r clock user system <"$target/time"
awk -v crates="$crates" -v clock="$clock" -v user="$user" -v system="$system" -v cores="$(nproc)" \
    'BEGIN { printf "%d crates: %.0f s on %d processors, %.0f s of all of them together\n",
             crates, clock, cores, user + system }'
