//! Tests a retry with backoff in virtual time: half an hour passes in no time at all.
//!
//! ```text
//! cargo run --release --example virtual_time
//! cargo test --example virtual_time
//! ```

use std::future::{Future, pending};
use std::time::{Duration, Instant};

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

/// The code under test. It takes the timer to use, like any other dependency.
///
/// Calls until an answer comes within ten seconds; waits 1 s, 2 s, 4 s and so on in between.
async fn retry<T, F: Future<Output = Option<T>>>(
    timer: &Timer,
    attempts: u32,
    mut call: impl FnMut(u32) -> F,
) -> Option<T> {
    for attempt in 0..attempts {
        if let Ok(Some(answer)) = timer.timeout(Duration::from_secs(10), call(attempt)).await {
            return Some(answer);
        }
        timer.sleep(Duration::from_secs(1 << attempt)).await;
    }
    None
}

#[cfg_attr(test, test)]
fn backs_off_until_the_server_answers() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let start = clock.now();
    let call = |attempt| async move { (attempt == 5).then_some("hello") };
    assert_eq!(clock.block_on(retry(&timer, 10, call)), Some("hello"));
    assert_eq!(clock.now() - start, Duration::from_secs(1 + 2 + 4 + 8 + 16));
}

#[cfg_attr(test, test)]
fn gives_up_on_a_server_that_hangs() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let start = clock.now();
    assert_eq!(clock.block_on(retry(&timer, 11, |_| pending::<Option<()>>())), None);
    assert_eq!(clock.now() - start, Duration::from_secs(11 * 10 + (1 << 11) - 1));
}

fn main() {
    let start = Instant::now();
    backs_off_until_the_server_answers();
    gives_up_on_a_server_that_hangs();
    println!("31 s and 2157 s of virtual time passed in {:?}", start.elapsed());
}
