#!/usr/bin/env bash
# gevent 26.9.0 (PyPI), `spawn_later`: the delay counts from the start of the event loop's turn, so what the
# greenlet has done in this turn is taken off. After work of 100 ms a delay of 50 ms is none. `sleep` and
# `Timeout`, right beside it, count from the call. Its documents say "in a future loop iteration *seconds*
# later".
#
# Seen, the least of five: "50 ms after 100 ms of work: sleep 50 ms, Timeout 50 ms, spawn_later 0 ms".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1
python3 -m venv venv
venv/bin/pip install --quiet gevent==26.9.0
cat >early.py <<'END'
import sys
import time

import gevent


def by_sleep():
    gevent.sleep(0.05)
    return time.monotonic()


def by_timeout():
    with gevent.Timeout(0.05, False):
        gevent.sleep(60)
    return time.monotonic()


def by_spawn_later():
    return gevent.spawn_later(0.05, time.monotonic).get()


def after_work(wait):
    gevent.sleep(0.001)
    time.sleep(0.1)
    start = time.monotonic()
    return (wait() - start) * 1e3


def least(wait):
    return min(gevent.spawn(after_work, wait).get() for _ in range(5))


leasts = [least(wait) for wait in (by_sleep, by_timeout, by_spawn_later)]
print("50 ms after 100 ms of work: sleep %.0f ms, Timeout %.0f ms, spawn_later %.0f ms" % tuple(leasts))
sys.exit(min(leasts[:2]) < 50 or leasts[2] >= 50)
END
venv/bin/python early.py
