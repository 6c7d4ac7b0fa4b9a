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
