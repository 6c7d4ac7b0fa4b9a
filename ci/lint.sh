#!/usr/bin/env bash
# Formatting, documentation, the rules of CONTRIBUTING.md that a script can check, and the lints of
# crates that no other check builds: the others lint what they build.
#
#   ci/lint.sh            what a change has to pass
#   ci/lint.sh nightly    lints of the benches and of other people's crates over ours, and the
#                         documentation without features, and without what is private
. "$(dirname "$0")/lib.sh"
export RUSTDOCFLAGS="-D warnings"
case ${1:-} in
nightly)
    cargo clippy --quiet --all-targets --package tourbillon-benches --package 'consumer-*' -- \
        -D warnings
    cargo clippy --quiet --all-targets --manifest-path integration/dependents/Cargo.toml \
        --target-dir target/dependents/target -- -D warnings
    cargo clippy --quiet --all-targets --manifest-path integration/recipes/Cargo.toml \
        --target-dir target/recipes -- -D warnings
    cargo doc --quiet --no-deps
    cargo doc --quiet --no-deps --document-private-items
    exit
    ;;
esac
cargo fmt --check --all
others=(platforms platforms/web/compare integration/{dependents,peers,recipes})
for workspace in "${others[@]}"; do
    cargo fmt --check --all --manifest-path $workspace/Cargo.toml
done
# What the other workspaces lock follows the library's dependencies.
for workspace in . fuzz "${others[@]}"; do
    cargo metadata --locked --format-version 1 --manifest-path $workspace/Cargo.toml >/dev/null
done
cargo clippy --quiet --all-targets --all-features "${components[@]}" -- -D warnings
cargo clippy --quiet --all-targets --manifest-path crates/futures-timer/Cargo.toml -- -D warnings
cargo doc --quiet --no-deps --document-private-items --all-features --package tourbillon \
    "${crates[@]}" "${components[@]}"
# placed LIST [FOLDER]: each fault has its place in today's text. Others build these copies.
placed() { faulty_copy target/faults "ci/mutants/$1" "${2:-.}" >/dev/null; }
# build LIST [FOLDER]: their copy builds, too. But for this, `ci/mutants.sh` alone builds it.
build() (
    placed "$@"
    export CARGO_TARGET_DIR=$PWD/target
    cd "target/faults/${2:-.}"
    cargo rustc --quiet --lib --all-features --profile check -- --cap-lints allow
)
for list in canaries web; do placed $list; done
for list in durable-canaries durable-replication; do placed $list crates/durable; done
build list
for crate in compat-tokio cron metrics tokio tower; do build $crate crates/$crate; done
# That the repository is tidy is one of these.
linted some_tests cargo test --quiet --release --package xtask
