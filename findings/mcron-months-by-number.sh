#!/usr/bin/env bash
# GNU mcron 1.0.8 (Debian's 1.0.8-1.1), crontab files: the number of a month is one too high. January by number
# (1) is February, and Christmas by number, `25 12`, is January 25. By name the months are right. Its manual
# gives 0-12 as months, the names next to them, says that 12 may become January and is not to be relied on, and
# promises compatibility with Vixie cron, to whose crontab(5) 1 is January.
#
# Seen: "0 9 1 1 *: Feb 1", "0 9 1 Jan *: Jan 1", "0 9 25 12 *: Jan 25", "0 9 25 Dec *: Dec 25".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=1.0.8-1.1
apt-get download "mcron=$version" guile-3.0=3.0.8-2 guile-3.0-libs=3.0.8-2 libgc1=1:8.2.2-3 >/dev/null 2>&1 || {
    echo "not checked: no Debian packages mcron $version and guile-3.0 3.0.8-2 here"
    exit 77
}
for package in *.deb; do dpkg -x "$package" .; done
libraries=$(dirname "$(find "$PWD" -name 'libguile-3.0.so.1')")
# mcron looks for its modules in ./scm, too.
mkdir scm
ln -s "$PWD"/usr/share/mcron "$PWD"/usr/share/guile/3.0/* scm/
export LD_LIBRARY_PATH=$libraries GUILE_AUTO_COMPILE=0 HOME=$PWD TZ=UTC
export GUILE_LOAD_COMPILED_PATH=$libraries/guile/3.0/ccache
for times in '0 9 1 1 *' '0 9 1 Jan *' '0 9 25 12 *' '0 9 25 Dec *'; do
    echo "$times true" | timeout 60 usr/bin/mcron --stdin=vixie --schedule=1 - >told
    echo "$times: $(awk '$4 == "09:00:00" { print $2, $3 }' told)"
done | tee seen
diff - seen <<'END'
0 9 1 1 *: Feb 1
0 9 1 Jan *: Jan 1
0 9 25 12 *: Jan 25
0 9 25 Dec *: Dec 25
END
