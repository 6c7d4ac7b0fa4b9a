//! quinn's `AsyncTimer`, and a `Runtime` whose timers are ours.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use quinn_0_11::{AsyncTimer, AsyncUdpSocket, Runtime};
use tourbillon::quinn_0_11::WithTimer;

use crate::support::*;

/// Counts the calls to it. Its timers are not to be asked for.
#[derive(Debug, Default)]
struct Inner {
    spawned: AtomicUsize,
    wrapped: AtomicUsize,
}

impl Runtime for Inner {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("the timers are another's")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.spawned.fetch_add(1, Ordering::SeqCst);
    }

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.wrapped.fetch_add(1, Ordering::SeqCst);
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn poll(timer: &mut Pin<Box<dyn AsyncTimer>>, waker: &Waker) -> Poll<()> {
    timer.as_mut().poll(&mut Context::from_waker(waker))
}

#[test]
fn its_timers_and_its_now_are_ours_and_the_rest_is_the_inner_runtimes() {
    let (timer, clock) = virtual_timer();
    let inner = Arc::new(Inner::default());
    let runtime = WithTimer::new(inner.clone(), &timer);

    runtime.spawn(Box::pin(async {}));
    assert_eq!(inner.spawned.load(Ordering::SeqCst), 1);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback can be bound");
    let error = runtime.wrap_udp_socket(socket).expect_err("it takes none");
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert_eq!(inner.wrapped.load(Ordering::SeqCst), 1);

    clock.advance(SECOND);
    assert_eq!(runtime.now(), clock.now());
    let mut sleep = runtime.new_timer(runtime.now() + SECOND);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut sleep, Waker::noop()).is_ready());
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn a_reset_moves_it_both_ways_and_revives_it() {
    let (timer, clock) = virtual_timer();
    let (counter, waker) = counting();
    let mut sleep: Pin<Box<dyn AsyncTimer>> = Box::pin(timer.sleep(SECOND * 10));
    assert!(poll(&mut sleep, &waker).is_pending());

    sleep.as_mut().reset(clock.now() + SECOND * 20);
    clock.advance(SECOND * 10);
    assert_eq!(counter.wakes(), 0);
    sleep.as_mut().reset(clock.now() + SECOND);
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1);
    assert!(poll(&mut sleep, &waker).is_ready());

    sleep.as_mut().reset(clock.now() + SECOND);
    assert!(poll(&mut sleep, &waker).is_pending());
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 2);
    assert!(poll(&mut sleep, &waker).is_ready());
}
