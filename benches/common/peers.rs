//! The timers that are compared, behind one trait.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use futures::stream::{self, Stream, StreamExt};
use tokio::runtime::{EnterGuard, Runtime};

use super::slots::Slots;
use super::wakers::{Count, poll};

/// A timer library.
pub(crate) trait Peer: 'static {
    const NAME: &'static str;
    type Sleep: Future + Send + 'static;

    fn sleep(delay: Duration) -> Self::Sleep;
    fn sleep_until(deadline: Instant) -> Self::Sleep;
    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant);

    /// Completes with whether `future` did within `limit`.
    fn timeout<F: Future + Send>(limit: Duration, future: F) -> impl Future<Output = bool> + Send {
        async move {
            let sleep = pin!(Self::sleep(limit));
            matches!(select(pin!(future), sleep).await, Either::Left(_))
        }
    }

    /// Completes with whether `future` did before `deadline`.
    fn timeout_at<F: Future + Send>(
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = bool> + Send {
        async move {
            let sleep = pin!(Self::sleep_until(deadline));
            matches!(select(pin!(future), sleep).await, Either::Left(_))
        }
    }

    /// A tick now and every `period` from then on; missed ticks follow at once.
    fn ticks(period: Duration) -> impl Stream<Item = ()> + Send {
        let start = Instant::now();
        let sleep = Box::pin(Self::sleep_until(start));
        stream::unfold((sleep, start), move |(mut sleep, due)| async move {
            sleep.as_mut().await;
            Self::reset(sleep.as_mut(), due + period);
            Some(((), (sleep, due + period)))
        })
    }

    /// Returns a guard that a thread has to hold while it makes sleeps.
    fn enter() -> Option<EnterGuard<'static>> {
        None
    }

    /// Returns the library's own counters, if it has some.
    fn counters() -> Option<Counters> {
        None
    }
}

/// Sums since the process began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) armed: u64,
    pub(crate) unparks: u64,
}

pub(crate) enum Tourbillon {}

impl Peer for Tourbillon {
    const NAME: &'static str = "tourbillon";
    type Sleep = tourbillon::Sleep;

    fn sleep(delay: Duration) -> Self::Sleep {
        tourbillon::sleep(delay)
    }

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tourbillon::sleep_until(deadline)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.get_mut().reset(deadline);
    }

    async fn timeout<F: Future + Send>(limit: Duration, future: F) -> bool {
        tourbillon::timeout(limit, future).await.is_ok()
    }

    async fn timeout_at<F: Future + Send>(deadline: Instant, future: F) -> bool {
        tourbillon::timeout_at(deadline, future).await.is_ok()
    }

    fn ticks(period: Duration) -> impl Stream<Item = ()> + Send {
        tourbillon::interval(period).map(drop)
    }

    fn counters() -> Option<Counters> {
        let stats = tourbillon::Timer::global().stats();
        Some(Counters { armed: stats.armed, unparks: stats.unparks })
    }
}

pub(crate) enum Tokio {}

/// The runtime that `#[tokio::main]` makes: a multi-thread one with its default number of workers.
/// A single worker parks on the timers and on I/O.
pub(crate) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("the runtime's threads start")
});

impl Peer for Tokio {
    const NAME: &'static str = "tokio";
    type Sleep = tokio::time::Sleep;

    fn sleep(delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        tokio::time::sleep_until(deadline.into())
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.reset(deadline.into());
    }

    async fn timeout<F: Future + Send>(limit: Duration, future: F) -> bool {
        tokio::time::timeout(limit, future).await.is_ok()
    }

    async fn timeout_at<F: Future + Send>(deadline: Instant, future: F) -> bool {
        tokio::time::timeout_at(deadline.into(), future).await.is_ok()
    }

    fn ticks(period: Duration) -> impl Stream<Item = ()> + Send {
        let mut interval = tokio::time::interval(period);
        stream::poll_fn(move |cx| interval.poll_tick(cx).map(|_| Some(())))
    }

    fn enter() -> Option<EnterGuard<'static>> {
        Some(RUNTIME.enter())
    }
}

pub(crate) enum AsyncIo {}

impl Peer for AsyncIo {
    const NAME: &'static str = "async-io";
    type Sleep = async_io::Timer;

    fn sleep(delay: Duration) -> Self::Sleep {
        async_io::Timer::after(delay)
    }

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        async_io::Timer::at(deadline)
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.get_mut().set_at(deadline);
    }

    fn ticks(period: Duration) -> impl Stream<Item = ()> + Send {
        async_io::Timer::interval(period).map(drop)
    }
}

pub(crate) enum FuturesTimer {}

/// Turns a deadline into a delay, at the cost of a look at the clock: it knows delays only.
fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

impl Peer for FuturesTimer {
    const NAME: &'static str = "futures-timer";
    type Sleep = futures_timer::Delay;

    fn sleep(delay: Duration) -> Self::Sleep {
        futures_timer::Delay::new(delay)
    }

    fn sleep_until(deadline: Instant) -> Self::Sleep {
        futures_timer::Delay::new(until(deadline))
    }

    fn reset(sleep: Pin<&mut Self::Sleep>, deadline: Instant) {
        sleep.get_mut().reset(until(deadline));
    }
}

/// Checks that the timers of the benches are armed: each wakes its waker and then is ready.
pub(crate) fn prove_that_sleeps_fire<P: Peer>() {
    const SLEEPS: u64 = 1_000;
    let _entered = P::enter();
    let woken = Count::new();
    let waker = woken.waker();
    let start = Instant::now() + Duration::from_millis(50);
    let mut sleeps = Slots::with_capacity(SLEEPS as usize);
    for n in 0..SLEEPS {
        let sleep = sleeps.push(P::sleep_until(start + Duration::from_micros(n)));
        assert!(poll(sleep, &waker).is_pending(), "{}: ready too soon", P::NAME);
    }
    while woken.get() < SLEEPS {
        assert!(start.elapsed() < Duration::from_secs(5), "{}: a sleep never fires", P::NAME);
        thread::sleep(Duration::from_millis(1));
    }
    sleeps.iter_mut().for_each(|sleep| {
        assert!(poll(sleep, &waker).is_ready(), "{}: fired and not ready", P::NAME);
    });
}
