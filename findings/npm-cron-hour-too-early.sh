#!/usr/bin/env bash
# cron 4.4.0 (npm): on the day when clocks go back, a job of the hour after the repeated one runs an hour
# early too. In New York `0 2 * * *` runs at 1:00, where the clock shows 1 for the second time, and then at
# 2:00. Where a clock skips half an hour, a job of a skipped minute runs before it and after it: on Lord
# Howe `15 2 * * *` at 1:45 and at 2:45. Its README says nothing of daylight saving.
#
# Seen: "America/New_York 0 2 * * *: 01:00 02:00", "Australia/Lord_Howe 15 2 * * *: 01:45 02:45".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund cron@4.4.0 sinon@22.1.0
cat >run.mjs <<'END'
import { CronJob } from 'cron';
import sinon from 'sinon';

/** The times on the clock of the zone at which a job runs, from an instant on, in four hours. */
async function runs(timeZone, cronTime, from) {
    const clock = sinon.useFakeTimers({ now: Date.parse(from) });
    const shown = new Intl.DateTimeFormat('en-GB', { timeZone, hour: '2-digit', minute: '2-digit' });
    const seen = [];
    const job = CronJob.from({ cronTime, timeZone, start: true, onTick: () => seen.push(shown.format()) });
    await clock.tickAsync(4 * 3_600_000);
    job.stop();
    clock.restore();
    const said = `${timeZone} ${cronTime}: ${seen.join(' ')}`;
    console.log(said);
    return said;
}

const seen = [
    await runs('America/New_York', '0 2 * * *', '2026-11-01T05:00:00Z'),
    await runs('Australia/Lord_Howe', '15 2 * * *', '2026-10-03T14:00:00Z'),
];
process.exit(Number(seen.join() !== [
    'America/New_York 0 2 * * *: 01:00 02:00',
    'Australia/Lord_Howe 15 2 * * *: 01:45 02:45',
].join()));
END
node run.mjs
