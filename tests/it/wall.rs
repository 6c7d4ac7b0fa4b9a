//! Wall time: sleeps until a time of day, and clocks that are set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::FusedFuture;
use tourbillon::{ClockKind, Timer, VirtualClock, WallSleep};

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const NANO: Duration = Duration::from_nanos(1);

/// A sleep that ends so long from now, polled with a waker that counts.
fn waiting(timer: &Timer, delay: Duration) -> (WallSleep, Arc<Counter>) {
    let counter = Counter::new();
    let mut sleep = timer.sleep_until_wall(timer.wall_now() + delay);
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    (sleep, counter)
}

#[test]
fn it_completes_at_its_target_and_wakes_once() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let target = clock.wall_now() + HOUR;
    let mut sleep = timer.sleep_until_wall(target);
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    clock.advance(HOUR - NANO);
    assert_eq!(counter.wakes(), 0);
    assert!(poll(&mut timer.sleep_until_wall(target)).is_pending());
    clock.advance(NANO);
    assert_eq!((counter.wakes(), clock.wall_now()), (1, target));
    assert!(poll(&mut sleep).is_ready());
    assert_eq!((timer.stats().armed, timer.stats().pending), (2, 0));
}

#[test]
fn steps_of_the_wall_are_followed_in_both_directions() {
    for step in [MINUTE, HOUR, DAY, 400 * DAY] {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let counter = Counter::new();
        let waker = Waker::from(counter.clone());
        let mut sleep = timer.sleep_until_wall(clock.wall_now() + 2 * step);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Forward, but not far enough.
        clock.set_wall(clock.wall_now() + step);
        assert_eq!(counter.wakes(), 1);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Back, so that it takes three times as long.
        clock.set_wall(clock.wall_now() - 2 * step);
        assert_eq!(counter.wakes(), 2);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        clock.advance(3 * step - NANO);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        assert_eq!(counter.wakes(), 2);
        // And forward, to the target.
        clock.set_wall(sleep.target());
        assert_eq!(counter.wakes(), 3);
        assert!(poll(&mut sleep).is_ready());
        assert_eq!(clock.now() - start, 3 * step - NANO);
    }
}

#[test]
fn a_suspend_moves_the_wall_alone() {
    let (timer, clock) = virtual_timer();
    let start = (clock.now(), clock.wall_now());
    let mut by_clock = timer.sleep(HOUR);
    let counter = Counter::new();
    assert!(poll_with(&mut by_clock, &Waker::from(counter.clone())).is_pending());
    let (mut due, woken) = waiting(&timer, 8 * HOUR);
    let (mut later, _) = waiting(&timer, 8 * HOUR + NANO);
    clock.suspend(8 * HOUR);
    assert_eq!((clock.now(), clock.wall_now()), (start.0, start.1 + 8 * HOUR));
    assert_eq!((woken.wakes(), counter.wakes()), (1, 0));
    assert!(poll(&mut due).is_ready() && poll(&mut later).is_pending());
    assert_eq!((clock.advance(NANO), clock.advance(HOUR - 2 * NANO)), (1, 0));
    assert!(poll(&mut later).is_ready() && poll(&mut by_clock).is_pending());
    assert_eq!(clock.advance(NANO), 1);
}

#[test]
fn the_clock_can_jump_with_the_wall_left_where_it_is() {
    let (timer, clock) = virtual_timer();
    let (start, wall) = (clock.now(), clock.wall_now());
    let (mut sleep, _) = waiting(&timer, HOUR);
    clock.jump(DAY);
    assert_eq!(timer.wall_now(), wall + DAY);
    clock.set_wall(wall);
    assert_eq!((clock.now() - start, clock.wall_now()), (DAY, wall));
    // The wheel has it as due; the wall has not.
    clock.advance(Duration::ZERO);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(HOUR - NANO);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(NANO);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_target_in_the_past_is_ready_at_once_and_arms_nothing() {
    let (timer, clock) = virtual_timer();
    let now = clock.wall_now();
    for target in [now, now - NANO, UNIX_EPOCH, UNIX_EPOCH - 400 * DAY] {
        let mut sleep = timer.sleep_until_wall(target);
        assert!(sleep.is_elapsed() && !sleep.is_terminated());
        assert!(poll(&mut sleep).is_ready() && sleep.is_terminated());
    }
    assert_eq!(timer.stats().armed, 0);
    // Unless the wall is set to a time before that.
    clock.set_wall(UNIX_EPOCH - DAY);
    let mut sleep = timer.sleep_until_wall(UNIX_EPOCH);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(DAY);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_target_too_far_to_come_waits_for_the_clock_to_be_set() {
    let (timer, clock) = virtual_timer();
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let mut last = UNIX_EPOCH;
    for bit in (0..63).rev() {
        last = last.checked_add(Duration::from_secs(1 << bit)).unwrap_or(last);
    }
    for target in [year_9999, last] {
        let (mut sleep, counter) = (timer.sleep_until_wall(target), Counter::new());
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.suspend(400 * 365 * DAY);
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.set_wall(target - SECOND);
        assert_eq!(counter.wakes(), 2);
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.advance(SECOND);
        assert_eq!(counter.wakes(), 3);
        assert!(poll(&mut sleep).is_ready());
    }
    // Past the end of what the platform can tell apart, the wall stands still.
    clock.set_wall(last);
    clock.suspend(Duration::MAX);
    clock.advance(Duration::MAX);
    assert!(clock.wall_now() >= last);
}

#[test]
fn an_hour_of_minutes_wakes_once_for_each() {
    let (timer, clock) = virtual_timer();
    let start = clock.wall_now();
    let counter = Counter::new();
    let waker = Waker::from(counter.clone());
    let mut sleep = timer.sleep_until_wall(start + MINUTE);
    for minute in 1..=60 {
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Nothing happens between one and the next.
        assert_eq!(clock.advance(MINUTE - NANO), 0);
        assert_eq!((clock.advance(NANO), counter.wakes()), (1, minute));
        assert!(poll_with(&mut sleep, &waker).is_ready());
        sleep.reset(sleep.target() + MINUTE);
    }
    assert_eq!((timer.stats().fired, clock.wall_now()), (60, start + HOUR));
}

#[test]
fn block_on_goes_from_target_to_target() {
    let (timer, clock) = virtual_timer();
    let start = clock.wall_now();
    clock.block_on(async {
        for day in 1..=365 {
            timer.sleep_until_wall(start + day * DAY).await;
            assert_eq!(timer.wall_now(), start + day * DAY);
        }
    });
}

#[test]
fn a_step_wakes_each_of_many_once_and_in_order() {
    let (timer, clock) = virtual_timer();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let start = clock.wall_now();
    let mut sleeps: Vec<_> =
        (0..1000).map(|n| timer.sleep_until_wall(start + MINUTE + n * SECOND)).collect();
    let wakers: Vec<_> = (0..1000_u32)
        .map(|n| {
            let woken = woken.clone();
            callback(move || woken.lock().unwrap().push(n))
        })
        .collect();
    for (sleep, waker) in sleeps.iter_mut().zip(&wakers) {
        assert!(poll_with(sleep, waker).is_pending());
    }
    clock.set_wall(start + MINUTE + 499 * SECOND);
    assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), (0..1000).collect::<Vec<_>>());
    let ready = sleeps
        .iter_mut()
        .zip(&wakers)
        .filter_map(|(s, w)| poll_with(s, w).is_ready().then_some(()));
    assert_eq!(ready.count(), 500);
    assert_eq!((clock.advance(500 * SECOND), clock.pending()), (500, 0));
    assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), (500..1000).collect::<Vec<_>>());
}

#[test]
fn a_reset_is_followed_without_a_poll() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, DAY);
    sleep.reset(clock.wall_now() + HOUR);
    assert_eq!((clock.advance(HOUR), counter.wakes()), (1, 1));
    assert!(poll(&mut sleep).is_ready());
    // After completion it waits again, from the next poll on.
    sleep.reset(clock.wall_now() + HOUR);
    assert!(!sleep.is_terminated());
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    // To later, and then into the past.
    sleep.reset(clock.wall_now() + DAY);
    assert_eq!((clock.advance(HOUR), counter.wakes()), (0, 1));
    sleep.reset(UNIX_EPOCH);
    clock.advance(Duration::ZERO);
    assert_eq!(counter.wakes(), 2);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn polled_again_after_completion_it_is_ready_though_the_clock_was_set_back() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, HOUR);
    clock.advance(HOUR);
    assert!(poll(&mut sleep).is_ready());
    clock.set_wall(UNIX_EPOCH);
    assert!(poll(&mut sleep).is_ready() && !sleep.is_elapsed());
    assert_eq!(counter.wakes(), 1);
}

#[test]
fn the_task_that_polled_last_is_woken_by_a_step() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, first) = waiting(&timer, HOUR);
    let second = Counter::new();
    assert!(poll_with(&mut sleep, &Waker::from(second.clone())).is_pending());
    assert_eq!(Arc::strong_count(&first), 1);
    clock.suspend(MINUTE);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    // Woken, it is not told again before it is polled.
    clock.suspend(MINUTE);
    assert_eq!(second.wakes(), 1);
}

#[test]
fn dropping_one_lets_go_of_its_wakers() {
    let (timer, clock) = virtual_timer();
    let (sleep, counter) = waiting(&timer, HOUR);
    drop(sleep);
    assert_eq!((Arc::strong_count(&counter), clock.pending()), (1, 0));
    let (mut sleep, counter) = waiting(&timer, HOUR);
    clock.advance(HOUR);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(Arc::strong_count(&counter), 1, "completion does too");
}

#[test]
fn a_waker_may_drop_others_that_are_being_woken_and_set_the_clock() {
    let (timer, clock) = virtual_timer();
    let victims: Vec<_> = (0..100).map(|_| waiting(&timer, HOUR)).collect();
    let victims = Arc::new(Mutex::new(victims));
    let start = clock.wall_now();
    let mut trigger = timer.sleep_until_wall(start + HOUR);
    let waker = {
        let (clock, victims) = (clock.clone(), victims.clone());
        callback(move || {
            clock.set_wall(start + 2 * HOUR);
            victims.lock().unwrap().truncate(1);
        })
    };
    assert!(poll_with(&mut trigger, &waker).is_pending());
    clock.set_wall(start + MINUTE);
    assert_eq!(clock.wall_now(), start + 2 * HOUR);
    let mut victims = victims.lock().unwrap();
    let (sleep, counter) = &mut victims[0];
    assert_eq!(counter.wakes(), 1);
    assert!(poll(sleep).is_ready() && poll(&mut trigger).is_ready());
    assert_eq!(clock.pending(), 0);
}

#[test]
fn a_waker_that_panics_at_a_step_harms_nobody_and_is_counted() {
    let (timer, clock) = virtual_timer();
    let mut sleeps: Vec<_> =
        (0..10).map(|_| timer.sleep_until_wall(clock.wall_now() + HOUR)).collect();
    let counter = Counter::new();
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        let waker = match index % 2 {
            0 => callback(|| panic!("a waker that panics, as the test wants it")),
            _ => Waker::from(counter.clone()),
        };
        assert!(poll_with(sleep, &waker).is_pending());
    }
    clock.suspend(HOUR);
    assert_eq!((counter.wakes(), timer.stats().waker_panics), (5, 5));
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
}

#[test]
fn a_waker_that_panics_in_clone_leaves_the_sleep_as_it_was() {
    use std::task::{RawWaker, RawWakerVTable};

    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| panic!("clone panics, as the test wants it"),
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: the functions neither own nor free anything.
    let bad = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, HOUR);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    clock.suspend(MINUTE);
    assert_eq!(counter.wakes(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    clock.advance(HOUR - MINUTE);
    assert_eq!(counter.wakes(), 2);
}

#[test]
fn two_walls_know_nothing_of_each_other() {
    let ((one, one_clock), (two, _clock)) = (virtual_timer(), virtual_timer());
    let ((mut a, _), (mut b, counter)) = (waiting(&one, HOUR), waiting(&two, HOUR));
    one_clock.suspend(HOUR);
    assert!(poll(&mut a).is_ready() && poll(&mut b).is_pending());
    assert_eq!(counter.wakes(), 0);
    let alone = VirtualClock::new();
    alone.suspend(HOUR);
    assert_eq!(alone.wall_now(), one_clock.wall_now());
}

#[test]
fn the_real_one_is_never_early() {
    for micros in [0, 1, 50, 3000] {
        let target = SystemTime::now() + Duration::from_micros(micros);
        pollster::block_on(tourbillon::sleep_until_wall(target));
        assert!(SystemTime::now() >= target);
    }
}

#[test]
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
fn a_timer_that_counts_suspend_is_never_early_either() {
    let timer = Timer::builder().clock(ClockKind::Boottime).build().expect("there is such a clock");
    for delay in [Duration::ZERO, NANO, ms(3), ms(300)] {
        let deadline = timer.now() + delay;
        pollster::block_on(timer.sleep_until(deadline));
        assert!(timer.now() >= deadline);
    }
    let target = timer.wall_now() + ms(2);
    pollster::block_on(timer.sleep_until_wall(target));
    assert!(SystemTime::now() >= target);
}
