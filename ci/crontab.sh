#!/usr/bin/env bash
# Runs tourbillon-crontab as a process: signals, what it refuses, its memory, its end; as root also
# that it runs jobs as their users, and from no file that others own. With the argument `clock` it
# runs under a clock that is set, for two minutes; that needs Debian's package faketime.
. "$(dirname "$0")/lib.sh"
program=target/debug/tourbillon-crontab
# Optimised, for its output is long, and what it depends on as the tests have it.
cargo rustc --quiet --package tourbillon-crontab --bin tourbillon-crontab -- -C opt-level=3
dir=$(mktemp -d)
cron= reader=
trap 'kill $cron $reader 2>/dev/null || true; rm -rf "$dir"' EXIT
chmod 755 "$dir"
umask 022

# start FILE...: runs the files' jobs, with its log in $dir/log.
start() {
    : >"$dir/log"
    "$program" --zone UTC "$@" >"$dir/log" 2>&1 &
    cron=$!
}
# logs PATTERN [COUNT]: waits until so many lines of the log match.
logs() {
    for _ in $(seq 600); do
        [ "$(grep -cE -- "$1" "$dir/log")" -ge "${2:-1}" ] && return
        sleep 0.1
    done
    echo "the log has no ${2:-1} of: $1"
    cut -c 1-200 "$dir/log" | tail -n 30
    exit 1
}
# never PATTERN: no line of the log matches.
never() {
    if grep -E -- "$1" "$dir/log"; then
        exit 1
    fi
}
# stop SIGNAL: ends it, which must go well.
stop() {
    kill -"$1" "$cron"
    wait "$cron"
    cron=
    logs 'ends after [0-9]+ wake-ups'
}

if [ "${1:-}" = clock ]; then
    say "a clock that is set back by four hours, and forward by six"
    faketime=$(find /usr/lib -name libfaketimeMT.so.1 | head -n 1)
    [ -n "$faketime" ]
    # set_clock TIME: what the next process of `start` shows, or continues to show.
    set_clock() {
        echo "$(($(date -u -d "$1" +%s) - $(date -u +%s)))" >"$dir/offset"
    }
    export FAKETIME_TIMESTAMP_FILE=$dir/offset FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1
    set_clock '2026-01-05 10:59:55'
    echo '0 * * * * true' >"$dir/jobs"
    chmod 644 "$dir/jobs"
    LD_PRELOAD=$faketime start --user "$dir/jobs"
    logs 'due .* 11:00:00 UTC, 0 missed'
    # Such a clock is looked at twice a minute.
    set_clock '2026-01-05 06:59:20'
    logs 'the clock was set back by hours'
    logs 'due .* 07:00:00 UTC, 0 missed'
    set_clock '2026-01-05 12:59:20'
    logs 'due .* 13:00:00 UTC, 5 missed'
    stop TERM
    [ "$(grep -c ': due ' "$dir/log")" = 3 ]
    exit 0
fi

say "what a directory may hold, and SIGHUP"
mkdir "$dir/cron.d"
me=$(id -un)
echo "@reboot $me echo from good" >"$dir/cron.d/good"
echo "@reboot $me echo from bad" | tee "$dir/cron.d/writable" "$dir/linked" >"$dir/hard"
chmod 666 "$dir/cron.d/writable"
ln -s "$dir/linked" "$dir/cron.d/link"
ln "$dir/hard" "$dir/cron.d/hard"
mkfifo "$dir/cron.d/pipe"
start --system "$dir/cron.d"
logs '[|] from good$'
logs ' 1 jobs$'
logs 'writable: refused: others than its owner may write to it'
logs 'link: refused: it is a symbolic link'
logs 'hard: refused: it has 2 hard links'
logs 'pipe: refused: it is not a regular file'
chmod 644 "$dir/cron.d/writable"
printf '0 0 29 2 * %s true\n' "$me" >>"$dir/cron.d/good"
kill -HUP "$cron"
logs ' 3 jobs$'
logs 'refused' 7
# What is for the start is not run again.
never '[|] from bad'
stop INT

say "output that has no end, in bounded memory"
echo "@reboot head -c 300000000 /dev/zero | tr '\\000' x; echo; yes | head -c 300000000" \
    >"$dir/jobs"
start --user "$dir/jobs"
logs '[|] x{4096} \[299995904 bytes more\]$'
logs 'bytes of output beyond 1048576 are left out$'
logs 'ended with 0'
if [ -r "/proc/$cron/status" ]; then
    peak=$(awk '/^VmHWM/ { print $2 }' "/proc/$cron/status")
    echo "$peak KiB at most, and a log of $(wc -c <"$dir/log") bytes"
    [ "$peak" -lt 40000 ]
fi
stop TERM

say "a log that nobody reads for long"
mkfifo "$dir/unread"
# start_unread: runs $dir/jobs with a log that is read into $dir/log once $dir/read is there.
start_unread() {
    rm -f "$dir/read" "$dir/ran"*
    : >"$dir/log"
    (exec <"$dir/unread"; until [ -e "$dir/read" ]; do sleep 0.1; done; exec cat >"$dir/log") &
    reader=$!
    "$program" --zone UTC --user "$dir/jobs" >"$dir/unread" 2>&1 &
    cron=$!
}
# has FILE...: waits until these are in $dir.
has() {
    local file
    for file; do
        for _ in $(seq 600); do
            [ ! -e "$dir/$file" ] || break
            sleep 0.1
        done
        [ -e "$dir/$file" ] || { echo "no job made $file"; exit 1; }
    done
}
# More than waits for a reader, and than a pipe holds.
for number in $(seq 12); do
    echo "@reboot yes $number | head -c 1000000; echo >$dir/ran.$number"
done >"$dir/jobs"
start_unread
has ran.{1..12}
touch "$dir/read"
logs '^\[[0-9]+ lines are left out, as the log was not read\]$'
stop TERM
wait "$reader"
reader=

say "the end, with a log that nobody reads"
echo "@reboot trap 'echo >$dir/ran.asked; exit' TERM; echo >$dir/ran; sleep 1000 & wait" \
    >>"$dir/jobs"
start_unread
has ran ran.{1..12}
kill -TERM "$cron"
wait "$cron"
cron=
has ran.asked
touch "$dir/read"
wait "$reader"
reader=

"$program" --version | grep -E '^tourbillon-crontab [0-9.]+, time zones .+'

if [ "$(id -u)" != 0 ]; then
    not_checked "jobs as other users, files that others own, attacks on root's terminal" \
        "this is not root"
    exit 0
fi
if unshare -m true 2>/dev/null; then
    say "the machine's zone: a plain file, and a link that changes"
    echo '@daily true' >"$dir/jobs"
    cp -a /etc "$dir/etc"
    rm -f "$dir/etc/localtime"
    cp /usr/share/zoneinfo/Europe/Berlin "$dir/etc/localtime"
    # with_etc COMMAND...: runs it where that is /etc.
    with_etc() {
        exec env -u TZ unshare -m sh -c 'mount --bind "$0" /etc && exec "$@"' "$dir/etc" "$@"
    }
    if (with_etc "$program" --user "$dir/jobs") >"$dir/log" 2>&1; then
        echo "a machine's zone without a name is taken"
        exit 1
    fi
    logs '^/etc/localtime is no link to a time zone of the database: use --zone NAME$'
    ln -sf /usr/share/zoneinfo/Europe/Berlin "$dir/etc/localtime"
    (with_etc "$program" --user "$dir/jobs") >"$dir/log" 2>&1 &
    cron=$!
    logs ' CET times of Europe/Berlin, time zones | CEST times of Europe/Berlin, time zones '
    ln -sf /usr/share/zoneinfo/Asia/Tokyo "$dir/etc/localtime"
    kill -HUP "$cron"
    logs ' JST times of Asia/Tokyo, time zones '
    cp --remove-destination /usr/share/zoneinfo/Europe/Berlin "$dir/etc/localtime"
    kill -HUP "$cron"
    logs ' JST /etc/localtime is no link to a time zone of the database: Asia/Tokyo stays in force$'
    stop TERM
    unshare -m sh -c 'mount -t tmpfs none /usr/share/zoneinfo && exec "$@"' sh \
        "$program" --zone UTC --next 1 --user "$dir/jobs" | grep ' 00:00:00 UTC '
else
    not_checked "the machine's zone" "this may not mount"
fi

say "jobs of other users, and files that they own"
rm -r "$dir/cron.d/"*
echo "@reboot nobody id -un; id -Gn; pwd; echo \$HOME \$LOGNAME; id -un >/etc/crontab.tried" \
    >"$dir/cron.d/job"
echo "@reboot root echo from theirs" >"$dir/cron.d/theirs"
chown nobody "$dir/cron.d/theirs"
start --system "$dir/cron.d"
logs "theirs: refused: its owner is user $(id -u nobody), which is neither root nor user 0"
home=$(getent passwd nobody | cut -d: -f6)
if [ ! -d "$home" ]; then
    logs "HOME of nobody, which is $home, cannot be entered .*; it runs in /\$"
    logs '[|] /$'
fi
logs '[|] nobody$'
logs "[|] $(id -gn nobody)\$"
logs "[|] $home nobody\$"
logs '[|] .*crontab.tried.*denied'
logs 'ended with [12]'
never 'from theirs'
stop TERM
# as USER COMMAND...: becomes that command, as that user, without the rights of root.
as() {
    exec setpriv --reuid "$1" --regid "$(id -g nobody)" --clear-groups "${@:2}"
}

say "attacks of another user's job on root's terminal, and Ctrl-C there"
# Prints what was done and what was refused.
cat >"$dir/attack" <<'END'
use strict;
$| = 1;
my ($path, $parent) = @ARGV;
sub tried { printf "%s: %s\n", $_[0], $_[1] ? "done" : "refused, $!" }
# Types a line by TIOCSTI.
sub types {
    my $terminal = shift;
    for my $letter (split //, "typed\n") { ioctl($terminal, 0x5412, $letter) or return 0 }
    return 1;
}
tried("typing into $_->[0]", types($_->[1]))
    for ["input", \*STDIN], ["output", \*STDOUT], ["errors", \*STDERR];
for my $file ("/dev/tty", $path, "/proc/$parent/fd/0", "/proc/$parent/fd/1") {
    my $opened = open(my $terminal, "+<", $file);
    tried("opening $file", $opened);
    tried("typing into $file", types($terminal)) if $opened;
}
tried("reading its environment", open(my $environment, "<", "/proc/$parent/environ"));
tried("sending $_", kill($_, $parent)) for "STOP", "TERM", "KILL";
print "\033]0;title\007\033[2J\033[6n\n";
print "all was tried\n";
END
cat >"$dir/on-terminal" <<'END'
trap : INT
tty >"$dir/tty"
# Without a session of its own, it has the terminal.
setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups \
    perl -e 'print "without: ", open(my $tty, "+<", "/dev/tty") ? "open\n" : "refused, $!\n"'
cat >"$dir/terminal.d/job" <<JOB
@reboot nobody perl $dir/attack $(cat "$dir/tty") \$PPID
@reboot nobody trap 'echo asked; exit' TERM; echo up; sleep 1000 & wait
JOB
"$program" --zone UTC --system "$dir/terminal.d"
echo "it ended with $?"
IFS= read -r -t 1 line
echo "then came: [$line]"
END
mkdir "$dir/terminal.d"
mkfifo "$dir/keys"
exec 9<>"$dir/keys"
: >"$dir/log"
export dir program
script -qefc "bash $dir/on-terminal" "$dir/log" <&9 >/dev/null &
cron=$!
logs 'all was tried'
logs '[|] up'
# Ctrl-C.
printf '\003' >&9
logs '[|] asked'
logs 'it ended with 0'
logs 'then came: '
wait "$cron"
cron=
exec 9>&-
logs 'without: open'
logs '[|] (typing|opening|reading|sending) .*: refused, ' 11
never '[|] .*: done'
logs '[|] opening /dev/tty: refused, No such device or address'
logs 'then came: \[\]'
# What the terminal itself shows for Ctrl-C is `^C`.
[ "$(tr -cd '\000-\010\016-\037\177' <"$dir/log" | wc -c)" = 0 ]

# Read by one who is not root, root's files are as good as one's own; jobs of others do not run.
chmod 755 "$dir" "$dir/cron.d"
echo '@reboot root echo as root' >"$dir/cron.d/root"
cp "$program" "$dir/crontab"
: >"$dir/log"
as nobody "$dir/crontab" --zone UTC --system "$dir/cron.d" >"$dir/log" 2>&1 &
cron=$!
logs '[|] nobody$'
logs 'root:1: did not run: .*root.*not permitted'
never 'as root$'
kill "$cron"
wait "$cron"
# One whom /etc/passwd does not have is known by the environment.
echo '@reboot echo $LOGNAME in $HOME; pwd' >"$dir/jobs"
: >"$dir/log"
LOGNAME=someone HOME=/usr as 54321 "$dir/crontab" --zone UTC --user "$dir/jobs" >"$dir/log" 2>&1 &
cron=$!
logs '[|] someone in /usr$'
logs '[|] /usr$'
kill "$cron"
wait "$cron"
cron=
