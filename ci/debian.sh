# Sourced by scripts that do with Debian's packages where rustup's toolchains, or a tool, are
# missing. What can run from there is unpacked under target/debian. The rest (a browser, a database,
# emulators) is installed only where TOURBILLON_INSTALL allows it, as `.ci/run` does.
debian=$(realpath -m target/debian)

# alone COMMAND...: runs it while no other script installs or unpacks: in images for containers, an
# update of Debian's lists removes the packages that another is about to install. A server that a
# package starts does not keep the lock.
alone() {
    mkdir -p target
    (flock 8 && "$@" 8>&-) 8>"$debian.lock"
}

# need_packages WHAT PACKAGE...: installs the packages if that is allowed. Else WHAT is not checked,
# and the script ends.
need_packages() {
    local what=$1
    shift
    if [ -n "${TOURBILLON_INSTALL:-}" ]; then
        echo "installing Debian's $*" >&2
        alone apt-get update -qq >&2 || true
        ! DEBIAN_FRONTEND=noninteractive alone apt-get install -y -qq \
            --no-install-recommends "$@" >&2 || return 0
    fi
    not_checked "$what" "it needs Debian's $*; TOURBILLON_INSTALL=yes installs them"
    exit
}

# add_std TARGET: has rustup install its std of a target, where installing is allowed. Fails if that
# cannot be done.
add_std() {
    [ -n "${TOURBILLON_INSTALL:-}" ] && command -v rustup >/dev/null && alone rustup target add "$1"
}

# unpack NAME PACKAGE...: unpacks the packages into $debian/NAME, unless they are there. Fails where
# that cannot be done.
unpack() { alone unpack_now "$@" >/dev/null 2>&1; }
unpack_now() (
    dir=$debian/$1
    shift
    [ ! -e "$dir/complete" ] || exit 0
    { rm -rf "$dir" && mkdir -p "$dir/deb" && cd "$dir/deb"; } || exit
    apt-get update -qq || true
    apt-get download -qq "$@" || exit
    for package in *.deb; do
        dpkg -x "$package" "$dir" || exit
    done
    rm -r "$dir/deb" && touch "$dir/complete"
)

# unpack_rust NAME VERSION PACKAGE...: rustc, std, and the packages of the same source; the newest
# if the version is empty. Sets `rust` to the variables that have cargo use it.
unpack_rust() {
    local dir=$debian/$1 more=("${@:3}") full std llvm
    if [ ! -e "$dir/complete" ]; then
        command -v apt-get >/dev/null || return
        alone apt-get update -qq >/dev/null 2>&1 || true
        full=$(apt-cache madison rustc-web | awk '{ print $3 }' | grep "^$2" | sort -V |
            tail -n 1) || return
        std=libstd-rust-web-$(cut -d. -f1,2 <<<"$full")
        llvm=$(apt-cache show "$std=$full" | grep -o 'libllvm[0-9]*' | sort -u) || return
        more+=(rustc-web libstd-rust-web-dev "$std")
        unpack "$1" "$llvm" "${more[@]/%/=$full}" || return
    fi
    llvm=$(find "$dir" -name 'libLLVM*.so*' | head -n 1)
    rust=("RUSTC=$dir/usr/bin/rustc" "RUSTDOC=$dir/usr/bin/rustdoc"
        "LD_LIBRARY_PATH=${llvm%/*}:$(echo "$dir"/usr/lib/*-linux-gnu)")
}

# Makes valgrind callable. Fails if there is none.
find_valgrind() {
    local dir=$debian/valgrind
    ! command -v valgrind >/dev/null || return 0
    unpack valgrind valgrind || return
    export PATH=$dir/usr/bin:$PATH VALGRIND_LIB=$dir/usr/libexec/valgrind
}

# Sets `bin` to the folder of PostgreSQL's programs: PG_BIN, or else those of the newest version
# that is installed.
find_postgres() {
    local initdb
    bin=${PG_BIN:-}
    [ -z "$bin" ] || return 0
    find_initdb() {
        initdb=$(find /usr/lib/postgresql -name initdb 2>/dev/null | sort -V | tail -n 1)
        [ -n "$initdb" ] || initdb=$(command -v initdb)
    }
    if ! find_initdb; then
        need_packages "durable timers on PostgreSQL" postgresql
        find_initdb
    fi
    bin=$(dirname "$(readlink -f "$initdb")")
}
