#!/usr/bin/env bash
# local-crontab 0.1.8 (npm), which turns the crontab of a zone into some for UTC: where the hour falls on another
# day in UTC, the day stays as it was written, of the month as of the week. Tokyo's Monday at 1:00 becomes Monday
# at 16:00 UTC, which is Tuesday at 1:00 in Tokyo, and what should run on the first of the month runs on the
# second. Phoenix's Friday at 22:00 runs on Thursday evening. Its README says that several lines are made for
# the sake of daylight saving, and names no limit.
#
# Seen: "Asia/Tokyo, 0 1 * * 1: 0 16 * * 1", "Asia/Tokyo, 0 1 1 * *: 0 16 1 * *",
# "America/Phoenix, 0 22 * * 5: 0 5 * * 5".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund local-crontab@0.1.8
cat >lines.cjs <<'END'
const { localCrontabToUtcCrontabs } = require('local-crontab');

for (const [zone, crontab] of [
    ['Asia/Tokyo', '0 1 * * 1'],
    ['Asia/Tokyo', '0 1 1 * *'],
    ['America/Phoenix', '0 22 * * 5'],
]) {
    console.log(`${zone}, ${crontab}: ${localCrontabToUtcCrontabs(crontab, zone).join('; ')}`);
}
END
timeout 120 node lines.cjs | tee seen
diff - seen <<'END'
Asia/Tokyo, 0 1 * * 1: 0 16 * * 1
Asia/Tokyo, 0 1 1 * *: 0 16 1 * *
America/Phoenix, 0 22 * * 5: 0 5 * * 5
END
