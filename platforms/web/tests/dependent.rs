//! A dependent of futures-timer, in a build for browsers that takes `crates/futures-timer` for it.

use std::cell::Cell;

use backon::{ConstantBuilder, FuturesTimerSleeper, Retryable, Sleeper};
use tourbillon::Timer;
use tourbillon::time::{Duration, Instant};
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen_test]
async fn backon_waits_on_our_timers() {
    // So much that it is not over at the first poll.
    let delay = Duration::from_millis(500);
    let ours: tourbillon::compat::Delay = FuturesTimerSleeper.sleep(delay);
    drop(ours);
    let (calls, start) = (Cell::new(0), Instant::now());
    let fail_twice = || async {
        calls.set(calls.get() + 1);
        if calls.get() < 3 { Err("not yet") } else { Ok(()) }
    };
    let constant = ConstantBuilder::default().with_delay(delay);
    assert_eq!(fail_twice.retry(constant).sleep(FuturesTimerSleeper).await, Ok(()));
    assert!(start.elapsed() >= 2 * delay);
    assert_eq!(Timer::global().stats().armed, 2);
}
