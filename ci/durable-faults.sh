#!/usr/bin/env bash
# Nodes as processes, clients and faults, on SQLite and on PostgreSQL; the checker judges what comes
# of it. About a minute and a half.
#
#   ci/durable-faults.sh                     15 s of faults on each
#   ci/durable-faults.sh --seconds 600       longer
#   ci/durable-faults.sh --seed 7            the same choices again
. "$(dirname "$0")/lib.sh"

cargo build --quiet --locked --manifest-path durable/Cargo.toml -p tourbillon-durable-harness
harness=durable/target/debug/harness
if [ -z "$(find /usr/lib -path '*faketime/libfaketimeMT.so.1' 2>/dev/null)" ]; then
    echo "no libfaketime here: installing Debian's" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends faketime >&2
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
say "faults on SQLite"
"$harness" storm --store "sqlite:$folder/timers" --seconds 15 "$@"
say "faults on PostgreSQL"
# The processes of the server are killed, not the machine: what was written need not be on the disk.
FSYNC=off ci/durable-postgres.sh "$harness" storm --store {} --seconds 15 "$@"
