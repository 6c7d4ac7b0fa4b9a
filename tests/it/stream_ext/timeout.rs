//! `StreamExt::timeout`.

use super::*;

#[test]
fn each_gap_that_is_too_long_is_reported_once() {
    let (timer, clock) = virtual_timer();
    let results = at(&timer, &[5, 12, 50, 52]).on_timer(&timer).timeout(ms(10)).into_stream();
    let expected = [(5, Some(5)), (12, Some(12)), (22, None), (50, Some(50)), (52, Some(52))];
    assert_eq!(oks(trace_to_end(&clock, results)), (expected.to_vec(), 52));
}

#[test]
fn the_first_item_and_the_end_have_a_deadline_too() {
    let (timer, clock) = virtual_timer();
    let source = at(&timer, &[30])
        .chain(stream::once(timer.sleep(ms(70))).filter_map(|()| std::future::ready(None)));
    let results = source.on_timer(&timer).timeout(ms(10)).into_stream();
    let expected = [(10, None), (30, Some(30)), (40, None)];
    assert_eq!(oks(trace_to_end(&clock, results)), (expected.to_vec(), 70));
}

#[test]
fn an_item_at_the_deadline_goes_before_it() {
    let (timer, clock) = virtual_timer();
    let results = at(&timer, &[10, 20]).on_timer(&timer).timeout(ms(10)).into_stream();
    let expected = [(10, Some(10)), (20, Some(20))];
    assert_eq!(oks(trace_to_end(&clock, results)), (expected.to_vec(), 20));
}

#[test]
fn an_item_that_is_asked_for_late_is_in_time_and_puts_the_deadline_off() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut results = source.on_timer(&timer).timeout(ms(10)).into_stream();
    sender.unbounded_send(1).unwrap();
    clock.advance(SECOND);
    is_item(next(&mut results), Ok(1));
    clock.advance(ms(9));
    assert!(next(&mut results).is_pending());
    clock.advance(ms(1));
    assert!(matches!(next(&mut results), Poll::Ready(Some(Err(_)))));
}

#[test]
fn zero_has_passed_whenever_the_source_is_not_ready() {
    let (timer, clock) = virtual_timer();
    let results = at(&timer, &[0, 0, 5]).on_timer(&timer).timeout(Duration::ZERO).into_stream();
    let expected = [(0, Some(0)), (0, Some(0)), (0, None), (5, Some(5))];
    assert_eq!(oks(trace_to_end(&clock, results)), (expected.to_vec(), 5));
}

#[test]
fn max_never_passes() {
    let (timer, clock) = virtual_timer();
    let mut results = at_and_on(&timer, &[3]).on_timer(&timer).timeout(Duration::MAX).into_stream();
    is_item(clock.block_on(results.next()).into(), Ok(3));
    assert!(next(&mut results).is_pending());
    clock.advance(Duration::MAX);
    assert!(next(&mut results).is_pending());
}

#[test]
fn while_it_waits_for_the_source_alone_nothing_is_armed() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let mut results = stream::pending::<()>().on_timer(&timer).timeout(ms(10)).into_stream();
    assert!(poll_next(&mut results, &waker).is_pending());
    clock.advance(ms(10));
    assert_eq!(counter.wakes(), 1);
    assert!(poll_next(&mut results, &waker).is_ready());
    assert!(poll_next(&mut results, &waker).is_pending());
    assert_eq!(clock.pending(), 0);
    clock.advance(SECOND * 3600);
    assert_eq!(counter.wakes(), 1);
}

#[test]
fn the_hint_counts_an_error_before_each_item_and_one_after_the_last() {
    let (timer, clock) = virtual_timer();
    let numbers = stream::iter([1, 2, 3]);
    let mut results = numbers.on_timer(&timer).timeout(ms(10)).into_stream();
    assert_eq!(results.size_hint(), (3, Some(7)));
    is_item(next(&mut results), Ok(1));
    assert_eq!(results.size_hint(), (2, Some(5)));
    assert_eq!(trace_to_end(&clock, results).1, 0);

    let mut silent = stream::pending::<()>().timeout(Duration::ZERO);
    assert_eq!(silent.size_hint(), (0, Some(1)));
    assert!(next(&mut silent).is_ready());
    assert_eq!(silent.size_hint(), (0, Some(0)));
    assert_eq!(stream::repeat(1).timeout(SECOND).size_hint(), (usize::MAX, None));
}

#[test]
fn a_panic_of_the_source_leaves_the_deadline() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut results = source.on_timer(&timer).timeout(ms(10)).into_stream();
    assert!(next(&mut results).is_pending());
    clock.advance(ms(4));
    sender.unbounded_send(None).unwrap();
    panics(|| next(&mut results));
    clock.advance(ms(5));
    assert!(next(&mut results).is_pending());
    clock.advance(ms(1));
    assert!(matches!(next(&mut results), Poll::Ready(Some(Err(_)))));
    sender.unbounded_send(Some(1)).unwrap();
    is_item(next(&mut results), Ok(1));
}
