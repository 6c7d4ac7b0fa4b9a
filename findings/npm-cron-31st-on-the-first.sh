#!/usr/bin/env bash
# aws-cron-parser 1.1.12 and @cheap-glitch/mi-cron 1.0.1 (npm): a day that a month does not have is counted on
# into the next one. A job of each 31st runs on December 1 too, after a November of 30 days, and on March 3, and
# one of February 29 on March 1 in three years of four. These come out as times like any other. cron(8),
# cron-parser and croner leave such months out. Neither README says that it is otherwise here.
#
# Seen: "aws-cron-parser, 31st: 12-01, 12-31, 01-31, 03-03; February 29: 2027-03-01, 2028-02-29",
# "mi-cron, 31st: 12-01, 12-31, 01-31, 03-03; February 29: 2027-03-01, 2028-02-29".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund aws-cron-parser@1.1.12 @cheap-glitch/mi-cron@1.0.1
cat >days.mjs <<'END'
import awsCronParser from 'aws-cron-parser';
import miCron from '@cheap-glitch/mi-cron';

const aws = awsCronParser.default ?? awsCronParser;

/** The days of the next times of a job, each by `next` from the one before. */
function days(count, next) {
    const seen = [];
    for (let time = new Date('2026-11-29T12:00Z'); seen.length < count;) {
        time = next(time);
        seen.push(time.toISOString().slice(0, 10));
    }
    return seen;
}

const byAws = (expression) => (time) => aws.next(aws.parse(expression), time);
const byMiCron = (expression) => (time) => miCron.parseCron.nextDate(expression, time);
for (const [name, last, leap] of [
    ['aws-cron-parser', byAws('0 9 31 * ? *'), byAws('0 9 29 2 ? *')],
    ['mi-cron', byMiCron('0 9 31 * *'), byMiCron('0 9 29 2 *')],
]) {
    const inWinter = days(4, last).map((day) => day.slice(5));
    console.log(`${name}, 31st: ${inWinter.join(', ')}; February 29: ${days(2, leap).join(', ')}`);
}
END
TZ=UTC timeout 120 node days.mjs | tee seen
diff - seen <<'END'
aws-cron-parser, 31st: 12-01, 12-31, 01-31, 03-03; February 29: 2027-03-01, 2028-02-29
mi-cron, 31st: 12-01, 12-31, 01-31, 03-03; February 29: 2027-03-01, 2028-02-29
END
