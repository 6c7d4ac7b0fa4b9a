//! Wall time: sleeps until a time of day, and clocks that are set.

use std::task::Waker;
use std::time::{Duration, SystemTime};

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn it_completes_at_its_target_and_wakes_once() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let target = clock.wall_now() + HOUR;
    let mut sleep = timer.sleep_until_wall(target);
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    clock.advance(HOUR - Duration::from_nanos(1));
    assert_eq!(counter.wakes(), 0);
    assert!(poll(&mut timer.sleep_until_wall(target)).is_pending());
    clock.advance(Duration::from_nanos(1));
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
        clock.advance(3 * step - Duration::from_nanos(1));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        assert_eq!(counter.wakes(), 2);
        // And forward, to the target.
        clock.set_wall(sleep.target());
        assert_eq!(counter.wakes(), 3);
        assert!(poll(&mut sleep).is_ready());
        assert_eq!(clock.now() - start, 3 * step - Duration::from_nanos(1));
    }
}

#[test]
fn the_real_one_is_never_early() {
    for micros in [0, 1, 50, 3000] {
        let target = SystemTime::now() + Duration::from_micros(micros);
        pollster::block_on(tourbillon::sleep_until_wall(target));
        assert!(SystemTime::now() >= target);
    }
}
