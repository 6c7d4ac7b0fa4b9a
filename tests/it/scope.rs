//! Scoped timers.

use std::future::{Future, pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{FutureExt as _, StreamExt as _, Timer, interval, sleep, timeout};

use crate::support::*;

const HOUR: Duration = Duration::from_secs(3600);

/// A clock's timer shows an instant that no other does, because the clock was moved to it.
fn far_timer(hours: u32) -> (VirtualClock, Timer) {
    let (timer, clock) = virtual_timer();
    clock.advance(hours * HOUR);
    (clock, timer)
}

/// Returns whether the root's functions use `timer`.
fn is_current(timer: &Timer) -> bool {
    let start = timer.now();
    timer.now() == start
        && Timer::current().now() == start
        && sleep(HOUR).deadline() == start + HOUR
}

/// Calls a function at each of two polls, and as it is dropped.
struct Probe<F: FnMut(&str)>(F, bool);

impl<F: FnMut(&str) + Unpin> Future for Probe<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        (self.0)("poll");
        if std::mem::replace(&mut self.1, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<F: FnMut(&str)> Drop for Probe<F> {
    fn drop(&mut self) {
        (self.0)("drop");
    }
}

#[test]
fn all_that_takes_no_timer_is_on_the_one_in_scope() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let passed = || clock.now() - start;
    clock.block_on(timer.scope(async {
        sleep(HOUR).await;
        tourbillon::sleep_until(clock.now() + HOUR).await;
        assert_eq!(passed(), 2 * HOUR);

        assert!(timeout(HOUR, pending::<()>()).await.is_err());
        assert!(tourbillon::timeout_at(clock.now() + HOUR, pending::<()>()).await.is_err());
        assert!(pending::<()>().timeout(HOUR).await.is_err());
        assert_eq!(passed(), 5 * HOUR);

        let mut ticks = interval(HOUR);
        assert_eq!((ticks.tick().await, ticks.tick().await), (start + 5 * HOUR, start + 6 * HOUR));
        let mut ticks = tourbillon::interval_at(clock.now() + HOUR, HOUR);
        ticks.tick().await;
        tourbillon::wall::sleep_until_wall(clock.wall_now() + HOUR).await;
        tourbillon::compat::Delay::new(HOUR).await;
        assert_eq!(passed(), 9 * HOUR);

        let mut late = pin!(futures::stream::iter([1]).delay(HOUR));
        assert_eq!(late.next().await, Some(1));
        let mut quiet =
            pin!(futures::stream::iter([1]).chain(futures::stream::pending()).debounce(HOUR));
        assert_eq!(quiet.next().await, Some(1));
        assert_eq!(passed(), 11 * HOUR);

        let mut queue = DelayQueue::new();
        queue.insert((), HOUR);
        poll_fn(|cx| queue.poll_expired(cx)).await;
        let mut queue = TimeoutQueue::new(HOUR);
        queue.push(());
        poll_fn(|cx| queue.poll_expired(cx)).await;
        assert_eq!(passed(), 13 * HOUR);

        let (tell, told) = futures::channel::oneshot::channel();
        let callback = sleep(HOUR).call(|| tell.send(()).unwrap());
        told.await.unwrap();
        drop(callback);
        assert_eq!(passed(), 14 * HOUR);
        assert_eq!(Timer::default().now(), clock.now());
    }));
    assert!(!is_current(&timer));
}

#[test]
fn scopes_nest_and_the_timer_before_comes_back() {
    // The process-wide timer is there before the first scope.
    drop(sleep(HOUR));
    let ((_one, outer), (_two, inner)) = (far_timer(10), far_timer(20));
    let within = async {
        assert!(is_current(&outer));
        let mut nested = pin!(inner.scope(Probe(|_| assert!(is_current(&inner)), false)));
        assert!(poll(&mut nested).is_pending());
        assert!(is_current(&outer));
        assert!(poll(&mut nested).is_ready());
        assert!(is_current(&outer));
    };
    pollster::block_on(outer.scope(within));
    assert!(!is_current(&outer) && !is_current(&inner));
    let real = Instant::now();
    assert!(Timer::current().now().saturating_duration_since(real) < HOUR);
}

#[test]
fn a_panic_ends_the_scope_of_its_poll() {
    let ((_one, outer), (_two, inner)) = (far_timer(10), far_timer(20));
    let mut panics = pin!(inner.scope(async { panic!("on purpose") }));
    let within = async {
        let poll = AssertUnwindSafe(|| poll(&mut panics));
        assert!(catch_unwind(poll).is_err());
        assert!(is_current(&outer));
    };
    pollster::block_on(outer.scope(within));
    assert!(!is_current(&outer));
}

#[test]
fn a_future_is_dropped_in_the_scope_as_it_is_ready_or_with_the_scope() {
    let (_clock, timer) = far_timer(10);
    let seen = Mutex::new(Vec::new());
    let note = |what: &str| seen.lock().unwrap().push((what.to_owned(), is_current(&timer)));
    let events = || std::mem::take(&mut *seen.lock().unwrap());
    let event = |what: &str| (what.to_owned(), true);

    let mut whole = polled(Box::pin(timer.scope(Probe(note, false))));
    assert!(poll(&mut whole).is_ready());
    assert_eq!(events(), [event("poll"), event("poll"), event("drop")]);
    drop(whole);
    assert_eq!(events(), []);

    let cut = polled(Box::pin(timer.scope(Probe(note, false))));
    drop(cut);
    drop(timer.scope(Probe(note, false)));
    assert_eq!(events(), [event("poll"), event("drop"), event("drop")]);
}

#[test]
#[should_panic(expected = "is not ready yet")]
fn a_scope_that_was_ready_is_not_polled_again() {
    let mut scoped = pin!(Timer::global().scope(ready(())));
    assert!(poll(&mut scoped).is_ready());
    let _ = poll(&mut scoped);
}

#[test]
fn what_was_made_outside_keeps_its_timer_and_so_does_what_leaves() {
    let ((one, outside), (two, inside)) = (far_timer(10), far_timer(20));
    let before = outside.sleep(HOUR);
    let mut before = Some(before);
    let within = poll_fn(|_| {
        one.block_on(before.take().expect("polled once"));
        Poll::Ready(sleep(HOUR))
    });
    let leaves = pollster::block_on(inside.scope(within));
    assert_eq!(leaves.deadline(), two.now() + HOUR);
    two.block_on(leaves);
}

#[test]
fn tasks_are_in_the_scope_only_where_their_executor_runs_within() {
    let (_clock, timer) = far_timer(10);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let of_the_runtime = {
        let timer = timer.clone();
        timer.clone().scope(async move { tokio::spawn(async move { is_current(&timer) }).await })
    };
    assert!(!runtime.block_on(of_the_runtime).unwrap());

    let set = tokio::task::LocalSet::new();
    let local = {
        let timer = timer.clone();
        async move { tokio::task::spawn_local(async move { is_current(&timer) }).await }
    };
    assert!(runtime.block_on(timer.scope(set.run_until(local))).unwrap());
}

#[test]
fn a_scope_moves_between_threads_and_reaches_none_beside() {
    let (_clock, timer) = far_timer(10);
    let own = timer.clone();
    let mut scoped =
        Box::pin(timer.scope(async move {
            assert!(is_current(&own));
            let beside = own.clone();
            assert!(!std::thread::spawn(move || is_current(&beside)).join().unwrap());
            let mut polled = false;
            poll_fn(|_| {
                if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            is_current(&own)
        }));
    assert!(poll(&mut scoped).is_pending());
    let there = std::thread::spawn(move || poll(&mut scoped)).join().unwrap();
    assert_eq!(there, Poll::Ready(true));
}

/// The timer that a scope names lives as long as the scope, whatever becomes of other handles.
#[test]
fn a_scope_keeps_its_timer() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let scoped = timer.scope(async { sleep(HOUR).await });
    drop(timer);
    clock.block_on(scoped);
    assert_eq!(clock.now(), start + HOUR);
}

#[test]
fn a_waker_that_is_woken_in_a_scope_sees_it() {
    struct Note(Timer, Mutex<Option<bool>>);
    impl std::task::Wake for Note {
        fn wake(self: Arc<Self>) {
            *self.1.lock().unwrap() = Some(is_current(&self.0));
        }
    }
    let (_clock, timer) = far_timer(10);
    let note = Arc::new(Note(timer.clone(), Mutex::new(None)));
    let waker = Waker::from(note.clone());
    pollster::block_on(timer.scope(async { waker.wake_by_ref() }));
    assert_eq!(*note.1.lock().unwrap(), Some(true));
    waker.wake();
    assert_eq!(*note.1.lock().unwrap(), Some(false));
}
