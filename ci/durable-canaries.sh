#!/usr/bin/env bash
# Storms of nodes that have a bug each: a fence removed, a lease ignored, a cursor for a set, a
# notice trusted. The checker has to find each. About a minute and a half.
#
#   ci/durable-canaries.sh                   on SQLite
#   ci/durable-canaries.sh postgres          on PostgreSQL
#   ci/durable-canaries.sh --seed 7          the same choices again
. "$(dirname "$0")/durable-lib.sh"

case ${1:-} in
postgres) on_postgres canaries --seconds 12 "${@:2}" ;;
*) on_sqlite canaries --seconds 12 "$@" ;;
esac
