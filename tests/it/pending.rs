//! The feature `pending`: the armed timers, and the places that made them.

use std::panic::Location;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use futures::Stream;
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::stats::Pending;
use tourbillon::{FutureExt, Sleep, StreamExt, Timer};

use crate::support::*;

/// The number of the line that calls it.
#[track_caller]
fn line() -> u32 {
    Location::caller().line()
}

fn lines(pending: &[Pending]) -> Vec<u32> {
    assert!(pending.iter().all(|pending| pending.place.file() == file!()), "{pending:?}");
    pending.iter().map(|pending| pending.place.line()).collect()
}

#[test]
fn it_lists_what_is_armed_with_its_place_deadline_and_age() {
    let (timer, clock) = virtual_timer();
    let (mut first, first_line) = (timer.sleep(60 * SECOND), line());
    let (mut second, second_line) = (timer.sleep(30 * SECOND), line());
    assert!(timer.pending().is_empty(), "none was polled");
    assert!(poll(&mut first).is_pending());
    clock.advance(SECOND);
    assert!(poll(&mut second).is_pending());
    clock.advance(SECOND);
    let pending = timer.pending();
    assert_eq!(lines(&pending), [first_line, second_line]);
    let shown: Vec<_> = pending.iter().map(|pending| (pending.deadline, pending.age)).collect();
    assert_eq!(shown, [(first.deadline(), 2 * SECOND), (second.deadline(), SECOND)]);
}

#[test]
fn it_follows_resets_cancels_fires_and_drops() {
    let (timer, clock) = virtual_timer();
    let sleeps = [1, 2, 3, 4, 5].map(|n| polled(timer.sleep(n * SECOND)));
    let deadlines = || timer.pending().iter().map(|pending| pending.deadline).collect::<Vec<_>>();
    let [mut one, mut two, three, mut four, mut five] = sleeps;
    two.reset_after(20 * SECOND);
    one.set_tolerance(SECOND);
    one.reset_after(10 * SECOND);
    four.cancel();
    drop(three);
    assert_eq!(deadlines(), [one.deadline(), two.deadline(), five.deadline()]);
    clock.advance(6 * SECOND);
    assert_eq!(deadlines().len(), 3, "what has fired is listed until it is polled");
    assert!(poll(&mut five).is_ready());
    assert_eq!(deadlines(), [one.deadline(), two.deadline()]);
    five.reset_after(SECOND);
    assert!(poll(&mut five).is_pending());
    four.reset_after(SECOND);
    assert!(poll(&mut four).is_pending());
    let expected = [&one, &two, &five, &four].map(Sleep::deadline);
    assert_eq!(deadlines(), expected, "in the order in which they were armed");
    drop((one, two, four, five));
    assert!(timer.pending().is_empty());
}

#[test]
fn a_sleep_that_is_armed_again_after_it_fired_is_the_last_and_as_old_as_that() {
    let (timer, clock) = virtual_timer();
    let (mut again, mut other) = (timer.sleep(SECOND), timer.sleep(60 * SECOND));
    assert!(poll(&mut again).is_pending() && poll(&mut other).is_pending());
    clock.advance(SECOND);
    again.reset_after(10 * SECOND);
    assert!(poll(&mut again).is_pending());
    clock.advance(SECOND);
    let shown = |pending: Pending| (pending.deadline, pending.age);
    let pending: Vec<_> = timer.pending().into_iter().map(shown).collect();
    assert_eq!(pending, [(other.deadline(), 2 * SECOND), (again.deadline(), SECOND)]);
    drop((again, other));
    assert!(timer.pending().is_empty());
}

#[test]
fn callbacks_are_listed_until_they_are_called_or_dropped() {
    let (timer, clock) = virtual_timer();
    let (called, called_line) = (timer.sleep(SECOND), line());
    let called = called.call(|| ());
    let (dropped, dropped_line) = (timer.interval(SECOND), line());
    let dropped = dropped.call(|_| ());
    assert_eq!(lines(&timer.pending()), [called_line, dropped_line]);
    clock.advance(SECOND);
    assert_eq!(lines(&timer.pending()), [dropped_line]);
    drop((called, dropped));
    assert!(timer.pending().is_empty());
}

#[test]
fn a_callback_is_not_listed_while_it_is_called() {
    let (timer, clock) = virtual_timer();
    let (tell, told) = std::sync::mpsc::channel();
    let look = || {
        let (timer, tell) = (timer.clone(), tell.clone());
        move || tell.send(timer.pending().len()).expect("the test waits")
    };
    let (once, by_call) = (look(), look());
    let once = timer.sleep(SECOND).call(once);
    clock.advance(SECOND);
    assert_eq!(told.recv(), Ok(0));
    let every = timer.interval_at(clock.now() + SECOND, SECOND).call(move |_| by_call());
    for _ in 0..2 {
        assert_eq!(timer.pending().len(), 1, "it waits");
        clock.advance(SECOND);
        assert_eq!(told.recv(), Ok(0));
    }
    drop((once, every));
    assert!(timer.pending().is_empty());
}

#[test]
fn each_way_to_make_a_timer_has_the_place_of_its_caller() {
    let hour = 3600 * SECOND;
    let global = Timer::global();
    let never = || std::future::pending::<()>();
    let source = || futures::stream::once(std::future::ready(1)).chain_pending();
    let mut cx = Context::from_waker(Waker::noop());
    /// Polls the future made in this line, and requires its timer to be listed with the line.
    macro_rules! at {
        ($timer:expr, $made:expr, $poll:ident) => {{
            let (made, at) = ($made, line());
            let mut made = pin!(made);
            assert!(made.as_mut().$poll(&mut cx).is_pending());
            let pending = $timer.pending();
            let is_here =
                |pending: &&Pending| pending.place.file() == file!() && pending.place.line() == at;
            assert_eq!(pending.iter().filter(is_here).count(), 1, "{at}: {pending:?}");
        }};
    }
    let now = global.now();
    at!(global, tourbillon::sleep(hour), poll);
    at!(global, tourbillon::sleep_until(now + hour), poll);
    at!(global, tourbillon::interval_at(now + hour, hour), poll_next);
    at!(global, tourbillon::timeout(hour, never()), poll);
    at!(global, tourbillon::timeout_at(now + hour, never()), poll);
    at!(global, never().timeout(hour), poll);
    at!(global, never().timeout_at(now + hour), poll);
    at!(global, global.sleep_until(now + hour), poll);
    at!(global, global.timeout(hour, never()), poll);
    at!(global, tourbillon::compat::Delay::new(hour), poll);
    let silent = futures::stream::pending::<u8>;
    at!(global, silent().timeout(hour), poll_next);
    at!(global, silent().delay(hour), poll_next);
    at!(global, source().sample(hour), poll_next);
    at!(global, source().debounce(hour), poll_next);
    at!(global, source().chunks_timeout(9, hour), poll_next);
    let (timer, _clock) = virtual_timer();
    at!(timer, source().on_timer(&timer).debounce(hour).into_stream(), poll_next);
    let (mut queue, at) = (DelayQueue::with_timer(&timer), line());
    queue.insert(1, hour);
    assert!(queue.poll_expired(&mut cx).is_pending());
    assert_eq!(lines(&timer.pending()), [at]);
    drop(queue);
    let (mut queue, at) = (TimeoutQueue::with_timer(hour, &timer), line());
    queue.push(1);
    assert!(queue.poll_expired(&mut cx).is_pending());
    assert_eq!(lines(&timer.pending()), [at]);
}

/// A stream that stays silent after its items.
trait ChainPending: Stream + Sized {
    fn chain_pending(self) -> impl Stream<Item = Self::Item> {
        futures::StreamExt::chain(self, futures::stream::pending())
    }
}

impl<S: Stream> ChainPending for S {}

#[test]
fn many_threads_leave_nothing_behind() {
    let timer = Timer::builder().build().expect("the options are valid");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500 {
                    let mut sleep = timer.sleep(Duration::from_micros(n % 50));
                    let _ = poll(&mut sleep);
                    sleep.reset_after(Duration::from_micros(n));
                    let _ = poll(&mut sleep);
                }
            });
        }
    });
    assert!(timer.pending().is_empty());
}
