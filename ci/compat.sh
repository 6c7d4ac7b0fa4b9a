#!/usr/bin/env bash
# The timer tests of tokio, tokio-util and tokio-stream over crates/compat-tokio: those in their
# published packages, with that crate in place of theirs, each test in a process of its own, in
# which the global timer is in the time of the test's runtime. What does not pass is listed at the
# end of this file with its reason; a test of that list that passes fails this check too.
. "$(dirname "$0")/lib.sh"
root=$PWD
work=$root/target/compat
tests=$work/tests
tokio=1.54.1 util=0.7.20 stream=0.1.19

rm -rf "$tests"
mkdir -p "$tests/tests/support" "$tests/src"
cat >"$tests/Cargo.toml" <<TOML
[package]
name = "compat"
edition = "2021"
[lib]
test = false
doctest = false
[features]
default = ["full", "io-util", "rt-multi-thread", "sync", "test-util", "time"]
full = []
io-util = []
rt-multi-thread = []
sync = []
test-util = []
time = []
[dependencies]
futures = "0.3"
tokio = { version = "=$tokio", features = ["full", "test-util"] }
tokio-test = "0.4"
tourbillon = { path = "$root" }
tourbillon-compat-tokio = { path = "$root/crates/compat-tokio" }
tourbillon-tokio = { path = "$root/crates/tokio" }
[lints.rust]
unexpected_cfgs = "allow"
[workspace]
TOML
# tokio has what moves its time, and nothing else of time is tokio's.
cat >"$tests/src/lib.rs" <<'RUST'
pub mod time {
    pub use tokio::time::{advance, pause, resume};
    pub use tourbillon_compat_tokio::time::*;
}

pub fn begin() {
    tourbillon::Timer::set_global(tourbillon_tokio::timer()).expect("nothing has slept yet");
}
RUST

# take NAME VERSION FILE...: copies tests, with the names of ours.
take() {
    local from file streams
    # tokio-test turns on the adapters of tokio-stream, which have the same names.
    streams='use futures::StreamExt as _; use tourbillon_compat_tokio::stream::StreamExt as _;'
    from=$(source_of "$work" "$1" "$2")
    [ -n "$from" ] || { echo "no $1 $2 in the registry"; exit 1; }
    for file in "${@:3}"; do
        sed -E "
            s/\btokio::time\b/compat::time/g
            s/\btokio_util::time\b/tourbillon_compat_tokio::util::time/g
            s/use tokio_stream::\{self as stream, StreamExt\};/use futures::stream; $streams/
            s/use tokio_stream::StreamExt;/$streams/
            /^#\[tokio::test/,/^async fn/ s/^(async fn .*\{)\$/\1 compat::begin();/
        " "$from/tests/$file.rs" >"$tests/tests/$file.rs"
    done
}
take tokio $tokio support/panic time_sleep time_interval time_timeout time_rt time_panic
take tokio-util $util time_delay_queue
take tokio-stream $stream chunks_timeout stream_chunks_timeout stream_timeout time_throttle
! grep -nE 'tokio::time|tokio_util|tokio_stream::' "$tests"/tests/*.rs ||
    { echo "a name is still theirs"; exit 1; }

cd "$tests"
export CARGO_TARGET_DIR=$work/target
cargo tree --quiet --depth 1
mapfile -t programs < <(cargo test --quiet --no-run --tests \
    --message-format json-render-diagnostics | sed -nE 's/.*"executable":"([^"]+)".*/\1/p')
[ ${#programs[@]} -eq 10 ]

left_out=$(sed '1,/^# LEFT OUT/d; s/^# //' "$root/ci/compat.sh")
declare -A passed=() all=()
wrong=0
for program in "${programs[@]}"; do
    file=$(basename "$program")
    file=${file%-*}
    case $file in
    time_delay_queue) crate=tokio-util ;;
    *chunks_timeout | stream_timeout | time_throttle) crate=tokio-stream ;;
    *) crate=tokio ;;
    esac
    for name in $(names_of "$program"); do
        all[$crate]=$((${all[$crate]:-0} + 1))
        status=0
        log=$("$root/ci/limited.sh" 60 "$program" --exact "$name" --include-ignored 2>&1) ||
            status=$?
        reason=$(sed -n "s/^$file $name: //p" <<<"$left_out")
        if [ -n "$reason" ]; then
            printf '%-12s %s %s: %s\n' "$crate" "$file" "$name" "$reason"
            # That passes, and counts all the same as left out.
            [ "$status" != 0 ] || [[ $reason == nothing* ]] || { echo "it passes"; wrong=1; }
        elif [ "$status" = 0 ]; then
            passed[$crate]=$((${passed[$crate]:-0} + 1))
        else
            printf '%s\n%s %s does not pass\n' "$log" "$file" "$name"
            wrong=1
        fi
    done
done
for crate in tokio tokio-util tokio-stream; do
    printf '%s: %s of %s pass\n' "$crate" "${passed[$crate]:-0}" "${all[$crate]}"
done
exit $wrong

# LEFT OUT
# time_sleep creating_sleep_outside_of_context: a sleep needs no runtime
# time_rt tickspace: time of a runtime that is entered by hand, and a reset within another
# time_panic pause_panic_caller: nothing of ours is called
# time_panic resume_panic_caller: nothing of ours is called
# time_panic timeout_panic_caller: a timeout needs no runtime
# time_panic timeout_at_panic_caller: a timeout needs no runtime
# time_delay_queue insert_before_first_after_poll: paused amid a millisecond, it stops late
# time_delay_queue multi_delay_at_start: paused amid a millisecond, it stops late
# time_delay_queue reset_entry: an entry that was put off wakes once at its old deadline
# time_delay_queue reset_earlier_after_slot_starts: its wake-up is that of a level of their wheel
# time_delay_queue reset_later_after_slot_starts: its wake-up is that of a level of their wheel
# time_throttle usage: it looks for the wake-up before the task that drives our timers has run
