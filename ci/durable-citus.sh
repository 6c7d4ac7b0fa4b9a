#!/usr/bin/env bash
# The PostgreSQL store on Citus, where a schema as a whole is on one server. PG_BIN has the programs
# of a server with that extension, which neither Debian nor npm has: it is built from its source.
#
#   PG_BIN=/opt/pg15/bin ci/durable-citus.sh             conformance tests on one node, and on a
#                                                        coordinator with two workers; then storms
#   PG_BIN=/opt/pg15/bin ci/durable-citus.sh storms      on four schemas while a worker is killed,
#                                                        and on a schema that is moved
#   PG_BIN=/opt/pg15/bin ci/durable-citus.sh COMMAND...  any command, with both workers
. "$(dirname "$0")/lib.sh"

# Each server is started by a run of this script within that of the one before. They know each other
# by PGPASSFILE.
if [ -z "${CITUS_SERVERS:-}" ]; then
    folder=$("${PG_BIN:-/none}/pg_config" --sharedir 2>/dev/null) || folder=
    if [ ! -e "$folder/extension/citus.control" ]; then
        not_checked "Citus" "PG_BIN does not name a server that has it"
        exit
    fi
    PGPASSFILE=$(mktemp)
    trap 'rm "$PGPASSFILE"' EXIT
    [ "$(id -u)" != 0 ] || chown postgres "$PGPASSFILE"
    PG_OPTIONS="-c shared_preload_libraries=citus -c citus.enable_schema_based_sharding=on
        -c citus.recover_2pc_interval=5s -c wal_level=logical ${PG_OPTIONS:-}"
    export PGPASSFILE PG_OPTIONS=${PG_OPTIONS//$'\n'/} CITUS_SERVERS=" " FSYNC=off
    ci/durable-postgres.sh ci/durable-citus.sh "$@"
    exit
fi
ask() { psql -XAtq -v ON_ERROR_STOP=1 "$TOURBILLON_POSTGRES" "${@/#/-c}"; }
port_of() { sed 's,.*:,,; s,/.*,,' <<<"$1"; }
CITUS_SERVERS+=" $TOURBILLON_POSTGRES $TOURBILLON_POSTGRES_DATA"
read -ra servers <<<"$CITUS_SERVERS"
# The first is the coordinator. A worker that is added gets its password.
login=${servers[0]#*//} login=${login%%@*}
echo "*:*:*:$login" >"$PGPASSFILE"
ask "CREATE EXTENSION citus" "ALTER ROLE tourbillon PASSWORD '${login#*:}'"
[ ${#servers[@]} = 6 ] || exec ci/durable-postgres.sh ci/durable-citus.sh "$@"
export TOURBILLON_POSTGRES=${servers[0]}
port=$(port_of "${servers[0]}") first=$(port_of "${servers[2]}") second=$(port_of "${servers[4]}")

# conformance WHERE SHARDS: with schemas on the coordinator or not.
conformance() {
    say "conformance on $1"
    ask "SELECT citus_set_node_property('127.0.0.1', $port, 'shouldhaveshards', $2)" >/dev/null
    some_tests cargo test --quiet "${durable[@]}" --test postgres -- --test-threads 4 \
        conformance:: schemas::
}
ask "SELECT citus_set_coordinator_host('127.0.0.1', $port)" >/dev/null
[ $# != 0 ] || conformance "one node" true
ask "SELECT citus_add_node('127.0.0.1', p) FROM unnest(ARRAY[$first, $second]) AS p" >/dev/null
case ${1:-} in
"") conformance "two workers" false ;;
storms) ;;
*) exec "${@//\{\}/$TOURBILLON_POSTGRES}" ;;
esac

. ci/durable-lib.sh
server_of() { ask "SELECT DISTINCT nodeport FROM citus_shards WHERE table_name::text ~ '^$1\.'"; }
# storm SCHEMA SECONDS: begins one that does no harm, on tables that a node has made.
storm() {
    local store=$TOURBILLON_POSTGRES?schema=$1
    mkdir "$folder/$1" "$folder/$1/made"
    "$harness" node --store "$store" --logs "$folder/$1/made" --label 0.1 --kinds quick </dev/null
    "$harness" storm --store "$store" --logs "$folder/$1" --faults "" --nodes 1 --clients 2 \
        --pause-us 80000 --seconds "$2" >"$folder/$1.txt" 2>&1 &
    storms[$1]=$!
}
# note LINE SCHEMA...: writes the line, with the time for AT, into the logs of these storms.
note() {
    local schema at
    at=$(perl -MTime::HiRes=clock_gettime,CLOCK_MONOTONIC \
        -e 'printf "%d", 1e6 * clock_gettime(CLOCK_MONOTONIC)')
    for schema in "${@:2}"; do echo "${1/AT/$at}" >>"$folder/$schema/worker.log"; done
}
# revive DATA: starts a server that was killed, once its processes have gone.
revive() {
    local try run=()
    [ "$(id -u)" != 0 ] || run=(runuser -u postgres --)
    for try in {1..50}; do
        ! "${run[@]}" "$PG_BIN/pg_ctl" restart -D "$1" -w -s -l "$1.log" 2>/dev/null || return 0
        sleep 0.2
    done
    echo "$1 did not start again, $try times" && return 1
}
# judge: waits for all storms, and says how each ended.
judge() {
    local schema status=0
    for schema in "${!storms[@]}"; do
        wait "${storms[$schema]}" || status=1
        say "$schema, on $(server_of "$schema")"
        cat "$folder/$schema.txt"
    done
    storms=()
    return "$status"
}
declare -A storms=()

say "a worker is killed for 5 s: the storms on the other are to notice nothing"
struck=()
for schema in east west north south; do
    storm "$schema" 45
    [ "$(server_of "$schema")" != "$first" ] || struck+=("$schema")
done
[ ${#struck[@]} = 2 ] && [ "$(ask "SELECT count(DISTINCT nodeport) FROM citus_shards")" = 2 ]
sleep 10
note "fault 1 AT worker-killed -" "${struck[@]}"
kill -9 "$(head -n 1 "${servers[3]}/postmaster.pid")"
sleep 5
revive "${servers[3]}"
note "over 1 AT" "${struck[@]}"
judge

say "a schema is moved to the other worker"
storm moved 25
sleep 6
to=$first
[ "$(server_of moved)" != "$first" ] || to=$second
time ask "SELECT citus_schema_move('moved', '127.0.0.1', $to)"
[ "$(server_of moved)" = "$to" ]
judge
