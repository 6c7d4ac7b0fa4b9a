//! fastimer's timeouts and intervals over our timers, by a few lines of the user's own.
#![cfg(test)]

use std::future::pending;
use std::time::{Duration, Instant};

use fastimer::MakeDelay;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

/// A timer, for a trait of another crate.
struct Ours(Timer);

impl MakeDelay for Ours {
    type Delay = Sleep;

    fn delay_until(&self, at: Instant) -> Sleep {
        self.0.sleep_until(at)
    }

    fn delay(&self, duration: Duration) -> Sleep {
        self.0.sleep(duration)
    }
}

#[test]
fn a_timeout_ends_in_virtual_time() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let start = clock.now();
    let hour = Duration::from_secs(3600);
    let timeout = fastimer::timeout(hour, pending::<()>(), &Ours(timer));
    assert!(clock.block_on(timeout).is_err());
    assert_eq!(clock.now() - start, hour);
}

#[test]
fn an_interval_is_never_early() {
    let timer = Timer::builder().build().expect("the options are valid");
    let period = Duration::from_millis(5);
    let start = Instant::now();
    pollster::block_on(async {
        let mut interval = fastimer::interval(period, Ours(timer.clone()));
        for n in 0..4 {
            interval.tick().await;
            assert!(start.elapsed() >= period * n);
        }
    });
    assert!(timer.stats().pending <= 1);
}
