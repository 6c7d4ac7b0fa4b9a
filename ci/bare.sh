#!/usr/bin/env bash
# Runs the tests and the examples of platforms/bare/ on Cortex-M and RISC-V processors that qemu
# emulates. Time there is the number of instructions, so that each run is the same.
#
#   ci/bare.sh            the tests and the examples, on the processors that have all atomic
#                         instructions, and none
#   ci/bare.sh nightly    those on one that lacks some as well, what they measure, beside
#                         embassy-time, what a program weighs that sleeps, and the documentation.
#                         Ends with the table of docs/PLATFORMS.md: what sixteen sleeps take, and
#                         what as many timers of embassy-time do over its own queue
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

is_nightly=
[ "${1:-}" != nightly ] || is_nightly=yes
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

# weigh BYTES: builds a program without a sleep, with one, and with a timer of embassy-time, by the
# variables of `run`, and sets `added` to what the latter two add. The sleep may add so many bytes.
weigh() {
    local features sizes=()
    for features in "" timer embassy; do
        env "${toolchain[@]}" RUSTFLAGS="-D warnings" \
            cargo build --quiet --locked --profile bundle --features "$features" \
            --manifest-path platforms/bare/Cargo.toml "${std[@]}" --target "$target" --bin flash
        sizes+=("$(size_of "$CARGO_TARGET_DIR/$target/bundle/flash")")
    done
    added=($((sizes[1] - sizes[0])) $((sizes[2] - sizes[0])))
    echo "a sleep adds ${added[0]} bytes of flash, a timer of embassy-time ${added[1]}"
    [ "${added[0]}" -le "$1" ] || { echo "more than $1"; exit 1; }
}

# tabulate: adds the rows of a target to the table, by what `run` has logged and `weigh` has set.
tabulate() {
    local of ram future turn idle busy wait flash
    [ "$(grep -c '^measured ' "$log")" = 2 ] || { echo "nothing was measured"; exit 1; }
    while read -r of ram future turn idle busy; do
        # Embassy's queue is turned while interrupts wait.
        wait=$busy flash=${added[1]}
        if [ "$of" = tourbillon ]; then
            wait="$(sed -n 's/^interrupts: up to \([0-9]*\) .*/\1/p' "$log"), with 2,000 sleeps"
            flash=${added[0]}
        fi
        table+="| $processor | $of | $ram + 16 x $future | $flash | $turn | $idle | $busy | "
        table+="$wait |"$'\n'
    done < <(sed -n 's/^measured //p' "$log")
}

table='| processor | timers | RAM for 16 | flash | idle turn | idle tick | tick with 16 due'
table+=$' | an interrupt waits |\n|---|---|---|---|---|---|---|---|\n'

# run PROCESSOR TARGET EMULATOR FLASH_MAX PROGRAM...
run() {
    local processor=$1 target=$2 flash_max=$4 name toolchain=() std=() added log
    say "$target"
    log=$CARGO_TARGET_DIR/$target.log
    name=$(tr a-z- A-Z_ <<<"$target")
    local emulator="qemu-system-$3 -nographic -icount shift=4,sleep=off -kernel"
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
    mkdir -p "$CARGO_TARGET_DIR" && : >"$log"
    for program in "${@:5}"; do
        env "${toolchain[@]}" RUSTFLAGS="-D warnings" \
            cargo run --quiet --locked --profile bare --manifest-path platforms/bare/Cargo.toml \
            "${std[@]}" --target "$target" --bin "$program" 2>&1 | tee -a "$log"
    done
    say_passed "$target" "$("${emulator%% *}" --version |
        sed -nE '1s/.* version ([^ ]+).*/qemu \1/p')" "$log"
    [ -n "$is_nightly" ] || return 0
    weigh "$flash_max"
    tabulate
    [ "$target" != thumbv7em-none-eabihf ] ||
        docs_of "$target" time/struct.Instant.html from_ticks -A rustdoc::broken-intra-doc-links
}

semihosting="-semihosting-config enable=on,target=native"
run "Cortex-M4" thumbv7em-none-eabihf "arm -cpu cortex-m4 -machine mps2-an386 $semihosting" 11900 \
    tests example small ${is_nightly:+embassy}
# Code for a processor without an atomic compare-and-swap, on one that has it.
[ -z "$is_nightly" ] ||
    run "Cortex-M0" thumbv6m-none-eabi "arm -cpu cortex-m3 -machine mps2-an385 $semihosting" 12700 \
        tests small
# A processor that has no atomic instructions.
run riscv32imc riscv32imc-unknown-none-elf \
    "riscv32 -cpu rv32,g=false,a=false,f=false,d=false -machine virt -bios none" 14300 tests small
if [ -n "$is_nightly" ]; then
    say "what it takes"
    printf '%s' "$table"
fi
