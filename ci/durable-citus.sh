#!/usr/bin/env bash
# Runs the conformance tests of the PostgreSQL store on Citus, where each schema is distributed as a
# whole. PG_BIN has the programs of a server with that extension, which neither Debian nor npm has:
# it is built from its source.
#
#   PG_BIN=/opt/pg15/bin ci/durable-citus.sh             the tests
#   PG_BIN=/opt/pg15/bin ci/durable-citus.sh COMMAND...  any command
. "$(dirname "$0")/lib.sh"
if [ -z "${PG_BIN:-}" ]; then
    not_checked "Citus" "PG_BIN does not name a server that has it"
    exit
fi

# The server connects to itself, with the password that is there.
PGPASSFILE=$(mktemp)
export PGPASSFILE
trap 'rm "$PGPASSFILE"' EXIT
# Every database that is made later has the extension, and is its own only node.
prepare='
login=${TOURBILLON_POSTGRES#*//}
echo "*:*:*:${login%%@*}" >"$PGPASSFILE"
[ "$(id -u)" != 0 ] || chown postgres "$PGPASSFILE"
psql -q -o /dev/null "${TOURBILLON_POSTGRES%/*}/template1" <<"SQL"
CREATE EXTENSION citus;
SELECT citus_set_coordinator_host($$localhost$$, current_setting($$port$$)::int);
SELECT citus_set_node_property($$localhost$$, current_setting($$port$$)::int,
                               $$shouldhaveshards$$, true);
ALTER SYSTEM SET citus.enable_schema_based_sharding = on;
SELECT pg_reload_conf();
SQL
psql -q -o /dev/null "$TOURBILLON_POSTGRES" <<"SQL"
ALTER DATABASE template1 ALLOW_CONNECTIONS false;
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $$template1$$;
SQL
exec "$@"'
export PG_OPTIONS="-c shared_preload_libraries=citus ${PG_OPTIONS:-}"
if [ $# = 0 ]; then
    # Few at a time: each database has processes of the extension.
    some_tests ci/durable-postgres.sh bash -c "$prepare" bash \
        cargo test --locked --package tourbillon-durable --features tls,sqlx-0_8 \
        --test postgres -- --test-threads 2 conformance:: schemas::
else
    ci/durable-postgres.sh bash -c "$prepare" bash "$@"
fi
