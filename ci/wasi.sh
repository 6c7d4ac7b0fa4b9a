#!/usr/bin/env bash
# Runs in a wasmtime, for a preview of WASI: the library's tests but those for which there have to
# be threads, or panics that unwind; the tests of platforms/wasi/; and the example there.
#
#   ci/wasi.sh                 preview 1
#   ci/wasi.sh wasm32-wasip2   preview 2; rustup has a std of it, and Debian none
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
if [ ! -d "$sysroot/lib/rustlib/$target/lib" ]; then
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
