#!/usr/bin/env bash
# Runs the tests and examples of platforms/bare/ on Cortex-M processors that qemu emulates, and
# weighs a program that sleeps. Time there is the number of instructions, so that each run is the
# same.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

shown=$(awk '/^```/ { shown = /^```rust/; next } shown' docs/PLATFORMS.md)
diff <(printf '%s\n' "$shown") platforms/bare/src/example.rs

command -v qemu-system-arm >/dev/null || need_packages "timers without std" qemu-system-arm

export CARGO_TARGET_DIR=$PWD/target/bare
sysroot=$(rustc --print sysroot)

# Bytes of flash that a sleep may add to a program.
FLASH_MAX=14080

# Bytes that a program takes in flash.
size_of() {
    local sum=0 size
    for size in $(readelf -lW "$1" | awk '$1 == "LOAD" { print $5 }'); do
        sum=$((sum + size))
    done
    echo "$sum"
}

# Builds a program without a sleep and with one by the variables of `run`, and compares them.
weigh() {
    local features sizes=() added
    for features in "" timer; do
        env "${toolchain[@]}" RUSTFLAGS="-D warnings" \
            cargo build --quiet --locked --profile bundle --features "$features" \
            --manifest-path platforms/bare/Cargo.toml "${std[@]}" --target "$target" --bin flash
        sizes+=("$(size_of "$CARGO_TARGET_DIR/$target/bundle/flash")")
    done
    added=$((sizes[1] - sizes[0]))
    echo "a sleep adds $added bytes of flash"
    [ "$added" -le $FLASH_MAX ] || { echo "more than $FLASH_MAX"; exit 1; }
}

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
    [ "$2" != cortex-m4 ] || weigh
}

run thumbv7em-none-eabihf cortex-m4 mps2-an386 tests example small embassy
# Code for a processor without an atomic compare-and-swap, on one that has it.
run thumbv6m-none-eabi cortex-m3 mps2-an385 tests
