#!/usr/bin/env bash
# The tests, and a short stress, under the address, leak and thread sanitizers or those named.
# The first two need a nightly toolchain. The last needs a std built for it, as it takes what std
# puts in order for races otherwise: a nightly with rust-src, or else Debian's rustc and source of
# std. Installs nothing.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
export RUSTUP_AUTO_INSTALL=0
target=x86_64-unknown-linux-gnu
dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")/sanitize
mkdir -p "$dir"

# Debian's rustc and source of std, with the sanitizer's runtime, which Debian leaves out. That
# comes from a toolchain with the same LLVM.
unpack_sanitized_rust() {
    local llvm libraries=$debian/source/usr/lib/rustlib/$target/lib
    unpack_rust source "" rust-web-src || return
    llvm=$(env "${rust[@]}" "$debian/source/usr/bin/rustc" -vV | grep -o '^LLVM version: [0-9]*')
    for toolchain in stable nightly; do
        if rustc "+$toolchain" -vV 2>/dev/null | grep -q "^$llvm\."; then
            cp "$(rustc "+$toolchain" --print target-libdir)"/librustc-*_rt.tsan.a \
                "$libraries/librustc-stable_rt.tsan.a"
            return
        fi
    done
    return 1
}

# Sets `cargo` and `environment` to what builds with a sanitizer; fails if nothing does.
choose_toolchain() {
    cargo=(cargo +nightly test)
    environment=("RUSTFLAGS=-Zsanitizer=$1" "CARGO_TARGET_DIR=$dir/$1")
    local sysroot
    sysroot=$(rustc +nightly --print sysroot 2>/dev/null) || sysroot=
    if [ "$1" != thread ]; then
        [ -n "$sysroot" ]
        return
    fi
    if [ ! -d "$sysroot/lib/rustlib/src/rust/library" ]; then
        unpack_sanitized_rust || return
        cargo=(cargo test)
        environment+=("${rust[@]}" RUSTC_BOOTSTRAP=1)
    fi
    cargo+=(-Zbuild-std)
}

# Tests that a sanitizer cannot run.
choose_skipped() {
    # They preload a clock into a child process, where the sanitizer asks for the time before that
    # can answer.
    skipped=(
        system_clock::
        # The sanitizer reports it in its own way.
        a_stack_that_overflows_in_a_callback_is_reported
    )
    case $1 in
    leak)
        skipped+=(
            # They forget a sleep, and a hold, and with it what they share.
            a_sleep_that_is_forgotten_fires_and_harms_nobody
            what_is_woken_runs_while_the_clock_is_held_for_good
            # It is called for ever, and holds its timer.
            a_drop_cancels_and_a_detached_callback_goes_on
            # What it panics with keeps a waker.
            a_waker_that_panics_in_wake_harms_no_other_timer
        ) ;;
    thread)
        skipped+=(
            # Its fake notices are written to a file descriptor that their reader closes.
            where_nobody_tells_of_steps_the_clock_is_looked_at_every_half_minute
        ) ;;
    esac
}

sanitized() {
    # Leaks are left to the leak sanitizer. What foreign code panicked with is leaked on purpose, as
    # dropping it would be foreign code once more. Children of a process with threads start threads.
    echo leak:panic_with_hook >"$dir/suppressions"
    some_tests env "${environment[@]}" \
        ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1 \
        LSAN_OPTIONS="suppressions=$dir/suppressions" TSAN_OPTIONS=die_after_fork=0 \
        "${cargo[@]}" --quiet --target "$target" "$@"
}

[ $# -gt 0 ] || set -- address leak thread
limit_runs 1800
missing=
for sanitizer; do
    say "$sanitizer"
    if ! choose_toolchain "$sanitizer"; then
        missing+=" $sanitizer"
        continue
    fi
    choose_skipped "$sanitizer"
    sanitized --lib --test it -- "${skipped[@]/#/--skip=}"
    TOURBILLON_STRESS_SECONDS=2 TOURBILLON_STRESS_TIMERS=400000 \
        sanitized --test stress -- --ignored --nocapture
    TOURBILLON_STORMS=200 sanitized --test it -- storms_of_hostile_code
done
[ -z "$missing" ] || not_checked "sanitizers:$missing" "there is no toolchain for them here"
