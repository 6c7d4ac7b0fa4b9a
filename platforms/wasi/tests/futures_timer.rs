//! `Delay` of the package that takes the place of futures-timer, and of [`tourbillon::compat`],
//! where no thread can be started. A program of its own, as the global timer is set once.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use tourbillon::Timer;
use tourbillon::compat::Delay;
use tourbillon::driver::Driver;
use tourbillon::time::{Duration, Instant};

fn poll(delay: &mut Delay) -> Poll<()> {
    Pin::new(delay).poll(&mut Context::from_waker(Waker::noop()))
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
fn delays_of_futures_timer_end_where_no_thread_can_be_started() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    Timer::set_global(timer.clone()).expect("nothing has slept yet");
    let start = Instant::now();
    let ms = Duration::from_millis;
    // Of one type only if the package has taken that place.
    let mut delays = [futures_timer::Delay::new(ms(5)), Delay::new(ms(2))];
    assert!(delays.iter_mut().all(|delay| poll(delay).is_pending()));
    assert_eq!(timer.stats().pending, 2);
    run(&mut driver, &mut delays);
    assert!(start.elapsed() >= ms(5));

    let start = Instant::now();
    delays[0].reset(ms(3));
    assert!(poll(&mut delays[0]).is_pending());
    run(&mut driver, &mut delays);
    assert!(start.elapsed() >= ms(3));
    assert_eq!(timer.stats().pending, 0);
}
