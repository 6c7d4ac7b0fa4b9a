//! `compat::Delay`, and that `futures_timer::Delay` does the same.
//!
//! The tests that run over both need real time, because futures-timer has no other.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::mpsc::{Receiver, RecvError};
use std::time::{Duration, Instant};

use crate::support::*;

/// Functions and traits that users of either crate rely on.
trait Delay: Future<Output = ()> + Unpin + Send + Sync + Debug + 'static {
    fn new(duration: Duration) -> Self;
    fn reset(&mut self, duration: Duration);
}

impl Delay for tourbillon::compat::Delay {
    fn new(duration: Duration) -> Self {
        Self::new(duration)
    }

    fn reset(&mut self, duration: Duration) {
        self.reset(duration);
    }
}

impl Delay for futures_timer::Delay {
    fn new(duration: Duration) -> Self {
        Self::new(duration)
    }

    fn reset(&mut self, duration: Duration) {
        self.reset(duration);
    }
}

/// Makes each of the functions named a test of both. A test that is left out is dead code, and the
/// lints forbid that.
macro_rules! over_both {
    ($($name:ident)*) => {
        mod ours {
            $(#[test]
            fn $name() {
                super::$name::<tourbillon::compat::Delay>();
            })*
        }

        mod theirs {
            $(#[test]
            fn $name() {
                super::$name::<futures_timer::Delay>();
            })*
        }
    };
}

over_both! {
    it_ends_at_its_deadline_or_after
    the_time_counts_from_new_without_a_poll
    the_time_counts_from_reset_without_a_poll
    the_last_waker_is_woken_and_no_other
    reset_to_earlier_keeps_the_waker
    reset_to_later_keeps_the_waker
    reset_from_the_longest_delay_keeps_the_waker
    reset_to_the_longest_delay_and_back_keeps_the_waker
    reset_to_the_longest_delay_while_no_waker_is_kept_takes_the_next
    reset_after_it_fired_counts_anew
    reset_after_completion_counts_anew
    polled_again_after_completion_it_is_ready_again
    dropping_it_lets_its_waker_go_unwoken
    nothing_and_the_longest_delay_are_no_trouble
}

const SHORT: Duration = ms(20);
const LONG: Duration = Duration::from_secs(3600);

/// Polls with a waker that nothing but the delay keeps; it must be pending.
fn register<D: Delay>(delay: &mut D) -> Receiver<Instant> {
    let (waker, told) = telling();
    assert!(poll_with(delay, &waker).is_pending());
    told
}

/// A delay made a `SHORT` ago: a later delay of the same kind has ended.
fn made_a_short_ago<D: Delay>() -> D {
    let delay = D::new(SHORT);
    pollster::block_on(D::new(SHORT));
    delay
}

fn it_ends_at_its_deadline_or_after<D: Delay>() {
    let start = Instant::now();
    pollster::block_on(D::new(SHORT));
    assert!(start.elapsed() >= SHORT);
}

fn the_time_counts_from_new_without_a_poll<D: Delay>() {
    let mut delay: D = made_a_short_ago();
    assert!(poll(&mut delay).is_ready());
}

fn the_time_counts_from_reset_without_a_poll<D: Delay>() {
    let mut delay = D::new(LONG);
    delay.reset(SHORT);
    pollster::block_on(D::new(SHORT));
    assert!(poll(&mut delay).is_ready());
}

fn the_last_waker_is_woken_and_no_other<D: Delay>() {
    let start = Instant::now();
    let mut delay = D::new(LONG);
    let first = register(&mut delay);
    let last = register(&mut delay);
    delay.reset(SHORT);
    assert!(last.recv().expect("the delay keeps the waker") >= start + SHORT);
    assert_eq!(first.recv(), Err(RecvError), "the first waker is gone, and was not woken");
}

fn reset_to_earlier_keeps_the_waker<D: Delay>() {
    let mut delay = D::new(LONG);
    let told = register(&mut delay);
    let reset = Instant::now();
    delay.reset(SHORT);
    assert!(told.recv().expect("the delay keeps the waker") >= reset + SHORT);
    assert_eq!(told.recv(), Err(RecvError), "it is woken once, and let go");
    assert!(poll(&mut delay).is_ready());
}

fn reset_to_later_keeps_the_waker<D: Delay>() {
    // Should this thread be away for longer than the first delay, the waker is used up at its end,
    // and nothing was shown: then again.
    loop {
        let start = Instant::now();
        let mut delay = D::new(10 * SHORT);
        let (waker, told) = telling();
        if poll_with(&mut delay, &waker).is_ready() {
            continue;
        }
        drop(waker);
        let reset = Instant::now();
        delay.reset(15 * SHORT);
        if start.elapsed() >= 10 * SHORT {
            continue;
        }
        assert!(told.recv().expect("the delay keeps the waker") >= reset + 15 * SHORT);
        assert!(poll(&mut delay).is_ready());
        return;
    }
}

fn reset_from_the_longest_delay_keeps_the_waker<D: Delay>() {
    let mut delay = D::new(Duration::MAX);
    let told = register(&mut delay);
    delay.reset(SHORT);
    assert!(told.recv().is_ok());
}

fn reset_to_the_longest_delay_and_back_keeps_the_waker<D: Delay>() {
    let mut delay = D::new(LONG);
    let told = register(&mut delay);
    delay.reset(Duration::MAX);
    delay.reset(SHORT);
    assert!(told.recv().is_ok());
}

fn reset_to_the_longest_delay_while_no_waker_is_kept_takes_the_next<D: Delay>() {
    let never_polled = D::new(LONG);
    let mut completed = D::new(Duration::ZERO);
    pollster::block_on(&mut completed);
    let mut fired = D::new(LONG);
    let told = register(&mut fired);
    fired.reset(Duration::ZERO);
    assert!(told.recv().is_ok());
    for mut delay in [never_polled, completed, fired] {
        delay.reset(Duration::MAX);
        let told = register(&mut delay);
        delay.reset(SHORT);
        assert!(told.recv_timeout(LONG / 60).is_ok(), "it is not woken");
        assert!(poll(&mut delay).is_ready());
    }
}

fn reset_after_it_fired_counts_anew<D: Delay>() {
    let mut delay = D::new(LONG);
    let told = register(&mut delay);
    delay.reset(SHORT);
    assert!(told.recv().is_ok());
    delay.reset(LONG);
    let told = register(&mut delay);
    let reset = Instant::now();
    delay.reset(SHORT);
    assert!(told.recv().expect("the delay keeps the waker") >= reset + SHORT);
    assert!(poll(&mut delay).is_ready());
}

fn reset_after_completion_counts_anew<D: Delay>() {
    let mut delay: D = made_a_short_ago();
    assert!(poll(&mut delay).is_ready());
    delay.reset(LONG);
    let told = register(&mut delay);
    let reset = Instant::now();
    delay.reset(SHORT);
    assert!(told.recv().expect("the delay keeps the waker") >= reset + SHORT);
    pollster::block_on(&mut delay);
    delay.reset(SHORT);
    pollster::block_on(delay);
}

fn polled_again_after_completion_it_is_ready_again<D: Delay>() {
    let mut delay: D = made_a_short_ago();
    for _ in 0..3 {
        assert!(poll(&mut delay).is_ready());
    }
}

fn dropping_it_lets_its_waker_go_unwoken<D: Delay>() {
    let mut delay = D::new(LONG);
    let told = register(&mut delay);
    drop(delay);
    assert_eq!(told.recv(), Err(RecvError));
}

fn nothing_and_the_longest_delay_are_no_trouble<D: Delay>() {
    let mut delay = D::new(Duration::ZERO);
    pollster::block_on(&mut delay);
    delay.reset(Duration::ZERO);
    pollster::block_on(&mut delay);
    delay.reset(Duration::MAX);
    assert!(poll(&mut delay).is_pending());
    delay.reset(Duration::MAX);
    assert!(poll(&mut delay).is_pending());
    drop(D::new(Duration::MAX));
}

#[test]
fn a_delay_of_nothing_is_ready_at_the_first_poll() {
    assert!(poll(&mut tourbillon::compat::Delay::new(Duration::ZERO)).is_ready());
}

#[test]
fn it_may_be_seen_again_after_a_panic() {
    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    unwind_safe::<tourbillon::compat::Delay>();
}
