//! `StreamExt::debounce`.

use super::*;

#[test]
fn the_last_item_of_each_burst_comes_when_it_was_quiet_for_long_enough() {
    let (timer, clock) = virtual_timer();
    let calm = at(&timer, &[0, 5, 14, 30, 50, 51]).on_timer(&timer).debounce(ms(10)).into_stream();
    let expected = [(24, 14), (40, 30), (51, 51)];
    assert_eq!(trace_to_end(&clock, calm), (expected.to_vec(), 51));
}

#[test]
fn an_item_at_the_deadline_is_of_the_same_burst() {
    let (timer, clock) = virtual_timer();
    let calm = at_and_on(&timer, &[0, 10, 20]).on_timer(&timer).debounce(ms(10)).into_stream();
    assert_eq!(trace(&clock, calm, 1).0, [(30, 20)]);
}

#[test]
fn all_that_is_ready_is_taken_and_counts_as_come_at_the_poll() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut calm = source.on_timer(&timer).debounce(ms(10)).into_stream();
    for item in 1..=5 {
        sender.unbounded_send(item).unwrap();
        clock.advance(SECOND);
    }
    assert!(next(&mut calm).is_pending());
    clock.advance(ms(9));
    assert!(next(&mut calm).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut calm), 5);
}

#[test]
fn the_end_of_the_source_delivers_what_is_held_at_once() {
    let (timer, clock) = virtual_timer();
    let calm = at(&timer, &[3]).on_timer(&timer).debounce(SECOND).into_stream();
    assert_eq!(trace_to_end(&clock, calm), (vec![(3, 3)], 3));
    let none = stream::empty::<()>().on_timer(&timer).debounce(SECOND).into_stream();
    assert_eq!(trace_to_end(&clock, none), (vec![], 0));
}

#[test]
fn zero_waits_only_for_what_is_ready_and_max_for_the_end() {
    let (timer, clock) = virtual_timer();
    let calm =
        at(&timer, &[0, 0, 0, 5, 6, 6]).on_timer(&timer).debounce(Duration::ZERO).into_stream();
    assert_eq!(trace_to_end(&clock, calm).0, [(0, 0), (5, 5), (6, 6)]);
    let many = stream::iter(1..=100).chain(stream::pending());
    let many = many.on_timer(&timer).debounce(Duration::ZERO).into_stream();
    assert_eq!(trace(&clock, many, 1).0, [(0, 100)]);
    let end = at(&timer, &[0, 9]).on_timer(&timer).debounce(Duration::MAX).into_stream();
    assert_eq!(trace_to_end(&clock, end).0, [(9, 9)]);
}

#[test]
fn an_idle_one_has_nothing_armed_and_is_woken_once_an_item() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (sender, source) = unbounded();
    let mut calm = source.on_timer(&timer).debounce(ms(10)).into_stream();
    assert!(poll_next(&mut calm, &waker).is_pending());
    assert_eq!(clock.pending(), 0);
    sender.unbounded_send(1).unwrap();
    assert_eq!(counter.wakes(), 1);
    assert!(poll_next(&mut calm, &waker).is_pending());
    assert_eq!((counter.wakes(), clock.pending()), (1, 1));
    clock.advance(ms(10));
    assert_eq!(counter.wakes(), 2);
    is_item(poll_next(&mut calm, &waker), 1);
    assert!(poll_next(&mut calm, &waker).is_pending());
    clock.advance(SECOND * 3600);
    assert_eq!((counter.wakes(), clock.pending()), (2, 0));
}

#[test]
fn a_source_that_is_always_ready_lets_other_tasks_run() {
    let (timer, _clock) = virtual_timer();
    let counter = Counter::new();
    let (source, taken) = endless();
    let mut calm = source.on_timer(&timer).debounce(Duration::ZERO).into_stream();
    assert!(poll_next(&mut calm, &Waker::from(counter.clone())).is_pending());
    assert_eq!((taken.get(), counter.wakes()), (32, 1));
}

#[test]
fn the_hint_is_one_item_at_least_and_all_at_most() {
    let (timer, _clock) = virtual_timer();
    assert_eq!(stream::iter([1, 2, 3]).debounce(SECOND).size_hint(), (1, Some(3)));
    assert_eq!(stream::empty::<()>().debounce(SECOND).size_hint(), (0, Some(0)));
    let (sender, source) = unbounded();
    let mut calm = source.on_timer(&timer).debounce(SECOND).into_stream();
    sender.unbounded_send(1).unwrap();
    assert!(next(&mut calm).is_pending());
    assert_eq!(calm.size_hint(), (1, None));
    let mut calm =
        stream::iter([1]).chain(stream::pending()).on_timer(&timer).debounce(SECOND).into_stream();
    assert!(next(&mut calm).is_pending());
    assert_eq!(calm.size_hint(), (1, Some(1)));
}

#[test]
fn a_panic_of_the_source_loses_nothing_that_is_held() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut calm = source.on_timer(&timer).debounce(ms(10)).into_stream();
    sender.unbounded_send(Some(1)).unwrap();
    sender.unbounded_send(None).unwrap();
    panics(|| next(&mut calm));
    assert!(next(&mut calm).is_pending());
    clock.advance(ms(10));
    is_item(next(&mut calm), 1);
}

#[test]
fn an_item_that_panics_when_it_is_replaced_leaves_the_new_one() {
    struct Item(u32);

    impl Drop for Item {
        fn drop(&mut self) {
            assert!(self.0 != 1, "the item panics");
        }
    }

    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut calm = source.on_timer(&timer).debounce(ms(10)).into_stream();
    sender.unbounded_send(Item(1)).unwrap();
    assert!(next(&mut calm).is_pending());
    clock.advance(ms(5));
    sender.unbounded_send(Item(2)).unwrap();
    panics(|| next(&mut calm));
    clock.advance(ms(9));
    assert!(next(&mut calm).is_pending());
    clock.advance(ms(1));
    assert!(matches!(next(&mut calm), Poll::Ready(Some(Item(2)))));
}
