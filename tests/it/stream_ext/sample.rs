//! `StreamExt::sample`.

use super::*;

#[test]
fn the_last_item_of_each_period_comes_at_its_end() {
    let (timer, clock) = virtual_timer();
    let samples =
        at(&timer, &[1, 4, 9, 12, 35, 47, 48]).on_timer(&timer).sample(ms(10)).into_stream();
    let expected = [(10, 9), (20, 12), (40, 35), (48, 48)];
    assert_eq!(trace_to_end(&clock, samples), (expected.to_vec(), 48));
}

#[test]
fn an_item_at_the_end_of_a_period_is_of_that_period() {
    let (timer, clock) = virtual_timer();
    let source = at_and_on(&timer, &[5, 10, 20, 50, 51]);
    let samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    assert_eq!(trace(&clock, samples, 4).0, [(10, 10), (20, 20), (50, 50), (60, 51)]);
}

#[test]
fn a_sample_that_is_asked_for_late_leaves_the_periods_where_they_are() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    sender.unbounded_send(1).unwrap();
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(35));
    is_item(next(&mut samples), 1);
    sender.unbounded_send(2).unwrap();
    clock.advance(ms(4));
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut samples), 2);
    // Late, and exactly at the end of another period, spent with it.
    sender.unbounded_send(3).unwrap();
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(30));
    is_item(next(&mut samples), 3);
    sender.unbounded_send(4).unwrap();
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(10));
    is_item(next(&mut samples), 4);
}

#[test]
fn an_item_that_replaces_another_late_does_not_put_the_sample_off() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    sender.unbounded_send(1).unwrap();
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(15));
    sender.unbounded_send(2).unwrap();
    is_item(next(&mut samples), 2);
}

#[test]
fn zero_delivers_the_last_that_is_ready_and_max_the_last_of_all() {
    let (timer, clock) = virtual_timer();
    let samples =
        at(&timer, &[0, 0, 5, 6, 6]).on_timer(&timer).sample(Duration::ZERO).into_stream();
    assert_eq!(trace_to_end(&clock, samples).0, [(0, 0), (5, 5), (6, 6)]);
    let (sender, source) = unbounded();
    let mut samples = source.on_timer(&timer).sample(Duration::ZERO).into_stream();
    for item in [1, 2, 3] {
        sender.unbounded_send(item).unwrap();
        is_item(next(&mut samples), item);
    }
    let samples = at(&timer, &[0, 7]).on_timer(&timer).sample(Duration::MAX).into_stream();
    assert_eq!(trace_to_end(&clock, samples).0, [(7, 7)]);
    let samples = at(&timer, &[0, 7]).on_timer(&timer).sample(Duration::from_nanos(u64::MAX));
    assert_eq!(trace_to_end(&clock, samples.into_stream()).0, [(7, 7)]);
}

#[test]
fn a_period_of_a_nanosecond_skips_to_the_present() {
    let (timer, clock) = virtual_timer();
    let source = at(&timer, &[1, 900]);
    let samples = source.on_timer(&timer).sample(Duration::from_nanos(1)).into_stream();
    assert_eq!(trace_to_end(&clock, samples).0, [(1, 1), (900, 900)]);
}

#[test]
fn a_period_without_items_wakes_nobody() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (sender, source) = unbounded();
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    assert!(poll_next(&mut samples, &waker).is_pending());
    clock.advance(SECOND * 3600);
    assert_eq!((counter.wakes(), clock.pending()), (0, 0));
    clock.advance(ms(3));
    sender.unbounded_send(1).unwrap();
    assert!(poll_next(&mut samples, &waker).is_pending());
    clock.advance(ms(7));
    assert_eq!(counter.wakes(), 2);
    is_item(poll_next(&mut samples, &waker), 1);
    assert!(poll_next(&mut samples, &waker).is_pending());
    clock.advance(SECOND * 3600);
    assert_eq!((counter.wakes(), clock.pending()), (2, 0));
}

#[test]
fn an_endless_source_that_is_always_ready_can_be_sampled() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (source, taken) = endless();
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    assert!(poll_next(&mut samples, &waker).is_pending());
    assert_eq!((taken.get(), counter.wakes()), (32, 1));
    clock.advance(ms(10));
    is_item(poll_next(&mut samples, &waker), 64);
}

#[test]
fn the_hint_is_one_item_at_least_and_all_at_most() {
    assert_eq!(stream::iter([1, 2, 3]).sample(SECOND).size_hint(), (1, Some(3)));
    assert_eq!(stream::empty::<()>().sample(SECOND).size_hint(), (0, Some(0)));
    assert_eq!(stream::repeat(1).sample(SECOND).size_hint(), (1, None));
}

#[test]
fn a_panic_of_the_source_loses_nothing_that_is_held() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut samples = source.on_timer(&timer).sample(ms(10)).into_stream();
    sender.unbounded_send(Some(1)).unwrap();
    sender.unbounded_send(None).unwrap();
    panics(|| next(&mut samples));
    clock.advance(ms(9));
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut samples), 1);
}
