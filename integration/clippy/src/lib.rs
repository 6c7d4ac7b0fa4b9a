//! The list of calls that stay in real time, from the guide to tests, as clippy takes it. Where
//! clippy finds nothing in one of these, its expectation is unfulfilled, and `ci/lint.sh` denies
//! that.
#![cfg(test)]

use std::future::pending;
use std::time::{Duration, Instant, SystemTime};

use tourbillon::compat::Delay;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::wall::sleep_until_wall;
use tourbillon::{FutureExt, StreamExt, Timer};
use tourbillon_tower::{Timeout, TimeoutLayer, TimeoutOrElse, TimeoutOrElseLayer};

/// Each is a call in real time.
macro_rules! real_time {
    ($($call:expr),* $(,)?) => {
        $(
            #[expect(clippy::disallowed_methods)]
            let real = $call;
            drop(real);
        )*
    };
}

#[test]
fn each_call_of_the_list_is_found() {
    let zero = Duration::ZERO;
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let ticks = || timer.interval(Duration::MAX);
    #[expect(clippy::disallowed_methods)]
    let now = Instant::now();
    #[expect(clippy::disallowed_methods)]
    std::thread::sleep(zero);
    #[expect(clippy::disallowed_methods)]
    let _elapsed = now.elapsed();
    #[expect(clippy::disallowed_methods)]
    let wall = SystemTime::now();
    real_time![
        tourbillon::sleep(zero),
        tourbillon::sleep_until(now),
        tourbillon::interval(Duration::MAX),
        tourbillon::interval_at(now, Duration::MAX),
        tourbillon::timeout(zero, pending::<()>()),
        tourbillon::timeout_at(now, pending::<()>()),
        pending::<()>().timeout(zero),
        pending::<()>().timeout_at(now),
        ticks().timeout(zero),
        ticks().throttle(zero),
        ticks().throttle_first(zero),
        ticks().debounce(zero),
        ticks().chunks_timeout(1, zero),
        ticks().sample(Duration::MAX),
        ticks().delay(zero),
        sleep_until_wall(wall),
        DelayQueue::<u8>::new(),
        DelayQueue::<u8>::with_capacity(1),
        TimeoutQueue::<u8>::new(zero),
        TimeoutQueue::<u8>::with_capacity(zero, 1),
        Delay::new(zero),
        Timeout::new("any service", zero),
        TimeoutLayer::new(zero),
        TimeoutOrElse::new("any service", zero, || 504),
        TimeoutOrElseLayer::new(zero, || 504),
        Timer::global(),
        Timer::current(),
    ];
}

#[test]
fn what_takes_a_timer_is_measured_by_that_timer() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let (start, hour) = (timer.now(), Duration::from_secs(3600));
    clock.block_on(timer.sleep(hour));
    assert_eq!(timer.now() - start, hour);
}

#[test]
fn the_guide_has_this_list() {
    assert!(include_str!("../../../src/guide/testing.md").contains(include_str!("../clippy.toml")));
}
