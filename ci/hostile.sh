#!/usr/bin/env bash
# Storms of hostile foreign code (tests/it/hostile.rs), more than the tests have: 2,000 of each
# kind, or as many as the first argument says; then a fiftieth of that under valgrind, which reports
# memory that is used after it was freed, or before it was written; and a plain driver's life. In
# between half as many rounds of forks (tests/it/fork/storm.rs), and a library with a driver is
# loaded and unloaded, a thousand times.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
count=${1:-2000}

# storms COUNT: so many of each kind.
storms() {
    for kind in of_a_virtual_clock that_is_turned_by_hand with_a_thread; do
        TOURBILLON_ALONE=1 TOURBILLON_STORMS=$1 some_tests cargo test --quiet --all-features \
            --test it -- --exact --nocapture "hostile::storms_of_hostile_code_harm_no_timer_$kind"
    done
}

say "$count storms of each kind"
storms "$count"

say "$((count / 2)) rounds of forks"
TOURBILLON_ALONE=1 TOURBILLON_FORKS=$((count / 2)) some_tests cargo test --quiet --all-features \
    --test it -- --exact --nocapture fork::storm::children_forked_in_a_storm_have_timers

say "a library that is loaded and unloaded"
cargo rustc --quiet --example plugin --crate-type cdylib
TOURBILLON_PLUGIN=$PWD/target/debug/examples/libplugin.so \
    some_tests cargo test --quiet --all-features --test it -- \
    --ignored --exact end_driver::a_library_that_ends_its_driver_can_be_unloaded

if ! find_valgrind; then
    not_checked "storms under valgrind" "there is none here"
    exit
fi
few=$((count < 50 ? 1 : count / 50))
say "$few storms of each kind under $(valgrind --version)"
host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
export "CARGO_TARGET_${host}_RUNNER=valgrind --quiet --error-exitcode=9"
some_tests cargo test --quiet --all-features --test it -- \
    --exact process::the_thread_starts_with_the_first_armed_sleep_and_ends_with_the_last
storms "$few"
