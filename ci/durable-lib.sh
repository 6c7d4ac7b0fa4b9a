#!/usr/bin/env bash
# Sourced by the scripts that run the harness of durable timers.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. ci/debian.sh

harness=${CARGO_TARGET_DIR:-target}/debug/harness
build_durable harness
[ -n "$(find /usr/lib -path '*faketime/libfaketimeMT.so.1' 2>/dev/null)" ] ||
    need_packages "durable timers under faults" faketime
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# on_sqlite COMMAND..., on_postgres COMMAND...: runs the harness on a database made for it.
on_sqlite() { "$harness" "$1" --store "sqlite:$(mktemp -d "$folder/XXXXXX")/timers" "${@:2}"; }
# The processes of the server are killed, not the machine: what was written need not be on the disk.
on_postgres() { FSYNC=off ci/durable-postgres.sh "$harness" "$1" --store {} "${@:2}"; }
