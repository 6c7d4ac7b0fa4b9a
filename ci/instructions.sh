#!/usr/bin/env bash
# Counts the instructions of the hot paths and compares them with those kept in
# benches/instructions.txt: fails if one has got dearer by 5 %. Where valgrind is missing it unpacks
# Debian's package privately; says so and passes where neither is to be had. With `--renew` it keeps
# today's counts.
. "$(dirname "$0")/lib.sh"

dir=$PWD/target/valgrind
if ! command -v valgrind >/dev/null; then
    if [ ! -x "$dir/usr/bin/valgrind" ] && command -v apt-get dpkg >/dev/null; then
        mkdir -p "$dir/deb"
        (
            cd "$dir/deb"
            apt-get update -qq || true
            apt-get download -qq valgrind && dpkg -x valgrind_*.deb "$dir"
        ) >/dev/null 2>&1 || true
    fi
    if [ ! -x "$dir/usr/bin/valgrind" ]; then
        echo "not checked: no valgrind is to be had here"
        exit 0
    fi
    export PATH=$dir/usr/bin:$PATH VALGRIND_LIB=$dir/usr/libexec/valgrind
fi
valgrind --version
cargo bench --quiet --bench instructions -- "$@"
