//! Claims of `src/guide/migration.md` about other timers, where a test can show them; and its
//! claims of ours beside them.
//!
//! The others know no virtual time that could be used here, so time is real.

use std::io;
use std::panic::catch_unwind;
use std::pin::pin;
use std::thread;
use std::time::{Duration, Instant};

use async_io::Timer as AsyncIoTimer;
use futures::StreamExt;
use futures::future::FusedFuture;

use crate::support::*;

fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

#[test]
fn tokio_makes_no_sleep_outside_a_runtime_and_ours_does() {
    assert!(catch_unwind(|| drop(tokio::time::sleep(SECOND))).is_err());
    drop(tourbillon::sleep(SECOND));
}

#[test]
fn a_sleep_of_tokio_is_elapsed_once_it_was_fired_and_ours_by_the_clock() {
    tokio().block_on(async {
        assert!(!tokio::time::sleep(Duration::ZERO).is_elapsed());
    });
    assert!(tourbillon::sleep(Duration::ZERO).is_elapsed());
}

#[test]
fn the_error_of_a_timeout_says_the_same() {
    let theirs = tokio()
        .block_on(async { tokio::time::timeout(ms(1), std::future::pending::<()>()).await })
        .expect_err("the future never ends");
    let ours = pollster::block_on(tourbillon::timeout(ms(1), std::future::pending::<()>()))
        .expect_err("the future never ends");
    assert_eq!(theirs.to_string(), ours.to_string());
    assert_eq!(io::Error::from(theirs).kind(), io::Error::from(ours).kind());
}

#[test]
fn the_first_tick_comes_at_once_with_tokio_and_us_and_after_a_period_with_async_io() {
    tokio().block_on(async {
        let mut theirs = tokio::time::interval(SECOND);
        let made = Instant::now();
        assert!(theirs.tick().await.into_std() <= made);
    });
    let mut ours = tourbillon::interval(SECOND);
    let made = Instant::now();
    assert!(pollster::block_on(ours.tick()) <= made);

    let start = Instant::now();
    let tick = pollster::block_on(AsyncIoTimer::interval(ms(20)).next()).expect("it never ends");
    assert!(tick >= start + ms(20));
}

#[test]
fn async_io_and_we_report_the_instant_that_a_tick_was_scheduled_for() {
    let start = Instant::now();
    let mut theirs = AsyncIoTimer::interval_at(start, ms(1));
    let mut ours = tourbillon::interval_at(start, ms(1));
    thread::sleep(ms(5));
    for tick in 0..4 {
        assert_eq!(pollster::block_on(theirs.next()), Some(start + ms(tick)));
        assert_eq!(pollster::block_on(ours.tick()), start + ms(tick));
    }
}

#[test]
fn a_sleep_polled_after_completion_is_ready_with_tokio_too() {
    tokio().block_on(async {
        let mut theirs = pin!(tokio::time::sleep(ms(1)));
        theirs.as_mut().await;
        theirs.await;
    });
    let mut ours = tourbillon::sleep(ms(1));
    pollster::block_on(&mut ours);
    assert!(poll(&mut ours).is_ready());
}

#[test]
fn a_timer_of_async_io_that_was_cleared_has_its_waker_still_and_so_has_a_sleep() {
    let mut theirs = AsyncIoTimer::after(SECOND * 3600);
    let (waker, told) = telling();
    assert!(poll_with(&mut theirs, &waker).is_pending());
    drop(waker);
    theirs.clear();
    theirs.set_after(ms(20));
    assert!(told.recv().is_ok(), "woken with no poll between");

    let mut ours = tourbillon::sleep(SECOND * 3600);
    let (waker, told) = telling();
    assert!(poll_with(&mut ours, &waker).is_pending());
    drop(waker);
    ours.reset_after(Duration::MAX);
    ours.reset_after(ms(20));
    assert!(told.recv().is_ok(), "woken with no poll between");
}

#[test]
fn a_timer_of_async_io_polled_after_it_fired_is_pending_and_a_sleep_is_ready() {
    let mut theirs = AsyncIoTimer::after(Duration::ZERO);
    assert!(poll(&mut theirs).is_ready());
    assert!(poll(&mut theirs).is_pending());
    let mut ours = tourbillon::sleep(Duration::ZERO);
    assert!(poll(&mut ours).is_ready());
    assert!(poll(&mut ours).is_ready());
}

#[test]
fn a_timer_of_async_io_set_after_it_fired_has_its_waker_still_and_a_sleep_has_not() {
    let mut theirs = AsyncIoTimer::after(ms(20));
    let (waker, told) = telling();
    assert!(poll_with(&mut theirs, &waker).is_pending());
    drop(waker);
    assert!(told.recv().is_ok());
    theirs.set_after(ms(20));
    assert!(told.recv().is_ok(), "woken a second time, with no poll between");

    let mut ours = tourbillon::sleep(SECOND * 3600);
    let (waker, told) = telling();
    assert!(poll_with(&mut ours, &waker).is_pending());
    drop(waker);
    ours.reset_after(ms(20));
    assert!(told.recv().is_ok());
    ours.reset_after(ms(20));
    assert!(told.recv().is_err(), "the waker was used");
}

#[test]
fn a_period_of_nothing_panics_with_tokio_and_us_and_not_with_async_io() {
    assert!(catch_unwind(|| drop(tokio::time::interval(Duration::ZERO))).is_err());
    assert!(catch_unwind(|| drop(tourbillon::interval(Duration::ZERO))).is_err());
    let mut theirs = AsyncIoTimer::interval(Duration::ZERO);
    assert!(pollster::block_on(theirs.next()).is_some());
}

#[test]
fn a_delay_of_futures_timer_is_not_fused_and_a_sleep_is() {
    let mut ours = pin!(tourbillon::sleep(Duration::ZERO));
    assert!(!ours.is_terminated());
    pollster::block_on(&mut ours);
    assert!(ours.is_terminated());
    // The other needs an adapter.
    let theirs = futures::FutureExt::fuse(futures_timer::Delay::new(Duration::ZERO));
    assert!(!theirs.is_terminated());
}

#[test]
fn the_longest_sleep_ends_with_tokio_after_thirty_years_and_never_with_the_others() {
    let years = |count| SECOND * 86_400 * 365 * count;
    tokio().block_on(async {
        let theirs = tokio::time::sleep(Duration::MAX);
        assert!(theirs.deadline() <= tokio::time::Instant::now() + years(30));
    });
    assert!(tourbillon::sleep(Duration::MAX).deadline() > Instant::now() + years(400));
    assert!(!AsyncIoTimer::after(Duration::MAX).will_fire());
}

#[test]
fn a_timer_of_async_io_will_fire_until_it_has_and_a_sleep_says_the_same() {
    fn will_fire(sleep: &tourbillon::Sleep) -> bool {
        !sleep.is_terminated() && sleep.remaining().is_some()
    }
    for delay in [Duration::ZERO, SECOND * 3600, Duration::MAX] {
        let theirs = AsyncIoTimer::after(delay);
        assert_eq!(will_fire(&tourbillon::sleep(delay)), theirs.will_fire(), "{delay:?}");
    }
    let mut theirs = AsyncIoTimer::after(Duration::ZERO);
    pollster::block_on(&mut theirs);
    let mut ours = tourbillon::sleep(Duration::ZERO);
    pollster::block_on(&mut ours);
    assert_eq!((will_fire(&ours), theirs.will_fire()), (false, false));
}
