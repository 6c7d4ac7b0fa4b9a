//! `StreamExt::throttle_first`.

use super::*;

#[test]
fn the_first_item_of_each_burst_comes_at_once_and_the_others_not_at_all() {
    let (timer, clock) = virtual_timer();
    let times = [0, 1, 9, 10, 11, 19, 45, 50, 55];
    let first = at(&timer, &times).on_timer(&timer).throttle_first(ms(10)).into_stream();
    let expected = [(0, 0), (10, 10), (45, 45), (55, 55)];
    assert_eq!(trace_to_end(&clock, first), (expected.to_vec(), 55));
}

#[test]
fn the_pause_runs_from_the_delivery_and_wakes_nobody() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (sender, source) = unbounded();
    let mut first = source.on_timer(&timer).throttle_first(ms(10)).into_stream();
    sender.unbounded_send(1).unwrap();
    clock.advance(ms(7));
    is_item(poll_next(&mut first, &waker), 1);
    assert!(poll_next(&mut first, &waker).is_pending());
    assert_eq!((clock.pending(), clock.advance(ms(10) - Duration::from_nanos(1))), (0, 0));
    sender.unbounded_send(2).unwrap();
    assert!(poll_next(&mut first, &waker).is_pending(), "dropped");
    // An item counts as come at the poll.
    sender.unbounded_send(3).unwrap();
    clock.advance(Duration::from_nanos(1));
    is_item(poll_next(&mut first, &waker), 3);
    assert_eq!(counter.wakes(), 2, "by the source alone");
}

#[test]
fn an_endless_source_that_is_always_ready_lets_other_tasks_run() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let (source, taken) = endless();
    let mut first = source.on_timer(&timer).throttle_first(ms(10)).into_stream();
    is_item(next(&mut first), 1);
    assert!(poll_next(&mut first, &Waker::from(counter.clone())).is_pending());
    assert_eq!((taken.get(), counter.wakes()), (1 + 32, 1));
    clock.advance(ms(10));
    is_item(next(&mut first), 1 + 32 + 1);
}

#[test]
fn zero_lets_everything_through_and_max_one_item() {
    let (timer, clock) = virtual_timer();
    let fast = at(&timer, &[0, 0, 3]).on_timer(&timer).throttle_first(Duration::ZERO).into_stream();
    assert_eq!(trace_to_end(&clock, fast), (vec![(0, 0), (0, 0), (3, 3)], 3));
    let once = at(&timer, &[0, 1, 2]).on_timer(&timer).throttle_first(Duration::MAX).into_stream();
    assert_eq!(trace_to_end(&clock, once), (vec![(0, 0)], 2));
}

#[test]
fn the_hint_promises_one_item_unless_it_may_be_dropped() {
    let (timer, clock) = virtual_timer();
    let mut first = stream::iter([1, 2, 3]).on_timer(&timer).throttle_first(ms(10)).into_stream();
    assert_eq!(first.size_hint(), (1, Some(3)));
    is_item(next(&mut first), 1);
    assert_eq!(first.size_hint(), (0, Some(2)));
    clock.advance(ms(10));
    assert_eq!(first.size_hint(), (1, Some(2)));
}

#[test]
fn a_panic_of_the_source_or_of_a_dropped_item_costs_nothing_else() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut first = source.on_timer(&timer).throttle_first(ms(10)).into_stream();
    for item in [None, Some(1), Some(2), None] {
        sender.unbounded_send(item).unwrap();
    }
    panics(|| next(&mut first));
    is_item(next(&mut first), 1);
    panics(|| next(&mut first));
    sender.unbounded_send(Some(3)).unwrap();
    clock.advance(ms(10));
    is_item(next(&mut first), 3);

    let count = std::sync::Arc::default();
    let items =
        [false, true].map(|panics| Dropped { count: std::sync::Arc::clone(&count), panics });
    let mut first = stream::iter(items).on_timer(&timer).throttle_first(ms(10)).into_stream();
    assert!(next(&mut first).is_ready());
    panics(|| next(&mut first));
    assert!(matches!(next(&mut first), Poll::Ready(None)));
}
