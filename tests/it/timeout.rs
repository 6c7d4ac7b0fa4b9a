//! `Timeout`.

use std::future::{pending, poll_fn, ready};
use std::io;
use std::pin::Pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use tourbillon::Elapsed;

use crate::support::*;

#[test]
fn the_inner_future_is_polled_first_even_past_the_deadline() {
    let (timer, clock) = virtual_timer();
    let timeout = timer.timeout(Duration::ZERO, ready(7));
    clock.advance(SECOND);
    assert_eq!(clock.block_on(timeout), Ok(7));
    assert_eq!(timer.stats().armed, 0);
}

#[test]
fn a_limit_counts_from_the_call_and_not_from_the_first_poll() {
    let (timer, clock) = virtual_timer();
    let deadline = clock.now() + 2 * SECOND;
    let mut polled_late = timer.timeout(2 * SECOND, pending::<()>());
    let mut polled_too_late = timer.timeout(2 * SECOND, pending::<()>());
    clock.advance(SECOND);
    assert!(poll(&mut polled_late).is_pending());
    assert_eq!((polled_late.deadline(), clock.next_deadline()), (deadline, Some(deadline)));
    clock.advance(SECOND - NANOSECOND);
    assert!(poll(&mut polled_late).is_pending());
    clock.advance(NANOSECOND);
    assert!(poll(&mut polled_late).is_ready());
    assert!(poll(&mut polled_too_late).is_ready());
    assert_eq!(polled_too_late.deadline(), deadline);
}

#[test]
fn elapsed_is_an_error_and_converts_to_timed_out() {
    let (timer, clock) = virtual_timer();
    let result = clock.block_on(timer.timeout_at(clock.now() + SECOND, pending::<()>()));
    let elapsed = result.expect_err("the future never ends");
    let error: Box<dyn std::error::Error + Send + Sync> = elapsed.into();
    assert_eq!(error.to_string(), "deadline has elapsed");
    assert_eq!(io::Error::from(elapsed).kind(), io::ErrorKind::TimedOut);
}

#[test]
fn a_future_that_becomes_ready_cancels_the_deadline() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let mut polls = 0;
    let mut timeout = timer.timeout(
        SECOND,
        poll_fn(|_| {
            polls += 1;
            if polls == 2 { Poll::Ready(polls) } else { Poll::Pending }
        }),
    );
    let waker = Waker::from(counter.clone());
    assert!(poll_with(&mut timeout, &waker).is_pending());
    assert_eq!(clock.pending(), 1);
    assert_eq!(poll_with(&mut timeout, &waker), Poll::Ready(Ok(2)));
    drop(timeout);
    assert_eq!(clock.pending(), 0);
}

#[test]
fn a_future_that_keeps_waking_itself_is_cut_off_though_no_driver_comes() {
    let (timer, clock) = virtual_timer();
    let mut timeout = timer.timeout(
        SECOND,
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }),
    );
    assert!(poll(&mut timeout).is_pending());
    clock.jump(SECOND);
    assert!(poll(&mut timeout).is_ready());
}

#[test]
fn the_inner_future_comes_back() {
    let (timer, clock) = virtual_timer();
    let mut timeout = timer.timeout(Duration::MAX, ready(1));
    assert_eq!(timeout.get_ref().clone().into_inner(), 1);
    *timeout.get_mut() = ready(2);
    assert_eq!(clock.block_on(timeout.into_inner()), 2);
}

#[test]
fn into_inner_cancels_the_deadline() {
    let (timer, clock) = virtual_timer();
    let timeout = polled(timer.timeout(SECOND, pending::<()>()));
    let inner: std::future::Pending<()> = timeout.into_inner();
    assert_eq!(clock.pending(), 0);
    drop(inner);
}

#[test]
fn anything_that_becomes_a_future_will_do() {
    struct Answer;

    impl IntoFuture for Answer {
        type Output = u32;
        type IntoFuture = std::future::Ready<u32>;

        fn into_future(self) -> Self::IntoFuture {
            ready(42)
        }
    }

    assert_eq!(pollster::block_on(tourbillon::timeout(SECOND, Answer)), Ok(42));
}

#[test]
fn a_deadline_can_be_moved_before_it_comes_and_after() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let (counter, waker) = counting();
    let mut timeout = timer.timeout(SECOND, pending::<()>());
    assert_eq!(timeout.deadline(), start + SECOND);
    assert!(poll_with(&mut timeout, &waker).is_pending());
    Pin::new(&mut timeout).reset(start + 3 * SECOND);
    assert_eq!(timeout.deadline(), start + 3 * SECOND);
    clock.advance(2 * SECOND);
    assert!(poll_with(&mut timeout, &waker).is_pending());
    clock.advance(SECOND);
    assert_eq!((counter.wakes(), poll(&mut timeout)), (1, Poll::Ready(Err(Elapsed::new()))));
    Pin::new(&mut timeout).reset_after(SECOND);
    assert!(poll_with(&mut timeout, &waker).is_pending());
    clock.advance(SECOND);
    assert_eq!((counter.wakes(), poll(&mut timeout)), (2, Poll::Ready(Err(Elapsed::new()))));
    Pin::new(&mut timeout).reset_after(Duration::MAX);
    clock.advance(3600 * SECOND);
    assert!(poll(&mut timeout).is_pending());
}
