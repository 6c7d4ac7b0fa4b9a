//! What works without threads, and what does not.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tourbillon::Timer;
use tourbillon::time::{Duration, Instant};

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_timer_that_needs_a_thread_is_an_error_and_can_be_made() {
    let timer = Timer::builder().build().expect("the options are valid");
    timer.start().expect_err("there are no threads");
    assert!(poll(&mut timer.sleep(Duration::ZERO)).is_ready());
}

#[test]
fn a_loop_turns_the_timers_of_all_others_and_none_is_early() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    Timer::set_global(timer).expect("nothing has slept yet");
    let mut sleeps = [7, 2, 5].map(|ms| tourbillon::sleep(Duration::from_millis(ms)));
    while !sleeps.iter_mut().map(|sleep| poll(sleep).is_ready()).fold(true, |all, one| all & one) {
        if let Some(next) = driver.turn().next {
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    let now = Instant::now();
    assert!(sleeps.iter().all(|sleep| sleep.deadline() <= now));
}
