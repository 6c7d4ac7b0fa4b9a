#!/usr/bin/env bash
# bree 9.2.9 (npm; @breejs/later 4.2.0), an `interval` in words: "every 2 days", which its README calls every
# other day, is the odd days of each month, so it runs on the 31st and on the next day too. "every 90 minutes"
# and "every 36 hours" are further than later's round of an hour or a day goes: they become each hour and each
# day. "every 7 hours" leaves 3 hours at midnight. Without "every", "90 minutes", it is the time between runs.
# Its README gives both kinds as two ways to write strings, and takes either.
#
# Seen: "every 2 days: Jan 29, Jan 31, Feb 1, Feb 3", "every 90 minutes: 60 60 60 min",
# "every 36 hours: 1440 1440 1440 min", "every 7 hours: 180 420 420 min", "90 minutes: each 90 min".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund bree@9.2.9 @breejs/later@4.2.0
touch job.js
cat >runs.cjs <<'END'
const Bree = require('bree');
const later = require('@breejs/later');

const from = new Date('2027-01-28T21:00Z');
const day = (date) => date.toLocaleDateString('en-US', { month: 'short', day: 'numeric', timeZone: 'UTC' });

/** What bree makes of an interval: milliseconds, or the next four runs. */
async function made(interval) {
    const jobs = [{ name: 'job', path: `${__dirname}/job.js`, interval }];
    const bree = new Bree({ root: false, logger: false, jobs });
    await bree.init();
    later.date.UTC();
    const [job] = bree.config.jobs;
    return typeof job.interval === 'number' ? job.interval : later.schedule(job.interval).next(4, from);
}

(async () => {
    console.log(`every 2 days: ${(await made('every 2 days')).map(day).join(', ')}`);
    for (const interval of ['every 90 minutes', 'every 36 hours', 'every 7 hours']) {
        const runs = await made(interval);
        const gaps = runs.slice(1).map((run, i) => (run - runs[i]) / 60_000);
        console.log(`${interval}: ${gaps.join(' ')} min`);
    }
    console.log(`90 minutes: each ${(await made('90 minutes')) / 60_000} min`);
})();
END
timeout 120 node runs.cjs | tee seen
diff - seen <<'END'
every 2 days: Jan 29, Jan 31, Feb 1, Feb 3
every 90 minutes: 60 60 60 min
every 36 hours: 1440 1440 1440 min
every 7 hours: 180 420 420 min
90 minutes: each 90 min
END
