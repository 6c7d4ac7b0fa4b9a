//! `StreamExt`, and the common behaviour of all adapters.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::stream::{self, FusedStream, Stream, StreamExt as _};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{MissedTickBehavior, StreamExt as _, Timer};

use crate::support::*;

mod bursts;
mod chunks_timeout;
mod debounce;
mod delay;
mod sample;
mod throttle;
mod throttle_first;
mod timeout;
mod timeout_repeating;

/// Yields each number at its time, in milliseconds from now, and ends with the last.
fn at(timer: &Timer, times: &[u64]) -> impl Stream<Item = u64> + Unpin + use<> {
    let (timer, start) = (timer.clone(), timer.now());
    let times = times.to_vec();
    Box::pin(stream::iter(times).then(move |time| {
        let sleep = timer.sleep_until(start + ms(time));
        async move {
            sleep.await;
            time
        }
    }))
}

/// Like [`at`], without an end.
fn at_and_on(timer: &Timer, times: &[u64]) -> impl Stream<Item = u64> + Unpin + use<> {
    at(timer, times).chain(stream::pending())
}

/// Items of a stream, each after the milliseconds that it took from the start, and how long all
/// of it took.
type Trace<T> = (Vec<(u64, T)>, u64);

/// The first `count` items of `stream`, or fewer if it ends.
fn trace<S: Stream>(clock: &VirtualClock, stream: S, count: usize) -> Trace<S::Item> {
    let start = clock.now();
    let elapsed = || u64::try_from((clock.now() - start).as_millis()).expect("a test is short");
    let mut stream = Box::pin(stream);
    let mut seen = Vec::new();
    while seen.len() < count {
        match clock.block_on(stream.next()) {
            Some(item) => seen.push((elapsed(), item)),
            None => break,
        }
    }
    (seen, elapsed())
}

fn trace_to_end<S: FusedStream>(clock: &VirtualClock, stream: S) -> Trace<S::Item> {
    let mut stream = Box::pin(stream);
    let result = trace(clock, &mut stream, usize::MAX);
    assert!(stream.is_terminated());
    assert_eq!(stream.size_hint(), (0, Some(0)));
    for _ in 0..3 {
        assert!(matches!(next(&mut stream), Poll::Ready(None)), "the end is for good");
    }
    assert_eq!(clock.pending(), 0, "no timer is left after the end");
    result
}

fn next<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    poll_next(stream, Waker::noop())
}

fn is_item<T: PartialEq + Debug>(poll: Poll<Option<T>>, item: T) {
    assert_eq!(poll, Poll::Ready(Some(item)));
}

/// Always ready; counts the items taken.
fn endless() -> (impl Stream<Item = usize> + Unpin, Rc<Cell<usize>>) {
    let taken = Rc::new(Cell::new(0));
    let counter = Rc::clone(&taken);
    let source = stream::poll_fn(move |_| {
        counter.set(counter.get() + 1);
        Poll::Ready(Some(counter.get()))
    });
    (source, taken)
}

/// Yields the items sent, and panics at each `None`.
fn fallible() -> (UnboundedSender<Option<u64>>, impl Stream<Item = u64> + Unpin) {
    let (sender, receiver) = unbounded::<Option<u64>>();
    (sender, receiver.map(|item| item.expect("the source panics")))
}

fn panics<T>(action: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(action)).is_err());
}

/// Returns the item of a timeout, with errors as `None`.
fn oks<T, E>((seen, end): Trace<Result<T, E>>) -> Trace<Option<T>> {
    (seen.into_iter().map(|(time, result)| (time, result.ok())).collect(), end)
}

/// A source that must not be polled after its end, and says when it is dropped.
struct Strict {
    items: Vec<u32>,
    ended: bool,
    log: Rc<RefCell<Vec<&'static str>>>,
}

impl Strict {
    fn new(items: &[u32]) -> (Self, Rc<RefCell<Vec<&'static str>>>) {
        let log = Rc::default();
        let items = items.iter().rev().copied().collect();
        (Self { items, ended: false, log: Rc::clone(&log) }, log)
    }
}

impl Stream for Strict {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        assert!(!self.ended, "polled after its end");
        let item = self.items.pop();
        self.ended = item.is_none();
        Poll::Ready(item)
    }
}

impl Drop for Strict {
    fn drop(&mut self) {
        self.log.borrow_mut().push("dropped");
    }
}

#[test]
fn no_adapter_polls_its_source_after_the_end() {
    let (timer, clock) = virtual_timer();
    let strict = || Strict::new(&[1, 2]).0;
    let zero = Duration::ZERO;
    trace_to_end(&clock, strict().on_timer(&timer).timeout(zero).into_stream());
    trace_to_end(&clock, strict().timeout_repeating(timer.interval(ms(1))));
    trace_to_end(&clock, strict().on_timer(&timer).throttle(zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).throttle_first(zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).delay(zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).debounce(zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).chunks_timeout(1, zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).chunks_timeout(9, zero).into_stream());
    trace_to_end(&clock, strict().on_timer(&timer).sample(zero).into_stream());
}

#[test]
fn the_end_is_only_the_end_once_what_is_held_was_delivered() {
    let (timer, _clock) = virtual_timer();
    let (sender, source) = unbounded();
    let mut calm = source.on_timer(&timer).debounce(SECOND).into_stream();
    sender.unbounded_send(1).unwrap();
    assert!(next(&mut calm).is_pending());
    drop(sender);
    assert!(!calm.is_terminated());
    is_item(next(&mut calm), 1);
    assert!(calm.is_terminated());
    assert_eq!(next(&mut calm), Poll::Ready(None));
}

#[test]
fn dropping_an_adapter_drops_the_source_and_cancels_the_timer() {
    let (timer, clock) = virtual_timer();
    let (source, log) = Strict::new(&[1]);
    let mut calm = source.chain(stream::pending()).on_timer(&timer).debounce(SECOND).into_stream();
    assert!(next(&mut calm).is_pending());
    assert_eq!(clock.pending(), 1);
    drop(calm);
    assert_eq!(clock.pending(), 0);
    assert_eq!(*log.borrow(), ["dropped"]);
}

#[test]
fn the_source_can_be_reached_and_comes_back() {
    let (timer, clock) = virtual_timer();
    let mut slow = stream::iter(1..).on_timer(&timer).throttle(SECOND).into_stream();
    is_item(next(&mut slow), 1);
    is_item(next(slow.get_mut()), 2);
    is_item(Pin::new(&mut slow).get_pin_mut().poll_next(&mut noop_context()), 3);
    assert_eq!(slow.get_ref().size_hint(), (usize::MAX, None));
    assert!(next(&mut slow).is_pending());
    assert_eq!(clock.pending(), 1);
    is_item(next(&mut slow.into_inner()), 4);
    assert_eq!(clock.pending(), 0);
}

fn noop_context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

#[test]
fn dropping_the_future_of_an_item_loses_nothing() {
    let (timer, clock) = virtual_timer();
    let mut slow = at(&timer, &[0, 1, 2]).on_timer(&timer).throttle(ms(10)).into_stream();
    let mut seen = Vec::new();
    for _ in 0..10 {
        let item = clock.block_on(timer.timeout(ms(3), slow.next()));
        seen.extend(item.ok().flatten());
    }
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn the_time_runs_from_the_call_that_makes_the_adapter() {
    let (timer, clock) = virtual_timer();
    let mut silent = stream::pending::<()>().on_timer(&timer).timeout(ms(10)).into_stream();
    clock.advance(ms(9));
    assert!(next(&mut silent).is_pending());
    clock.advance(ms(1));
    assert!(next(&mut silent).is_ready());

    let mut samples =
        stream::iter([1]).chain(stream::pending()).on_timer(&timer).sample(ms(10)).into_stream();
    clock.advance(ms(9));
    assert!(next(&mut samples).is_pending());
    clock.advance(ms(1));
    is_item(next(&mut samples), 1);
}

#[test]
fn without_another_they_use_the_process_wide_timer_and_are_never_early() {
    let start = std::time::Instant::now();
    let numbers = || stream::iter(1..=3);
    let slow = numbers().throttle(ms(2));
    assert_eq!(pollster::block_on(slow.collect::<Vec<_>>()), [1, 2, 3]);
    assert!(start.elapsed() >= ms(6));

    let on = || numbers().chain(stream::pending());
    let start = std::time::Instant::now();
    assert_eq!(pollster::block_on(on().debounce(ms(2)).next()), Some(3));
    assert!(start.elapsed() >= ms(2));
    let start = std::time::Instant::now();
    assert_eq!(pollster::block_on(on().sample(ms(2)).next()), Some(3));
    assert!(start.elapsed() >= ms(2));
    let start = std::time::Instant::now();
    assert_eq!(pollster::block_on(on().chunks_timeout(4, ms(2)).next()), Some(vec![1, 2, 3]));
    assert!(start.elapsed() >= ms(2));
    let start = std::time::Instant::now();
    let results = on().timeout(ms(2)).take(4).map(|result| result.is_ok());
    assert_eq!(pollster::block_on(results.collect::<Vec<_>>()), [true, true, true, false]);
    assert!(start.elapsed() >= ms(2));
}

#[test]
fn adapters_are_what_their_sources_are() {
    fn all<T: Send + Sync + Unpin + Debug>(_: &T) {}
    fn sends<T: Send>(_: &T) {}

    let source = || stream::iter([1_u8]);
    all(&source().timeout(SECOND));
    all(&source().timeout_repeating(tourbillon::interval(SECOND)));
    all(&source().throttle(SECOND));
    all(&source().throttle_first(SECOND));
    all(&source().delay(SECOND));
    all(&source().debounce(SECOND));
    all(&source().chunks_timeout(1, SECOND));
    all(&source().sample(SECOND));

    // Neither `Unpin` nor `Sync`.
    let pinned = stream::once(async { Cell::new(1).get() }).chain(stream::empty());
    let pinned = pinned.throttle(ms(1)).timeout(SECOND).debounce(SECOND).sample(SECOND);
    sends(&pinned);
    assert_eq!(pollster::block_on(pinned.map(|item| item.is_ok()).collect::<Vec<_>>()), [true]);
}

#[test]
fn adapters_stack() {
    let (timer, clock) = virtual_timer();
    let chunks = at(&timer, &[0, 1, 2, 3])
        .on_timer(&timer)
        .throttle(ms(10))
        .chunks_timeout(2, ms(15))
        .timeout(ms(12))
        .into_stream();
    let expected = [(10, Some(vec![0, 1])), (22, None), (30, Some(vec![2, 3]))];
    assert_eq!(oks(trace_to_end(&clock, chunks)), (expected.to_vec(), 40));
}

#[test]
fn each_adapter_of_a_chain_is_on_the_timer_that_the_chain_names() {
    let (timer, clock) = virtual_timer();
    let chain = at(&timer, &[0, 10, 20, 70, 80, 200])
        .on_timer(&timer)
        .throttle(ms(15))
        .through(|numbers| numbers.map(|number| number + 1))
        .debounce(ms(20))
        .into_stream();
    assert_eq!(trace_to_end(&clock, chain), (vec![(50, 21), (105, 81), (215, 201)], 215));
}
