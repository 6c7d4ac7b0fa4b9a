#!/usr/bin/env bash
# dateutil 2.9.0.post0 (PyPI), `tz.tzstr`: of a rule for clocks whose hour is past the day, as in the footers of
# Asia/Jerusalem and Asia/Gaza in the tz database, the hours are added first, and the day of the week is sought
# from there. The 26th hour of the fourth Thursday of March is so on the Thursday, a day early, and Gaza's clocks go
# forward two days early, and back five days late; a job there is off by an hour meanwhile. tzstr takes strings
# as of the TZ variable, refers to glibc (https://dateutil.readthedocs.io/en/stable/tz.html), and says nothing of
# hours; by RFC 8536, section 3.3.1, they run from -167 to 167. A negative one is refused. And of the zones of its
# own files (`dateutil.zoneinfo`) the footer is not read: from 2038 on there is no summer time. Python's zoneinfo
# does as glibc does.
#
# Seen: "IST-2IDT,M3.4.4/26,M10.5.0: dateutil Thu 03-26 00:00, Sat 10-24 23:00; glibc Fri 03-27 00:00, Sat 10-24
# 23:00", "EET-2EEST,M3.4.4/50,M10.4.4/50: dateutil Thu 03-26 00:00, Wed 10-28 23:00; glibc Sat 03-28 00:00, Fri
# 10-23 23:00", "Berlin, July: 2037 2:00:00, 2038 1:00:00; zoneinfo 2:00:00 2:00:00".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet python-dateutil==2.9.0.post0 tzdata==2025.2
cat >clocks.py <<'END'
import datetime
import os
import time
import zoneinfo

import dateutil.tz
import dateutil.zoneinfo

utc = datetime.timezone.utc


def changes(offset):
    instant, seen = datetime.datetime(2026, 1, 1, tzinfo=utc), []
    last = offset(instant)
    while instant.year < 2027:
        if offset(instant) != last:
            seen.append(f"{instant:%a %m-%d %H:%M}")
            last = offset(instant)
        instant += datetime.timedelta(minutes=30)
    return ", ".join(seen)


for rule in ["CET-1CEST,M3.5.0,M10.5.0/3", "IST-2IDT,M3.4.4/26,M10.5.0", "EET-2EEST,M3.4.4/50,M10.4.4/50"]:
    zone = dateutil.tz.tzstr(rule)
    os.environ["TZ"] = rule
    time.tzset()
    here = changes(lambda instant: instant.astimezone(zone).utcoffset())
    print(f"{rule}: dateutil {here}; glibc {changes(lambda instant: time.localtime(instant.timestamp()).tm_gmtoff)}")
julys = [datetime.datetime(year, 7, 1) for year in (2037, 2038)]
own = dateutil.zoneinfo.get_zonefile_instance().get("Europe/Berlin")
offsets = [july.replace(tzinfo=own).utcoffset() for july in julys]
others = [july.replace(tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")).utcoffset() for july in julys]
print(f"Berlin, July: 2037 {offsets[0]}, 2038 {offsets[1]}; zoneinfo {others[0]} {others[1]}")
END
PYTHONTZPATH='' timeout 60 venv/bin/python clocks.py | tee seen
diff - seen <<'END'
CET-1CEST,M3.5.0,M10.5.0/3: dateutil Sun 03-29 01:00, Sun 10-25 01:00; glibc Sun 03-29 01:00, Sun 10-25 01:00
IST-2IDT,M3.4.4/26,M10.5.0: dateutil Thu 03-26 00:00, Sat 10-24 23:00; glibc Fri 03-27 00:00, Sat 10-24 23:00
EET-2EEST,M3.4.4/50,M10.4.4/50: dateutil Thu 03-26 00:00, Wed 10-28 23:00; glibc Sat 03-28 00:00, Fri 10-23 23:00
Berlin, July: 2037 2:00:00, 2038 1:00:00; zoneinfo 2:00:00 2:00:00
END
