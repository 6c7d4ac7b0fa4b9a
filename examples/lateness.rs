//! Lateness of a sleep on this machine, for a thread that awaits one at a time: from the deadline
//! until the thread runs again.
//!
//! ```text
//! cargo run --release --example lateness
//! ```

use std::time::{Duration, Instant};

fn main() {
    println!("sleep of\tp50 us\tp99 us\tmax us");
    for (ms, count) in [(1, 500), (10, 100), (100, 20)] {
        let mut late: Vec<_> = (0..count)
            .map(|_| {
                let deadline = Instant::now() + Duration::from_millis(ms);
                pollster::block_on(tourbillon::sleep_until(deadline));
                deadline.elapsed().as_micros()
            })
            .collect();
        late.sort_unstable();
        let rank = |percent: usize| late[(late.len() * percent).div_ceil(100) - 1];
        println!("{ms} ms\t{}\t{}\t{}", rank(50), rank(99), rank(100));
    }
}
