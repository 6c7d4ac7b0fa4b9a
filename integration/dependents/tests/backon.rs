//! backon, which takes any function from a duration to a future, and has a feature for
//! futures-timer.

use std::cell::Cell;
use std::time::{Duration, Instant};

use backon::{ConstantBuilder, ExponentialBuilder, FuturesTimerSleeper, Retryable, Sleeper};
use pollster::block_on;
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

const DELAY: Duration = Duration::from_millis(20);

/// Fails until it was called `calls` times; then says how often it was.
struct Flaky {
    calls: u32,
    done: Cell<u32>,
}

impl Flaky {
    fn new(calls: u32) -> Self {
        Self { calls, done: Cell::new(0) }
    }

    async fn call(&self) -> Result<u32, &'static str> {
        self.done.set(self.done.get() + 1);
        if self.done.get() < self.calls { Err("not yet") } else { Ok(self.done.get()) }
    }
}

fn thrice() -> ConstantBuilder {
    ConstantBuilder::default().with_delay(DELAY).with_max_times(3)
}

#[test]
fn its_futures_timer_is_ours() {
    let sleep: tourbillon::compat::Delay = FuturesTimerSleeper.sleep(DELAY);
    drop(sleep);
}

#[test]
fn its_own_sleeper_waits_on_our_timers() {
    let flaky = Flaky::new(4);
    let before = Timer::global().stats().armed;
    let start = Instant::now();
    let retry = (|| flaky.call()).retry(thrice()).sleep(FuturesTimerSleeper);
    assert_eq!(block_on(retry), Ok(4));
    assert!(start.elapsed() >= 3 * DELAY);
    assert!(Timer::global().stats().armed > before);
}

#[test]
fn our_sleep_is_a_sleeper_as_it_is() {
    let flaky = Flaky::new(4);
    let start = Instant::now();
    let retry = (|| flaky.call()).retry(thrice()).sleep(tourbillon::sleep);
    assert_eq!(block_on(retry), Ok(4));
    assert!(start.elapsed() >= 3 * DELAY);
}

#[test]
fn on_a_virtual_clock_it_waits_exactly_what_it_says_and_takes_no_time() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let start = clock.now();
    let flaky = Flaky::new(u32::MAX);
    let hours = Duration::from_secs(3600);
    let backoff = ExponentialBuilder::default()
        .with_min_delay(hours)
        .with_max_delay(8 * hours)
        .with_factor(2.0)
        .with_max_times(5);
    let own = timer.clone();
    let retry = (|| flaky.call()).retry(backoff).sleep(move |delay| own.sleep(delay));
    assert_eq!(clock.block_on(retry), Err("not yet"));
    assert_eq!(flaky.done.get(), 6);
    assert_eq!(clock.now() - start, (1 + 2 + 4 + 8 + 8) * hours);
    assert_eq!(timer.stats().armed, 5);
}
