//! hyper's timer.

use std::pin::Pin;
use std::ptr;
use std::time::{Duration, Instant};

use hyper::rt;

use crate::sleep::Sleep;
use crate::timer::Timer;

/// hyper's timer: `builder.timer(Timer::global())`.
///
/// hyper then also reads the timer's clock, so a server on a
/// [`VirtualClock`](crate::virtual_time::VirtualClock) runs in virtual time as a whole. Each sleep
/// is one allocation, required by the trait. [`reset`](rt::Timer::reset) allocates nothing if the
/// sleep came from the same timer. A sleep of another timer or type is replaced.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use hyper::rt;
/// use tourbillon::Timer;
///
/// fn first_in_an_hour_then_now(timer: &impl rt::Timer) {
///     let mut sleep = timer.sleep(Duration::from_secs(3600));
///     timer.reset(&mut sleep, timer.now());
///     pollster::block_on(sleep);
/// }
///
/// first_in_an_hour_then_now(&Timer::global());
/// ```
impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep(duration))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(self.sleep_until(deadline))
    }

    fn now(&self) -> Instant {
        self.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<Sleep>() {
            Some(mut sleep) if ptr::eq(sleep.engine().current(), self.engine()) => {
                sleep.reset(deadline);
            }
            _ => *sleep = rt::Timer::sleep_until(self, deadline),
        }
    }
}

/// The future that the timer's [`rt::Timer`] returns in a box.
impl rt::Sleep for Sleep {}
