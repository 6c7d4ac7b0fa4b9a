#!/usr/bin/env bash
# schedule 1.2.2 (PyPI), `every().day.at(time, zone)`: a daily job at a time that the clock leaves out runs an
# hour later in that night, and twice on the next day, an hour early and in time. In Berlin one of 2:30 runs on
# Sunday at 3:30, and on Monday at 1:30 and at 2:30. Its page on time zones
# (https://schedule.readthedocs.io/en/stable/timezones.html) has this very example, and by it the job is back to
# normal, at 2:30, on that day. The zone of the machine does not matter. time-machine 3.2.0 sets the clock.
#
# Seen: "Sat 02:30, Sun 03:30, Mon 01:30, Mon 02:30, Tue 02:30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet schedule==1.2.2 pytz==2025.2 time-machine==3.2.0
cat >runs.py <<'END'
import datetime
import sys

import pytz
import schedule
import time_machine

berlin = pytz.timezone("Europe/Berlin")
seen = []


def run():
    seen.append(datetime.datetime.now(berlin).strftime("%a %H:%M"))


with time_machine.travel(datetime.datetime(2026, 3, 27, 12, tzinfo=datetime.timezone.utc), tick=False) as clock:
    schedule.every().day.at("02:30", "Europe/Berlin").do(run)
    for _ in range(4 * 24 * 60):
        schedule.run_pending()
        clock.shift(60)
print(", ".join(seen))
sys.exit(seen != ["Sat 02:30", "Sun 03:30", "Mon 01:30", "Mon 02:30", "Tue 02:30"])
END
TZ=UTC venv/bin/python runs.py
