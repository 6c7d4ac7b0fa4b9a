#!/usr/bin/env bash
# dayjs 1.11.23 (npm), its plugin `duration`: the sign in front of an ISO 8601 duration is read over, though
# `toISOString` writes it. "-PT15M", as an alarm of iCalendar has it for a quarter before, becomes one after, and
# what is written and read back has changed its sign. Of parts with two signs `toISOString` makes one: an hour less
# a quarter, 45 minutes, is written "-PT1H15M", and read as 75. Its documents call the text an ISO 8601 string
# (https://day.js.org/docs/en/durations/creating), and luxon keeps all these. timestring 7.0.0 reads over a minus,
# too.
#
# Seen, in minutes: "-PT15M: dayjs 15, luxon -15", "-1h: timestring 60", "1 h less 15 min: 45, written -PT1H15M,
# read 75".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund dayjs@1.11.23 luxon@3.7.2 timestring@7.0.0
cat >signs.cjs <<'END'
const dayjs = require('dayjs');
const { Duration } = require('luxon');
const timestring = require('timestring');

dayjs.extend(require('dayjs/plugin/duration'));
for (const text of ['-PT15M', 'PT-15M', '-P1D']) {
    const luxon = Duration.fromISO(text).as('minutes');
    console.log(`${text}: dayjs ${dayjs.duration(text).asMinutes()}, luxon ${luxon}`);
}
console.log(`-1h: timestring ${timestring('-1h', 'm')}`);
for (const [name, parts] of [
    ['15 min ago', { minutes: -15 }],
    ['1 h less 15 min', { hours: 1, minutes: -15 }],
]) {
    const duration = dayjs.duration(parts);
    const text = duration.toISOString();
    console.log(`${name}: ${duration.asMinutes()}, written ${text}, read ${dayjs.duration(text).asMinutes()}`);
}
END
timeout 60 node signs.cjs | tee seen
diff - seen <<'END'
-PT15M: dayjs 15, luxon -15
PT-15M: dayjs -15, luxon -15
-P1D: dayjs 1440, luxon -1440
-1h: timestring 60
15 min ago: -15, written -PT15M, read 15
1 h less 15 min: 45, written -PT1H15M, read 75
END
