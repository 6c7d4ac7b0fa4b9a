#!/usr/bin/env bash
# spacetime 7.15.0 (npm), in zones whose clocks go forward at midnight: `startOf('day')` of noon is noon, so a day
# later than the midnight before is noon, too, and a job for the start of each day comes half a day late. In Cairo
# and Beirut a time of the hour that does not exist is on the day before. Berlin, where the gap is at 2:00, is
# right. Its README (https://www.npmjs.com/package/spacetime) promises support for daylight saving; luxon begins
# these days at 1:00.
#
# Seen: "America/Santiago: startOf 09-06 12:00, 0:30 09-06 01:30; luxon 09-06 01:00", "Africa/Cairo: startOf 04-24
# 12:00, 0:30 04-23 00:30; luxon 04-24 01:00" and so on, as below.
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund spacetime@7.15.0 luxon@3.7.2
cat >days.cjs <<'END'
const spacetime = require('spacetime');
const { DateTime } = require('luxon');

const format = 'MM-dd HH:mm';
for (const [zone, day] of [
    ['America/Santiago', '2026-09-06'],
    ['America/Havana', '2026-03-08'],
    ['Asia/Beirut', '2026-03-29'],
    ['Africa/Cairo', '2026-04-24'],
    ['Europe/Berlin', '2026-03-29'],
]) {
    const epoch = (time) => DateTime.fromMillis(time.epoch, { zone }).toFormat(format);
    const noon = spacetime(`${day}T12:00:00`, zone);
    const times = [
        `startOf ${epoch(noon.startOf('day'))}`,
        `0:30 ${epoch(spacetime(`${day}T00:30:00`, zone))}`,
        `a day on ${epoch(noon.subtract(1, 'day').startOf('day').add(1, 'day'))}`,
    ];
    const luxon = DateTime.fromISO(`${day}T12:00`, { zone }).startOf('day').toFormat(format);
    console.log(`${zone}: ${times.join(', ')}; luxon ${luxon}`);
}
END
timeout 60 node days.cjs | tee seen
diff - seen <<'END'
America/Santiago: startOf 09-06 12:00, 0:30 09-06 01:30, a day on 09-06 12:00; luxon 09-06 01:00
America/Havana: startOf 03-08 12:00, 0:30 03-08 01:30, a day on 03-08 12:00; luxon 03-08 01:00
Asia/Beirut: startOf 03-29 12:00, 0:30 03-28 00:30, a day on 03-29 12:00; luxon 03-29 01:00
Africa/Cairo: startOf 04-24 12:00, 0:30 04-23 00:30, a day on 04-24 12:00; luxon 04-24 01:00
Europe/Berlin: startOf 03-29 00:00, 0:30 03-29 00:30, a day on 03-29 00:00; luxon 03-29 00:00
END
