#!/usr/bin/env bash
# cron-parser 5.10.6 (npm): where clocks go back by half an hour, as on Lord Howe, an hourly or a daily job has no
# next time beyond that. From the run before, `next` of `0 12 * * *` throws "loop limit exceeded", and a scheduler
# that asks it has lost the job. In the night in which they go forward by that half hour a job of a skipped minute
# is left out, while one of a skipped hour comes an hour later. And where they go back by two hours, as at Troll,
# a daily job of these hours runs twice. Its README promises that it handles daylight saving correctly. croner has
# a next time in each of these nights.
#
# Seen, as UTC: "Lord Howe back, 0 12 * * *: 04-03 01:00, throws", "Lord Howe forward, 15 2 * * *: 10-04 15:15",
# "Berlin forward, 30 2 * * *: 03-29 01:30", "Troll back, 30 2 * * *: 10-25 00:30, 10-25 02:30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund cron-parser@5.10.6
cat >next.cjs <<'END'
const { CronExpressionParser } = require('cron-parser');

/** The next times of a job, from an instant on, as instants; the last may be that it throws. */
function next(name, tz, expression, from, count) {
    const times = CronExpressionParser.parse(expression, { tz, currentDate: new Date(from) });
    const seen = [];
    while (seen.length < count) {
        try {
            seen.push(times.next().toISOString().slice(5, 16).replace('T', ' '));
        } catch (error) {
            seen.push(/loop limit/.test(error.message) ? 'throws' : error.message);
            break;
        }
    }
    console.log(`${name}, ${expression}: ${seen.join(', ')}`);
}

next('Lord Howe back', 'Australia/Lord_Howe', '0 12 * * *', '2027-04-02T12:00Z', 3);
next('Lord Howe forward', 'Australia/Lord_Howe', '15 2 * * *', '2026-10-03T14:00Z', 1);
next('Berlin forward', 'Europe/Berlin', '30 2 * * *', '2026-03-28T12:00Z', 1);
next('Troll back', 'Antarctica/Troll', '30 2 * * *', '2026-10-24T14:00Z', 2);
END
timeout 120 node next.cjs | tee seen
diff - seen <<'END'
Lord Howe back, 0 12 * * *: 04-03 01:00, throws
Lord Howe forward, 15 2 * * *: 10-04 15:15
Berlin forward, 30 2 * * *: 03-29 01:30
Troll back, 30 2 * * *: 10-25 00:30, 10-25 02:30
END
