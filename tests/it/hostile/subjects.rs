//! Every public type that holds a timer, to be polled, changed and dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::Stream;
use tourbillon::queue::Key;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::wall::WallSleep;
use tourbillon::{FutureExt, Interval, MissedTickBehavior, Sleep, StreamExt, compat};

use super::foreign::{Source, Value, World};
use crate::support::*;

/// Something with a timer.
pub(super) trait Subject: Send {
    fn poll(&mut self, waker: &Waker);

    /// Does what else can be done with it.
    fn disturb(&mut self, _: &Arc<World>) {}
}

/// Number of kinds.
const KINDS: u64 = 20;

/// A subject of any kind, on the timer of `world`.
pub(super) fn make(world: &Arc<World>) -> Box<dyn Subject> {
    let (timer, span) = (world.timer(), world.span());
    // For subjects that are made and polled again and again, or else they would be ready for ever.
    let period = span.max(Duration::from_micros(50));
    let source = || Source::new(world);
    match world.random(KINDS) {
        0 | 1 => Box::new(timer.sleep(span)),
        2 => Box::new(timer.sleep_until_wall(timer.wall_now() + span.min(3600 * SECOND))),
        3 => Box::new(timer.interval(period)),
        4 => future(timer.timeout(span, source())),
        5 => Box::new(compat::Delay::new(span)),
        6 => Box::new(Delays { queue: DelayQueue::with_timer(timer), keys: Vec::new() }),
        7 => Box::new(Timeouts { queue: TimeoutQueue::with_timer(span, timer), keys: Vec::new() }),
        8 => stream(StreamExt::on_timer(source(), timer).timeout(span).into_stream()),
        9 => stream(source().timeout_repeating(timer.interval(period))),
        10 => stream(source().on_timer(timer).throttle(span).into_stream()),
        11 => stream(source().on_timer(timer).debounce(span).into_stream()),
        12 => stream(source().on_timer(timer).sample(span).into_stream()),
        13 => stream(source().on_timer(timer).chunks_timeout(3, span).into_stream()),
        14 => future(FutureExt::timeout(source(), span)),
        15 => future(source().timeout_at(timer.now() + span.min(3600 * SECOND))),
        16 => stream(source().on_timer(timer).throttle_first(span).into_stream()),
        17 => stream(source().on_timer(timer).delay(span).into_stream()),
        _ => foreign_trait(world, span),
    }
}

/// Makes one behind another crate's trait; a sleep where these are left out.
#[allow(unused_variables, reason = "without features there are none")]
fn foreign_trait(world: &Arc<World>, span: Duration) -> Box<dyn Subject> {
    let timer = world.timer();
    match world.random(4) {
        #[cfg(feature = "hyper")]
        0 => Box::new(Fut(Some(hyper::rt::Timer::sleep(timer, span)))),
        #[cfg(feature = "aws-smithy-async")]
        1 => future(aws_smithy_async::rt::sleep::AsyncSleep::sleep(timer, span)),
        #[cfg(feature = "embedded-hal-async")]
        2 => {
            let mut timer = timer.clone();
            Box::new(Fragile(Some(Box::pin(async move {
                embedded_hal_async::delay::DelayNs::delay_us(&mut timer, 300).await;
            }))))
        }
        #[cfg(feature = "quinn-0_11")]
        3 => Box::new(Quinn(Box::pin(timer.sleep(span)))),
        _ => Box::new(timer.sleep(span)),
    }
}

impl Subject for Sleep {
    fn poll(&mut self, waker: &Waker) {
        let _ = poll_with(self, waker);
    }

    fn disturb(&mut self, world: &Arc<World>) {
        let _ = (self.is_elapsed(), format!("{self:?}"));
        self.reset_after(world.span());
    }
}

impl Subject for compat::Delay {
    fn poll(&mut self, waker: &Waker) {
        let _ = poll_with(self, waker);
    }

    fn disturb(&mut self, world: &Arc<World>) {
        self.reset(world.span());
    }
}

impl Subject for WallSleep {
    fn poll(&mut self, waker: &Waker) {
        let _ = poll_with(self, waker);
    }

    fn disturb(&mut self, world: &Arc<World>) {
        let _ = (self.is_elapsed(), format!("{self:?}"));
        self.reset(world.timer().wall_now() + world.span().min(3600 * SECOND));
    }
}

impl Subject for Interval {
    fn poll(&mut self, waker: &Waker) {
        let _ = self.poll_tick(&mut Context::from_waker(waker));
    }

    fn disturb(&mut self, world: &Arc<World>) {
        match world.random(4) {
            0 => self.reset(),
            1 => self.reset_immediately(),
            2 => self.set_missed_tick_behavior(MissedTickBehavior::Skip),
            _ => self.reset_after(world.span()),
        }
    }
}

struct Delays {
    queue: DelayQueue<Value>,
    keys: Vec<Key>,
}

impl Subject for Delays {
    fn poll(&mut self, waker: &Waker) {
        let _ = poll_next(&mut self.queue, waker);
    }

    fn disturb(&mut self, world: &Arc<World>) {
        let span = world.span();
        match (world.random(8), self.keys.pop()) {
            (0, Some(key)) => drop(self.queue.try_remove(&key)),
            (1, Some(key)) => drop(self.queue.try_reset(&key, span)),
            (2, _) => drop(self.queue.pop_expired()),
            (3, _) => self.queue.clear(),
            (4, _) => self.queue.shrink_to_fit(),
            _ => self.keys.push(self.queue.insert(Value::new(world), span)),
        }
    }
}

struct Timeouts {
    queue: TimeoutQueue<Value>,
    keys: Vec<Key>,
}

impl Subject for Timeouts {
    fn poll(&mut self, waker: &Waker) {
        let _ = poll_next(&mut self.queue, waker);
    }

    fn disturb(&mut self, world: &Arc<World>) {
        match (world.random(8), self.keys.pop()) {
            (0, Some(key)) => drop(self.queue.try_remove(&key)),
            (1, Some(key)) => drop(self.queue.try_refresh(&key)),
            (2, _) => drop(self.queue.pop_expired()),
            (3, _) => self.queue.clear(),
            (4, _) => self.queue.shrink_to_fit(),
            _ => self.keys.push(self.queue.push(Value::new(world))),
        }
    }
}

/// A future, until it is ready.
struct Fut<F: ?Sized>(Option<Pin<Box<F>>>);

fn future<F: Future<Output: Send> + Send + 'static>(future: F) -> Box<dyn Subject> {
    Box::new(Fut(Some(Box::pin(future))))
}

impl<F: Future + Send + ?Sized> Subject for Fut<F> {
    fn poll(&mut self, waker: &Waker) {
        let Some(future) = &mut self.0 else { return };
        if let Poll::Ready(output) = poll_with(future, waker) {
            // Not polled again, also if any of the drops panics.
            let _ended = self.0.take();
            drop(output);
        }
    }
}

/// A future that must not be polled again after a panic, like an async block's.
#[cfg(feature = "embedded-hal-async")]
struct Fragile<F>(Option<Pin<Box<F>>>);

#[cfg(feature = "embedded-hal-async")]
impl<F: Future<Output = ()> + Send> Subject for Fragile<F> {
    fn poll(&mut self, waker: &Waker) {
        let Some(mut future) = self.0.take() else { return };
        if poll_with(&mut future, waker).is_pending() {
            self.0 = Some(future);
        }
    }
}

struct Streamed<S>(Pin<Box<S>>);

fn stream<S: Stream + Send + 'static>(stream: S) -> Box<dyn Subject> {
    Box::new(Streamed(Box::pin(stream)))
}

impl<S: Stream + Send> Subject for Streamed<S> {
    fn poll(&mut self, waker: &Waker) {
        drop(poll_next(&mut self.0, waker));
    }
}

#[cfg(feature = "quinn-0_11")]
struct Quinn(Pin<Box<dyn quinn_0_11::AsyncTimer>>);

#[cfg(feature = "quinn-0_11")]
impl Subject for Quinn {
    fn poll(&mut self, waker: &Waker) {
        let _ = self.0.as_mut().poll(&mut Context::from_waker(waker));
    }

    fn disturb(&mut self, world: &Arc<World>) {
        self.0.as_mut().reset(world.timer().now() + world.span().min(3600 * SECOND));
    }
}
