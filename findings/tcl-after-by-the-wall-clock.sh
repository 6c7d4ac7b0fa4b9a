#!/usr/bin/env bash
# Tcl 8.6.13 (Debian's 8.6.13+dfsg-2), `after`, and so the timers of Tk and of Python's tkinter: the delay is
# kept as an instant of the wall clock. A clock that is set back by 5 s makes 0.3 s of it 5.3 s, one that is
# set forward by two hours has an hour come at once. libuv, GLib and asyncio count on a monotonic clock.
# after(n) speaks of milliseconds later. The clock is moved by libfaketime (Debian's 0.9.10-2.1), which
# leaves the monotonic one as it is.
#
# Seen: "0.3 s, set back by 5 s: 5.3 s", "an hour, set forward by two: 0.0 s".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=8.6.13+dfsg-2
apt-get download "tcl8.6=$version" "libtcl8.6=$version" libfaketime=0.9.10-2.1 >/dev/null 2>&1 || {
    echo "not checked: no Debian packages tcl8.6 $version and libfaketime 0.9.10-2.1 here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
cat >after.tcl <<'END'
proc uptime {} {
    set file [open /proc/uptime]
    set seconds [lindex [read $file] 0]
    close $file
    return $seconds
}
proc set_clock {offset} {
    set file [open clock w]
    puts $file $offset
    close $file
}
proc waited {ms offset} {
    set start [uptime]
    after $ms {set ::come 1}
    set_clock $offset
    vwait ::come
    set_clock +0
    return [expr {[uptime] - $start}]
}
set back [waited 300 -5s]
set forward [waited 3600000 +2h]
puts [format "0.3 s, set back by 5 s: %.1f s" $back]
puts [format "an hour, set forward by two: %.1f s" $forward]
exit [expr {$back < 5 || $forward >= 3600}]
END
echo +0 >clock
export FAKETIME_TIMESTAMP_FILE=$PWD/clock FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
export TCL_LIBRARY=$PWD/usr/share/tcltk/tcl8.6
libraries=$(dirname "$(find "$PWD" -name libtcl8.6.so)")
LD_LIBRARY_PATH=$libraries LD_PRELOAD=$(find "$PWD" -name libfaketimeMT.so.1) timeout 60 usr/bin/tclsh8.6 after.tcl
