#!/usr/bin/env bash
# Steps the wall clock behind the kernel's back, with libfaketime (Debian: faketime), or with the
# library that LIBFAKETIME names. By hand, as it takes half a minute.
. "$(dirname "$0")/lib.sh"

library=${LIBFAKETIME:-/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
tests=$(cargo test --test it --no-run --message-format json |
    grep -oE '"executable":"[^"]+/it-[^"]+"' | cut -d'"' -f4)

echo +0 >"$work/offset"
env LD_PRELOAD="$library" DONT_FAKE_MONOTONIC=1 FAKETIME_NO_CACHE=1 \
    FAKETIME_TIMESTAMP_FILE="$work/offset" \
    "$tests" --ignored --exact wall::a_faked_clock_steps_without_a_notice --nocapture |
    tee "$work/log"
grep -q '1 passed' "$work/log"
