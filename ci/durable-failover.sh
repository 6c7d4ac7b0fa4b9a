#!/usr/bin/env bash
# Storms on a replicated PostgreSQL: two clusters with a link between them that is cut, connections
# that are ended, and at last, under load, a primary that hangs and a standby that takes over. The
# checker judges what comes of it. With a synchronous standby nothing that was acknowledged may be
# lost; with an asynchronous one, what was acknowledged since the standby last had everything. A
# last storm has a seeded bug, which has to be found: a repeat does not wait for the standby.
#
#   ci/durable-failover.sh                   about two minutes
#   ci/durable-failover.sh short             less than a minute
#   ci/durable-failover.sh --seed 7          the same choices again
. "$(dirname "$0")/durable-lib.sh"

export STANDBY=on
canary=(--seconds 2 --pause-us 20000)
case ${1:-} in
short)
    set -- --seconds 3 --pause-us 40000 --faults standby-cut,terminate "${@:2}"
    ;;
*)
    network=delay,hold-both,hold-answers,cut-answers
    set -- --seconds 30 --faults "standby-cut,terminate,kill-one,freeze-long,late,$network" "$@"
    ;;
esac
say "a synchronous standby"
on_postgres storm --standby synchronous "$@"
say "an asynchronous standby"
on_postgres storm --standby asynchronous "$@"
say "a repeat that does not wait for the standby"
# It shows only in what was on its way as the primary hung, so storms look for it, each with a seed
# of its own; `ci/durable-canaries.sh replication` shows the same to a test that always sees it.
for storm in {1..20}; do
    ! on_postgres canaries --standby synchronous "${canary[@]}" || exit 0
    echo "not by storm $storm"
done
exit 1
