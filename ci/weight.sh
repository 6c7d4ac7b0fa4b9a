#!/usr/bin/env bash
# What a first `sleep` adds to a program: builds one that sleeps with this crate, one that does with
# futures-timer, and one that does not, in release and stripped. Prints the processor time that each
# takes to build, with its dependencies, and how much larger than the last the other two are. Fails
# if ours is larger by more than the limit, has code that a plain sleep does not use, or takes more
# than so many times the time of futures-timer's.
. "$(dirname "$0")/lib.sh"

# With rustc 1.95, whose linker keeps the unwinding tables of functions that it leaves out.
limit=81500
times=10
unused='unix::cgroups|Registration|clock::steps::|Histogram::record|VirtualTime::movers|TimerFd'
unused+='|TaskDriver|drop_in_place<tourbillon::(engine::Engine|clock::Clock)>'

# build NAME DEPENDENCY EXPRESSION: builds a program that waits for what the expression makes.
build() {
    local crate=target/weight/$1
    rm -rf "$crate" && mkdir -p "$crate/src"
    cp Cargo.lock "$crate"
    cat >"$crate/Cargo.toml" <<TOML
[package]
name = "$1"
version = "0.0.0"
edition = "2024"
[dependencies]
$2
[workspace]
TOML
    cat >"$crate/src/main.rs" <<RUST
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn main() {
    let mut sleep = pin!($3);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    while Future::poll(sleep.as_mut(), &mut Context::from_waker(&waker)).is_pending() {
        thread::park();
    }
    println!("slept");
}
RUST
    (
        cd "$crate"
        cargo fetch --quiet
        # Of its own, so that it has the profile and the flags that a program has by default.
        unset RUSTFLAGS
        export CARGO_TARGET_DIR=$PWD/target
        TIMEFORMAT="%U %S"
        { time cargo build --quiet --release 2>&1; } 2>time
        strip -o stripped "target/release/$1"
        "target/release/$1" >/dev/null
        echo "$(wc -c <stripped) $(awk '{ printf "%.1f", $1 + $2 }' time)"
    )
}

read -r nothing _ < <(build nothing "" "std::future::ready(Duration::ZERO)")
row() { printf '%-16s %7d bytes %6s s\n' "$1" $(($2 - nothing)) "$3"; }
read -r theirs shortest < <(build futures-timer-sleep 'futures-timer = "3"' \
    "futures_timer::Delay::new(Duration::from_millis(1))")
row futures-timer "$theirs" "$shortest"
read -r ours seconds < <(build tourbillon-sleep 'tourbillon = { path = "../../.." }' \
    "tourbillon::sleep(Duration::from_millis(1))")
row tourbillon "$ours" "$seconds"

linked=$(nm -C target/weight/tourbillon-sleep/target/release/tourbillon-sleep |
    grep -E "$unused") || linked=
[ -z "$linked" ] || { printf 'a sleep uses none of this:\n%s\n' "$linked"; exit 1; }
[ $((ours - nothing)) -le "$limit" ] || { echo "more than $limit bytes"; exit 1; }
awk "BEGIN { exit $seconds > $times * $shortest }" ||
    { echo "more than $times times the seconds of futures-timer"; exit 1; }
