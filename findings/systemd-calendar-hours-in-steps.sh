#!/usr/bin/env bash
# systemd 252.39 (Debian's 252.39-1~deb12u2; 257.13 of Debian 13 does the same): if the clocks skip the first
# hour of a calendar event whose hours come in steps, there is no next elapse from the evening before, but an
# error, "Resource deadlock avoided". With the last hour named as well there is one. And in the night in which
# clocks go back an event of each half hour pauses for one and a half: the repeated hour is left out.
# systemd.time(7) says nothing of either.
#
# Seen: "02/6:30: Failed", "02..20/6:30: 2026-03-29 06:30, 2026-03-29 12:30",
# "*:0/30: 2026-10-25 00:30, 2026-10-25 02:00".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=252.39-1~deb12u2
apt-get download "systemd=$version" "libsystemd-shared=$version" >/dev/null 2>&1 || {
    echo "not checked: no Debian package systemd $version here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
LD_LIBRARY_PATH=$(dirname "$PWD"/usr/lib/*/systemd/libsystemd-shared-*.so)
export LD_LIBRARY_PATH TZ=UTC
# after INSTANT EVENT: the next two elapses of an event in Berlin, in UTC, or that it fails.
after() {
    usr/bin/systemd-analyze calendar --iterations=2 --base-time="$1" "*-*-* $2 Europe/Berlin" >told 2>&1 || true
    echo "$2: $(sed -nE 's/^.*: [A-Z][a-z]+ (.*):00 UTC$/\1/p; s/^(Failed) to determine.*/\1/p' told | paste -sd, |
        sed 's/,/, /')"
}
{
    after '2026-03-28 20:00 UTC' '02/6:30'
    after '2026-03-28 20:00 UTC' '02..20/6:30'
    after '2026-10-25 00:10 UTC' '*:0/30'
} | tee seen
diff - seen <<'END'
02/6:30: Failed
02..20/6:30: 2026-03-29 06:30, 2026-03-29 12:30
*:0/30: 2026-10-25 00:30, 2026-10-25 02:00
END
