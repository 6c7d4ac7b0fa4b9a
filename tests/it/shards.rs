//! More shards than a word has bits, each with a timer.

use std::sync::Arc;
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::driver::Budget;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;

/// The most that there can be.
const SHARDS: usize = 256;

/// A timer that is armed: its deadline, the end of its window, and whether it was fired.
struct Armed {
    deadline: Instant,
    by: Instant,
    counter: Arc<Counter>,
    _sleep: Sleep,
}

/// Arms one timer on each of so many threads that each shard has one.
fn armed(timer: &Timer, window: fn(u32) -> (Duration, Duration)) -> Vec<Armed> {
    let mut armed = Vec::new();
    while timer.stats().shards_used < SHARDS {
        let (delay, tolerance) = window(armed.len() as u32);
        let mut sleep = timer.sleep(delay).with_tolerance(tolerance);
        let (deadline, counter) = (sleep.deadline(), Counter::new());
        let waker = Waker::from(Arc::clone(&counter));
        thread::scope(|scope| {
            scope.spawn(|| assert!(poll_with(&mut sleep, &waker).is_pending()));
        });
        armed.push(Armed { deadline, by: deadline + tolerance, counter, _sleep: sleep });
    }
    armed
}

/// Some of them exact, and the others with windows that overlap.
fn windows(n: u32) -> (Duration, Duration) {
    let tolerance = if n % 3 == 0 { 0 } else { n * 13 % 40 };
    ((1 + n * 37 % 101) * SECOND, tolerance * SECOND)
}

/// Checks that no fired timer was early and that the others are not late. Returns the time by which
/// the next of the others has to be fired.
fn left(armed: &[Armed], now: Instant) -> Option<Instant> {
    let mut first = None::<Instant>;
    for Armed { deadline, by, counter, .. } in armed {
        if counter.wakes() == 0 {
            assert!(*by > now, "late");
            first = Some(first.map_or(*by, |first| first.min(*by)));
        } else {
            assert!(*deadline <= now && counter.wakes() == 1, "early, or twice");
        }
    }
    first
}

#[test]
fn turns_see_what_is_due_and_what_comes_next_in_every_shard() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(SHARDS);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let armed = armed(&timer, windows);
    let mut turns = 0;
    while let Some(next) = driver.turn().next {
        turns += 1;
        let by = left(&armed, clock.now()).expect("some are left");
        assert!(next > clock.now() && next <= by, "the loop would wait past a timer");
        clock.jump(next - clock.now());
    }
    assert_eq!(left(&armed, clock.now()), None);
    assert!(turns > 2, "{turns} turns");
}

#[test]
fn a_clock_stops_at_the_next_deadline_of_every_shard() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(SHARDS);
    let timer = builder.build().expect("the options are valid");
    let armed = armed(&timer, windows);
    while let Some(by) = left(&armed, clock.now()) {
        assert_eq!(clock.next_deadline(), Some(by));
        assert_eq!(clock.advance_to_next(), Some(by));
    }
    assert_eq!((clock.next_deadline(), timer.stats().pending), (None, 0));
}

#[test]
fn turns_cut_short_visit_every_shard() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(SHARDS);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let armed = armed(&timer, |_| (SECOND, Duration::ZERO));
    clock.jump(SECOND);
    for fired in 1..=armed.len() {
        assert_eq!(driver.turn_within(Budget::Timers(1)).fired, 1, "{fired}");
    }
    let turn = driver.turn_within(Budget::Timers(1));
    assert_eq!((turn.fired, turn.more, turn.next), (0, false, None));
    assert_eq!(left(&armed, clock.now()), None);
}
