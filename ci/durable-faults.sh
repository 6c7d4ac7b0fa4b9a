#!/usr/bin/env bash
# Nodes as processes, clients and faults, on SQLite and on PostgreSQL; the checker judges what comes
# of it. About a minute and a half.
#
#   ci/durable-faults.sh                     15 s of faults on each
#   ci/durable-faults.sh --seconds 600       longer
#   ci/durable-faults.sh --seed 7            the same choices again
#   ci/durable-faults.sh short               4 s of faults on each
#   ci/durable-faults.sh calm                the same without faults
#   ci/durable-faults.sh away                each database away for a minute; about three minutes
. "$(dirname "$0")/durable-lib.sh"

case ${1:-} in
short | calm)
    # Fewer timers, so that they soon end once the faults are over.
    few=(--seconds 4 --pause-us 40000)
    [ "$1" = short ] || few+=(--faults "")
    say "SQLite, $1"
    on_sqlite storm "${few[@]}" "${@:2}"
    say "PostgreSQL, $1"
    on_postgres storm "${few[@]}" "${@:2}"
    ;;
away)
    say "SQLite locked for a minute"
    on_sqlite storm --seconds 5 --away 60 --faults hold "${@:2}"
    say "PostgreSQL away for a minute"
    on_postgres storm --seconds 5 --away 60 --faults server-away "${@:2}"
    ;;
*)
    say "faults on SQLite"
    on_sqlite storm --seconds 15 "$@"
    say "faults on PostgreSQL"
    on_postgres storm --seconds 15 "$@"
    ;;
esac
