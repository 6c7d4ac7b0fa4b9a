//! A function that the driver calls, and threads that cancel it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread;

use super::{check, check_with, clock};
use crate::MissedTickBehavior;
use crate::callback::Callback;
use crate::engine::Notify;
use crate::models::harness::{Harness, Signal, at, poll, quietly};
use crate::sync::{StdArc, refuse_threads};
use crate::timer::Builder;
use crate::timer::Timer;
use crate::virtual_time::VirtualClock;

/// How often a function was called, and a reference of loom's that the function holds: loom sees a
/// function that is not dropped, and a use by two threads without order.
struct Calls {
    held: Arc<()>,
    count: StdArc<AtomicUsize>,
}

impl Calls {
    fn new() -> Self {
        Self { held: Arc::new(()), count: StdArc::default() }
    }

    fn counted(&self) -> impl Fn() + Send + Sync + 'static {
        let (held, count) = (Arc::clone(&self.held), StdArc::clone(&self.count));
        move || {
            assert!(Arc::strong_count(&held) > 1, "the test holds one, too");
            count.fetch_add(1, Ordering::SeqCst); // ORDERING: outside the model
        }
    }

    /// Function that raises `signal` as well.
    fn raising(&self, signal: &Arc<Signal>) -> impl Fn() + Send + Sync + 'static {
        let (counted, signal) = (self.counted(), Arc::clone(signal));
        move || {
            counted();
            signal.raise();
        }
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst) // ORDERING: outside the model
    }

    fn is_dropped(&self) -> bool {
        Arc::strong_count(&self.held) == 1
    }
}

fn instant(timer: &Timer, nanos: u64) -> Instant {
    timer.engine().clock().instant(at(nanos))
}

/// A callback at that time, whatever the clock shows by now.
fn call_at(timer: &Timer, nanos: u64, function: impl FnOnce() + Send + 'static) -> Callback {
    timer.sleep_until(instant(timer, nanos)).call(function)
}

/// Calls `function` every `nanos`, for the first time that much from now; skips missed calls.
fn every(timer: &Timer, nanos: u64, mut function: impl FnMut() + Send + 'static) -> Callback {
    let mut interval = timer.interval(Duration::from_nanos(nanos));
    interval.reset();
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.call(move |_| function())
}

/// Oracle: either the function is called, or the cancel says that it was in time; and it is dropped
/// when the cancel that waits returns.
#[test]
fn cancel_races_call() {
    check(|| {
        let (harness, calls) = (Harness::new(1), Calls::new());
        let callback = call_at(&harness.timer, 5, calls.counted());
        let clock = clock(&harness, [5]);
        let prevented = callback.cancel_and_wait();
        assert_eq!(calls.count(), usize::from(!prevented));
        assert!(calls.is_dropped());
        clock.join().unwrap();
        assert_eq!(calls.count(), usize::from(!prevented), "called after all");
        assert_eq!(harness.timer.stats().pending, 0);
    });
}

/// Oracle: as above, of a cancel that does not wait; loom's references, since nobody waits for the
/// function to be dropped.
#[test]
fn drop_races_call() {
    check(|| {
        let (harness, calls) = (Harness::new(1), Calls::new());
        let callback = call_at(&harness.timer, 5, calls.counted());
        let clock = clock(&harness, [5]);
        drop(callback);
        clock.join().unwrap();
        assert!(calls.count() <= 1);
    });
}

/// Oracle: of the call and the two cancels, exactly one has it.
#[test]
fn two_cancels_race_call() {
    check(|| {
        let (harness, calls) = (Harness::new(1), Calls::new());
        let callback = StdArc::new(call_at(&harness.timer, 5, calls.counted()));
        let other = {
            let callback = StdArc::clone(&callback);
            thread::spawn(move || callback.cancel_and_wait())
        };
        harness.advance(5);
        let prevented = callback.cancel_and_wait();
        assert!(calls.is_dropped());
        let prevented = usize::from(prevented) + usize::from(other.join().unwrap());
        assert_eq!(prevented + calls.count(), 1);
    });
}

/// The call puts itself back for the next. Oracle: no call begins after the cancel; deadlock.
#[test]
fn cancel_races_a_call_that_repeats() {
    check(|| {
        let (harness, calls) = (Harness::new(1), Calls::new());
        let callback = every(&harness.timer, 5, calls.counted());
        let clock = clock(&harness, [5, 10]);
        callback.cancel_and_wait();
        let count = calls.count();
        assert!(calls.is_dropped());
        clock.join().unwrap();
        assert_eq!(calls.count(), count, "called after all");
    });
}

/// The time of a function's last call, in nanoseconds, by the clock of a model.
fn noted(harness: &Harness) -> (StdArc<AtomicU64>, impl Fn() + Send + Sync + 'static) {
    let (called_at, time) = (StdArc::<AtomicU64>::default(), Arc::clone(&harness.time));
    let noted = StdArc::clone(&called_at);
    // ORDERING: outside the model.
    (called_at, move || noted.store(time.now().since(at(0)).as_nanos() as u64, Ordering::SeqCst))
}

/// The driver may have taken the waker for the old deadline, or begin to. Oracle: if the reset says
/// that it was in time, the call is not before the new deadline; deadlock; called once.
#[test]
fn reset_races_call() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let (called_at, note) = noted(&harness);
        let raise = calls.raising(&signal);
        let callback = call_at(&harness.timer, 5, move || {
            note();
            raise();
        });
        let clock = clock(&harness, [5, 10]);
        let in_time = callback.reset(instant(&harness.timer, 10));
        signal.wait();
        clock.join().unwrap();
        // ORDERING: outside the model.
        assert!(!in_time || called_at.load(Ordering::SeqCst) >= 10, "before the new deadline");
        assert!(!callback.cancel_and_wait());
        assert_eq!(calls.count(), 1);
        assert_eq!(harness.timer.stats().pending, 0);
    });
}

/// Oracle: deadlock, since nothing else wakes the driver by then; called once.
#[test]
fn reset_of_a_callback_to_earlier_races_park() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let callback = call_at(&harness.timer, 10, calls.raising(&signal));
        let clock = clock(&harness, [5]);
        assert!(callback.reset(instant(&harness.timer, 5)), "10 does not come");
        signal.wait();
        clock.join().unwrap();
        assert!(!callback.cancel_and_wait());
        assert_eq!(calls.count(), 1);
    });
}

/// The call that is under way schedules the next. Oracle: at most that one comes after the reset
/// and before the new deadline; deadlock, if none is at it.
#[test]
fn reset_races_a_call_that_repeats() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let time = Arc::clone(&harness.time);
        let function = {
            let (counted, signal) = (calls.counted(), Arc::clone(&signal));
            move || match time.now() < at(20) {
                true => counted(),
                false => signal.raise(),
            }
        };
        let callback = every(&harness.timer, 5, function);
        let clock = clock(&harness, [5]);
        assert!(callback.reset(instant(&harness.timer, 20)));
        let count = calls.count();
        clock.join().unwrap();
        harness.advance(10);
        harness.advance(20);
        signal.wait();
        callback.cancel_and_wait();
        assert!(calls.count() <= count + 1, "before the new deadline");
    });
}

/// Two threads arm what nothing has armed. Oracle: the engine's, that it is not armed twice;
/// deadlock.
#[test]
fn resets_from_never_arm_once() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let callback = StdArc::new(harness.timer.never().call(calls.raising(&signal)));
        let deadline = instant(&harness.timer, 5);
        let other = {
            let callback = StdArc::clone(&callback);
            thread::spawn(move || callback.reset(deadline))
        };
        assert!(callback.reset(deadline) && other.join().unwrap());
        harness.advance(5);
        signal.wait();
        assert!(!callback.cancel_and_wait());
        assert_eq!(calls.count(), 1);
    });
}

/// Two threads arm a callback that nothing has armed, and one cannot start the driver. Oracle:
/// deadlock, if the other's reset says that the function will be called, and it is not.
#[test]
fn a_reset_that_cannot_start_the_driver_races_another() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let callback = StdArc::new(harness.timer.never().call(calls.raising(&signal)));
        let (deadline, later) = (instant(&harness.timer, 5), instant(&harness.timer, 7));
        let other = {
            let callback = StdArc::clone(&callback);
            thread::spawn(move || {
                refuse_threads(true);
                quietly(|| callback.reset(deadline))
            })
        };
        assert!(callback.reset(later));
        assert_ne!(other.join().unwrap(), Some(false));
        harness.advance(7);
        signal.wait();
        assert!(!callback.cancel_and_wait());
        assert_eq!(calls.count(), 1);
    });
}

/// A thread that cannot start the driver takes out the sleep that it has armed, while another
/// starts it and the driver fires that. Oracle: if the next reset says that it was in time, the
/// call is not before the new deadline; deadlock, if there is none at it. Some execution has both:
/// a sleep taken out, and one in time.
#[test]
fn a_wake_up_for_what_was_taken_out_races_a_reset() {
    let taken_out = StdArc::new(AtomicUsize::new(0));
    let count = StdArc::clone(&taken_out);
    check(move || {
        let (harness, signal) = (Harness::new(1), Signal::new());
        let (called_at, note) = noted(&harness);
        let raised = Arc::clone(&signal);
        let callback = harness.timer.never().call(move || {
            note();
            raised.raise();
        });
        let [deadline, later] = [5, 10].map(|nanos| instant(&harness.timer, nanos));
        let (mut far, mover) = (harness.sleep(1_000_000), harness.clock_mover());
        let other = thread::spawn(move || {
            assert!(poll(&mut far, &Signal::new()).is_pending());
            mover.advance(5);
            far
        });
        refuse_threads(true);
        let first = quietly(|| callback.reset(deadline));
        let in_time = quietly(|| callback.reset(later));
        let _far = other.join().unwrap();
        if in_time == Some(true) {
            // ORDERING: outside the model.
            count.fetch_add(usize::from(first.is_none()), Ordering::Relaxed);
            harness.advance(10);
            signal.wait();
            // ORDERING: outside the model.
            assert!(called_at.load(Ordering::SeqCst) >= 10, "before the new deadline");
        }
        callback.cancel_and_wait();
    });
    assert!(taken_out.load(Ordering::Relaxed) > 0, "no execution has both"); // ORDERING: as above
}

/// A thread that cannot start the driver arms the callback, takes it out, and arms it again.
/// Another sees that it is armed, and starts a driver, which ends as it is taken out. Oracle:
/// deadlock, if a reset says that the function will be called, and there is no driver.
#[test]
fn a_reset_that_saw_a_driver_races_two_that_cannot_start_one() {
    check_with(1, || {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let callback = StdArc::new(harness.timer.never().call(calls.raising(&signal)));
        let (deadline, mover) = (instant(&harness.timer, 5), harness.clock_mover());
        let engine = Arc::clone(harness.timer.shared_engine());
        // So that the driver ends when nothing is armed.
        drop(harness);
        let other = {
            let callback = StdArc::clone(&callback);
            thread::spawn(move || callback.reset(deadline))
        };
        refuse_threads(true);
        let mut in_time = quietly(|| callback.reset(deadline));
        if in_time.is_none() {
            if engine.alarm().start_if_absent() != Notify::Start {
                thread::yield_now();
            }
            in_time = quietly(|| callback.reset(deadline));
        }
        let other = other.join().unwrap();
        assert!(other || in_time != Some(false), "none was too late");
        mover.advance(5);
        signal.wait();
        callback.cancel_and_wait();
        assert_eq!(calls.count(), 1);
    });
}

/// Oracle: called once, by who moves the clock; and at the new deadline, if the reset was in time.
#[test]
fn advance_races_reset_of_a_callback() {
    check(|| {
        let (clock, calls) = (VirtualClock::new(), Calls::new());
        let timer = Builder::default().virtual_clock(&clock).build().unwrap();
        let (mover, counted) = (thread::current().id(), calls.counted());
        let deadline = instant(&timer, 8);
        let called_at = StdArc::new(std::sync::Mutex::new(None));
        let (noted, shown) = (StdArc::clone(&called_at), timer.clone());
        let callback = call_at(&timer, 5, move || {
            assert_eq!(thread::current().id(), mover);
            *noted.lock().unwrap() = Some(shown.now());
            counted();
        });
        let other = thread::spawn(move || (callback.reset(deadline), callback));
        clock.advance(Duration::from_nanos(10));
        let (in_time, callback) = other.join().unwrap();
        clock.advance(Duration::ZERO);
        assert_eq!(calls.count(), 1);
        assert!(!in_time || called_at.lock().unwrap().unwrap() >= deadline);
        assert!(!callback.cancel_and_wait());
    });
}

/// The driver may be there before the callback is. Oracle: deadlock; called once.
#[test]
fn call_races_its_making() {
    check(|| {
        let (harness, calls, signal) = (Harness::new(1), Calls::new(), Signal::new());
        let _far = harness.far_timer();
        let clock = clock(&harness, [5]);
        let callback = call_at(&harness.timer, 5, calls.raising(&signal));
        signal.wait();
        clock.join().unwrap();
        assert!(!callback.cancel_and_wait());
        assert_eq!(calls.count(), 1);
    });
}

/// Oracle: who moves the clock calls it, once, and not who makes it.
#[test]
fn advance_races_call() {
    check(|| {
        let (clock, calls) = (VirtualClock::new(), Calls::new());
        let timer = Builder::default().virtual_clock(&clock).build().unwrap();
        let mover = thread::current().id();
        let counted = calls.counted();
        let maker = thread::spawn(move || {
            call_at(&timer, 5, move || {
                assert_eq!(thread::current().id(), mover);
                counted();
            })
        });
        clock.advance(Duration::from_nanos(10));
        let callback = maker.join().unwrap();
        clock.advance(Duration::ZERO);
        assert_eq!(calls.count(), 1);
        assert!(!callback.cancel_and_wait());
    });
}
