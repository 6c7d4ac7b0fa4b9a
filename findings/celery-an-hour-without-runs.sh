#!/usr/bin/env bash
# Celery 5.7.0 (PyPI), `crontab` in an app with a time zone: in the night in which clocks go back the second of the
# two hours has no runs. `crontab()`, each minute by its guide
# (https://docs.celeryq.dev/en/stable/userguide/periodic-tasks.html), does nothing for 61 minutes, and each 20
# minutes become 80. What watches over a thing each minute is blind for that time. By `schedule(60)`, seconds
# between runs, it continues, and so does a crontab in an app with UTC, the default. The guide says nothing of that
# night. Beat's own scheduler is asked here, tick by tick; time-machine 3.6.0 sets the clock.
#
# Seen, in Berlin from 01:50 for three hours: "crontab(): 119 runs, pauses of up to 61 min", "crontab(*/20): 02:00
# 02:20 02:40 03:00 03:20 03:40", "schedule(60): 179 runs, pauses of up to 1 min".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet celery==5.7.0 time-machine==3.6.0
cat >runs.py <<'END'
import datetime
import time

import time_machine
from celery import Celery
from celery.beat import Scheduler
from celery.schedules import crontab, schedule


class Told(Scheduler):
    producer = None

    def apply_async(self, entry, producer=None, advance=True, **options):
        runs.append(app.now())


hours = 3
for name, zone, when in [
    ("crontab()", "Europe/Berlin", crontab()),
    ("crontab(*/20)", "Europe/Berlin", crontab(minute="*/20")),
    ("schedule(60)", "Europe/Berlin", schedule(60)),
    ("crontab(), UTC", "UTC", crontab()),
]:
    app = Celery(set_as_current=False)
    app.conf.timezone = zone
    app.conf.beat_schedule = {"job": {"task": "job", "schedule": when}}
    runs = []
    night = datetime.datetime(2026, 10, 24, 23, 50, tzinfo=datetime.timezone.utc)
    with time_machine.travel(night, tick=False) as clock:
        beat = Told(app=app)
        while time.time() < night.timestamp() + hours * 3600:
            clock.shift(min(max(beat.tick(), 0.001), 60))
    instants = [run.timestamp() for run in runs]
    if len(runs) < 20:
        print(f"{name}: {' '.join(run.strftime('%H:%M') for run in runs)}")
    else:
        pause = max(later - sooner for sooner, later in zip(instants, instants[1:])) / 60
        print(f"{name}: {len(runs)} runs, pauses of up to {pause:.0f} min")
END
TZ=UTC timeout 120 venv/bin/python runs.py | tee seen
diff - seen <<'END'
crontab(): 119 runs, pauses of up to 61 min
crontab(*/20): 02:00 02:20 02:40 03:00 03:20 03:40
schedule(60): 179 runs, pauses of up to 1 min
crontab(), UTC: 179 runs, pauses of up to 1 min
END
