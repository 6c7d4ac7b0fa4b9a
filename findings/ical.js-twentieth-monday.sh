#!/usr/bin/env bash
# ical.js 2.2.1 (npm), `Recur.iterator`: of the number of a weekday in a year only the last digit counts, and
# nought is none. The 20th Monday of the year becomes each Monday, the 12th the second. A week of the year is not
# looked at: the Monday of week 20 is each Monday after it. The rules of 20 are examples of RFC 5545, section
# 3.8.5.3. And a yearly rule that began on February 29 has March 1 in other years, where section 3.3.10 leaves
# out a day that does not exist. Nothing is refused. rrule, rrule-temporal and dateutil do as the RFC has it.
#
# Seen: "FREQ=YEARLY;BYDAY=20MO: 1997-05-19 1997-05-26", "FREQ=YEARLY;BYDAY=12MO: 1998-01-12 1999-01-11",
# "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO: 1997-05-19 1997-05-26", "FREQ=YEARLY: 2024-02-29 2025-03-01".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund ical.js@2.2.1
cat >days.mjs <<'END'
import ICAL from 'ical.js';

for (const [rule, start] of [
    ['FREQ=YEARLY;BYDAY=20MO', '1997-05-19T09:00:00'],
    ['FREQ=YEARLY;BYDAY=12MO', '1997-03-24T09:00:00'],
    ['FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO', '1997-05-12T09:00:00'],
    ['FREQ=YEARLY', '2024-02-29T09:00:00'],
]) {
    const iterator = ICAL.Recur.fromString(rule).iterator(ICAL.Time.fromDateTimeString(start));
    const days = [1, 2].map(() => iterator.next().toString().slice(0, 10));
    console.log(`${rule}: ${days.join(' ')}`);
}
END
timeout 60 node days.mjs | tee seen
diff - seen <<'END'
FREQ=YEARLY;BYDAY=20MO: 1997-05-19 1997-05-26
FREQ=YEARLY;BYDAY=12MO: 1998-01-12 1999-01-11
FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO: 1997-05-19 1997-05-26
FREQ=YEARLY: 2024-02-29 2025-03-01
END
