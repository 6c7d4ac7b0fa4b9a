#!/usr/bin/env bash
# uvloop 0.23.0 (PyPI), `call_later`, `call_at` and so `asyncio.sleep`: the delay is rounded to the nearest whole
# millisecond, and a part of less than a half is cut. 0.4 ms is no wait at all, and 10.4 ms may be 10.1; asyncio's
# own loop is never early. Who waits for the rest of a time and looks again does so several times. Within the
# millisecond those set first come first, so 10.4 ms before 9.9. Its documents call it a drop-in replacement.
#
# Seen: "asyncio: 0.4 ms never early, 10.4 ms never early, order 9.9 10.1 10.4",
# "uvloop: 0.4 ms early, 10.4 ms early, order 10.4 10.1 9.9".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet uvloop==0.23.0
cat >early.py <<'END'
import asyncio
import time

import uvloop


async def least(delay):
    """The shortest of some waits of so many seconds, in seconds."""
    loop, waits = asyncio.get_running_loop(), []
    for _ in range(60):
        done = loop.create_future()
        start = time.monotonic()
        loop.call_later(delay, done.set_result, None)
        await done
        waits.append(time.monotonic() - start)
    return min(waits)


async def seen(name):
    told = []
    for ms in (0.4, 10.4):
        told.append("%s ms %s" % (ms, "early" if await least(ms / 1000) < ms / 1000 else "never early"))
    loop, order = asyncio.get_running_loop(), []
    for ms in (10.4, 10.1, 9.9):
        loop.call_later(ms / 1000, order.append, ms)
    time.sleep(0.05)
    await asyncio.sleep(0.05)
    print("%s: %s, order %s" % (name, ", ".join(told), " ".join(map(str, order))))


asyncio.run(seen("asyncio"))
uvloop.run(seen("uvloop"))
END
timeout 60 venv/bin/python early.py | tee seen
diff - seen <<'END'
asyncio: 0.4 ms never early, 10.4 ms never early, order 9.9 10.1 10.4
uvloop: 0.4 ms early, 10.4 ms early, order 10.4 10.1 9.9
END
