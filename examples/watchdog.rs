//! A watchdog: a function that a timer calls unless a worker gives a sign of life in time, beside a
//! function called at each tick. Neither needs a task or an executor.
//!
//! ```text
//! cargo run --release --example watchdog
//! ```
//!
//! Each sign of life moves the call, by [`Callback::reset_after`]. When none came, the watchdog has
//! the reports come each second, by [`Callback::set_period`]. A report gets its [`Call`]: the tick
//! that it was scheduled for, and how many were missed before it.
//!
//! [`Callback::reset_after`]: tourbillon::callback::Callback::reset_after
//! [`Callback::set_period`]: tourbillon::callback::Callback::set_period

use std::sync::Arc;
use std::time::{Duration, Instant};

use tourbillon::callback::Call;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{MissedTickBehavior, Timer};

const SECOND: Duration = Duration::from_secs(1);

/// Longest silence of the worker.
const SILENCE: Duration = Duration::from_secs(5);

fn main() -> std::io::Result<()> {
    // Virtual time, so that the example need not wait; a program would use `tourbillon::sleep`.
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build()?;
    let start = clock.now();
    let seconds = move |instant: Instant| (instant - start).as_secs();

    // Ticks that were missed are left out, and counted.
    let mut ticks = timer.interval(10 * SECOND);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let reports = Arc::new(ticks.call(move |Call { tick, missed, .. }| {
        println!("{:2} s: report, {missed} missed before it", seconds(tick));
    }));

    let (more, now) = (Arc::clone(&reports), clock.clone());
    let watchdog = timer.sleep(SILENCE).call(move || {
        println!("{:2} s: no sign of life for {SILENCE:?}", seconds(now.now()));
        more.set_period(SECOND);
    });

    for _ in 0..3 {
        clock.advance(4 * SECOND);
        println!("{:2} s: sign of life", seconds(clock.now()));
        assert!(watchdog.reset_after(SILENCE), "in time");
    }
    // The worker hangs.
    clock.advance(6 * SECOND);
    assert!(!watchdog.reset_after(SILENCE), "too late: the function was called");
    // The machine hangs from 18 s to 23 s, across the ticks of 20, 21, 22 and 23 s.
    clock.jump(5 * SECOND);
    clock.advance(SECOND);
    reports.cancel();
    Ok(())
}
