#!/usr/bin/env bash
# Timers under libfaketime (Debian: faketime), or under the library that LIBFAKETIME names: in each
# of its modes in which the clock moves, and as it steps the wall clock behind the kernel's back,
# which takes half a minute to be seen.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

library=${LIBFAKETIME:-/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1}
[ -e "$library" ] || need_packages "timers under libfaketime" faketime
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
program_of() {
    cargo test "$@" --test it --no-run --message-format json |
        grep -oE '"executable":"[^"]+/it-[^"]+"' | cut -d'"' -f4
}
tests=$(program_of)
cron=$(program_of --package tourbillon-cron)

# faked VARIABLE=VALUE... PROGRAM ARGUMENT...: runs ignored tests under libfaketime. They take
# seconds, or two minutes if a tick's minute has just passed and time has half its rate.
faked() {
    local log
    log=$(mktemp -p "$work")
    if timeout 300 env LD_PRELOAD="$library" FAKETIME_NO_CACHE=1 "$@" --ignored >"$log" 2>&1 &&
        grep -q '^test result: ok\. [1-9]' "$log"; then
        echo "passed: $*"
    else
        cat "$log"
        echo "failed, or hung: $*"
        return 1
    fi
}

say "sleeps, wall sleeps, cancels, unparks, ticks"
running=()
begin() { faked "$@" & running+=($!); }
for mode in "+0" "-10d" "@2020-02-28 23:59:55" "+0 x10" "+0 x0.5"; do
    begin FAKETIME="$mode" "$tests" faked_clock::
done
# For a tick, a minute of the faked wall clock is about to begin.
ahead=$((55 - $(date +%s) % 60))
for mode in "+$((ahead + 60))" "$((ahead - 864000))" "@2020-02-28 23:59:55" \
    "+$((ahead + 60)) x10" "+$((ahead + 60)) x0.5"; do
    begin FAKETIME="$mode" "$cron" faked_clock::
done
begin FAKETIME=-10d DONT_FAKE_MONOTONIC=1 "$tests" faked_clock::
echo +0 >"$work/offset"
begin FAKETIME_TIMESTAMP_FILE="$work/offset" DONT_FAKE_MONOTONIC=1 \
    "$tests" --exact wall::a_faked_clock_steps_without_a_notice
failed=0
for pid in "${running[@]}"; do
    wait "$pid" || failed=1
done
exit $failed
