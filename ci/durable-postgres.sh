#!/usr/bin/env bash
# Makes a PostgreSQL cluster in a temporary folder, runs a command with TOURBILLON_POSTGRES set to
# its address, and removes the cluster. It takes connections by TLS and without. Without a command,
# runs the tests of the PostgreSQL store.
#
#   ci/durable-postgres.sh                       the tests
#   ci/durable-postgres.sh psql {}               any command; {} stands for the address
#   FSYNC=off ci/durable-postgres.sh ...         without waiting for the disk
#   PG_OPTIONS="-c wal_level=minimal" ...        further options of the server
#   STANDBY=on ci/durable-postgres.sh ...        with a second cluster that follows it
#   PG_BIN=/opt/pg18/bin ci/durable-postgres.sh  on the server whose programs are there
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

find_postgres

# The server refuses to run as root.
as_server() {
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillon-postgres.XXXXXX")
stop() {
    local data
    for data in "$folder/standby" "$folder/data"; do
        [ ! -f "$data/postmaster.pid" ] ||
            as_server "$bin/pg_ctl" stop -D "$data" -m immediate -s 2>/dev/null || true
    done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '%s\n' "$password" >"$folder/password"
if [ "$(id -u)" = 0 ]; then chown -R postgres "$folder"; fi
as_server "$bin/initdb" -D "$folder/data" -U tourbillon --pwfile="$folder/password" \
    -A scram-sha-256 -E UTF8 --locale=C --no-sync >"$folder/initdb.log" ||
    { cat "$folder/initdb.log" >&2; exit 1; }

# What the server is known by: one authority has signed its certificate, another has not.
certify() {
    local name
    for name in ca other-ca; do
        openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" \
            -keyout "$folder/$name.key" -out "$folder/$name.crt" 2>/dev/null
    done
    openssl req -newkey rsa:2048 -nodes -subj /CN=localhost \
        -keyout "$folder/server.key" -out "$folder/server.csr" 2>/dev/null
    openssl x509 -req -days 2 -in "$folder/server.csr" -CA "$folder/ca.crt" \
        -CAkey "$folder/ca.key" -set_serial 1 -out "$folder/server.crt" \
        -extfile <(printf 'subjectAltName=DNS:localhost') 2>/dev/null
    chmod 600 "$folder/server.key"
    if [ "$(id -u)" = 0 ]; then chown postgres "$folder"/server.*; fi
}
certify

# A port that is free: another server may take it first, so several tries.
start() {
    local data=$1 try
    for try in 1 2 3 4 5; do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=$folder"
        options+=" -c fsync=${FSYNC:-on} -c max_connections=200 -c shared_buffers=256MB"
        options+=" -c max_wal_size=4GB -c log_min_messages=fatal"
        options+=" -c ssl=on -c ssl_cert_file=$folder/server.crt -c ssl_key_file=$folder/server.key"
        options+=" ${PG_OPTIONS:-}"
        as_server "$bin/pg_ctl" start -D "$data" -w -s -l "$data.log" -o "$options" && return
    done
    cat "$data.log" >&2
    return 1
}
start "$folder/data"

export TOURBILLON_POSTGRES="postgres://tourbillon:$password@127.0.0.1:$port/postgres"
if [ "${STANDBY:-off}" = on ]; then
    as_server "$bin/pg_basebackup" -d "$TOURBILLON_POSTGRES" -D "$folder/standby" -R -c fast \
        --no-sync
    start "$folder/standby"
    export TOURBILLON_POSTGRES_STANDBY=127.0.0.1:$port
fi
# What the harness needs to stop and start the server.
export TOURBILLON_POSTGRES_BIN=$bin TOURBILLON_POSTGRES_DATA=$folder/data
# The authority that has signed its certificate, for `localhost`, and another.
export TOURBILLON_POSTGRES_CA=$folder/ca.crt TOURBILLON_POSTGRES_OTHER_CA=$folder/other-ca.crt
# A pooler, and its libraries; empty if there is none.
TOURBILLON_PGBOUNCER=$(command -v pgbouncer || true)
if [ -z "$TOURBILLON_PGBOUNCER" ] && unpack pgbouncer pgbouncer libevent-2.1-7 libc-ares2; then
    # The server's user runs it, who may have no way into the checkout.
    cp -r "$debian/pgbouncer/usr" "$folder/usr"
    TOURBILLON_PGBOUNCER=$folder/pgbouncer
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
        "$(echo "$folder"/usr/lib/*-linux-gnu)" "$folder/usr/sbin/pgbouncer" \
        >"$TOURBILLON_PGBOUNCER"
    chmod 755 "$TOURBILLON_PGBOUNCER"
fi
export TOURBILLON_PGBOUNCER
if [ -z "$TOURBILLON_PGBOUNCER" ]; then
    # By hand, all other tests are run.
    if [ -n "${TOURBILLON_NOT_CHECKED:-}" ]; then
        not_checked "PgBouncer" "there is no package of it here"
    else
        echo "not checked: PgBouncer: there is no package of it here" >&2
    fi
fi
TOURBILLON_PGPOOL=$(command -v pgpool || true)
if [ -z "$TOURBILLON_PGPOOL" ] &&
    unpack pgpool2 pgpool2 libpgpool2 libmemcached11 libhashkit2; then
    cp -r "$debian/pgpool2/usr" "$folder/pgpool-usr"
    TOURBILLON_PGPOOL=$folder/pgpool
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
        "$(echo "$folder"/pgpool-usr/lib/*-linux-gnu)" "$folder/pgpool-usr/sbin/pgpool" \
        >"$TOURBILLON_PGPOOL"
    chmod 755 "$TOURBILLON_PGPOOL"
fi
export TOURBILLON_PGPOOL
if [ -z "$TOURBILLON_PGPOOL" ]; then
    if [ -n "${TOURBILLON_NOT_CHECKED:-}" ]; then
        not_checked "Pgpool-II" "there is no package of it here"
    else
        echo "not checked: Pgpool-II: there is no package of it here" >&2
    fi
fi
if [ $# = 0 ]; then
    some_tests cargo test --locked --package tourbillon-durable \
        --features tls,tokio-postgres-0_7,sqlx-0_8 --test postgres
else
    "${@//\{\}/$TOURBILLON_POSTGRES}"
fi
