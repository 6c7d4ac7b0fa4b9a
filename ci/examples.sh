#!/usr/bin/env bash
# Builds every example, as the tests do, and runs it; each must end by itself with exit code 0.
. "$(dirname "$0")/lib.sh"
linted cargo build --quiet --all-features --examples --package tourbillon \
    --package tourbillon-http-limits
examples=target/debug/examples
for source in examples/*.rs examples/leak crates/http-limits/examples/http_timeouts; do
    example=$(basename "$source" .rs)
    # A library, which ci/hostile.sh loads and unloads.
    [ "$example" != plugin ] || continue
    say "$example"
    ci/limited.sh 120 "$examples/$example" </dev/null
done

# What its functions print, and when.
diff - <(ci/limited.sh 120 "$examples/watchdog") <<'END'
 0 s: report, 0 missed before it
 4 s: sign of life
 8 s: sign of life
10 s: report, 0 missed before it
12 s: sign of life
17 s: no sign of life for 5s
20 s: report, 0 missed before it
24 s: report, 3 missed before it
END

say crontab
cargo build --quiet --package tourbillon-crontab
crontab() { ci/limited.sh 120 target/debug/tourbillon-crontab --zone Europe/Berlin --system "$@"; }
jobs=crates/crontab/tests/system.crontab
# The night in which the clock goes from 2 to 3.
listed=$(crontab --from 2026-03-28T23:00Z --next 7 $jobs)
printf '%s\n' "$listed"
grep -q '^Sun 2026-03-29 00:57:00 CET .*:13 \[ ' <<<"$listed"
grep -q '^Sun 2026-03-29 01:39:00 CET .*:12 \[ ' <<<"$listed"
grep -q '^Sun 2026-03-29 03:09:00 CEST .*:12 \[ ' \
    < <(crontab --from 2026-03-29T00:40Z --next 2 $jobs)
# One wake-up for each time at which something is due.
dry=$(crontab --from 2026-01-01T00:00Z --dry-run $jobs)
printf '%s\n' "$dry"
grep -qE 'runs at ([0-9]+) times, \1 wake-ups' <<<"$dry"
# A fault is reported with its place, and is a failure.
if told=$(printf '@daily x\n0 26 * * * x\n' | crontab --user --next 1 /dev/stdin 2>&1); then
    exit 1
fi
grep -q ':2:3: hour: `26` is not within 0 to 23' <<<"$told"
# A reader may go when it has seen enough.
crontab --next 100000 $jobs | head -n 1 >/dev/null
