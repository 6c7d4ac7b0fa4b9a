//! Tools that the tests share.

#[path = "../support/wakers.rs"]
mod wakers;

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

pub(crate) use wakers::*;

/// A timer on a virtual clock, and the clock.
pub(crate) fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer =
        Timer::builder().shards(1).virtual_clock(&clock).build().expect("one shard is valid");
    (timer, clock)
}
