#!/usr/bin/env bash
# rrule 2.8.1 (npm): the hours of a day come in the order in which BYHOUR has them, and `after` and UNTIL go by
# the first that fits. Of `BYHOUR=17,9` the next after midnight is 17:00, so a scheduler that asks `after` never
# learns of 9:00, and with UNTIL at 10:00 the last day has no 9:00. dateutil, its model, sorts the
# hours; RFC 5545, section 3.3.10, gives the list no order. And a rule of each 90 minutes with BYHOUR leaves its
# steps: from 9:00 on, 12:00 would be one of them, and it has 12:30.
#
# Seen: "BYHOUR=17,9, after midnight: 02-01 17:00, then 02-02 17:00; between two midnights: 17:00, 09:00",
# "BYHOUR=9,17, after midnight: 02-01 09:00, then 02-01 17:00; between two midnights: 09:00, 17:00",
# "UNTIL 10:00: BYHOUR=17,9 has 1, BYHOUR=9,17 has 2", "each 90 minutes from 9:00, at 9 and 12: 09:00, 12:30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
npm install --silent --no-audit --no-fund rrule@2.8.1
cat >hours.cjs <<'END'
const { rrulestr } = require('rrule');

const time = (date) => date.toISOString().slice(11, 16);
const day = (date) => date.toISOString().slice(5, 16).replace('T', ' ');
const rule = (start, parts) => rrulestr(`DTSTART:${start}Z\nRRULE:${parts}`);

for (const hours of ['17,9', '9,17']) {
    const daily = rule('20260131T080000', `FREQ=DAILY;BYHOUR=${hours}`);
    const [first, last] = [new Date('2026-02-01T00:00Z'), new Date('2026-02-02T00:00Z')];
    const next = daily.after(first);
    const between = daily.between(first, last).map(time).join(', ');
    console.log(`BYHOUR=${hours}, after midnight: ${day(next)}, then ${day(daily.after(next))};`,
        `between two midnights: ${between}`);
}
const until = (hours) => rule('20260131T120000', `FREQ=DAILY;BYHOUR=${hours};UNTIL=20260201T100000Z`).all().length;
console.log(`UNTIL 10:00: BYHOUR=17,9 has ${until('17,9')}, BYHOUR=9,17 has ${until('9,17')}`);
const steps = rule('20260131T090000', 'FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,12').all((_, i) => i < 2);
console.log(`each 90 minutes from 9:00, at 9 and 12: ${steps.map(time).join(', ')}`);
END
timeout 60 node hours.cjs | tee seen
diff - seen <<'END'
BYHOUR=17,9, after midnight: 02-01 17:00, then 02-02 17:00; between two midnights: 17:00, 09:00
BYHOUR=9,17, after midnight: 02-01 09:00, then 02-01 17:00; between two midnights: 09:00, 17:00
UNTIL 10:00: BYHOUR=17,9 has 1, BYHOUR=9,17 has 2
each 90 minutes from 9:00, at 9 and 12: 09:00, 12:30
END
