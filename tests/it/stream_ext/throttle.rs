//! `StreamExt::throttle`.

use super::*;

#[test]
fn items_are_a_period_apart_and_the_first_need_not_wait() {
    let (timer, clock) = virtual_timer();
    let slow = at(&timer, &[0, 1, 2, 45, 46]).on_timer(&timer).throttle(ms(10)).into_stream();
    let expected = [(0, 0), (10, 1), (20, 2), (45, 45), (55, 46)];
    assert_eq!(trace_to_end(&clock, slow), (expected.to_vec(), 65));
}

#[test]
fn the_source_is_left_alone_during_the_pause() {
    let (timer, clock) = virtual_timer();
    let (source, taken) = endless();
    let mut slow = source.on_timer(&timer).throttle(ms(10)).into_stream();
    is_item(next(&mut slow), 1);
    for _ in 0..100 {
        assert!(next(&mut slow).is_pending());
    }
    assert_eq!(taken.get(), 1);
    clock.advance(ms(10) - Duration::from_nanos(1));
    assert!(next(&mut slow).is_pending());
    clock.advance(Duration::from_nanos(1));
    is_item(next(&mut slow), 2);
    assert_eq!(taken.get(), 2);
}

#[test]
fn an_item_that_is_late_does_not_bring_the_next_one_forward() {
    let (timer, clock) = virtual_timer();
    let mut slow = stream::iter(0..).on_timer(&timer).throttle(ms(10)).into_stream();
    is_item(next(&mut slow), 0);
    clock.advance(ms(35));
    is_item(next(&mut slow), 1);
    clock.advance(ms(9));
    assert!(next(&mut slow).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut slow), 2);
}

#[test]
fn a_pending_source_does_not_arm_the_pause_again() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (sender, source) = unbounded();
    let mut slow = source.on_timer(&timer).throttle(ms(10)).into_stream();
    sender.unbounded_send(1).unwrap();
    is_item(poll_next(&mut slow, &waker), 1);
    assert!(poll_next(&mut slow, &waker).is_pending());
    clock.advance(ms(10));
    assert_eq!(counter.wakes(), 1);
    assert!(poll_next(&mut slow, &waker).is_pending());
    clock.advance(SECOND);
    assert_eq!((counter.wakes(), clock.pending()), (1, 0));
    sender.unbounded_send(2).unwrap();
    assert_eq!(counter.wakes(), 2);
    is_item(poll_next(&mut slow, &waker), 2);
}

#[test]
fn zero_lets_everything_through_and_max_one_item() {
    let (timer, clock) = virtual_timer();
    let fast = at(&timer, &[0, 0, 3]).on_timer(&timer).throttle(Duration::ZERO).into_stream();
    assert_eq!(trace_to_end(&clock, fast), (vec![(0, 0), (0, 0), (3, 3)], 3));

    let mut once = stream::iter([1, 2]).on_timer(&timer).throttle(Duration::MAX).into_stream();
    is_item(next(&mut once), 1);
    assert!(next(&mut once).is_pending());
    clock.advance(Duration::MAX);
    assert!(next(&mut once).is_pending());
}

#[test]
fn the_hint_is_that_of_the_source() {
    let slow = stream::iter([1, 2, 3]).throttle(ms(10));
    assert_eq!(slow.size_hint(), (3, Some(3)));
}

#[test]
fn a_panic_of_the_source_costs_no_pause() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut slow = source.on_timer(&timer).throttle(ms(10)).into_stream();
    for item in [None, Some(1), None, Some(2)] {
        sender.unbounded_send(item).unwrap();
    }
    panics(|| next(&mut slow));
    is_item(next(&mut slow), 1);
    assert!(next(&mut slow).is_pending());
    clock.advance(ms(10));
    panics(|| next(&mut slow));
    is_item(next(&mut slow), 2);
}
