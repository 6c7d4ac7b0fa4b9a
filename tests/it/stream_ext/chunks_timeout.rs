//! `StreamExt::chunks_timeout`.

use super::*;

#[test]
fn chunks_come_when_full_when_old_and_at_the_end() {
    let (timer, clock) = virtual_timer();
    let source = at(&timer, &[0, 1, 2, 10, 15, 40, 41]);
    let chunks = source.on_timer(&timer).chunks_timeout(3, ms(10)).into_stream();
    let expected = [(2, vec![0, 1, 2]), (20, vec![10, 15]), (41, vec![40, 41])];
    assert_eq!(trace_to_end(&clock, chunks), (expected.to_vec(), 41));
}

#[test]
fn the_time_runs_from_the_first_item_of_a_chunk() {
    let (timer, clock) = virtual_timer();
    let source = at_and_on(&timer, &[0, 5, 9, 11, 12]);
    let chunks = source.on_timer(&timer).chunks_timeout(9, ms(10)).into_stream();
    assert_eq!(trace(&clock, chunks, 2).0, [(10, vec![0, 5, 9]), (21, vec![11, 12])]);
}

#[test]
fn a_full_chunk_does_not_shorten_the_time_of_the_next() {
    let (timer, clock) = virtual_timer();
    let source = at_and_on(&timer, &[0, 8, 9]);
    let chunks = source.on_timer(&timer).chunks_timeout(2, ms(10)).into_stream();
    assert_eq!(trace(&clock, chunks, 2).0, [(8, vec![0, 8]), (19, vec![9])]);
}

#[test]
fn an_item_at_the_deadline_is_in_the_chunk() {
    let (timer, clock) = virtual_timer();
    let source = at_and_on(&timer, &[0, 10, 10]);
    let chunks = source.on_timer(&timer).chunks_timeout(9, ms(10)).into_stream();
    assert_eq!(trace(&clock, chunks, 1).0, [(10, vec![0, 10, 10])]);
}

#[test]
fn zero_chunks_what_is_ready_together_and_max_by_size_alone() {
    let (timer, clock) = virtual_timer();
    let source = at(&timer, &[0, 0, 5, 5, 5, 6]);
    let chunks = source.on_timer(&timer).chunks_timeout(2, Duration::ZERO).into_stream();
    let expected = [(0, vec![0, 0]), (5, vec![5, 5]), (5, vec![5]), (6, vec![6])];
    assert_eq!(trace_to_end(&clock, chunks).0, expected);

    let source = at(&timer, &[0, 900, 90_000]);
    let chunks = source.on_timer(&timer).chunks_timeout(2, Duration::MAX).into_stream();
    assert_eq!(trace_to_end(&clock, chunks).0, [(900, vec![0, 900]), (90_000, vec![90_000])]);
}

#[test]
fn a_chunk_of_any_size_sets_no_memory_aside() {
    let (timer, clock) = virtual_timer();
    let source = stream::iter([[0_u8; 64]; 3]).on_timer(&timer);
    let chunks = source.chunks_timeout(usize::MAX, ms(1)).into_stream();
    assert_eq!(chunks.size_hint(), (1, Some(3)));
    assert_eq!(trace_to_end(&clock, chunks).0.len(), 1);
}

#[test]
#[should_panic(expected = "a chunk must have room for an item")]
fn a_size_of_zero_panics() {
    drop(stream::iter([1]).chunks_timeout(0, SECOND));
}

#[test]
fn a_source_that_is_always_ready_cannot_hold_a_chunk_back() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (source, taken) = endless();
    let mut chunks = source.on_timer(&timer).chunks_timeout(usize::MAX, ms(10)).into_stream();
    assert!(poll_next(&mut chunks, &waker).is_pending());
    assert_eq!((taken.get(), counter.wakes()), (32, 1));
    clock.advance(ms(10));
    is_item(poll_next(&mut chunks, &waker), (1..=64).collect());
}

#[test]
fn the_remainder_is_what_was_collected_and_the_next_chunk_starts_anew() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut chunks = source.on_timer(&timer).chunks_timeout(9, ms(10)).into_stream();
    assert_eq!(Pin::new(&mut chunks).into_remainder(), [0; 0]);
    sender.unbounded_send(1).unwrap();
    sender.unbounded_send(2).unwrap();
    assert!(next(&mut chunks).is_pending());
    clock.advance(ms(9));
    assert_eq!(Pin::new(&mut chunks).into_remainder(), [1, 2]);
    assert_eq!(clock.pending(), 0);
    assert_eq!(Pin::new(&mut chunks).into_remainder(), [0; 0]);
    sender.unbounded_send(3).unwrap();
    assert!(next(&mut chunks).is_pending());
    clock.advance(ms(9));
    assert!(next(&mut chunks).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut chunks), vec![3]);
}

#[test]
fn an_idle_one_is_woken_once_more_at_most() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let (sender, source) = unbounded();
    let mut chunks = source.on_timer(&timer).chunks_timeout(2, ms(10)).into_stream();
    assert!(poll_next(&mut chunks, &waker).is_pending());
    assert_eq!(clock.pending(), 0);
    sender.unbounded_send(1).unwrap();
    assert!(poll_next(&mut chunks, &waker).is_pending());
    sender.unbounded_send(2).unwrap();
    is_item(poll_next(&mut chunks, &waker), vec![1, 2]);
    assert!(poll_next(&mut chunks, &waker).is_pending());
    assert_eq!(counter.wakes(), 2);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 3);
    assert!(poll_next(&mut chunks, &waker).is_pending());
    clock.advance(SECOND * 3600);
    assert_eq!((counter.wakes(), clock.pending()), (3, 0));
}

#[test]
fn the_hint_is_full_chunks_at_least_and_single_items_at_most() {
    let (timer, _clock) = virtual_timer();
    let two_then = |rest: std::ops::Range<u32>| {
        let source = stream::iter(0..2).chain(stream::poll_fn({
            let mut waited = false;
            move |_| {
                if std::mem::replace(&mut waited, true) { Poll::Ready(None) } else { Poll::Pending }
            }
        }));
        source.chain(stream::iter(rest)).on_timer(&timer).chunks_timeout(3, SECOND).into_stream()
    };
    assert_eq!(stream::iter(0..7).chunks_timeout(3, SECOND).size_hint(), (3, Some(7)));
    let one = stream::iter([1]).chain(stream::pending());
    let mut chunks = one.on_timer(&timer).chunks_timeout(3, SECOND).into_stream();
    assert!(next(&mut chunks).is_pending());
    assert_eq!(chunks.size_hint(), (1, Some(1)));
    let mut chunks = two_then(0..4);
    assert!(next(&mut chunks).is_pending());
    assert_eq!(chunks.size_hint().0, 2, "six items in chunks of three");
    let mut chunks = two_then(0..5);
    assert!(next(&mut chunks).is_pending());
    assert_eq!(chunks.size_hint().0, 3, "seven items in chunks of three");
}

#[test]
fn a_panic_of_the_source_loses_nothing_that_was_collected() {
    let (timer, clock) = virtual_timer();
    let (sender, source) = fallible();
    let mut chunks = source.on_timer(&timer).chunks_timeout(9, ms(10)).into_stream();
    for item in [Some(1), Some(2), None, Some(3)] {
        sender.unbounded_send(item).unwrap();
    }
    panics(|| next(&mut chunks));
    assert!(next(&mut chunks).is_pending());
    clock.advance(ms(10));
    is_item(next(&mut chunks), vec![1, 2, 3]);
}
