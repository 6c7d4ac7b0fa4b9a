//! `StreamExt::timeout_repeating`.

use super::*;

#[test]
fn errors_come_at_each_tick_until_an_item_does() {
    let (timer, clock) = virtual_timer();
    let ticks = timer.interval_at(timer.now() + ms(10), ms(10));
    let results = at(&timer, &[5, 38, 40]).timeout_repeating(ticks);
    let expected =
        [(5, Some(5)), (15, None), (25, None), (35, None), (38, Some(38)), (40, Some(40))];
    assert_eq!(oks(trace_to_end(&clock, results)), (expected.to_vec(), 40));
}

#[test]
fn an_interval_that_ticks_at_once_gives_the_first_item_no_time() {
    let (timer, clock) = virtual_timer();
    let results = at(&timer, &[5]).timeout_repeating(timer.interval(ms(10)));
    assert_eq!(oks(trace_to_end(&clock, results)).0, [(0, None), (5, Some(5))]);
    let mut ready = stream::iter([1]).timeout_repeating(timer.interval(ms(10)));
    is_item(next(&mut ready), Ok(1));
}

#[test]
fn an_item_at_a_tick_goes_before_it_and_puts_it_off() {
    let (timer, clock) = virtual_timer();
    let ticks = timer.interval_at(timer.now() + ms(10), ms(10));
    let results = at(&timer, &[10, 20, 35]).timeout_repeating(ticks);
    let expected = [(10, Some(10)), (20, Some(20)), (30, None), (35, Some(35))];
    assert_eq!(oks(trace_to_end(&clock, results)).0, expected);
}

#[test]
fn the_interval_says_how_many_missed_ticks_are_made_up_for() {
    for (behavior, errors) in [
        (MissedTickBehavior::Burst, 3),
        (MissedTickBehavior::Delay, 1),
        (MissedTickBehavior::Skip, 1),
    ] {
        let (timer, clock) = virtual_timer();
        let mut ticks = timer.interval_at(timer.now() + ms(10), ms(10));
        ticks.set_missed_tick_behavior(behavior);
        let mut results = stream::pending::<()>().timeout_repeating(ticks);
        clock.advance(ms(35));
        for _ in 0..errors {
            assert!(next(&mut results).is_ready(), "{behavior:?}");
        }
        assert!(next(&mut results).is_pending(), "{behavior:?}");
    }
}

#[test]
fn it_is_woken_once_a_tick() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let ticks = timer.interval_at(timer.now() + ms(10), ms(10));
    let mut results = stream::pending::<()>().timeout_repeating(ticks);
    for wakes in 1..5 {
        assert!(poll_next(&mut results, &waker).is_pending());
        clock.advance(ms(10));
        assert_eq!(counter.wakes(), wakes);
        assert!(poll_next(&mut results, &waker).is_ready());
    }
}

#[test]
fn the_hint_has_no_upper_bound_before_the_end() {
    let (timer, _clock) = virtual_timer();
    let results = stream::iter([1, 2]).timeout_repeating(timer.interval(Duration::MAX));
    assert_eq!(results.size_hint(), (2, None));
}

#[test]
fn a_panic_of_the_source_leaves_the_ticks() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let ticks = timer.interval_at(timer.now() + ms(10), ms(10));
    let mut results = source.timeout_repeating(ticks);
    sender.unbounded_send(None).unwrap();
    panics(|| next(&mut results));
    clock.advance(ms(9));
    assert!(next(&mut results).is_pending());
    clock.advance(ms(1));
    assert!(matches!(next(&mut results), Poll::Ready(Some(Err(_)))));
}
