//! Timers in wstd's reactor, in a component that a host runs.

#![cfg(target_os = "wasi")]

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all, select};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tourbillon::{Sleep, Timer, interval, sleep, timeout};
use tourbillon_wstd::{WstdRuntime, timer};
use wstd::runtime::{block_on, spawn};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Sets the process-wide timer, in the first of the tests that use it.
fn set_global() -> &'static Timer {
    static TIMER: OnceLock<Timer> = OnceLock::new();
    TIMER.get_or_init(|| {
        let timer = timer();
        Timer::set_global(timer.clone()).expect("nothing has slept yet");
        timer
    })
}

async fn poll_once(sleep: &mut Sleep) -> Poll<()> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *sleep).poll(cx))).await
}

/// futures-timer#85, wstd#15.
#[test]
fn a_library_sleeps_without_a_loop_of_ones_own() {
    block_on(async {
        let timer = set_global();
        let start = Instant::now();
        sleep(ms(5)).await;
        assert!(start.elapsed() >= ms(5));
        assert!(timeout(ms(2), pending::<()>()).await.is_err());
        let mut ticks = interval(ms(2));
        for _ in 0..3 {
            ticks.tick().await;
        }
        assert!(start.elapsed() >= ms(11));
        assert_eq!(timer.stats().pending, 0);
    });
}

#[test]
fn one_timer_serves_one_block_on_after_the_other() {
    let timer = set_global();
    for round in 0..3 {
        let start = Instant::now();
        block_on(async {
            sleep(ms(3)).await;
            // The second leaves one behind that has not fired.
            if round == 1 {
                let mut far = sleep(HOUR);
                assert!(poll_once(&mut far).await.is_pending());
            }
        });
        assert!(start.elapsed() >= ms(3));
        assert_eq!(timer.stats().pending, 0);
    }
}

#[test]
fn block_on_returns_once_the_last_timer_is_cancelled() {
    set_global();
    let start = Instant::now();
    block_on(async { timeout(HOUR, async {}).await.unwrap() });
    block_on(async {
        // The task that drives it waits already.
        let far = async { timeout(HOUR, pending::<()>()).await.is_err() };
        select(Box::pin(far), Box::pin(sleep(ms(2)))).await;
    });
    assert!(start.elapsed() < HOUR);
}

#[test]
fn ten_thousand_sleeps_end_in_order_and_none_early() {
    block_on(async {
        set_global();
        let start = Instant::now();
        let mut sleeps: FuturesUnordered<_> = (0..10_000_u64)
            .map(|n| async move {
                let delay = Duration::from_micros(1 + n * 7_919 % 50_000);
                sleep(delay).await;
                assert!(start.elapsed() >= delay);
            })
            .collect();
        let mut ended = 0;
        while sleeps.next().await.is_some() {
            ended += 1;
        }
        assert_eq!(ended, 10_000);
    });
}

#[test]
fn ten_thousand_sleeps_are_one_pollable_of_the_hosts() {
    block_on(async {
        let timer = set_global();
        let before = timer.stats();
        let mut crowd: Vec<_> = (0..10_000).map(|_| sleep(HOUR)).collect();
        for far in &mut crowd {
            assert!(poll_once(far).await.is_pending());
        }
        sleep(ms(2)).await;
        // A wait for the first, one for the short one, and one for those that are left.
        let wakeups = timer.stats().driver_wakeups - before.driver_wakeups;
        assert!(wakeups < 10, "{wakeups} polls of the task");
    });
}

#[test]
fn tasks_of_the_reactor_sleep_beside_each_other() {
    block_on(async {
        set_global();
        let start = Instant::now();
        let tasks = [9, 3, 6].map(|delay| {
            spawn(async move {
                sleep(ms(delay)).await;
                start.elapsed() >= ms(delay)
            })
        });
        assert_eq!(join_all(tasks).await, [true; 3]);
    });
}

#[test]
fn timers_of_wstd_and_ours_are_waited_for_together() {
    block_on(async {
        set_global();
        let start = Instant::now();
        let theirs = async {
            wstd::time::Timer::after(ms(4).into()).wait().await;
            start.elapsed()
        };
        let ours = async {
            sleep(ms(8)).await;
            sleep(ms(4)).await;
            start.elapsed()
        };
        let (theirs, ours) = join(theirs, ours).await;
        assert!(theirs >= ms(4) && ours >= ms(12));
    });
}

#[test]
fn an_earlier_timer_takes_the_place_of_the_wait() {
    block_on(async {
        let timer = Timer::builder().build_on(WstdRuntime).unwrap();
        let mut far = timer.sleep(HOUR);
        assert!(poll_once(&mut far).await.is_pending());
        // The task has run.
        wstd::time::Timer::after(ms(1).into()).wait().await;
        timer.sleep(ms(2)).await;
        far.reset(timer.now() + ms(2));
        far.await;
    });
}

#[test]
fn a_deadline_that_no_host_can_wait_for_harms_nothing() {
    let timer = timer();
    block_on(async {
        let mut far = timer.sleep_until(timer.now() + Duration::from_secs(500 * 365 * 86_400));
        assert!(poll_once(&mut far).await.is_pending());
        timer.sleep(ms(2)).await;
        let mut never = timer.sleep(Duration::MAX);
        assert!(poll_once(&mut never).await.is_pending());
        timer.sleep(ms(2)).await;
    });
}

#[test]
fn what_need_not_wait_needs_no_reactor() {
    let timer = timer();
    let mut over = timer.sleep(Duration::ZERO);
    let polled = Pin::new(&mut over).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_ready());
}
