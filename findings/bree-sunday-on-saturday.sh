#!/usr/bin/env bash
# bree 9.2.9 (npm; @breejs/later 4.2.0), a job's `cron`: Sunday as 7, which its own validation lets pass, is
# Saturday, and a range that ends with 7 leaves Sundays out: `1-7` are six days of the week. With both a day of
# the month and one of the week given, a job runs where both hold, so `1,15 * 1` a few times a year, and not on
# each Monday. Its README advises crontab.guru for writing expressions, and that says otherwise on each of these.
#
# Seen: "0 9 * * 7: Sat 2026-12-05, Sat 2026-12-12", "0 9 * * 6-7: Sat 2026-12-05, Sat 2026-12-12",
# "0 9 * * 0: Sun 2026-12-06, Sun 2026-12-13", "0 9 1,15 * 1: Mon 2027-02-01, Mon 2027-02-15".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund bree@9.2.9 @breejs/later@4.2.0
touch job.js
cat >runs.cjs <<'END'
const Bree = require('bree');
const later = require('@breejs/later');

(async () => {
    for (const cron of ['0 9 * * 7', '0 9 * * 6-7', '0 9 * * 0', '0 9 1,15 * 1']) {
        const jobs = [{ name: 'job', path: `${__dirname}/job.js`, cron }];
        const bree = new Bree({ root: false, logger: false, jobs });
        await bree.init();
        later.date.UTC();
        const runs = later.schedule(bree.config.jobs[0].interval).next(2, new Date('2026-11-29T12:00Z'));
        const days = runs.map((run) => `${run.toUTCString().slice(0, 3)} ${run.toISOString().slice(0, 10)}`);
        console.log(`${cron}: ${days.join(', ')}`);
    }
})();
END
timeout 120 node runs.cjs | tee seen
diff - seen <<'END'
0 9 * * 7: Sat 2026-12-05, Sat 2026-12-12
0 9 * * 6-7: Sat 2026-12-05, Sat 2026-12-12
0 9 * * 0: Sun 2026-12-06, Sun 2026-12-13
0 9 1,15 * 1: Mon 2027-02-01, Mon 2027-02-15
END
