//! `SpinLast`, on clocks that it does not spin on, and on the system's. `system_clock.rs` has the
//! spin itself, reading by reading.

use std::time::{Duration, Instant};

use tourbillon::Timer;
use tourbillon::spin::SpinLast;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// The spin ends, and not before its deadline.
fn ends_in_time(mut spin: SpinLast) {
    pollster::block_on(&mut spin);
    assert!(Instant::now() >= spin.deadline(), "early");
    assert!(poll(&mut spin).is_ready(), "once more");
}

#[test]
fn on_a_virtual_clock_it_waits_for_its_deadline_itself() {
    let (timer, clock) = virtual_timer();
    for span in [NANOSECOND, SECOND, 3600 * SECOND, Duration::MAX] {
        let (counter, waker) = counting();
        let mut spin = timer.sleep(60 * SECOND).spin_last(span);
        assert_eq!(spin.deadline(), clock.now() + 60 * SECOND);
        assert!(poll_with(&mut spin, &waker).is_pending());
        assert_eq!(clock.next_deadline(), Some(spin.deadline()));
        assert_eq!(clock.advance(60 * SECOND - NANOSECOND), 0);
        assert!(poll_with(&mut spin, &waker).is_pending());
        assert_eq!((clock.advance(NANOSECOND), counter.wakes()), (1, 1));
        assert!(poll_with(&mut spin, &waker).is_ready());
        assert!(poll_with(&mut spin, &waker).is_ready(), "once more");
    }
}

#[test]
fn a_reset_moves_its_deadline_before_and_while_it_waits_and_after() {
    let (timer, clock) = virtual_timer();
    let mut spin = timer.sleep(SECOND).spin_last(ms(1));
    for _ in 0..2 {
        for ahead in [5, 2, 7] {
            spin.reset(clock.now() + ahead * SECOND);
            assert_eq!(spin.deadline(), clock.now() + ahead * SECOND);
            assert!(poll(&mut spin).is_pending());
            assert_eq!(clock.next_deadline(), Some(spin.deadline()));
        }
        clock.advance_to_next();
        assert!(poll(&mut spin).is_ready());
    }
}

#[test]
fn one_that_never_ends_neither_spins_nor_ends() {
    let (timer, _driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    for span in [NANOSECOND, SECOND, Duration::MAX] {
        let spin = polled(timer.never().spin_last(span));
        assert_eq!(timer.stats().armed, 0);
        // It was the deadline that stood for never, and no other.
        assert_eq!(spin.deadline(), timer.never().deadline());
    }
}

#[test]
fn it_has_no_tolerance() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).tolerance(SECOND);
    let timer = builder.build().expect("the options are valid");
    let tolerant = timer.sleep(5 * SECOND).with_tolerance(3 * SECOND);
    for mut spin in [timer.sleep(2 * SECOND).spin_last(ms(1)), tolerant.spin_last(ms(1))] {
        assert!(poll(&mut spin).is_pending());
        assert_eq!(clock.advance_to_next(), Some(spin.deadline()));
        assert!(poll(&mut spin).is_ready());
    }
}

#[test]
fn one_that_was_armed_as_a_sleep_wakes_the_task_that_polled_that() {
    let (timer, clock) = virtual_timer();
    let (sleep, counter) = counted(timer.sleep(SECOND));
    let mut spin = sleep.spin_last(ms(1));
    assert_eq!((clock.advance(SECOND), counter.wakes()), (1, 1));
    assert!(poll(&mut spin).is_ready());
}

#[test]
fn a_span_as_long_as_the_wait_is_spun_by_the_first_poll() {
    let (timer, _driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    for span in [SECOND, Duration::MAX] {
        let mut spin = timer.sleep(ms(1)).spin_last(span);
        assert!(poll(&mut spin).is_ready());
        assert!(Instant::now() >= spin.deadline(), "early");
        assert_eq!(timer.stats().armed, 0);
    }
}

#[test]
fn it_is_never_early_in_real_time() {
    for micros in [0, 1, 100, 3_000] {
        for span in [0, 1, 50, 100, 1_000] {
            let delay = Duration::from_micros(micros);
            ends_in_time(tourbillon::sleep(delay).spin_last(Duration::from_micros(span)));
        }
    }
}
