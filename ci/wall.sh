#!/usr/bin/env bash
# Sets a wall clock for real: that of a guest of user-mode Linux, which is a process. Needs
# linux.uml (Debian: user-mode-linux), or its path in UML. By hand.
. "$(dirname "$0")/lib.sh"

uml=${UML:-linux.uml}
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
tests=$(cargo test --test it --no-run --message-format json |
    grep -oE '"executable":"[^"]+/it-[^"]+"' | cut -d'"' -f4)

cat >"$work/init" <<EOF
#!/bin/sh
mount -t proc none /proc
$tests --ignored --exact wall::guest_sets_its_clock
echo o >/proc/sysrq-trigger
sleep 9
EOF
chmod +x "$work/init"

ci/limited.sh 120 "$uml" mem=256M rootfstype=hostfs rootflags=/ ro "init=$work/init" \
    con=null con0=null,fd:1 quiet </dev/null 2>&1 | tee "$work/log"
grep -q '1 passed' "$work/log"
