//! tokio's names on a virtual clock.

use std::future::{Future, pending, ready};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use futures::stream::{self, FusedStream};
use futures::{Stream, StreamExt as _};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_compat_tokio::stream::wrappers::IntervalStream;
use tourbillon_compat_tokio::stream::{self as compat, StreamExt as _};
use tourbillon_compat_tokio::time::error::Elapsed;
use tourbillon_compat_tokio::time::{
    Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout, interval, interval_at, sleep,
    sleep_until, timeout, timeout_at,
};
use tourbillon_compat_tokio::util::future::FutureExt as _;
use tourbillon_compat_tokio::util::time::{DelayQueue, delay_queue};

const YEAR: Duration = Duration::from_secs(365 * 86_400);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Runs what `test` makes of a virtual clock in the scope of its timer.
fn in_virtual_time<F: Future>(test: impl FnOnce(VirtualClock) -> F) -> F::Output {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let test = test(clock.clone());
    clock.block_on(timer.scope(test))
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn tick(interval: &mut Interval) -> Poll<Instant> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

fn next<S: Stream>(stream: Pin<&mut S>) -> Poll<Option<S::Item>> {
    stream.poll_next(&mut Context::from_waker(Waker::noop()))
}

fn panics<R>(action: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}

#[test]
fn instants_are_of_the_timer_in_scope() {
    in_virtual_time(async |clock| {
        let start = Instant::now();
        assert_eq!(start.into_std(), clock.now());
        clock.advance(ms(7));
        assert_eq!(start.elapsed(), ms(7));
        assert_eq!(Instant::now() - start, ms(7));
    });
}

#[test]
fn instants_saturate_where_those_of_tokio_do() {
    let now = Instant::now();
    let later = now + ms(5);
    assert_eq!((later - now, now - later), (ms(5), ms(0)));
    assert_eq!((later.duration_since(now), now.duration_since(later)), (ms(5), ms(0)));
    assert_eq!(later.saturating_duration_since(now), ms(5));
    assert_eq!(now.saturating_duration_since(later), ms(0));
    assert_eq!(later.checked_duration_since(now), Some(ms(5)));
    assert_eq!(now.checked_duration_since(later), None);
    assert_eq!((later.checked_sub(ms(5)), now.checked_add(ms(5))), (Some(now), Some(later)));
    assert_eq!(now.checked_add(Duration::MAX), None);
    let mut moved = now;
    moved += ms(9);
    moved -= ms(4);
    assert_eq!((moved, moved - ms(5)), (later, now));
    assert!(panics(|| now + Duration::MAX));
}

#[test]
fn instants_are_those_of_the_platform_by_another_name() {
    let std = std::time::Instant::now();
    let instant = Instant::from(std);
    assert_eq!((instant, Instant::from_std(std).into_std()), (Instant::from_std(std), std));
    assert_eq!(std::time::Instant::from(instant), std);
    assert_eq!(format!("{instant:?}"), format!("{std:?}"));
    assert!(instant < instant + ms(1));
    let hash = |instant: Instant| {
        let mut hasher = DefaultHasher::new();
        instant.hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash(instant), hash(Instant::from(std)));
}

#[test]
fn a_sleep_ends_at_its_deadline_to_the_nanosecond() {
    in_virtual_time(async |_| {
        let start = Instant::now();
        sleep(Duration::from_nanos(1_500_001)).await;
        assert_eq!(start.elapsed(), Duration::from_nanos(1_500_001));
        sleep_until(start + ms(2)).await;
        assert_eq!(start.elapsed(), ms(2));
        assert_eq!(sleep_until(start + ms(9)).deadline(), start + ms(9));
    });
}

#[test]
fn a_sleep_too_long_for_an_instant_takes_thirty_years() {
    in_virtual_time(async |_| {
        for (delay, expected) in [(Duration::MAX, 30 * YEAR), (31 * YEAR, 31 * YEAR)] {
            let start = Instant::now();
            sleep(delay).await;
            assert_eq!(start.elapsed(), expected);
        }
    });
}

#[test]
fn a_sleep_has_elapsed_only_once_it_was_polled_or_reset() {
    in_virtual_time(async |clock| {
        let now = Instant::now();
        let mut sleep = pin!(sleep(ms(0)));
        assert!(!sleep.is_elapsed());
        sleep.as_mut().await;
        assert!(sleep.is_elapsed());
        sleep.as_mut().reset(now + ms(5));
        assert!(!sleep.is_elapsed());
        clock.advance(ms(5));
        assert!(sleep.is_elapsed());
        let mut past = pin!(sleep_until(now));
        past.as_mut().reset(now);
        assert!(past.is_elapsed());
    });
}

#[test]
fn a_sleep_that_is_reset_ends_at_its_new_deadline() {
    in_virtual_time(async |_| {
        let start = Instant::now();
        let mut sleep = pin!(sleep(ms(100)));
        assert!(poll(sleep.as_mut()).is_pending());
        for deadline in [50, 80, 81] {
            sleep.as_mut().reset(start + ms(deadline));
            assert_eq!(sleep.deadline(), start + ms(deadline));
            sleep.as_mut().await;
            assert_eq!(start.elapsed(), ms(deadline));
        }
    });
}

#[test]
fn what_is_made_in_a_scope_keeps_its_timer() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let start = Instant::from_std(clock.now());
    let made = clock.block_on(timer.scope(async { (Box::pin(sleep(ms(5))), interval(ms(5))) }));
    let (mut sleep, mut interval) = made;
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    assert_eq!(tick(&mut interval), Poll::Ready(start));
    assert!(tick(&mut interval).is_pending() && poll(sleep.as_mut()).is_pending());
    clock.advance(ms(1_000));
    assert!(poll(sleep.as_mut()).is_ready());
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(5)));
    clock.advance(ms(1_000));
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(1_005)));
    interval.reset();
    clock.advance(ms(5));
    assert_eq!(tick(&mut interval), Poll::Ready(start + ms(2_005)));
}

#[test]
fn a_tick_up_to_five_milliseconds_late_is_not_missed() {
    use MissedTickBehavior::{Burst, Delay, Skip};

    for (behavior, late, expected) in [
        (Burst, 5, [2, 4, 6]),
        (Burst, 6, [2, 4, 6]),
        (Delay, 5, [2, 4, 6]),
        (Delay, 6, [8, 10, 12]),
        (Skip, 5, [2, 4, 6]),
        (Skip, 6, [8, 10, 12]),
        (Skip, 7, [8, 10, 12]),
        (Delay, 7, [9, 11, 13]),
    ] {
        in_virtual_time(async |clock| {
            let start = Instant::now();
            let mut interval = interval(ms(2));
            assert_eq!(interval.missed_tick_behavior(), Burst);
            interval.set_missed_tick_behavior(behavior);
            assert_eq!(interval.missed_tick_behavior(), behavior);
            clock.advance(ms(late));
            assert_eq!(interval.tick().await, start);
            // From here on in time, for those that are not in the past already.
            let [first, ..] = expected;
            assert_eq!(interval.tick().await, start + ms(first), "{behavior:?}, {late} ms");
            if first > late {
                for tick in &expected[1..] {
                    assert_eq!(interval.tick().await, start + ms(*tick), "{behavior:?}");
                }
            }
        });
    }
}

#[test]
fn an_interval_is_reset_to_its_period_to_now_and_to_an_instant() {
    in_virtual_time(async |clock| {
        let start = Instant::now();
        let mut interval = interval_at(start + ms(1), ms(300));
        assert_eq!(interval.period(), ms(300));
        assert_eq!(interval.tick().await, start + ms(1));
        clock.advance(ms(100));
        interval.reset();
        assert_eq!(interval.tick().await, start + ms(401));
        clock.advance(ms(1));
        interval.reset_immediately();
        assert_eq!(interval.tick().await, start + ms(402));
        interval.reset_after(ms(20));
        assert_eq!(interval.tick().await, start + ms(422));
        interval.reset_at(start + ms(1_000));
        assert_eq!(interval.tick().await, start + ms(1_000));
        assert_eq!(interval.tick().await, start + ms(1_300));
    });
}

#[test]
fn the_longest_period_is_thirty_years_and_the_shortest_is_not_zero() {
    assert!(panics(|| interval(ms(0))));
    assert!(panics(|| interval_at(Instant::now(), ms(0))));
    in_virtual_time(async |clock| {
        let start = Instant::now();
        let mut interval = interval(Duration::MAX);
        assert_eq!(interval.period(), 30 * YEAR);
        for number in 0..3 {
            assert_eq!(interval.tick().await, start + number * 30 * YEAR);
        }
        interval.reset_after(Duration::MAX);
        clock.advance(30 * YEAR);
        assert_eq!(tick(&mut interval), Poll::Ready(start + 90 * YEAR));
    });
}

#[test]
fn a_timeout_ends_with_the_future_or_with_the_deadline() {
    in_virtual_time(async |_| {
        let start = Instant::now();
        assert_eq!(timeout(ms(5), async { 42 }).await, Ok(42));
        assert_eq!(timeout_at(start, ready(42)).await, Ok(42), "it is polled first");
        assert!(timeout(ms(5), pending::<()>()).await.is_err());
        assert!(timeout_at(start + ms(7), pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), ms(7));
        assert!(pending::<()>().timeout(ms(5)).await.is_err());
        assert!(pending::<()>().timeout_at(start + ms(20)).await.is_err());
        assert_eq!(start.elapsed(), ms(20));
        assert_eq!(timeout(Duration::MAX, async { sleep(YEAR).await }).await, Ok(()));
    });
    let mut limited = timeout(ms(5), ready(1));
    *limited.get_mut() = ready(2);
    assert_eq!(limited.get_ref().clone().into_inner(), 2);
    assert_eq!(limited.into_inner().into_inner(), 2);
}

#[test]
fn both_errors_are_timeouts_of_io_and_no_one_type() {
    #[derive(Debug)]
    enum Failure {
        Future,
        Item,
    }
    impl From<Elapsed> for Failure {
        fn from(_: Elapsed) -> Self {
            Self::Future
        }
    }
    impl From<compat::Elapsed> for Failure {
        fn from(_: compat::Elapsed) -> Self {
            Self::Item
        }
    }
    in_virtual_time(async |_| {
        let future = timeout(ms(1), pending::<()>()).await.unwrap_err();
        let item = pin!(stream::pending::<()>().timeout(ms(1))).next().await.unwrap().unwrap_err();
        assert_eq!([future.to_string(), item.to_string()], ["deadline has elapsed"; 2]);
        assert!(matches!([future.into(), item.into()], [Failure::Future, Failure::Item]));
        let future = timeout(ms(1), pending::<()>()).await.unwrap_err();
        let item = pin!(stream::pending::<()>().timeout(ms(1))).next().await.unwrap().unwrap_err();
        let kinds = [io::Error::from(future).kind(), io::Error::from(item).kind()];
        assert_eq!(kinds, [io::ErrorKind::TimedOut; 2]);
    });
}

#[test]
fn a_queue_hands_out_what_has_expired_under_the_keys_of_the_insert() {
    in_virtual_time(async |_| {
        let start = Instant::now();
        let mut queue = DelayQueue::with_capacity(4);
        assert!(queue.capacity() >= 4 && queue.is_empty());
        let late: delay_queue::Key = queue.insert("late", ms(30));
        let soon = queue.insert_at("soon", start + ms(10));
        let gone = queue.insert("gone", ms(5));
        let moved = queue.insert("moved", ms(60));
        queue.reset(&moved, ms(20));
        queue.reset_at(&late, start + ms(40));
        assert_eq!((queue.len(), queue.peek()), (4, Some(gone)));
        assert_eq!(
            (queue.deadline(&moved), queue.deadline(&late)),
            (start + ms(20), start + ms(40))
        );
        let mut removed = queue.remove(&gone);
        *removed.get_mut() = "it left";
        assert_eq!((*removed.get_ref(), removed.deadline()), ("it left", start + ms(5)));
        assert!(queue.try_remove(&gone).is_none());
        for (value, key, at) in [("soon", soon, 10), ("moved", moved, 20), ("late", late, 40)] {
            let expired = queue.next().await.unwrap();
            assert_eq!((expired.key(), expired.deadline()), (key, start + ms(at)));
            assert_eq!((expired.into_inner(), start.elapsed()), (value, ms(at)));
        }
        assert!(queue.next().await.is_none());
        assert!(panics(|| queue.remove(&late)) && panics(|| queue.reset(&late, ms(1))));
    });
}

#[test]
fn a_queue_that_is_compacted_keeps_its_keys() {
    let mut queue = DelayQueue::default();
    let keys = [1, 2, 3, 4].map(|n| queue.insert(n, Duration::from_secs(n)));
    queue.remove(&keys[1]);
    queue.remove(&keys[3]);
    queue.compact();
    assert_eq!((queue.capacity(), queue.remove(&keys[2]).into_inner()), (3, 3));
    queue.shrink_to_fit();
    assert_eq!((queue.capacity(), queue.remove(&keys[0]).into_inner()), (1, 1));
    queue.insert(5, ms(5));
    queue.reserve(10);
    assert!(queue.capacity() > 10);
    queue.clear();
    assert!(queue.is_empty());
}

#[test]
fn a_stream_has_one_error_for_each_wait_that_is_too_long() {
    in_virtual_time(async |_| {
        let items = stream::iter([0, 200, 0, 200]).then(async |delay| sleep(ms(delay)).await);
        let mut limited = pin!(items.timeout(ms(50)));
        assert_eq!(limited.size_hint(), (4, Some(9)));
        let mut seen = Vec::new();
        while let Some(item) = limited.next().await {
            seen.push(item.is_ok());
        }
        assert_eq!(seen, [true, false, true, true, false, true]);
        assert!(limited.next().await.is_none());
    });
}

#[test]
fn a_stream_has_an_error_for_each_tick_without_an_item() {
    in_virtual_time(async |_| {
        let items = stream::iter([0, 95]).then(async |delay| sleep(ms(delay)).await);
        let start = Instant::now();
        let mut limited = pin!(items.timeout_repeating(interval_at(start + ms(40), ms(30))));
        assert_eq!(limited.size_hint(), (2, None));
        let mut seen = Vec::new();
        while let Some(item) = limited.next().await {
            seen.push((item.is_ok(), start.elapsed()));
        }
        let expected = [(true, 0), (false, 30), (false, 60), (false, 90), (true, 95)];
        assert_eq!(seen, expected.map(|(is_item, at)| (is_item, ms(at))));
        assert_eq!(limited.size_hint(), (0, Some(0)));
        assert!(limited.next().await.is_none(), "it is not polled after its end");
    });
}

#[test]
fn a_throttled_stream_pauses_after_each_item() {
    in_virtual_time(async |clock| {
        let mut slow = pin!(stream::iter(1..).throttle(ms(100)));
        assert_eq!(slow.size_hint(), (usize::MAX, None));
        assert_eq!(next(slow.as_mut()), Poll::Ready(Some(1)));
        clock.advance(ms(99));
        assert!(next(slow.as_mut()).is_pending());
        clock.advance(ms(1));
        assert_eq!(next(slow.as_mut()), Poll::Ready(Some(2)));
        let mut slow = stream::iter([1]).throttle(ms(100));
        assert_eq!(slow.get_ref().size_hint(), (1, Some(1)));
        assert_eq!(slow.get_mut().next().await, Some(1));
        assert_eq!(slow.into_inner().next().await, None);
    });
}

#[test]
fn chunks_are_delivered_when_they_are_full_or_old() {
    in_virtual_time(async |_| {
        let late = stream::once(async { sleep(ms(3_000)).await }).map(|()| 4);
        let mut chunks = pin!(stream::iter([1, 2, 3]).chain(late).chunks_timeout(2, ms(2_000)));
        let start = Instant::now();
        for (chunk, at) in [(&[1, 2][..], 0), (&[3], 2_000), (&[4], 3_000)] {
            assert_eq!(chunks.next().await.unwrap(), chunk);
            assert_eq!(start.elapsed(), ms(at));
        }
        assert_eq!(chunks.next().await, None);
        let held = stream::iter([1]).chain(stream::pending());
        let mut chunks = pin!(held.chunks_timeout(2, ms(5)));
        assert!(format!("{chunks:?}").contains("ChunksTimeout"));
        assert!(next(chunks.as_mut()).is_pending());
        assert_eq!(chunks.size_hint().0, 1);
        assert_eq!(chunks.into_remainder(), [1]);
    });
    assert!(panics(|| stream::iter([1]).chunks_timeout(0, ms(1))));
}

#[test]
fn an_interval_is_a_stream_by_its_wrapper() {
    in_virtual_time(async |_| {
        let start = Instant::now();
        let mut ticks = IntervalStream::new(interval(ms(10)));
        assert_eq!(ticks.next().await, Some(start));
        ticks.as_mut().reset_after(ms(1));
        assert_eq!(ticks.next().await, Some(start + ms(1)));
        assert_eq!((ticks.size_hint(), ticks.is_terminated()), ((usize::MAX, None), false));
        assert_eq!((ticks.as_ref().period(), ticks.into_inner().period()), (ms(10), ms(10)));
    });
}

#[test]
fn what_tokio_sends_and_shares_can_be_sent_and_shared() {
    fn sent<T: Send + Sync>() {}
    fn movable<T: Unpin>() {}
    sent::<(Sleep, Interval, Timeout<()>, DelayQueue<()>, Elapsed, compat::Elapsed)>();
    sent::<(compat::Timeout<()>, compat::Throttle<()>, IntervalStream)>();
    movable::<(Interval, IntervalStream, DelayQueue<std::marker::PhantomPinned>)>();
    movable::<(compat::TimeoutRepeating<()>, Instant)>();
}
