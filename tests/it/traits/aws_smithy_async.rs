//! The AWS SDK's `AsyncSleep` and `TimeSource`.

use std::future::pending;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_async::future::timeout::Timeout;
use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep};
use aws_smithy_async::time::{SharedTimeSource, TimeSource};
use tourbillon::Timer;

use crate::support::*;

#[test]
fn the_sdks_own_timeout_runs_on_it() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let sleeps = SharedAsyncSleep::new(timer.clone());
    let timeout = Timeout::new(pending::<()>(), sleeps.sleep(SECOND));
    assert!(clock.block_on(timeout).is_err());
    assert_eq!(clock.now() - start, SECOND);
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn the_longest_sleep_is_safe() {
    let (timer, clock) = virtual_timer();
    let mut sleep = polled(AsyncSleep::sleep(&timer, Duration::MAX));
    clock.advance(Duration::MAX);
    assert!(poll(&mut sleep).is_pending());
}

#[test]
fn a_virtual_clock_starts_with_the_year_2000_and_keeps_step() {
    let (timer, clock) = virtual_timer();
    let time = SharedTimeSource::new(timer);
    let start = UNIX_EPOCH + Duration::from_secs(946_684_800);
    assert_eq!(time.now(), start);
    clock.advance(SECOND * 86_400);
    assert_eq!(time.now(), start + SECOND * 86_400);
    clock.advance(Duration::MAX);
    assert!(time.now() > start + SECOND * 86_400 * 365 * 400);
}

#[test]
fn the_real_clocks_time_of_day_is_the_systems() {
    let timer = Timer::builder().build().expect("the options are valid");
    let before = SystemTime::now();
    let now = TimeSource::now(&timer);
    let after = SystemTime::now();
    // Nobody keeps the system's clock from being set between two readings.
    if before <= after {
        assert!(before <= now && now <= after);
    }
}
