# Sourced by the other scripts: where we are, and what they share.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

# Installs a cargo subcommand from the registry unless it is there.
need_cargo_tool() {
    cargo "${1#cargo-}" --version >/dev/null 2>&1 || cargo install --locked --quiet "$1"
}

# Runs cargo nextest on the models. Their build is kept apart from the ordinary one.
models() {
    RUSTFLAGS="--cfg tourbillon_model" CARGO_TARGET_DIR=target/loom \
        cargo nextest run --cargo-profile loom --lib "$@"
}

# Makes valgrind callable, if need be by unpacking Debian's package privately. Fails if there is
# none.
find_valgrind() {
    local dir=$PWD/target/valgrind
    ! command -v valgrind >/dev/null || return 0
    if [ ! -x "$dir/usr/bin/valgrind" ] && command -v apt-get dpkg >/dev/null; then
        mkdir -p "$dir/deb"
        (
            cd "$dir/deb"
            apt-get update -qq || true
            apt-get download -qq valgrind && dpkg -x valgrind_*.deb "$dir"
        ) >/dev/null 2>&1 || true
    fi
    [ -x "$dir/usr/bin/valgrind" ] || return
    export PATH=$dir/usr/bin:$PATH VALGRIND_LIB=$dir/usr/libexec/valgrind
}
