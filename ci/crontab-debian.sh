#!/usr/bin/env bash
# Runs the same jobs under Debian's cron and under tourbillon-crontab, and holds both to the table
# in crates/crontab/src/main.rs, row by row. Each runs on a terminal, and with much that a job must
# not see, in a mount namespace where /etc, /run and /var/spool are others.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
shopt -s extglob

what="jobs as Debian's cron runs them"
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
    not_checked "$what" "this is not root, or may not mount"
    exit
fi
if ! command -v script >/dev/null || ! unpack cron cron; then
    not_checked "$what" "Debian's cron cannot be had here"
    exit
fi
debian_cron=$debian/cron/usr/sbin/cron
example=$PWD/target/debug/tourbillon-crontab
cargo rustc --quiet --package tourbillon-crontab --bin tourbillon-crontab -- -C opt-level=3

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"

# row NAME DEBIAN HERE TEXT: a file with TEXT. Its job writes to $OUT/NAME, its lines parted by
# spaces, what the pattern DEBIAN matches under Debian's cron, and HERE under the program here: `-`
# for nothing at all, `=` for the same as under Debian's cron.
names=() of_debian=() of_example=() texts=()
row() {
    names+=("$1") of_debian+=("$2") of_example+=("$3") texts+=("$4")
}

row session-own 'leads, terminal 0' = \
    '@reboot probe read -r p c s pp g i t x </proc/$$/stat; [ $$ = $g ] &&'\
' [ $$ = $i ] && echo leads, terminal $t >$OUT/session-own'
row session-terminal '*No such device or address' = \
    '@reboot probe (: </dev/tty) 2>$OUT/session-terminal'
row groups-user '64321 64321 64321 64322' = \
    '@reboot probe (id -u; id -g; id -G) >$OUT/groups-user'
row groups-root '0 64323' = \
    '@reboot root id -G >$OUT/groups-root'
row groups-saved '*64321*64321*64321*64321*' = \
    '@reboot probe grep Uid /proc/self/status >$OUT/groups-saved'
row environment-all 'HOME=/usr LOGNAME=probe PATH=/usr/bin:/bin PWD=/usr SHELL=/bin/sh' = \
    '@reboot probe env | grep -Ev "^(OUT|FROM_PAM)=" | sort >$OUT/environment-all'
row environment-set '/ /bin/bash me probe /bin' = \
    'HOME=/
SHELL=/bin/bash
USER=me
LOGNAME=root
PATH=/bin
@reboot probe echo $HOME $SHELL $USER $LOGNAME $PATH >$OUT/environment-set'
row environment-home /usr = \
    '@reboot probe pwd >$OUT/environment-home'
row environment-homeless /var/spool/cron / \
    'HOME=/nonexistent
@reboot probe pwd >$OUT/environment-homeless'
row environment-pam '\[1\]' '\[\]' \
    '@reboot probe echo "[$FROM_PAM]" >$OUT/environment-pam'
row limits-started "1234 1234 $(nice -n 3 nice)" = \
    '@reboot probe (ulimit -n; ulimit -Hn; nice) >$OUT/limits-started'
row limits-all '*cpu time*' = \
    '@reboot probe grep -v processes /proc/self/limits >$OUT/limits-all'
row limits-pam 4321 '!(4321)' \
    "@reboot probe awk '/processes/ { print \$3 }' /proc/self/limits >\$OUT/limits-pam"
row limits-umask 0027 0022 \
    '@reboot probe umask >$OUT/limits-umask'
row descriptors-input 0 = \
    '@reboot probe wc -c >$OUT/descriptors-input'
row descriptors-percent 'a b' = \
    '@reboot probe cat >$OUT/descriptors-percent%a%b'
row descriptors-others passed closed \
    '@reboot probe if [ -e /proc/$$/fd/7 ]; then echo passed; else'\
' echo closed; fi >$OUT/descriptors-others'
row output-one one = \
    '@reboot probe [ /proc/$$/fd/1 -ef /proc/$$/fd/2 ] && echo one >$OUT/output-one'
row output-behind 0 = \
    '@reboot probe (sleep 1; echo late; echo $? >$OUT/output-behind) &'
row output-much 0 = \
    '@reboot probe yes | head -c 3000000; echo $? >$OUT/output-much'
row signals-ignored 'survived 0' 138 \
    "@reboot probe (sh -c 'kill -USR1 \$\$; echo survived'; echo \$?) >\$OUT/signals-ignored"
row signals-parent '*not permitted*' = \
    '@reboot probe kill -STOP $PPID 2>$OUT/signals-parent'
row signals-end stayed asked \
    "@reboot probe trap 'echo asked >\$OUT/signals-end; exit' TERM; "\
"until [ -e \$OUT/stopped ]; do sleep 0.1; done; echo stayed >\$OUT/signals-end"
row format-end-job - = \
    '@reboot probe touch $OUT/format-end-job
@daily probe true\'
row format-end-variable - = \
    '@reboot probe touch $OUT/format-end-variable
A=1\'
row format-end-comment x = \
    '@reboot probe echo x >$OUT/format-end-comment
# the end\'
row format-end-blank x = \
    '@reboot probe echo x >$OUT/format-end-blank
 	\'
row format-backslash 'X=a\\b\\\\c\\d 1%2' = \
    "@reboot probe X='a\\\\b\\\\\\\\c\\d 1\\%2' env | grep ^X= >\$OUT/format-backslash"
row format-input '\\%a\\x \\\\%b' = \
    '@reboot probe cat >$OUT/format-input%\\%a\x%\\\%b'
row format-fault - = \
    '@reboot probe touch $OUT/format-fault
61 * * * * probe true'
row format-never x = \
    '@reboot probe echo x >$OUT/format-never
0 0 31 2 * probe true
0 22-6 * * * probe true'
row format-user - x \
    '@reboot probe echo x >$OUT/format-user
@reboot no-such-user true'
row format-case - x \
    '@Reboot probe echo x >$OUT/format-case'
row format-return - x \
    $'@reboot probe echo x >$OUT/format-return\r'
row format-empty - x \
    'A=
@reboot probe echo x >$OUT/format-empty'
row format-long - x \
    "@reboot probe : $(printf '%01000d' 0); echo x >\$OUT/format-long"
row files-name - = \
    '@reboot probe touch $OUT/files-name'
row files-mode - = \
    '@reboot probe touch $OUT/files-mode'
row files-owner - = \
    '@reboot probe touch $OUT/files-owner'
row files-linked - = \
    '@reboot probe touch $OUT/files-linked'
row files-symlink x - \
    '@reboot probe echo x >$OUT/files-symlink'

# The table has these rows and no others.
listed=$(sed -n 's/^\/\/! | `\([a-z-]*\)` |.*/\1/p' crates/crontab/src/main.rs | sort)
if ! diff <(printf '%s\n' "${names[@]}" | sort) <(printf '%s\n' "$listed"); then
    echo "crates/crontab/src/main.rs has other rows"
    exit 1
fi

say "an /etc with a user, and with what PAM reads"
cp -a /etc "$dir/etc"
cd "$dir"
rm -rf etc/cron.d etc/crontab
mkdir etc/cron.d
: >etc/crontab
: >etc/default/locale
echo 'FROM_PAM=1' >etc/environment
mkdir -p etc/security
echo 'probe - nproc 4321' >etc/security/limits.conf
cp "$debian/cron/etc/pam.d/cron" etc/pam.d/cron
echo 'probe:x:64321:64321::/usr:/bin/sh' >>etc/passwd
echo 'probe:*:19000:0:99999:7:::' >>etc/shadow
printf 'probe:x:64321:\nothers:x:64322:probe\nroots:x:64323:root\n' >>etc/group

# files OUT: the files of all rows, for jobs that write to OUT.
files() {
    local i end
    rm -rf etc/cron.d/* apart
    mkdir apart
    for i in "${!names[@]}"; do
        # A backslash at the end stands for a last line without its end.
        end=$'\n'
        [[ ${names[i]} != format-end-* ]] || end=
        printf 'OUT=%s\n%s%s' "$1" "${texts[i]%"${end:-\\}"}" "$end" >"etc/cron.d/${names[i]}"
    done
    chmod 644 etc/cron.d/*
    mv etc/cron.d/files-name etc/cron.d/files.name
    chmod 666 etc/cron.d/files-mode
    chown nobody etc/cron.d/files-owner
    mv etc/cron.d/files-symlink apart/symlink
    ln -s "$dir/apart/symlink" etc/cron.d/files-symlink
    ln etc/cron.d/files-linked apart/linked
}

# in_its_world OUT PROGRAM...: runs a program that starts jobs.
in_its_world() {
    mount --bind "$dir/etc" /etc
    mount -t tmpfs none /run
    mount -t tmpfs none /var/spool
    mkdir -p /var/spool/cron/crontabs
    ulimit -n 1234
    umask 027
    export FOO=1
    exec 7</etc/passwd
    trap '' INT USR1
    echo "$BASHPID" >"$1/pid"
    exec nice -n 3 setpriv --groups 0,7 "${@:2}"
}
export dir
export -f in_its_world

# as_expected OUT I PATTERN: whether the row is as the pattern has it.
as_expected() {
    if [ "$3" = - ]; then
        [ ! -e "$1/${names[$2]}" ]
    else
        local lines=()
        [ ! -e "$1/${names[$2]}" ] || mapfile -t lines <"$1/${names[$2]}"
        [[ ${#lines[@]} -gt 0 && ${lines[*]} == $3 ]]
    fi
}

# side NAME PROGRAM...: runs the jobs under a program, and compares. The patterns are in `patterns`.
side() {
    local out=$dir/$1 i left
    mkdir "$out"
    chmod 1777 "$out"
    files "$out"
    # By bash, as other shells pass no functions on.
    SHELL=$BASH script -qec \
        "unshare -m --propagation private bash -c 'in_its_world \"\$@\"' _ $out ${*:2}" \
        "$dir/$1.log" </dev/null >/dev/null &
    for _ in $(seq 60); do
        sleep 0.5
        left=0
        for i in "${!names[@]}"; do
            [ "${names[i]}" = signals-end ] || as_expected "$out" "$i" "${patterns[i]}" ||
                left=$((left + 1))
        done
        [ "$left" -gt 0 ] || break
    done
    # For what must not run.
    sleep 2
    kill -TERM "$(cat "$out/pid")"
    # cron ends by the signal.
    wait $! || true
    touch "$out/stopped"
    for _ in $(seq 100); do
        [ ! -e "$out/signals-end" ] || break
        sleep 0.1
    done
    sleep 0.2
    for i in "${!names[@]}"; do
        as_expected "$out" "$i" "${patterns[i]}" || {
            echo "$1: ${names[i]}: not ${patterns[i]}, but:"
            cat "$out/${names[i]}" || true
            failed=yes
        }
    done
}

failed=
say "Debian's cron"
patterns=("${of_debian[@]}")
side debian "$debian_cron" -f
say "tourbillon-crontab"
for i in "${!names[@]}"; do
    [ "${of_example[i]}" != = ] || {
        patterns[i]=${of_debian[i]}
        of_example[i]=${of_debian[i]}
    }
    patterns[i]=${of_example[i]}
done
side example "$example" --zone UTC --system /etc/cron.d
diff "$dir/debian/limits-all" "$dir/example/limits-all" || failed=yes
[ -z "$failed" ] || { cut -c 1-200 "$dir/example.log" | tail -n 50; exit 1; }
echo "${#names[@]} rows"
