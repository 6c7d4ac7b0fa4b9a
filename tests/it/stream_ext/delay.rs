//! `StreamExt::delay`.

use super::*;

#[test]
fn the_source_is_not_polled_before_and_not_held_up_after() {
    let (timer, clock) = virtual_timer();
    let late = stream::iter([1, 2])
        .chain(at(&timer, &[7, 25]))
        .on_timer(&timer)
        .delay(ms(10))
        .into_stream();
    let expected = [(10, 1), (10, 2), (10, 7), (25, 25)];
    assert_eq!(trace_to_end(&clock, late), (expected.to_vec(), 25));

    let (source, taken) = endless();
    let mut late = source.on_timer(&timer).delay(ms(10)).into_stream();
    assert!(next(&mut late).is_pending());
    clock.advance(ms(10) - Duration::from_nanos(1));
    assert!(next(&mut late).is_pending());
    assert_eq!(taken.get(), 0);
    clock.advance(Duration::from_nanos(1));
    is_item(next(&mut late), 1);
    is_item(next(&mut late), 2);
    assert_eq!(clock.pending(), 0);
}

#[test]
fn the_time_runs_whether_or_not_it_is_polled() {
    let (timer, clock) = virtual_timer();
    let mut late = stream::iter([1]).on_timer(&timer).delay(ms(10)).into_stream();
    clock.advance(ms(10));
    is_item(next(&mut late), 1);
    assert_eq!(timer.stats().armed, 0);
}

#[test]
fn zero_waits_for_nothing_and_max_for_ever() {
    let (timer, clock) = virtual_timer();
    is_item(next(&mut stream::iter([1]).on_timer(&timer).delay(Duration::ZERO).into_stream()), 1);
    let mut never = stream::iter([1]).on_timer(&timer).delay(Duration::MAX).into_stream();
    clock.advance(Duration::MAX);
    assert!(next(&mut never).is_pending());
    assert_eq!(never.size_hint(), (1, Some(1)));
}

#[test]
fn a_panic_of_the_source_costs_no_second_wait() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut late = source.on_timer(&timer).delay(ms(10)).into_stream();
    for item in [None, Some(1)] {
        sender.unbounded_send(item).unwrap();
    }
    clock.advance(ms(10));
    panics(|| next(&mut late));
    is_item(next(&mut late), 1);
}
