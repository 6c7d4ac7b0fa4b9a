//! Both queues on a virtual clock.

use std::future::poll_fn;

use tourbillon::queue::{DelayQueue, TimeoutQueue};

use crate::support::*;

#[test]
fn a_delay_queue_hands_out_resets_removes_and_clears() {
    let (timer, clock) = virtual_timer();
    let mut queue = DelayQueue::with_timer(&timer);
    let keys: Vec<_> = (0..40).map(|n| queue.insert(n.to_string(), n * SECOND)).collect();
    let first = clock.block_on(poll_fn(|cx| queue.poll_expired(cx))).expect("one is left");
    assert_eq!(first.into_inner(), "0");
    queue.reset(&keys[39], SECOND / 2);
    let next = clock.block_on(poll_fn(|cx| queue.poll_expired(cx))).expect("one is left");
    assert_eq!(next.into_inner(), "39");
    assert_eq!(queue.remove(&keys[1]).into_inner(), "1");
    assert!(queue.try_remove(&keys[1]).is_none());
    clock.advance(5 * SECOND);
    assert_eq!(queue.pop_expired().map(|expired| expired.into_inner()), Some("2".to_owned()));
    queue.clear();
    queue.shrink_to_fit();
    assert!(queue.is_empty());
}

#[test]
fn a_delay_queue_knows_its_first_entries_until_they_leave() {
    let (timer, _clock) = virtual_timer();
    let mut queue = DelayQueue::with_timer(&timer);
    let mut keys: Vec<_> = (1..=20).map(|n| queue.insert(n, (100 + n) * SECOND)).collect();
    assert_eq!(queue.peek(), Some(keys[0]));
    keys.insert(0, queue.insert(0, 50 * SECOND));
    for key in keys {
        assert_eq!(queue.peek(), Some(key));
        queue.remove(&key);
    }
    assert_eq!(queue.peek(), None);
}

#[test]
fn a_delay_queue_goes_while_its_sleep_is_armed() {
    let (timer, clock) = virtual_timer();
    let mut queue = DelayQueue::with_timer(&timer);
    queue.insert(Box::new(1), SECOND);
    let mut polled = Box::pin(poll_fn(|cx| queue.poll_expired(cx)));
    assert!(poll(&mut polled).is_pending());
    drop(polled);
    drop(queue);
    assert_eq!(clock.advance(SECOND), 0);
}

#[test]
fn a_timeout_queue_hands_out_refreshes_removes_and_clears() {
    let (timer, clock) = virtual_timer();
    let mut queue = TimeoutQueue::with_timer(SECOND, &timer);
    let keys: Vec<_> = (0..40).map(|n| queue.push(n.to_string())).collect();
    queue.refresh(&keys[0]);
    assert_eq!(queue.remove(&keys[5]).into_inner(), "5");
    for expected in ["1", "2", "3"] {
        let next = clock.block_on(poll_fn(|cx| queue.poll_expired(cx))).expect("one is left");
        assert_eq!(next.into_inner(), expected);
    }
    queue.clear();
    queue.shrink_to_fit();
    assert!(queue.is_empty());
}
