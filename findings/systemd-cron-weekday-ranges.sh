#!/usr/bin/env bash
# systemd-cron 1.15.19 (Debian's 1.15.19-5), crontab files as timers of systemd: a range of days of the
# week that ends with 7, as crontab(5) and Debian's cron allow, becomes other days. `5-7` is each day, with
# the words "garbled time" in the log, and `0-7` is Sunday alone, without any. Its own crontab(5) says that
# 0 or 7 is Sunday, and that ranges are allowed.
#
# Seen: "5-7: *-*-*", "0-7: Sun *-*-*", "1-5: Mon,Tue,Wed,Thu,Fri *-*-*".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=1.15.19-5
if ! unshare -rm true 2>/dev/null ||
    ! apt-get download "systemd-cron=$version" >/dev/null 2>&1; then
    echo "not checked: no Debian package systemd-cron $version here, or no mounts"
    exit 77
fi
dpkg -x systemd-cron_*.deb .
mkdir -p etc/cron.d out
grep root /etc/passwd >etc/passwd
grep root /etc/group >etc/group
for days in 5-7 0-7 1-5; do
    echo "0 9 * * $days root true $days" >>etc/crontab
done
unshare -rm sh -c 'mount --bind etc /etc && exec python3 -W ignore "$0" out' \
    lib/systemd/system-generators/systemd-crontab-generator 2>/dev/null
for days in 5-7 0-7 1-5; do
    timer=$(grep -l "true $days\"" out/*.timer)
    echo "$days: $(sed -n 's/^OnCalendar= *\(.*\) 9:0*0:00$/\1/p' "$timer")"
done | tee seen
diff - seen <<'END'
5-7: *-*-*
0-7: Sun *-*-*
1-5: Mon,Tue,Wed,Thu,Fri *-*-*
END
