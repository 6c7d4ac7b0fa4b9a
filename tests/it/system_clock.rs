//! A driver thread on a faulty monotonic clock: it steps, and stands still. And threads that are
//! held before any single reading of a clock, for a time that is counted and does not pass.
//!
//! The clock is `system_clock.c`, compiled by these tests and preloaded into a process of their
//! own.

use std::ffi::CStr;
use std::ops::Range;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use tourbillon::driver::Driver;
use tourbillon::timer::ClockKind;
use tourbillon::{Sleep, Timer};

use crate::support::*;

/// Name of this check, for [`not_checked`].
const STEPS: &str = "steps of the system clock";

/// Runs a test with the clock in the place of the system's.
fn on_a_clock_of_its_own(name: &str) {
    with_preloaded("system_clock.c", STEPS, name);
}

/// Functions of the preloaded library.
struct SystemClock;

impl SystemClock {
    /// The clock, if it is there and this process reads it.
    fn preloaded() -> Option<Self> {
        // SAFETY: that is the function's type in the library.
        unsafe { preloaded::<extern "C" fn(i64)>(c"clock_steps") }?;
        let before = Instant::now();
        Self.step(-5);
        let after = Instant::now();
        Self.step(5);
        // A sanitizer may have a clock of its own.
        (after < before).then_some(Self)
    }

    fn function<F: Copy>(name: &CStr) -> F {
        // SAFETY: the functions in the library have the types that they are called by here.
        unsafe { preloaded(name) }.expect("the library is there")
    }

    fn step(&self, seconds: i64) {
        Self::function::<extern "C" fn(i64)>(c"clock_steps")(seconds * 1_000_000_000);
    }

    fn call(&self, name: &CStr) {
        Self::function::<extern "C" fn()>(name)();
    }

    /// Moves all clocks, which stand still.
    fn moves(&self, span: Duration) {
        Self::function::<extern "C" fn(i64)>(c"clocks_move")(span.as_nanos() as i64);
    }

    /// Runs `action`, with the calling thread held for [`HELD`] before each reading of a clock in
    /// `at`. Says whether there was the first of these readings.
    fn held_at<R>(&self, at: Range<i64>, action: impl FnOnce() -> R) -> (R, bool) {
        let (result, readings) = self.moving(at.clone(), HELD, action);
        (result, readings > at.start)
    }

    /// Runs `action`, while the clocks move by so much before each reading of the calling thread's
    /// in `at`. Says how many readings there were.
    fn moving<R>(&self, at: Range<i64>, by: Duration, action: impl FnOnce() -> R) -> (R, i64) {
        let hold: extern "C" fn(i64, i64, i64) = Self::function(c"clocks_hold");
        let let_go: extern "C" fn() -> i64 = Self::function(c"clocks_let_go");
        hold(at.start, at.end, by.as_nanos() as i64);
        let result = action();
        (result, let_go())
    }
}

/// Time for which threads are held.
const HELD: Duration = ms(100);

/// Runs `check` with where to hold: at each reading in turn, and from each on, until `check` says
/// that there are no more.
fn at_each_reading(mut check: impl FnMut(Range<i64>) -> bool) {
    for lasting in [false, true] {
        let held = (0..)
            .take_while(|&from| check(from..if lasting { i64::MAX } else { from + 1 }))
            .count();
        assert!((2..100).contains(&held), "held at {held} readings");
    }
}

/// The sleep ends, and not before its deadline by the clock as it is shown.
fn ends_in_time(mut sleep: Sleep) {
    pollster::block_on(&mut sleep);
    assert!(Instant::now() >= sleep.deadline(), "early");
}

#[test]
fn a_driver_survives_a_clock_that_steps_and_stands_still() {
    alone!(on_a_clock_of_its_own);
    let Some(clock) = SystemClock::preloaded() else {
        return not_checked(STEPS, "the clock is not the one preloaded");
    };
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    ends_in_time(timer.sleep(ms(1)));

    // Back, to before the timer was made, and past the tick that the wheel has been turned to.
    let mut across = pending_for(ms(200), Waker::noop(), |span| timer.sleep(span));
    clock.step(-10);
    for delay in [20, 1, 5, 0] {
        ends_in_time(timer.sleep(ms(delay)));
    }
    let mut reset = polled(timer.sleep(3600 * SECOND));
    reset.reset_after(ms(1));
    ends_in_time(reset);
    let crowd: Vec<_> = (0..100).map(|n| timer.sleep(Duration::from_micros(50 * n))).collect();
    pollster::block_on(futures::future::join_all(crowd));
    assert!(poll(&mut across).is_pending() && !across.is_elapsed());
    clock.step(10);
    ends_in_time(across);

    // Forward, past some.
    let counter = Counter::new();
    let mut sleeps = [1, 5, 9, 3600].map(|seconds| timer.sleep(seconds * SECOND));
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &Waker::from(counter.clone())).is_pending());
    }
    clock.step(10);
    while counter.wakes() < 3 {
        std::thread::sleep(ms(1));
    }
    assert_eq!(sleeps.each_mut().map(|sleep| poll(sleep).is_ready()), [true, true, true, false]);
    assert_eq!(counter.wakes(), 3);

    // Not at all, for a second.
    clock.call(c"clock_stops");
    let (before, shown, start) = (timer.stats(), Instant::now(), SystemTime::now());
    let mut still = polled(timer.sleep(ms(100)));
    std::thread::sleep(SECOND);
    assert!(poll(&mut still).is_pending());
    let wakeups = timer.stats().driver_wakeups - before.driver_wakeups;
    // It parks for a tenth of a second, over and over: it does not spin.
    let most = start.elapsed().expect("that clock goes on").as_millis() / 100 + 2;
    assert!(u128::from(wakeups) <= most, "{wakeups} in {most} tenths of a second");
    assert_eq!(Instant::now(), shown);
    clock.call(c"clock_goes_on");
    ends_in_time(still);
    assert_eq!(timer.stats().pending, 1);
}

#[test]
fn a_timer_whose_thread_is_held_as_it_is_made_tells_deadlines_to_the_nanosecond() {
    alone!(on_a_clock_of_its_own);
    let Some(clock) = SystemClock::preloaded() else {
        return not_checked(STEPS, "the clock is not the one preloaded");
    };
    clock.call(c"clocks_stand");
    for kind in [ClockKind::Monotonic, ClockKind::Boottime] {
        at_each_reading(|at| {
            let make = || Timer::builder().clock(kind).build_manual(|| {});
            let (made, was_held) = clock.held_at(at.clone(), make);
            let (timer, driver) = made.expect("Linux has both clocks");
            let shown = timer.now();
            let off = Instant::now().checked_duration_since(shown).expect("it is never ahead");
            // It takes two readings to set this clock beside instants, and a thread that is held at
            // each makes them that far apart.
            let is_off = kind == ClockKind::Boottime && at.end == i64::MAX;
            assert!(off.is_zero() || is_off && off <= HELD, "{off:?} behind, held at {at:?}");
            tells_deadlines_to_the_nanosecond(&clock, &timer, driver, off);
            was_held
        });
    }
}

/// Sleeps are ready so long after their deadlines by `Instant`, and no nanosecond before, in polls
/// and by the driver.
fn tells_deadlines_to_the_nanosecond(
    clock: &SystemClock,
    timer: &Timer,
    mut driver: Driver,
    off: Duration,
) {
    let deadline = Instant::now() + SECOND;
    let (counter, waker) = counting();
    let [mut armed, mut polled_late] = [deadline; 2].map(|deadline| timer.sleep_until(deadline));
    assert!(poll_with(&mut armed, &waker).is_pending());
    clock.moves(SECOND + off - NANOSECOND);
    driver.turn();
    assert!(poll_with(&mut armed, &waker).is_pending() && counter.wakes() == 0, "early");
    assert!(!armed.is_elapsed() && !polled_late.is_elapsed(), "early");
    clock.moves(NANOSECOND);
    assert!(armed.is_elapsed() && poll(&mut polled_late).is_ready(), "blind to its deadline");
    assert!(poll(&mut timer.sleep_until(deadline)).is_ready(), "blind to a past deadline");
    assert_eq!((driver.turn().fired, counter.wakes()), (1, 1));
    assert!(poll(&mut armed).is_ready());
}

#[test]
fn a_wall_sleep_whose_thread_is_held_as_it_aims_is_woken_at_its_target_and_not_before() {
    alone!(on_a_clock_of_its_own);
    let Some(clock) = SystemClock::preloaded() else {
        return not_checked(STEPS, "the clock is not the one preloaded");
    };
    clock.call(c"clocks_stand");
    at_each_reading(|at| {
        let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("valid options");
        let target = SystemTime::now() + 3600 * SECOND;
        let mut sleep = timer.sleep_until_wall(target);
        let (counter, waker) = counting();
        let (polled, was_held) = clock.held_at(at, || poll_with(&mut sleep, &waker));
        assert!(polled.is_pending());
        let left = target.duration_since(SystemTime::now()).expect("an hour is longer");
        clock.moves(left - NANOSECOND);
        driver.turn();
        assert!(poll_with(&mut sleep, &waker).is_pending(), "early");
        let before = counter.wakes();
        clock.moves(NANOSECOND);
        driver.turn();
        assert_eq!(counter.wakes(), before + 1, "not woken at its target");
        assert!(poll(&mut sleep).is_ready());
        was_held
    });
}

#[test]
fn a_spin_ends_at_its_deadline_and_where_its_clock_stands_still() {
    alone!(on_a_clock_of_its_own);
    let Some(clock) = SystemClock::preloaded() else {
        return not_checked(STEPS, "the clock is not the one preloaded");
    };
    clock.call(c"clocks_stand");
    for kind in [ClockKind::Monotonic, ClockKind::Boottime] {
        let made = Timer::builder().clock(kind).build_manual(|| {});
        let (timer, mut driver) = made.expect("Linux has both clocks");
        let (counter, waker) = counting();
        let span = Duration::from_micros(50);
        let start = timer.now();
        let mut spin = timer.sleep_until(start + SECOND).spin_last(span);
        assert!(poll_with(&mut spin, &waker).is_pending());
        assert_eq!((driver.turn().fired, driver.max_wait()), (0, Some(SECOND - span)));

        // The clock moves by less than a fifth of the span before each reading.
        clock.moves(SECOND - span);
        assert_eq!((driver.turn().fired, counter.wakes()), (1, 1));
        let step = span / 5 - NANOSECOND;
        let (polled, _) = clock.moving(0..i64::MAX, step, || poll_with(&mut spin, &waker));
        assert!(polled.is_ready() && spin.deadline() == start + SECOND);
        let late = timer.now().checked_duration_since(spin.deadline()).expect("it is not early");
        assert!(late < step, "it read on, {late:?} past its deadline");

        // It stands still: the poll ends, and the driver fires once more, at the deadline itself.
        spin.reset(timer.now() + SECOND);
        assert!(poll_with(&mut spin, &waker).is_pending());
        clock.moves(SECOND - span);
        assert_eq!((driver.turn().fired, counter.wakes()), (1, 2));
        assert!(poll_with(&mut spin, &waker).is_pending());
        assert_eq!(driver.turn().fired, 0);
        assert_eq!(driver.max_wait(), Some(span));
        clock.moves(span - NANOSECOND);
        assert_eq!(driver.turn().fired, 0);
        assert!(poll_with(&mut spin, &waker).is_pending(), "early");
        clock.moves(NANOSECOND);
        assert_eq!((driver.turn().fired, counter.wakes()), (1, 3));
        assert!(poll_with(&mut spin, &waker).is_ready());
    }
}
