#!/usr/bin/env bash
# at 3.2.5 (Debian's 3.2.5-1+b1): `now + count units` is added to the time that the clock shows, and the clock
# may have been moved by then. In the night in which clocks go forward `now + 2 hours` is one hour, `now + 1
# hour` is at once, and `now + 20 minutes` is refused as a time in the past; in the one in which they go back
# `now + 2 hours` is three. A time that the clock leaves out comes an hour early, before the gap. at(1) has
# `now + count time-units` without a word of it. libfaketime (Debian's 0.9.10-2.1) sets the clock.
#
# Seen, in Berlin at 1:50: "forward: now + 20 minutes: refused; now + 1 hour: 0 min; now + 2 hours: 60 min",
# "back: now + 20 minutes: 20 min; now + 1 hour: 60 min; now + 2 hours: 180 min"; and "02:30, left out: 01:30".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=3.2.5-1+b1
if ! unshare -rm true 2>/dev/null ||
    ! apt-get download "at=$version" libfaketime=0.9.10-2.1 >/dev/null 2>&1; then
    echo "not checked: no Debian packages at $version and libfaketime 0.9.10-2.1 here, or no mounts"
    exit 77
fi
for package in *.deb; do dpkg -x "$package" .; done
chmod ug-s usr/bin/at
rm -rf etc
mkdir etc
printf '%s:x:0:0::/:/bin/sh\n' root daemon >etc/passwd
printf '%s:x:0:\n' root daemon >etc/group
cat >jobs.sh <<'END'
mount --bind etc /etc
mount -t tmpfs none /var/spool
jobs=/var/spool/cron/atjobs
mkdir -p $jobs /var/spool/cron/atspool
touch $jobs/.SEQ
# at START SPEC...: the minute of a job, counted from 1970, or nothing if it is refused.
at() {
    local name
    rm -f $jobs/a*
    echo true | LD_PRELOAD=$fake FAKETIME="$1" usr/bin/at "${@:2}" >told 2>&1 || grep -q refusing told
    name=$(cd $jobs && ls | grep '^a') || return 0
    echo $((16#${name:6:8}))
}
# span START SPEC...: the minutes until the job.
span() {
    local minute
    minute=$(at "$@")
    [ -z "$minute" ] || minute="$((minute - $(date -d "$1" +%s) / 60)) min"
    echo "${*:2}: ${minute:-refused}"
}
for night in 'forward 2026-03-29' 'back 2026-10-25'; do
    start="${night#* } 01:50:00"
    echo "${night% *}: $(span "$start" now + 20 minutes); $(span "$start" now + 1 hour);" \
        "$(span "$start" now + 2 hours)"
done
echo "02:30, left out: $(date -d "@$((60 * $(at '2026-03-28 12:00:00' 02:30 tomorrow)))" +%H:%M)"
END
TZ=Europe/Berlin fake=$(find "$PWD" -name libfaketime.so.1) unshare -rm bash jobs.sh | tee seen
diff - seen <<'END'
forward: now + 20 minutes: refused; now + 1 hour: 0 min; now + 2 hours: 60 min
back: now + 20 minutes: 20 min; now + 1 hour: 60 min; now + 2 hours: 180 min
02:30, left out: 01:30
END
