//! Wake-ups of timers with a tolerance, as a multiple of the fewest possible.

use std::pin::Pin;
use std::time::Duration;

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use crate::common::wakers::{Count, poll};

/// Timers that are armed at random instants, with random delays.
#[derive(Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) name: &'static str,
    count: usize,
    /// Milliseconds to arm them in.
    over: u64,
    /// Milliseconds of the shortest and of the longest delay.
    delays: [u64; 2],
    /// Tolerances that a delay is as long as.
    tolerances: u64,
    /// Times that each follows on itself.
    times: u64,
}

impl Crowd {
    const fn new(
        name: &'static str,
        count: usize,
        over: u64,
        delays: [u64; 2],
        tolerances: u64,
    ) -> Self {
        Self { name, count, over, delays, tolerances, times: 1 }
    }
}

pub(crate) const CROWDS: [Crowd; 5] = [
    Crowd::new("10 thousand limits of 60 s with 1 s", 10_000, 60_000, [60_000; 2], 60),
    Crowd::new("1 thousand of 50 to 250 ms with 10 %", 1_000, 10_000, [50, 250], 10),
    Crowd::new("200 of 1 to 10 s with 5 %", 200, 100_000, [1_000, 10_000], 20),
    Crowd {
        times: 10,
        ..Crowd::new("100 keep-alives of 30 s with 5 s", 100, 30_000, [30_000; 2], 6)
    },
    Crowd::new("1 thousand retransmits of 200 ms with 20 ms", 1_000, 10_000, [200; 2], 10),
];

/// Time of a timer's arming, and the begin and the end of its window; in nanoseconds.
type Window = [u64; 3];

impl Crowd {
    fn windows(self) -> Vec<Window> {
        const NANOS_PER_MS: u64 = 1_000_000;
        let mut seed = 15_u64;
        let mut up_to = |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 20) % (most + 1)
        };
        let [shortest, longest] = self.delays.map(|delay| delay * NANOS_PER_MS);
        let mut windows = Vec::new();
        for _ in 0..self.count {
            let mut armed = up_to(self.over * NANOS_PER_MS);
            let delay = shortest + up_to(longest - shortest);
            for _ in 0..self.times {
                windows.push([armed, armed + delay, armed + delay + delay / self.tolerances]);
                armed += delay;
            }
        }
        windows.sort_unstable();
        windows
    }

    /// Arms the timers as their time comes, and counts the instants at which some fire.
    pub(crate) fn wake_ups_over_the_fewest(self) -> Vec<f64> {
        let windows = self.windows();
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
        let start = clock.now();
        let waker = Count::new().waker();
        let (mut sleeps, mut wake_ups) = (Vec::new(), 0);
        for [armed, begin, end] in &windows {
            let now = start + Duration::from_nanos(*armed);
            wake_ups += fires_until(&clock, |next| next <= now);
            clock.advance(now - clock.now());
            let sleep = timer.sleep_until(start + Duration::from_nanos(*begin));
            let mut sleep = sleep.with_tolerance(Duration::from_nanos(end - begin));
            assert!(poll(Pin::new(&mut sleep), &waker).is_pending());
            sleeps.push(sleep);
        }
        wake_ups += fires_until(&clock, |_| true);
        assert_eq!(timer.stats().fired as usize, sleeps.len());
        vec![wake_ups as f64 / fewest(windows) as f64]
    }
}

/// Moves the clock from fire to fire while the next one is to be, and counts them.
fn fires_until(clock: &VirtualClock, is_to_be: impl Fn(std::time::Instant) -> bool) -> usize {
    let mut fires = 0;
    while clock.next_deadline().is_some_and(&is_to_be) {
        clock.advance_to_next();
        fires += 1;
    }
    fires
}

/// The fewest instants such that each window has one: the first end, again and again, of the
/// windows that have none yet.
fn fewest(mut windows: Vec<Window>) -> usize {
    windows.sort_unstable_by_key(|[_, _, end]| *end);
    let mut last = None;
    windows.retain(|[_, begin, end]| {
        let is_missed = last.is_none_or(|last| last < *begin);
        last = if is_missed { Some(*end) } else { last };
        is_missed
    });
    windows.len()
}
