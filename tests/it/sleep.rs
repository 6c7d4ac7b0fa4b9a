//! `Sleep`, poll by poll.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use tourbillon::Timer;

use crate::support::*;

#[test]
fn it_ends_at_its_deadline_and_not_a_nanosecond_before() {
    let (timer, clock) = virtual_timer();
    for delay in [1, 63, 64, 65, 4_095, 4_096, 1_000_000, 86_400_000_000_000] {
        let delay = Duration::from_nanos(delay);
        let mut sleep = polled(timer.sleep(delay));
        assert_eq!(clock.advance(delay - NANOSECOND), 0);
        assert!(poll(&mut sleep).is_pending());
        assert_eq!(clock.advance(NANOSECOND), 1);
        assert!(poll(&mut sleep).is_ready());
    }
}

#[test]
fn a_reset_stays_with_the_timer_that_made_the_sleep() {
    let (timer, clock) = virtual_timer();
    let (other, other_clock) = virtual_timer();
    let mut sleep = timer.sleep(SECOND);
    let mut beside = other.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending() && poll(&mut beside).is_pending());
    for deadline in [beside.deadline() + SECOND, clock.now() + SECOND / 2] {
        sleep.reset(deadline);
        assert!(poll(&mut sleep).is_pending());
        assert_eq!((clock.pending(), other_clock.pending()), (1, 1));
    }
    assert_eq!(other_clock.advance(10 * SECOND), 1, "that of the other timer alone");
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(clock.advance(SECOND / 2), 1);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn dropping_cancels_at_once_and_lets_go_of_the_waker() {
    let (timer, clock) = virtual_timer();
    let (sleep, counter) = counted(timer.sleep(SECOND));
    assert_eq!(clock.pending(), 1);
    drop(sleep);
    assert_eq!((clock.pending(), clock.next_deadline()), (0, None));
    assert_eq!(std::sync::Arc::strong_count(&counter), 1);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 0);
    assert_eq!(timer.stats().cancelled, 1);
}

#[test]
fn a_starved_driver_starves_nobody_who_polls() {
    // No one ever turns this driver, and the clock is real.
    let (timer, driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let mut earlier = polled(timer.sleep(3600 * SECOND));
    earlier.reset_after(ms(1));
    std::thread::sleep(ms(3));
    assert!(poll(&mut timer.sleep_until(earlier.deadline())).is_ready());
    assert!(poll(&mut earlier).is_ready());
    drop(driver);
}

#[test]
fn reset_to_later_on_a_real_clock_is_not_early_and_completes() {
    let timer = Timer::builder().build().expect("the options are valid");
    let mut sleep = timer.sleep(ms(1));
    // Pending, unless this thread was held up; the resets are to do the same then.
    let _ = poll(&mut sleep);
    for later in 2..=6 {
        sleep.reset_after(ms(later));
    }
    let deadline = sleep.deadline();
    pollster::block_on(&mut sleep);
    assert!(Instant::now() >= deadline);
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_polled_sleep_that_never_ended_is_woken_once_it_is_reset() {
    for tolerance in [Duration::ZERO, SECOND] {
        let (timer, clock) = virtual_timer();
        let [first, last] = [(); 2].map(|()| Counter::new());
        let mut sleep = timer.never().with_tolerance(tolerance);
        for counter in [&first, &last, &last] {
            assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        }
        assert_eq!(Arc::strong_count(&first), 1, "another has its place");
        sleep.reset_after(SECOND);
        assert_eq!((clock.pending(), timer.stats().armed), (1, 1));
        clock.advance(SECOND + tolerance);
        assert_eq!((first.wakes(), last.wakes()), (0, 1));
        assert!(poll(&mut sleep).is_ready());
        // Also if that is not ahead.
        sleep.reset_after(Duration::MAX);
        assert!(poll_with(&mut sleep, &Waker::from(last.clone())).is_pending());
        sleep.reset(clock.now() - 2 * SECOND);
        assert_eq!(last.wakes(), 2);
    }
}

#[test]
fn a_sleep_that_never_ends_lets_its_waker_go() {
    let (timer, _clock) = virtual_timer();
    let counter = Counter::new();
    let mut sleeps = [(); 3].map(|()| timer.never());
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &Waker::from(counter.clone())).is_pending());
    }
    assert_eq!(Arc::strong_count(&counter), 4);
    let [dropped, mut cancelled, called] = sleeps;
    drop(dropped);
    assert!(!cancelled.cancel(), "it had no deadline");
    let callback = called.call(|| {});
    assert_eq!((Arc::strong_count(&counter), counter.wakes()), (1, 0));
    assert!(callback.is_pending());
    assert_eq!(timer.stats().armed, 0);
}

#[test]
fn deadlines_are_given_back_as_they_came() {
    let now = Instant::now();
    let before = now.checked_sub(ms(1)).unwrap_or(now);
    for deadline in [before, now, now + Duration::from_nanos(1), now + 3600 * SECOND] {
        assert_eq!(tourbillon::sleep_until(deadline).deadline(), deadline);
    }
}

#[test]
fn a_deadline_before_the_time_line_is_past_and_given_back_as_its_beginning() {
    const YEAR: Duration = Duration::from_secs(365 * 86_400);
    // A platform may not be able to represent such instants.
    let Some(centuries_ago) = Instant::now().checked_sub(400 * YEAR) else { return };
    let mut sleep = tourbillon::sleep_until(centuries_ago);
    assert!(sleep.is_elapsed());
    let beginning = sleep.deadline();
    assert!(beginning > centuries_ago, "saturated");
    let before = Instant::now() - beginning;
    assert!(before > 146 * YEAR && before < 147 * YEAR, "{before:?}");
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(tourbillon::sleep_until(centuries_ago - YEAR).deadline(), beginning);
    let within = Instant::now() - 140 * YEAR;
    assert_eq!(tourbillon::sleep_until(within).deadline(), within);
}

/// Two wakers of a task may share their data and differ in its use.
#[test]
fn wakers_are_told_apart_by_their_functions_too() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{RawWaker, RawWakerVTable};

    static WAKES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    static CLONES: AtomicUsize = AtomicUsize::new(0);

    fn raw<const WHICH: usize>(data: *const ()) -> RawWaker {
        CLONES.fetch_add(1, Ordering::SeqCst);
        fn wake<const WHICH: usize>(_: *const ()) {
            WAKES[WHICH].fetch_add(1, Ordering::SeqCst);
        }
        let table =
            const { &RawWakerVTable::new(raw::<WHICH>, wake::<WHICH>, wake::<WHICH>, |_| {}) };
        RawWaker::new(data, table)
    }

    // SAFETY: the functions touch no data.
    let wakers = [raw::<0>, raw::<1>].map(|raw| unsafe { Waker::from_raw(raw(std::ptr::null())) });
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(SECOND);
    for waker in &wakers {
        assert!(poll_with(&mut sleep, waker).is_pending());
    }
    let clones = CLONES.load(Ordering::SeqCst);
    assert!(poll_with(&mut sleep, &wakers[1]).is_pending());
    assert_eq!(CLONES.load(Ordering::SeqCst), clones, "it has that one");
    clock.advance(SECOND);
    assert_eq!(WAKES.each_ref().map(|wakes| wakes.load(Ordering::SeqCst)), [0, 1]);
}

#[test]
fn a_cancel_says_whether_it_was_in_time() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let hour = 3600 * SECOND;
    // Not armed, armed, and armed and reset.
    let mut sleeps = [timer.sleep(hour), timer.sleep(hour), timer.sleep(SECOND)];
    assert!(poll_with(&mut sleeps[1], &waker).is_pending());
    assert!(poll_with(&mut sleeps[2], &waker).is_pending());
    sleeps[2].reset_after(hour);
    for sleep in &mut sleeps {
        assert!(sleep.cancel());
        assert!(!sleep.cancel(), "it has no deadline any more");
        assert_eq!((sleep.deadline(), sleep.remaining()), (timer.never().deadline(), None));
    }
    assert_eq!(Arc::strong_count(&counter), 2, "the sleeps have let go of it");
    assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()));
    assert_eq!((clock.pending(), clock.advance(hour), counter.wakes()), (0, 0, 0));
    sleeps[0].reset_after(SECOND);
    clock.block_on(&mut sleeps[0]);
    assert!(!sleeps[0].cancel(), "it has completed");
    assert!(poll(&mut sleeps[0]).is_pending());
}

#[test]
fn a_cancel_of_what_has_fired_is_too_late_unless_that_was_for_an_earlier_deadline() {
    let (timer, clock) = virtual_timer();
    let mut sleeps = [timer.sleep(SECOND), timer.sleep(SECOND), timer.sleep(SECOND)];
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    assert_eq!(clock.advance(SECOND), 3);
    assert!(!sleeps[0].cancel());
    for sleep in &mut sleeps[1..] {
        sleep.reset_after(SECOND);
    }
    assert!(sleeps[1].cancel(), "it waits anew");
    clock.advance(SECOND);
    assert!(!sleeps[2].cancel(), "its poll would complete it");
}

#[test]
fn a_cancel_of_what_is_due_is_in_time_if_nobody_has_noticed() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let (mut armed, mut unarmed) = (timer.sleep(SECOND), timer.sleep(SECOND));
    assert!(poll_with(&mut armed, &Waker::from(counter.clone())).is_pending());
    clock.jump(SECOND);
    assert!(armed.cancel() && unarmed.cancel());
    assert_eq!((clock.advance(SECOND), counter.wakes()), (0, 0));
    assert!(!timer.never().cancel());
    let mut armed = polled(timer.sleep(SECOND));
    armed.reset_after(Duration::MAX);
    assert!(!armed.cancel(), "it has no deadline");
    assert_eq!(clock.pending(), 0);
}

#[test]
fn what_remains_goes_by_the_clock() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(3 * SECOND);
    clock.advance(SECOND);
    assert_eq!(sleep.remaining(), Some(2 * SECOND));
    assert!(poll(&mut sleep).is_pending());
    sleep.reset_after(5 * SECOND);
    clock.jump(5 * SECOND - Duration::from_nanos(1));
    assert_eq!((sleep.remaining(), sleep.is_elapsed()), (Some(Duration::from_nanos(1)), false));
    clock.jump(SECOND);
    assert_eq!((sleep.remaining(), sleep.is_elapsed()), (Some(Duration::ZERO), true));
    assert_eq!(timer.sleep_until(clock.now() - SECOND).remaining(), Some(Duration::ZERO));
    assert_eq!(timer.sleep(Duration::MAX).remaining(), None);
}
