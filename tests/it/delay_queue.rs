//! `DelayQueue`, poll by poll. See `queue_model` for random operations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::poll_fn;
use tourbillon::Timer;
use tourbillon::queue::DelayQueue;
use tourbillon::queue::Key;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

fn virtual_queue<T>() -> (DelayQueue<T>, VirtualClock) {
    let (timer, clock) = virtual_timer();
    (DelayQueue::with_timer(&timer), clock)
}

#[test]
fn one_sleep_is_armed_for_the_earliest_of_all_entries() {
    let (timer, clock) = virtual_timer();
    let mut queue = DelayQueue::with_timer(&timer);
    for n in (1..=1_000).rev() {
        queue.insert(n, n * SECOND);
    }
    assert_eq!(clock.pending(), 0, "nothing is armed before a poll");
    let counter = wait(&mut queue);
    assert_eq!((clock.pending(), clock.next_deadline()), (1, Some(clock.now() + SECOND)));
    clock.advance(SECOND);
    assert_eq!((counter.wakes(), next(&mut queue)), (1, 1));
    drop(queue);
    assert_eq!(clock.pending(), 0);
}

#[test]
fn the_stream_ends_and_goes_on() {
    let (mut queue, clock) = virtual_queue();
    for round in 0..3 {
        assert!(matches!(poll_next(&mut queue, Waker::noop()), Poll::Ready(None)));
        queue.insert(round, SECOND);
        assert_eq!(clock.block_on(queue.next()).map(|expired| expired.into_inner()), Some(round));
        assert!(clock.block_on(queue.next()).is_none());
        assert_eq!(clock.pending(), 0, "the end leaves nothing armed");
    }
}

#[test]
fn removing_the_last_entry_wakes_for_the_end() {
    let removals: [fn(&mut DelayQueue<u8>, &Key); 5] = [
        |queue, key| assert!(queue.try_remove(key).is_some()),
        |queue, _| queue.clear(),
        |queue, _| queue.retain(|_, _| false),
        |queue, _| drop(queue.drain()),
        |queue, _| assert_eq!(queue.drain().count(), 1),
    ];
    for (remove, delay) in removals.into_iter().flat_map(|r| [(r, SECOND), (r, Duration::MAX)]) {
        let (mut queue, _clock) = virtual_queue();
        let key = queue.insert(1, delay);
        let counter = wait(&mut queue);
        remove(&mut queue, &key);
        assert_eq!(counter.wakes(), 1);
        assert!(matches!(poll_next(&mut queue, Waker::noop()), Poll::Ready(None)));
        queue.clear();
        assert_eq!(counter.wakes(), 1);
    }
}

#[test]
fn removing_the_earliest_wakes_in_vain_once() {
    let (mut queue, clock) = virtual_queue();
    let keys = [1, 2, 3, 10].map(|n| queue.insert(n, n * SECOND));
    let counter = wait(&mut queue);
    queue.remove(&keys[0]);
    queue.remove(&keys[1]);
    queue.reset(&keys[2], 9 * SECOND);
    assert_eq!(counter.wakes(), 0);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
    let counter = wait(&mut queue);
    clock.advance(8 * SECOND - NANOSECOND);
    assert_eq!(counter.wakes(), 0, "it is armed exactly again");
    clock.advance(NANOSECOND);
    assert_eq!((counter.wakes(), next(&mut queue)), (1, 3));
}

#[test]
fn the_waker_of_the_last_poll_is_woken_and_others_are_let_go() {
    let (mut queue, clock) = virtual_queue();
    queue.insert(1, SECOND);
    let counters = [(); 3].map(|()| wait(&mut queue));
    clock.advance(SECOND);
    assert_eq!(counters.each_ref().map(|counter| counter.wakes()), [0, 0, 1]);
    assert_eq!(Arc::strong_count(&counters[0]) + Arc::strong_count(&counters[1]), 2);
    drop(queue);
    assert_eq!(Arc::strong_count(&counters[2]), 1);
}

#[test]
fn a_poll_that_returns_an_entry_waits_for_nothing() {
    let (mut queue, clock) = virtual_queue();
    queue.insert(1, SECOND);
    queue.insert(2, Duration::MAX);
    let counter = wait(&mut queue);
    clock.advance(SECOND);
    assert!(poll_next(&mut queue, &Waker::from(counter.clone())).is_ready());
    queue.insert_at(3, clock.now() - SECOND);
    queue.clear();
    assert_eq!(counter.wakes(), 1);
}

#[test]
fn a_stale_key_panics_where_documented_and_changes_nothing() {
    let (mut queue, clock) = virtual_queue();
    let stale = queue.insert(1, SECOND);
    queue.remove(&stale);
    queue.insert(2, SECOND);
    let uses: [fn(&mut DelayQueue<i32>, _); 4] = [
        |queue, key| assert!(queue.remove(&key).deadline() < Instant::now()),
        |queue, key| queue.reset(&key, SECOND),
        |queue, key| queue.reset_at(&key, Instant::now()),
        |queue, key| assert!(queue.deadline(&key) < Instant::now()),
    ];
    for using in uses {
        let panic = catch_unwind(AssertUnwindSafe(|| using(&mut queue, stale)));
        let message = *panic.expect_err("it is gone").downcast::<String>().expect("a message");
        assert!(message.contains("is gone"), "{message}");
    }
    clock.advance(SECOND);
    assert_eq!((queue.len(), next(&mut queue)), (1, 2));
}

#[test]
fn shrinking_gives_back_room_and_keeps_keys() {
    let (mut queue, clock) = virtual_queue();
    queue.reserve(1_000);
    assert!(queue.capacity() >= 1_000);
    let keys: Vec<_> = (0..1_000).map(|n| queue.insert(n, SECOND)).collect();
    let capacity = queue.capacity();
    for (n, key) in keys.iter().enumerate().filter(|(n, _)| *n != 7 && *n != 40) {
        assert_eq!(queue.remove(key).into_inner(), n);
    }
    queue.shrink_to_fit();
    assert!(queue.capacity() < 100 && capacity >= 1_000);
    let others: Vec<_> = (0..100).map(|n| queue.insert(1_000 + n, SECOND)).collect();
    assert_eq!((queue.get(&keys[7]), queue.get(&keys[40])), (Some(&7), Some(&40)));
    assert!(others.iter().zip(1_000..).all(|(key, n)| queue.get(key) == Some(&n)));
    clock.advance(SECOND);
    assert_eq!([next(&mut queue), next(&mut queue), next(&mut queue)], [7, 40, 1_000]);
}

#[test]
fn values_are_dropped_with_the_queue_and_by_clear() {
    let count = Arc::new(AtomicUsize::new(0));
    let (mut queue, _clock) = virtual_queue();
    let fill = |queue: &mut DelayQueue<Dropped>| {
        for delay in [Duration::ZERO, SECOND, Duration::MAX] {
            queue.insert(Dropped { count: count.clone(), panics: false }, delay);
        }
    };
    fill(&mut queue);
    queue.clear();
    assert_eq!((count.load(Ordering::SeqCst), queue.len()), (3, 0));
    fill(&mut queue);
    drop(queue);
    assert_eq!(count.load(Ordering::SeqCst), 6);
}

#[test]
fn a_value_that_panics_when_dropped_harms_no_other() {
    let count = Arc::new(AtomicUsize::new(0));
    let value = |panics| Dropped { count: count.clone(), panics };
    let (mut queue, clock) = virtual_queue();
    let keys = [false, true, false].map(|panics| queue.insert(value(panics), SECOND));
    catch_unwind(AssertUnwindSafe(|| queue.clear())).expect_err("a drop panics");
    assert_eq!((count.load(Ordering::SeqCst), queue.len(), queue.peek()), (3, 0, None));
    assert!(keys.iter().all(|key| queue.get(key).is_none()));
    queue.insert(value(false), SECOND);
    clock.advance(2 * SECOND);
    drop(next(&mut queue));
    assert!(matches!(poll_next(&mut queue, Waker::noop()), Poll::Ready(None)));
}

#[test]
fn a_waker_that_panics_leaves_the_queue_as_it_was() {
    let (mut queue, clock) = virtual_queue();
    let panics = || callback(|| panic!("a waker that panics"));
    assert!(matches!(poll_next(&mut queue, &panics()), Poll::Ready(None)));
    catch_unwind(AssertUnwindSafe(|| queue.insert(1, SECOND))).expect_err("the waker panics");
    assert!(queue.is_empty());
    let key = queue.insert(2, SECOND);
    assert!(poll_next(&mut queue, &panics()).is_pending());
    catch_unwind(AssertUnwindSafe(|| queue.remove(&key))).expect_err("the waker panics");
    assert_eq!(queue.get(&key), Some(&2));
    assert!(poll_next(&mut queue, &panics()).is_pending());
    catch_unwind(AssertUnwindSafe(|| queue.clear())).expect_err("the waker panics");
    assert_eq!(queue.get(&key), Some(&2));
    clock.advance(SECOND);
    assert!(poll_next(&mut queue, &panics()).is_ready(), "a poll that waits for nothing");
    queue.insert(3, SECOND);
    assert!(poll_next(&mut queue, &panics()).is_pending());
    clock.jump(SECOND);
    catch_unwind(AssertUnwindSafe(|| queue.pop_expired())).expect_err("the waker panics");
    assert_eq!(next(&mut queue), 3);
}

#[test]
fn a_waker_that_cannot_be_cloned_loses_nothing() {
    let hostile = hostile(&CLONE_PANICS);
    let (mut queue, clock) = virtual_queue();
    let poll = |queue: &mut DelayQueue<i32>| {
        catch_unwind(AssertUnwindSafe(|| poll_next(queue, &hostile).is_ready()))
    };
    poll(&mut queue).expect_err("the end is waited for");
    queue.insert(1, SECOND);
    poll(&mut queue).expect_err("an entry is waited for");
    let counter = wait(&mut queue);
    poll(&mut queue).expect_err("an entry is waited for");
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
    assert!(poll(&mut queue).expect("nothing to wait for"));
}

#[test]
fn a_loop_that_turns_the_wheels_by_hand_turns_those_of_queues() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let mut queue = DelayQueue::with_timer(&timer);
    let start = Instant::now();
    queue.insert(1, SECOND);
    let counter = wait(&mut queue);
    while counter.wakes() == 0 {
        driver.turn();
        thread::sleep(ms(1));
    }
    assert!(start.elapsed() >= SECOND);
    assert_eq!(next(&mut queue), 1);
}

#[test]
fn an_entry_that_is_due_needs_no_driver() {
    let (timer, _driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let mut queue = DelayQueue::with_timer(&timer);
    queue.insert("far", 1_000 * SECOND);
    let counter = wait(&mut queue);
    queue.insert("now", Duration::ZERO);
    assert_eq!((counter.wakes(), next(&mut queue)), (1, "now"));
}

#[test]
fn one_task_waits_while_another_thread_inserts() {
    let queue = Arc::new(Mutex::new(DelayQueue::new()));
    let far = queue.lock().unwrap().insert(0, Duration::MAX);
    let inserter = thread::spawn({
        let queue = queue.clone();
        move || {
            for n in 1..=50 {
                // Each is earlier than those before.
                queue.lock().unwrap().insert(n, ms(60 - n));
            }
        }
    });
    let mut seen = Vec::new();
    while seen.len() < 50 {
        let expired = pollster::block_on(poll_fn(|cx| queue.lock().unwrap().poll_expired(cx)));
        let expired = expired.expect("one is left");
        assert!(Instant::now() >= expired.deadline(), "early");
        seen.push(expired.into_inner());
    }
    inserter.join().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=50).collect::<Vec<_>>());
    assert!(queue.lock().unwrap().try_remove(&far).is_some());
}

#[test]
fn it_goes_wherever_its_values_go() {
    fn everywhere<T: Send + Sync + Unpin + std::fmt::Debug + 'static>(_: T) {}
    fn anyhow<T: Unpin + std::fmt::Debug>(_: T) {}

    everywhere(DelayQueue::<String>::default());
    anyhow(DelayQueue::<(std::marker::PhantomPinned, *const u8, fn())>::new());
    let (mut queue, _clock) = virtual_queue();
    queue.insert(1, SECOND);
    let shown = format!("{queue:?}");
    assert!(shown.starts_with("DelayQueue { len: 1, capacity: "), "{shown}");
}

#[test]
fn entries_are_listed_kept_and_handed_out_whether_or_not_they_are_due() {
    let (mut queue, clock) = virtual_queue();
    let keys = [3, 1, 2].map(|n| queue.insert(n, n * SECOND));
    let gone = queue.insert(9, Duration::MAX);
    queue.remove(&gone);
    assert_eq!(queue.next_deadline(), Some(clock.now() + SECOND));
    let mut listed: Vec<_> = queue.iter().map(|(key, value)| (*value, key)).collect();
    listed.sort_by_key(|(value, _)| *value);
    assert_eq!(listed, [(1, keys[1]), (2, keys[2]), (3, keys[0])]);

    let counter = wait(&mut queue);
    queue.retain(|key, value| {
        *value *= 10;
        *key != keys[1]
    });
    assert_eq!((counter.wakes(), queue.get(&keys[1]), queue.get(&keys[2])), (0, None, Some(&20)));
    clock.advance(2 * SECOND);
    let mut drained: Vec<_> = queue.drain().collect();
    drained.sort_by_key(|expired| *expired.get_ref());
    let drained: Vec<_> = drained
        .into_iter()
        .map(|entry| (entry.key(), entry.deadline(), entry.into_inner()))
        .collect();
    let now = clock.now();
    assert_eq!(drained, [(keys[2], now, 20), (keys[0], now + SECOND, 30)]);
    assert!(queue.is_empty() && queue.next_deadline().is_none());
    assert!(keys.iter().all(|key| queue.try_remove(key).is_none()));
    let again = queue.insert(4, SECOND);
    assert!(!keys.contains(&again));
    clock.advance(SECOND);
    assert_eq!(next(&mut queue), 4);
}

#[test]
fn a_retain_that_panics_keeps_what_it_has_not_looked_at() {
    let (mut queue, _clock) = virtual_queue();
    let keys = [1, 2, 3].map(|n| queue.insert(n, SECOND));
    catch_unwind(AssertUnwindSafe(|| {
        queue.retain(|_, value| if *value == 2 { panic!("a foreign panic") } else { *value > 1 })
    }))
    .expect_err("it is passed on");
    assert_eq!(keys.map(|key| queue.get(&key).copied()), [None, Some(2), Some(3)]);
}
