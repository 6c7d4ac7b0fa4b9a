#!/usr/bin/env bash
# GLib 2.74.6 (Debian's libglib2.0-0 2.74.6-2+deb12u9), `g_timeout_add`: of timeouts that are due in one turn
# of a main context, as after a callback that took long, the first to come is the one that was added first,
# and not the one that was due first. So 50 ms come before 10 ms, and a watchdog before the answer that was
# due long before it. libuv, asyncio and Tcl go by the deadlines. GLib's documents name priorities
# alone.
#
# Seen: "added: 50 10 30; come, all in time: 10 30 50; come, after 100 ms of work: 50 10 30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=2.74.6-2+deb12u9
apt-get download "libglib2.0-0=$version" >/dev/null 2>&1 || {
    echo "not checked: no Debian package libglib2.0-0 $version here"
    exit 77
}
dpkg -x libglib2.0-0_*.deb .
cat >order.py <<'END'
import ctypes
import sys
import time

glib = ctypes.CDLL(sys.argv[1])
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def come(work):
    """The timeouts in the order in which they come, if the thread works for some seconds before that."""
    seen, callbacks = [], []
    for delay in (50, 10, 30):
        callbacks.append(Callback(lambda _, delay=delay: seen.append(delay) or 0))
        glib.g_timeout_add(delay, callbacks[-1], None)
    time.sleep(work)
    while len(seen) < 3:
        glib.g_main_context_iteration(None, True)
    return " ".join(map(str, seen))


seen = come(0), come(0.1)
print("added: 50 10 30; come, all in time: %s; come, after 100 ms of work: %s" % seen)
sys.exit(seen[1] != "50 10 30")
END
python3 order.py "$(find "$PWD" -name libglib-2.0.so.0)"
