#!/usr/bin/env bash
# Runs the tests of platforms/bare/, and the example that docs/PLATFORMS.md shows, on Cortex-M
# processors that qemu emulates. Time there is the number of instructions, so that each run is the
# same.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

shown=$(awk '/^```/ { shown = /^```rust/; next } shown' docs/PLATFORMS.md)
diff <(printf '%s\n' "$shown") platforms/bare/src/example.rs

command -v qemu-system-arm >/dev/null || need_packages "timers without std" qemu-system-arm

export CARGO_TARGET_DIR=$PWD/target/bare
sysroot=$(rustc --print sysroot)

# run TARGET PROCESSOR MACHINE PROGRAM...
run() {
    local target=$1 name toolchain=() std=()
    say "$target"
    name=$(tr a-z- A-Z_ <<<"$target")
    local runner="$PWD/ci/limited.sh 120 qemu-system-arm -cpu $2 -machine $3 -nographic"
    runner+=" -icount shift=4,sleep=off -semihosting-config enable=on,target=native -kernel"
    export "CARGO_TARGET_${name}_RUNNER=$runner"
    if [ ! -d "$sysroot/lib/rustlib/$target/lib" ]; then
        if ! unpack_rust source "" rust-web-src; then
            not_checked "timers without std" "neither rustup nor Debian has a core of $target here"
            return
        fi
        toolchain=("${rust[@]}" RUSTC_BOOTSTRAP=1
            "CARGO_TARGET_${name}_LINKER=$(find "$sysroot" -name rust-lld | head -n 1)")
        std=(-Zbuild-std=core,alloc)
    fi
    for program in "${@:4}"; do
        env "${toolchain[@]}" RUSTFLAGS="-D warnings" \
            cargo run --quiet --locked --profile bare --manifest-path platforms/bare/Cargo.toml \
            "${std[@]}" --target "$target" --bin "$program"
    done
}

run thumbv7em-none-eabihf cortex-m4 mps2-an386 tests example
# Code for a processor without an atomic compare-and-swap, on one that has it.
run thumbv6m-none-eabi cortex-m3 mps2-an385 tests
