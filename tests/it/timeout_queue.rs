//! `TimeoutQueue`, poll by poll. See `queue_model` for random operations, and `delay_queue` for the
//! common behaviour of the two.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use futures::StreamExt;
use tourbillon::queue::TimeoutQueue;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

fn virtual_queue<T>(duration: Duration) -> (TimeoutQueue<T>, VirtualClock) {
    let (timer, clock) = virtual_timer();
    (TimeoutQueue::with_timer(duration, &timer), clock)
}

#[test]
fn the_sleep_is_left_alone_until_it_ends() {
    let (timer, clock) = virtual_timer();
    let mut queue = TimeoutQueue::with_timer(10 * SECOND, &timer);
    let keys: Vec<_> = (0..100).map(|n| queue.push(n)).collect();
    let counter = wait(&mut queue);
    let armed_for = clock.next_deadline();
    for step in 1..10 {
        clock.advance(SECOND);
        keys.iter().for_each(|key| queue.refresh(key));
        queue.push(100 + step);
        assert_eq!((clock.pending(), clock.next_deadline()), (1, armed_for));
    }
    assert_eq!((counter.wakes(), timer.stats().armed), (0, 1));
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1, "in vain");
    let counter = wait(&mut queue);
    clock.advance(9 * SECOND);
    assert_eq!((counter.wakes(), next(&mut queue), timer.stats().armed), (1, 101, 2));
}

#[test]
fn a_stale_key_is_nobody_elses() {
    let (mut queue, _clock) = virtual_queue(SECOND);
    let stale = queue.push(1);
    queue.remove(&stale);
    let key = queue.push(2);
    assert!(!queue.try_refresh(&stale) && queue.try_remove(&stale).is_none());
    assert_eq!((queue.try_deadline(&stale), queue.get(&stale)), (None, None));
    let uses: [fn(&mut TimeoutQueue<i32>, _); 3] = [
        |queue, key| assert!(queue.remove(&key).deadline() < Instant::now()),
        |queue, key| queue.refresh(&key),
        |queue, key| assert!(queue.deadline(&key) < Instant::now()),
    ];
    for using in uses {
        catch_unwind(AssertUnwindSafe(|| using(&mut queue, stale))).expect_err("it is gone");
    }
    *queue.get_mut(&key).expect("it is there") += 1;
    assert_eq!(queue.get(&key), Some(&3));
}

#[test]
fn it_runs_in_real_time() {
    let start = Instant::now();
    let mut queue = TimeoutQueue::with_capacity(ms(2), 2);
    assert!(queue.capacity() >= 2);
    let refreshed = queue.push(1);
    queue.push(2);
    std::thread::sleep(ms(1));
    queue.refresh(&refreshed);
    let order: Vec<_> =
        pollster::block_on(queue.by_ref().map(|expired| expired.into_inner()).collect());
    assert_eq!(order, [2, 1]);
    assert!(start.elapsed() >= ms(3));
}

#[test]
fn it_goes_wherever_its_values_go() {
    fn everywhere<T: Send + Sync + Unpin + std::fmt::Debug + 'static>(_: &T) {}

    let queue = TimeoutQueue::<String>::new(SECOND);
    everywhere(&queue);
    let shown = format!("{queue:?}");
    assert!(shown.starts_with("TimeoutQueue { duration: 1s, len: 0, "), "{shown}");
}
