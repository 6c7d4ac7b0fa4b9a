# Sourced by the other scripts: where we are, and what they share.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n== %s\n' "$*"; }

# not_checked WHAT WHY: says that WHAT cannot be checked here. By hand the script ends with 77,
# which is neither passed nor failed. `.ci/run` names a file to note it in, and goes on.
not_checked() {
    echo "not checked: $1: $2"
    [ -n "${TOURBILLON_NOT_CHECKED:-}" ] || exit 77
    echo "$1" >>"$TOURBILLON_NOT_CHECKED"
}

# Lists what was noted. Fails if something is among it that ci/not-checked.txt does not have.
list_not_checked() {
    local new
    sort -u "$TOURBILLON_NOT_CHECKED"
    new=$(sort -u "$TOURBILLON_NOT_CHECKED" | grep -vxFf ci/not-checked.txt) || return 0
    printf 'not in ci/not-checked.txt:\n%s\n' "$new"
    return 1
}

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
