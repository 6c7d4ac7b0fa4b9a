//! What works without threads, and what does not.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tourbillon::Timer;
use tourbillon::compat::Delay;
use tourbillon::driver::Driver;
use tourbillon::time::{Duration, Instant};

fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Poll<T> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls them until all have ended, and turns the timer meanwhile.
fn run(driver: &mut Driver, delays: &mut [Delay]) {
    while !delays.iter_mut().map(|delay| poll(delay).is_ready()).fold(true, |all, one| all & one) {
        if let Some(next) = driver.turn().next {
            thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
}

#[test]
fn a_timer_that_needs_a_thread_is_an_error_and_can_be_made() {
    let timer = Timer::builder().build().expect("the options are valid");
    timer.start().expect_err("there are no threads");
    assert!(poll(&mut timer.sleep(Duration::ZERO)).is_ready());
}

/// Of the package that takes the place of futures-timer, and of [`tourbillon::compat`].
#[test]
fn delays_of_futures_timer_end_where_no_thread_can_be_started() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    Timer::set_global(timer.clone()).expect("nothing has slept yet");
    let start = Instant::now();
    let ms = Duration::from_millis;
    let mut sleep = tourbillon::sleep(ms(2));
    assert!(poll(&mut sleep).is_pending());
    // Of one type only if the package has taken that place.
    let mut delays = [futures_timer::Delay::new(ms(5)), Delay::new(ms(2))];
    assert!(delays.iter_mut().all(|delay| poll(delay).is_pending()));
    assert_eq!(timer.stats().pending, 3);
    run(&mut driver, &mut delays);
    assert!(start.elapsed() >= ms(5) && poll(&mut sleep).is_ready());

    let start = Instant::now();
    delays[0].reset(ms(3));
    assert!(poll(&mut delays[0]).is_pending());
    run(&mut driver, &mut delays);
    assert!(start.elapsed() >= ms(3));
    assert_eq!(timer.stats().pending, 0);
}
