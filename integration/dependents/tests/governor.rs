//! governor, which waits by means of `futures_timer::Delay`.
//!
//! Its limiters are given the clock of `Instant`, so that their waits can be compared with it. The
//! tests run one at a time, because the count of armed timers is the process's. How many a test
//! arms is not certain: a thread that is away for a period need not wait.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use futures::{SinkExt, StreamExt, stream};
use governor::clock::MonotonicClock;
use governor::middleware::NoOpMiddleware;
use governor::prelude::*;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use pollster::block_on;
use tourbillon::Timer;

type Limiter = RateLimiter<NotKeyed, InMemoryState, MonotonicClock, NoOpMiddleware<Instant>>;

const PERIOD: Duration = Duration::from_millis(20);

/// Lets one through at once, and one per `PERIOD` after that.
fn quota() -> Quota {
    Quota::with_period(PERIOD).expect("the period is not zero")
}

fn limiter() -> Limiter {
    RateLimiter::direct_with_clock(quota(), MonotonicClock)
}

/// The count of timers armed, while no other test arms any.
struct Armed {
    before: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Armed {
    fn count() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self { before: Timer::global().stats().armed, _alone: alone }
    }

    fn some(self) -> bool {
        Timer::global().stats().armed > self.before
    }
}

#[test]
fn until_ready_waits_for_the_period_on_our_timers() {
    let limiter = limiter();
    let armed = Armed::count();
    let start = Instant::now();
    for _ in 0..5 {
        block_on(limiter.until_ready());
    }
    assert!(start.elapsed() >= 4 * PERIOD);
    assert!(armed.some());
}

#[test]
fn until_n_ready_waits_for_room_for_all() {
    let room = NonZeroU32::new(4).expect("four is not zero");
    let limiter: Limiter =
        RateLimiter::direct_with_clock(quota().allow_burst(room), MonotonicClock);
    let armed = Armed::count();
    let start = Instant::now();
    for _ in 0..3 {
        block_on(limiter.until_n_ready(room)).expect("the quota has room for as many");
    }
    assert!(start.elapsed() >= 8 * PERIOD);
    assert!(armed.some());
}

#[test]
fn keys_wait_apart() {
    let limiter = RateLimiter::dashmap_with_clock(quota(), MonotonicClock);
    let armed = Armed::count();
    let start = Instant::now();
    for _ in 0..3 {
        for key in ["a", "b"] {
            block_on(limiter.until_key_ready(&key));
        }
    }
    assert!(start.elapsed() >= 2 * PERIOD);
    assert!(armed.some());
}

#[test]
fn threads_that_wait_for_one_limiter_all_get_through() {
    let limiter = Arc::new(limiter());
    let armed = Armed::count();
    let start = Instant::now();
    let threads: Vec<_> = (0..10)
        .map(|_| {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || block_on(limiter.until_ready()))
        })
        .collect();
    for thread in threads {
        thread.join().expect("it waits without a panic");
    }
    assert!(start.elapsed() >= 9 * PERIOD);
    assert!(armed.some());
}

#[test]
fn a_stream_that_is_limited_resets_its_delay_and_goes_on() {
    let limiter = limiter();
    let armed = Armed::count();
    let start = Instant::now();
    let items: Vec<_> = block_on(stream::iter(0..5).ratelimit_stream(&limiter).collect());
    assert_eq!(items, [0, 1, 2, 3, 4]);
    assert!(start.elapsed() >= 4 * PERIOD);
    assert!(armed.some());
}

#[test]
fn a_sink_that_is_limited_resets_its_delay_and_goes_on() {
    let limiter = limiter();
    let armed = Armed::count();
    let start = Instant::now();
    let mut sink = Vec::new().ratelimit_sink(&limiter);
    for item in 0..5 {
        block_on(sink.send(item)).expect("a vector takes all");
    }
    assert_eq!(sink.get_ref(), &[0, 1, 2, 3, 4]);
    assert!(start.elapsed() >= 4 * PERIOD);
    assert!(armed.some());
}
