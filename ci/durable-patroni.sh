#!/usr/bin/env bash
# A storm on two servers of PostgreSQL that Patroni manages, with etcd; both are unpacked from
# Debian. Nodes and clients have the addresses of both servers. The primary is changed on request,
# killed, killed with its manager, and stopped with its manager for longer than its lease on the
# leadership. Replication is synchronous, so nothing that was acknowledged may be lost.
#
#   ci/durable-patroni.sh                    about three minutes
#   ci/durable-patroni.sh --seconds 600      longer
#   ci/durable-patroni.sh --seed 7           the same choices again
#   ci/durable-patroni.sh harm NUMBER        what the harness calls, one harm by that number
if [ "${1:-}" != harm ]; then
    . "$(dirname "$0")/durable-lib.sh"
else
    . "$(dirname "$0")/lib.sh"
    . ci/debian.sh
fi
find_postgres

tools=$debian/patroni
export PYTHONPATH=$tools/usr/lib/python3/dist-packages

# as_server COMMAND...: in place of this shell, so that its process is the command's. The server
# refuses to run as root.
as_server() {
    if [ "$(id -u)" = 0 ]; then
        exec setpriv --reuid postgres --regid postgres --init-groups "$@"
    else
        exec "$@"
    fi
}

# The manager of server `a` or `b`.
start_manager() {
    (cd / && as_server /usr/bin/python3 "$tools/usr/bin/patroni" "$PATRONI_STORM/$1.yml") \
        </dev/null >>"$PATRONI_STORM/$1.log" 2>&1 &
    echo $! >"$PATRONI_STORM/$1.pid"
}

# The processes of a server: the first of them, or that and its children.
server_process() { head -n 1 "$PATRONI_STORM/$1/postmaster.pid"; }
server_processes() {
    local first
    first=$(server_process "$1")
    echo "$first" "$(pgrep -d ' ' -P "$first")"
}

# ask SERVER SQL: what that server answers, within two seconds.
ask() {
    local port
    port=$(cat "$PATRONI_STORM/$1.port")
    PGCONNECT_TIMEOUT=2 timeout 2 "$bin/psql" -XAtq -c "$2" \
        "postgres://tourbillon:$PATRONI_STORM_PASSWORD@127.0.0.1:$port/postgres" 2>/dev/null
}
leads() { [ "$(ask "$1" "SELECT pg_is_in_recovery()")" = f ]; }
is_followed() {
    [ "$(ask "$1" "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")" = 1 ]
}
find_leader() { if leads a; then echo a; elif leads b; then echo b; else return 1; fi; }

# ask_manager COMMAND...: what the manager answers by way of its own program.
ask_manager() {
    timeout 60 /usr/bin/python3 "$tools/usr/bin/patronictl" -c "$PATRONI_STORM/a.yml" "$@" 2>&1
}

# wait_until COMMAND...: tries it for two minutes. Fails after that, and says what there is.
wait_until() {
    local end=$((SECONDS + 120))
    until "$@" >/dev/null; do
        if [ "$SECONDS" -ge "$end" ]; then
            echo "not within two minutes: $*" >&2
            ask_manager list >&2 || true
            tail -n 20 "$PATRONI_STORM"/?.log >&2
            return 1
        fi
        sleep 0.2
    done
}

# Whether there is a primary, and the manager has noted that its standby has everything. Before that
# it refuses a change on request; the server calls a standby synchronous some seconds earlier.
is_whole() {
    local leader
    leader=$(find_leader) && is_followed "$leader" && ask_manager list | grep 'Sync Standby'
}

# switch FROM TO: asks the manager for that change, and says what it answers. Fails unless it is
# made.
switch() {
    leads "$2" || ask_manager switchover tourbillon --leader "$1" --candidate "$2" --force |
        sed 's/^/    /' >&2
    # The manager says so a moment before the server does.
    sleep 2
    leads "$2"
}

harm() {
    local leader other
    leader=$(find_leader)
    case $leader in a) other=b ;; b) other=a ;; esac
    case $(($1 % 4)) in
    0)
        echo "the manager is asked for server $other"
        wait_until switch "$leader" "$other"
        ;;
    1)
        echo "server $leader is killed"
        kill -9 "$(server_process "$leader")"
        ;;
    2)
        echo "server $leader is killed, and its manager"
        kill -9 "$(cat "$PATRONI_STORM/$leader.pid")" "$(server_process "$leader")"
        wait_until leads "$other"
        start_manager "$leader"
        ;;
    3)
        echo "server $leader is stopped, and its manager"
        local stopped
        stopped="$(cat "$PATRONI_STORM/$leader.pid") $(server_processes "$leader")"
        # One of its processes may have ended by now.
        kill -STOP $stopped 2>/dev/null || true
        wait_until leads "$other"
        sleep 1
        kill -CONT $stopped 2>/dev/null || true
        ;;
    esac
    # What led before finds that it does not.
    sleep 2
    wait_until is_whole
}

if [ "${1:-}" = harm ]; then
    harm "$2"
    exit
fi

unpack patroni etcd-server patroni python3-etcd python3-psycopg2 python3-urllib3 python3-yaml \
    python3-click python3-dateutil python3-prettytable python3-psutil python3-cdiff \
    python3-pkg-resources python3-six python3-wcwidth python3-dnspython python3-colorama ||
    { not_checked "Patroni" "there are no packages of it here"; exit; }

export PATRONI_STORM=$folder/servers
PATRONI_STORM_PASSWORD=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export PATRONI_STORM_PASSWORD
mkdir "$PATRONI_STORM"
chmod 755 "$folder"
if [ "$(id -u)" = 0 ]; then chown postgres "$PATRONI_STORM"; fi

# shellcheck disable=SC2317
stop() {
    local name
    for name in a b etcd; do
        [ ! -f "$PATRONI_STORM/$name.pid" ] || kill -9 "$(cat "$PATRONI_STORM/$name.pid")" || true
    done
    for name in a b; do
        [ ! -f "$PATRONI_STORM/$name/postmaster.pid" ] || kill -9 "$(server_process $name)" || true
    done
    rm -rf "$folder"
} 2>/dev/null
trap stop EXIT

# By the second version of etcd's interface: by the third, Patroni 3.0.2, which Debian has, lets a
# primary that was stopped take the leadership back from the one that has it (patroni#2689). What
# that one has acknowledged is then lost.
#
# Six ports in a row, which are free with some luck: another server may take one first.
port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
configure() {
    local name=$1 server=$((port + $2)) api=$((port + $2 + 2))
    echo "$server" >"$PATRONI_STORM/$name.port"
    cat >"$PATRONI_STORM/$name.yml" <<END
scope: tourbillon
name: $name
etcd: {host: "127.0.0.1:$port"}
restapi: {listen: "127.0.0.1:$api", connect_address: "127.0.0.1:$api"}
bootstrap:
  dcs:
    ttl: 12
    loop_wait: 1
    retry_timeout: 4
    primary_start_timeout: 0
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {max_connections: 200, fsync: "off", wal_keep_size: 512MB}
  initdb: [{encoding: UTF8}, {locale: C}, data-checksums]
postgresql:
  listen: "127.0.0.1:$server"
  connect_address: "127.0.0.1:$server"
  data_dir: $PATRONI_STORM/$name
  bin_dir: $bin
  pgpass: $PATRONI_STORM/$name.pgpass
  authentication:
    superuser: &user {username: tourbillon, password: $PATRONI_STORM_PASSWORD}
    replication: *user
    rewind: *user
  parameters: {unix_socket_directories: $PATRONI_STORM, log_min_messages: fatal}
  pg_hba:
    - host all all 127.0.0.1/32 scram-sha-256
    - host replication all 127.0.0.1/32 scram-sha-256
END
}
configure a 1
configure b 2
(cd / && as_server "$tools/usr/bin/etcd" --data-dir "$PATRONI_STORM/etcd" --enable-v2 \
    --listen-client-urls "http://127.0.0.1:$port" \
    --advertise-client-urls "http://127.0.0.1:$port" \
    --listen-peer-urls "http://127.0.0.1:$((port + 5))" \
    --initial-advertise-peer-urls "http://127.0.0.1:$((port + 5))" \
    --initial-cluster "default=http://127.0.0.1:$((port + 5))") \
    </dev/null >"$PATRONI_STORM/etcd.log" 2>&1 &
echo $! >"$PATRONI_STORM/etcd.pid"
start_manager a
wait_until leads a
start_manager b
wait_until is_whole

say "two servers under Patroni"
hosts=127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))
address=postgres://tourbillon:$PATRONI_STORM_PASSWORD@$hosts/postgres
"$harness" storm --store "$address" --manager ci/durable-patroni.sh \
    --faults managed,managed,terminate,kill-one,freeze-long,late,delay,hold-both,cut-answers \
    --seconds 120 "$@"
