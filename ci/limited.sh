#!/usr/bin/env bash
# Runs a program, ends it after a number of seconds, and then says why. The limit is for what hangs,
# so it stands around a run and never around a build, which takes as long as the machine needs.
#
#   ci/limited.sh SECONDS PROGRAM [ARGUMENT...]
limit=$1
shift
timeout --kill-after=10 "$limit" "$@"
status=$?
[ $status != 124 ] && [ $status != 137 ] || echo "ended, as it still ran after $limit s: $*" >&2
exit $status
