#!/usr/bin/env bash
# cron-converter 2.0.2 (PyPI), `Cron.schedule`: with a zone of pytz the offset of the start stays for good. From
# January on a job of midnight in Rome comes at 1:00 all summer. With one of dateutil, as for `timezone_str`, the
# times go back in the night in which clocks go forward: 01:40 is followed by a 02:00 that was 40 minutes before
# it, and the times of the hour that does not exist come as well as those of the next. With zoneinfo three
# runs come twice. And with both, in the night in which they go back, the repeated hour has none. Its README
# has a part on daylight saving (https://pypi.org/project/cron-converter/), by which a start with a time zone makes
# it work, and pytz and dateutil are its examples.
#
# Seen, as UTC: "pytz, 0 0 * * *: 01-01 23:00, 07-01 23:00", "dateutil, */20: 00:40 00:00 00:20 00:40 01:00",
# "zoneinfo, */20: 00:40 01:00 01:20 01:40 01:00", "zoneinfo, */20, back: 23:40 00:00 00:20 00:40 02:00".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet cron-converter==2.0.2 pytz==2025.2 python-dateutil==2.9.0.post0 tzdata==2025.2
cat >runs.py <<'END'
import datetime
import zoneinfo

import dateutil.tz
import pytz
from cron_converter import Cron

rome = "Europe/Rome"
starts = {
    "pytz": lambda *time: pytz.timezone(rome).localize(datetime.datetime(*time)),
    "dateutil": lambda *time: datetime.datetime(*time, tzinfo=dateutil.tz.gettz(rome)),
    "zoneinfo": lambda *time: datetime.datetime(*time, tzinfo=zoneinfo.ZoneInfo(rome)),
}


def runs(expression, start, count):
    schedule = Cron(expression).schedule(start_date=start)
    return [schedule.next().astimezone(datetime.timezone.utc) for _ in range(count)]


for name, start in starts.items():
    days = runs("0 0 * * *", start(2026, 1, 1, 12), 182)
    print(f"{name}, 0 0 * * *: {days[0]:%m-%d %H:%M}, {days[-1]:%m-%d %H:%M}")
    forward = runs("*/20 * * * *", start(2026, 3, 29, 1, 30), 5)
    print(f"{name}, */20: {' '.join(f'{run:%H:%M}' for run in forward)}")
    back = runs("*/20 * * * *", start(2026, 10, 25, 1, 30), 5)
    print(f"{name}, */20, back: {' '.join(f'{run:%H:%M}' for run in back)}")
END
TZ=UTC timeout 60 venv/bin/python runs.py | tee seen
diff - seen <<'END'
pytz, 0 0 * * *: 01-01 23:00, 07-01 23:00
pytz, */20: 00:40 01:00 01:20 01:40 02:00
pytz, */20, back: 23:40 00:00 00:20 00:40 01:00
dateutil, 0 0 * * *: 01-01 23:00, 07-01 22:00
dateutil, */20: 00:40 00:00 00:20 00:40 01:00
dateutil, */20, back: 23:40 00:00 00:20 00:40 02:00
zoneinfo, 0 0 * * *: 01-01 23:00, 07-01 22:00
zoneinfo, */20: 00:40 01:00 01:20 01:40 01:00
zoneinfo, */20, back: 23:40 00:00 00:20 00:40 02:00
END
