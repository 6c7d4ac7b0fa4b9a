#!/usr/bin/env bash
# Runs the tests and examples of platforms/bare/ on Cortex-M and RISC-V processors that qemu
# emulates, and weighs a program that sleeps. Time there is the number of instructions, so that each
# run is the same.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

shown=$(awk '/^```/ { shown = /^```rust/; next } shown' docs/PLATFORMS.md)
diff <(printf '%s\n' "$shown") platforms/bare/src/example.rs

{ command -v qemu-system-arm && command -v qemu-system-riscv32; } >/dev/null ||
    need_packages "timers without std" qemu-system-arm qemu-system-misc

export CARGO_TARGET_DIR=$PWD/target/bare
sysroot=$(rustc --print sysroot)

# Bytes that a program takes in flash.
size_of() {
    local sum=0 size
    for size in $(readelf -lW "$1" | awk '$1 == "LOAD" { print $5 }'); do
        sum=$((sum + size))
    done
    echo "$sum"
}

# weigh BYTES: builds a program without a sleep and with one by the variables of `run`, and compares
# them. The sleep may add so many bytes.
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
    [ "$added" -le "$1" ] || { echo "more than $1"; exit 1; }
}

# run TARGET EMULATOR FLASH_MAX PROGRAM...: weighs nothing if FLASH_MAX is empty.
run() {
    local target=$1 flash_max=$3 name toolchain=() std=()
    say "$target"
    name=$(tr a-z- A-Z_ <<<"$target")
    local emulator="qemu-system-$2 -nographic -icount shift=4,sleep=off -kernel"
    export "CARGO_TARGET_${name}_RUNNER=$PWD/ci/limited.sh 120 $emulator"
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
    [ -z "$flash_max" ] || weigh "$flash_max"
    [ "$target" != thumbv7em-none-eabihf ] ||
        docs_of "$target" time/struct.Instant.html from_ticks -A rustdoc::broken-intra-doc-links
}

semihosting="-semihosting-config enable=on,target=native"
run thumbv7em-none-eabihf "arm -cpu cortex-m4 -machine mps2-an386 $semihosting" 12300 \
    tests example small embassy
# Code for a processor without an atomic compare-and-swap, on one that has it.
run thumbv6m-none-eabi "arm -cpu cortex-m3 -machine mps2-an385 $semihosting" "" tests
# A processor that has no atomic instructions.
run riscv32imc-unknown-none-elf \
    "riscv32 -cpu rv32,g=false,a=false,f=false,d=false -machine virt -bios none" 13950 tests small
