# Sourced by the other scripts: where we are, and what they share.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The crates that stand on the library, tested and linted with it.
crates=(--package tourbillon-compat-tokio --package tourbillon-cron --package tourbillon-crontab
    --package tourbillon-http-limits --package tourbillon-metrics --package tourbillon-tokio
    --package tourbillon-tower)

# Crates for components, which run in a host alone (`ci/wasi.sh`). Their minimum Rust is another.
components=(--package tourbillon-wasip3 --package tourbillon-wstd)

# What all scripts build of durable timers and the service, so that each dependency is built once:
# its features are those that these packages need together, and their tests and examples.
durable=(--locked --all-features --package tourbillon-durable --package tourbillon-durable-harness
    --package tourbillond)

# build_durable PROGRAM: builds one of these. With an example, which has the features of tests.
build_durable() { cargo build --quiet "${durable[@]}" --bin "$1" --example durable_bills; }

say() { printf '\n== %s\n' "$*"; }

# not_checked WHAT WHY: says that WHAT cannot be checked here. By hand the script ends with 77,
# which is neither passed nor failed. `.ci/run` names a file to note it in, and continues.
not_checked() {
    echo "not checked: $1: $2"
    [ -n "${TOURBILLON_NOT_CHECKED:-}" ] || exit 77
    echo "$1" >>"$TOURBILLON_NOT_CHECKED"
}

# Lists what was noted. Fails if something is among it that ci/not-checked.txt does not have.
list_not_checked() {
    local new
    sort -u "$TOURBILLON_NOT_CHECKED"
    [ -r ci/not-checked.txt ]
    new=$(sort -u "$TOURBILLON_NOT_CHECKED" | grep -vxFf ci/not-checked.txt) || return 0
    printf 'not in ci/not-checked.txt:\n%s\n' "$new"
    return 1
}

# docs_of TARGET PAGE TEXT [FLAGS]: builds the docs for one of docs.rs's targets as docs.rs does, by
# the variables `toolchain` and `std`, and flags for rustdoc. Fails unless that page has the text.
docs_of() {
    sed -n '/metadata.docs.rs/,/^$/p' Cargo.toml | grep '^targets = ' | grep -qF "\"$1\""
    env "${toolchain[@]}" RUSTC_BOOTSTRAP=1 \
        RUSTDOCFLAGS="--cfg docsrs -D warnings ${*:4}" \
        cargo rustdoc --quiet --locked --lib --all-features "${std[@]}" --target "$1"
    grep -qF "$3" "$CARGO_TARGET_DIR/$1/doc/tourbillon/$2"
}

# source_of FOLDER NAME VERSION: where the registry's copy of a package lies, by way of a package
# in FOLDER.
source_of() {
    local fetch=$1/fetch/$2
    mkdir -p "$fetch"
    cat >"$fetch/Cargo.toml" <<TOML
[package]
name = "fetch"
edition = "2024"
[lib]
path = "lib.rs"
[dependencies]
$2 = "=$3"
[workspace]
TOML
    touch "$fetch/lib.rs"
    cargo metadata --quiet --format-version 1 --manifest-path "$fetch/Cargo.toml" |
        grep -oE '"manifest_path":"[^"]*/'"$2-$3"'/Cargo.toml"' | head -n 1 |
        sed 's/^"manifest_path":"//; s/\/Cargo.toml"$//'
}

# need_cargo_tool NAME: a cargo subcommand. It is not installed unasked.
need_cargo_tool() {
    cargo "${1#cargo-}" --version >/dev/null 2>&1 ||
        { not_checked "$1" "there is none: cargo install --locked $1"; exit; }
}

# installed FOLDER NAME VERSION [EXTRA]: has pip install that module there, unless it is there.
installed() {
    [ -d "$1/$2-$3.dist-info" ] ||
        python3 -m pip install --quiet --upgrade --target "$1" "$2${4:+[$4]}==$3"
}

# limit_runs SECONDS: programs that cargo runs on this machine from now on have that long to end.
limit_runs() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)
    export "CARGO_TARGET_${host}_RUNNER=$PWD/ci/limited.sh $1"
}

# some_tests COMMAND...: runs tests with that command. Fails as well if there was none to run, as a
# name that matches nothing passes.
some_tests() {
    local log status=0
    log=$(mktemp)
    "$@" 2>&1 | tee "$log" || status=$?
    if [ "$status" = 0 ] && ! grep -q '^test result: ok\. [1-9]' "$log"; then
        echo "no test was run: $*"
        status=1
    fi
    rm "$log"
    return "$status"
}

# linted COMMAND...: cargo builds our crates by clippy there, which is a compiler, and fails by its
# lints. A build for the lints alone would read all that is used a second time.
linted() { RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings "$@"; }

# say_passed TARGET BY LOG: says how many tests have passed by a log, as docs/PLATFORMS.md has it.
# Fails if none has, or if a program that cargo ran, or that began tests, did not print how they
# ended.
say_passed() {
    awk -v target="$1" -v by="$2" '
        /^ +Running / { programs++ }
        /^running [0-9]+ tests?$/ { begun++ }
        /^test result: ok/ { ended++; passed += $4 }
        END {
            said = passed + 0 " tests passed on " target ", by " by
            if (passed && ended >= begun && ended >= programs) { print said; exit }
            print said "; " ended + 0 " of " (begun > programs ? begun : programs) + 0 \
                " programs said so" >"/dev/stderr"
            exit 1
        }' "$3"
}

# model_program TREE: builds the models of a tree, apart from its ordinary build, and prints the
# path of the program that has them.
model_program() (
    target=$PWD/target/loom
    cd "$1"
    RUSTFLAGS="--cfg tourbillon_model" CARGO_TARGET_DIR=$target \
        cargo test --quiet --no-run --profile loom --lib \
        --message-format json-render-diagnostics |
        sed -nE 's/.*"executable":"([^"]+)".*/\1/p'
)

# names_of PROGRAM: the names of the tests in it.
names_of() { "$1" --list | sed -n 's/: test$//p'; }

# run_models PROGRAM: runs the models whose names it reads, each in a process of its own, as a
# deadlock that loom finds while a guard is alive aborts the process; as many at a time as there are
# processors. Prints the log of each that fails. Fails then, and if there is no name.
run_models() {
    local names
    names=$(cat)
    [ -n "$names" ] || { echo "no model was run"; return 1; }
    xargs -P "$(nproc)" -I {} bash -c 'run_model "$@"' _ "$1" {} <<<"$names" || return
    printf '%s passed\n' "$(wc -l <<<"$names")"
}
run_model() {
    local log status=0
    log=$("$1" --exact "$2" --nocapture 2>&1) || status=$?
    # A name that matches nothing passes, too.
    grep -q '^test result: ok\. 1 passed' <<<"$log" || status=${status/#0/1}
    if [ "$status" != 0 ] || [ -n "${TOURBILLON_UNBOUNDED:-}" ]; then
        printf '%s\n' "$log"
    fi
    printf '%5s s  %s%s\n' "$SECONDS" "$2" "$([ "$status" = 0 ] || echo ": FAILED, $status")"
    return "$status"
}
export -f run_model

# faulty_copy TREE LIST [FOLDER]: makes TREE a copy of the tracked files with all faults of the
# list, each as a choice at run time, so that one build has all. The faults are those of the crate
# in FOLDER, by default the core. Prints `NUMBER TAB CLASS TAB NAME` for each.
faulty_copy() {
    local crate=$1/${3:-.}
    rm -rf "$1" && mkdir -p "$1"
    git ls-files -z | tar --null -T - -c | tar -x -C "$1"
    awk -v tree="$1" -f ci/mutants/apply.awk "$2" || return
    cat >"$crate/src/mutant.rs" <<'END'
//! Which fault is to be shown.

/// Whether it is this one.
pub(crate) fn is(number: u32) -> bool {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    // No lock: a child that is forked while another thread looks would wait for that.
    const UNKNOWN: u32 = u32::MAX;
    static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
    if CHOSEN.load(Relaxed) == UNKNOWN {
        CHOSEN.store(chosen(), Relaxed);
    }
    note(number);
    CHOSEN.load(Relaxed) == number
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
fn chosen() -> u32 {
    let to = std::env::var_os("TOURBILLON_REACHED");
    if let Some(file) = to.and_then(|to| std::fs::OpenOptions::new().append(true).open(to).ok()) {
        let _ = REACHED.set(file);
    }
    std::env::var("TOURBILLON_MUTANT").map_or(0, |name| name.parse().unwrap())
}

static REACHED: std::sync::OnceLock<std::fs::File> = std::sync::OnceLock::new();

/// Appends the number to the file that TOURBILLON_REACHED names, once. Allocates nothing.
fn note(number: u32) {
    use std::{io::Write, sync::atomic::{AtomicBool, Ordering::Relaxed}};

    static NOTED: [AtomicBool; 1000] = [const { AtomicBool::new(false) }; 1000];
    let Some(mut file) = REACHED.get() else { return };
    if !NOTED[number as usize].swap(true, Relaxed) {
        let mut line = [0; 8];
        let mut rest = &mut line[..];
        writeln!(rest, "{number}").unwrap();
        let left = rest.len();
        let _ = file.write_all(&line[..line.len() - left]);
    }
}

/// A browser has no environment: there it is what the browser says that it is.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
fn chosen() -> u32 {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen]
    extern "C" {
        fn eval(code: &str) -> JsValue;
    }
    let name = eval("globalThis.process ? process.env.TOURBILLON_MUTANT : navigator.userAgent");
    name.as_string().and_then(|name| name.parse().ok()).unwrap_or(0)
}
END
    echo "mod mutant;" >>"$crate/src/lib.rs"
    # That crate alone, since the others depend on its version.
    sed -i "/^members = \[/,/^\]/c members = [${3:+\"$3\"}]" "$1/Cargo.toml"
    # Of a version with another build, so that cargo keeps the builds apart, and those of
    # dependencies together.
    sed -i '0,/^version = "\(.*\)"/s//version = "\1+faulty"/' "$crate/Cargo.toml"
}
