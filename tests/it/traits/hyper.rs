//! hyper's `Timer` and `Sleep`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::rt;

use crate::support::*;

type Sleep = Pin<Box<dyn rt::Sleep>>;

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(waker))
}

fn address(sleep: &Sleep) -> *const () {
    (&raw const **sleep).cast()
}

#[test]
fn its_now_and_its_sleeps_are_by_the_timers_clock() {
    let (timer, clock) = virtual_timer();
    clock.advance(SECOND * 3600);
    assert_eq!(rt::Timer::now(&timer), clock.now());
    let start = clock.now();
    clock.block_on(rt::Timer::sleep(&timer, SECOND));
    clock.block_on(rt::Timer::sleep_until(&timer, start + SECOND * 3));
    assert_eq!(clock.now() - start, SECOND * 3);
    assert_eq!(timer.stats().fired, 2);
}

#[test]
fn a_reset_keeps_the_box_the_place_and_the_waker() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let mut sleep = rt::Timer::sleep(&timer, SECOND * 60);
    assert!(poll(&mut sleep, &waker).is_pending());
    let before = address(&sleep);

    rt::Timer::reset(&timer, &mut sleep, clock.now() + SECOND);
    assert_eq!(address(&sleep), before);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
    assert!(poll(&mut sleep, &waker).is_ready());

    rt::Timer::reset(&timer, &mut sleep, clock.now() + SECOND);
    assert_eq!(address(&sleep), before);
    assert!(poll(&mut sleep, &waker).is_pending());
    assert_eq!(timer.stats().cancelled, 0);
}

#[test]
fn a_reset_replaces_the_sleep_of_another_timer() {
    let (timer, clock) = virtual_timer();
    let (other, other_clock) = virtual_timer();
    let mut sleep = rt::Timer::sleep(&other, SECOND);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());

    rt::Timer::reset(&timer, &mut sleep, clock.now() + SECOND);
    assert_eq!(other_clock.pending(), 0);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut sleep, Waker::noop()).is_ready());
}

#[test]
fn a_reset_replaces_a_sleep_of_another_maker() {
    struct Foreign;

    impl Future for Foreign {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }
    }

    impl rt::Sleep for Foreign {}

    let (timer, clock) = virtual_timer();
    let mut sleep: Sleep = Box::pin(Foreign);
    rt::Timer::reset(&timer, &mut sleep, clock.now() + SECOND);
    assert!(sleep.is::<tourbillon::Sleep>());
    clock.block_on(sleep);
}

#[test]
fn the_ends_of_time_are_safe() {
    let (timer, _clock) = virtual_timer();
    let mut sleep = rt::Timer::sleep(&timer, Duration::ZERO);
    assert!(poll(&mut sleep, Waker::noop()).is_ready());
    let mut sleep = rt::Timer::sleep(&timer, Duration::MAX);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
}
