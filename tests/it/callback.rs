//! `Callback`: functions that a timer calls.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tourbillon::callback::Callback;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{MissedTickBehavior, Timer};

use crate::support::*;

/// When a function was called, and by which thread.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(Instant, ThreadId)>>>);

impl Calls {
    /// A function that notes its calls, by the clock of `timer`.
    fn noted(&self, timer: &Timer) -> impl Fn() + Send + 'static {
        let (calls, timer) = (self.clone(), timer.clone());
        move || calls.0.lock().unwrap().push((timer.now(), thread::current().id()))
    }

    /// When, in seconds since `start`.
    fn since(&self, start: Instant) -> Vec<u64> {
        self.0.lock().unwrap().iter().map(|(at, _)| (*at - start).as_secs()).collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A place for a callback, for the function of that callback to find.
type Own = Arc<Mutex<Option<Callback>>>;

/// The callback, with none of its locks held meanwhile.
fn taken(own: &Own) -> Callback {
    own.lock().unwrap().take().expect("the test has put it there")
}

#[test]
fn a_function_is_called_once_at_its_deadline_by_who_moves_the_clock() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let after = timer.sleep(3 * SECOND).call(calls.noted(&timer));
    let at = timer.sleep_until(start + 5 * SECOND).call(calls.noted(&timer));
    assert_eq!(clock.advance(3 * SECOND - Duration::from_nanos(1)), 0);
    assert_eq!(clock.advance(60 * SECOND), 2);
    assert_eq!(calls.since(start), [3, 5]);
    assert!(calls.0.lock().unwrap().iter().all(|(_, by)| *by == thread::current().id()));
    assert_eq!(clock.pending(), 0);
    assert!(!after.cancel() && !at.cancel_and_wait());
}

#[test]
fn what_is_due_as_it_is_made_waits_for_the_next_move() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let _zero = timer.sleep(Duration::ZERO).call(calls.noted(&timer));
    let _past = timer.sleep_until(start - SECOND).call(calls.noted(&timer));
    assert_eq!(calls.count(), 0, "never within the call that makes it");
    assert_eq!((clock.advance(Duration::ZERO), calls.count()), (2, 2));
}

#[test]
fn what_is_due_as_it_is_made_is_called_by_the_driver() {
    let timer = Timer::builder().build().expect("the options are valid");
    let (tell, told) = channel();
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().unwrap();
    let taken = Arc::clone(&lock);
    let _callback = timer.sleep(Duration::ZERO).call(move || {
        drop(taken.lock());
        tell.send(thread::current().name().map(str::to_owned)).expect("the test waits");
    });
    drop(held);
    assert_eq!(told.recv().expect("it is called").as_deref(), Some("tourbillon"));
}

#[test]
fn a_turn_calls_what_is_due_on_the_thread_that_turns() {
    let clock = VirtualClock::new();
    let called = Counter::new();
    let hook = {
        let called = Arc::clone(&called);
        move || std::task::Wake::wake_by_ref(&called)
    };
    let builder = Timer::builder().virtual_clock(&clock);
    let (timer, mut driver) = builder.build_manual(hook).expect("the options are valid");
    assert_eq!(driver.turn().next, None);
    let (calls, start) = (Calls::default(), clock.now());
    let _zero = timer.sleep(Duration::ZERO).call(calls.noted(&timer));
    assert_eq!((called.wakes(), calls.count()), (1, 0), "the loop is told to turn");
    let _every = every(&timer, SECOND, calls.noted(&timer));
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.next), (1, Some(start + SECOND)));
    clock.jump(SECOND);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.next), (1, Some(start + 2 * SECOND)));
    assert_eq!(calls.since(start), [0, 1]);
}

#[test]
fn a_cancel_prevents_the_call_once_and_drops_the_function() {
    let (timer, clock) = virtual_timer();
    let count = Arc::new(AtomicUsize::new(0));
    for cancel in [Callback::cancel, Callback::cancel_and_wait] {
        let dropped = Dropped { count: count.clone(), panics: false };
        let before = count.load(Ordering::SeqCst);
        let callback = timer.sleep(SECOND).call(move || panic!("{dropped:?} is called"));
        assert!(format!("{callback:?}").contains("waiting"));
        assert!(cancel(&callback));
        assert_eq!(count.load(Ordering::SeqCst), before + 1);
        assert!(!cancel(&callback), "it was before");
        assert!(format!("{callback:?}").contains("over"));
    }
    assert_eq!((clock.advance(SECOND), timer.stats().waker_panics), (0, 0));
}

#[test]
fn a_drop_cancels_and_a_detached_callback_goes_on() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    drop(timer.sleep(SECOND).call(calls.noted(&timer)));
    timer.sleep(2 * SECOND).call(calls.noted(&timer)).detach();
    every(&timer, 3 * SECOND, calls.noted(&timer)).detach();
    clock.advance(6 * SECOND);
    assert_eq!(calls.since(start), [2, 3, 6]);
    assert_eq!((timer.stats().cancelled, clock.pending()), (1, 1));
}

#[test]
fn what_never_comes_is_never_called_and_is_dropped_with_its_handle() {
    let (timer, clock) = virtual_timer();
    let calls = Calls::default();
    let count = Arc::new(AtomicUsize::new(0));
    for end in [|callback: Callback| drop(callback), Callback::detach] {
        let before = count.load(Ordering::SeqCst);
        let dropped = Dropped { count: count.clone(), panics: false };
        let note = calls.noted(&timer);
        let callback = timer.sleep(Duration::MAX).call(move || {
            let _dropped = &dropped;
            note();
        });
        assert_eq!((clock.pending(), clock.advance(SECOND)), (0, 0));
        end(callback);
        assert_eq!(count.load(Ordering::SeqCst), before + 1);
    }
    let every = every(&timer, Duration::MAX, calls.noted(&timer));
    assert_eq!((clock.pending(), calls.count()), (0, 0));
    assert!(every.cancel());
}

#[test]
fn what_a_long_call_missed_is_skipped_unless_it_was_asked_for() {
    for (missed, expected) in [
        (MissedTickBehavior::Skip, vec![10, 40, 50, 60]),
        (MissedTickBehavior::Delay, vec![10, 45, 55]),
        (MissedTickBehavior::Burst, vec![10, 35, 35, 40, 50, 60]),
    ] {
        let (timer, clock) = virtual_timer();
        let (calls, start) = (Calls::default(), clock.now());
        let mut interval = timer.interval_at(start + 10 * SECOND, 10 * SECOND);
        interval.set_missed_tick_behavior(missed);
        // As a task had polled it before.
        assert!(poll_next(&mut interval, std::task::Waker::noop()).is_pending());
        let (note, moved) = (calls.noted(&timer), clock.clone());
        let mut first = true;
        let _callback = interval.call(move |_| {
            note();
            if std::mem::take(&mut first) {
                moved.jump(25 * SECOND);
            }
        });
        assert_eq!(clock.pending(), 1, "the task's waker is gone");
        clock.advance(10 * SECOND);
        clock.advance(25 * SECOND);
        assert_eq!(calls.since(start), expected, "{missed:?}");
    }
}

#[test]
fn a_function_may_cancel_and_drop_its_own_callback() {
    for end in [Callback::cancel, Callback::cancel_and_wait, |_: &_| false] {
        let (timer, clock) = virtual_timer();
        let (calls, own) = (Calls::default(), Own::default());
        let (note, found) = (calls.noted(&timer), own.clone());
        let callback = every(&timer, SECOND, move || {
            note();
            let own = taken(&found);
            assert!(format!("{own:?}").contains("called"));
            assert!(!end(&own), "a call is under way");
            drop(own);
        });
        *own.lock().unwrap() = Some(callback);
        assert_eq!((clock.advance(10 * SECOND), calls.count()), (1, 1));
        assert_eq!((clock.pending(), timer.stats().waker_panics), (0, 0));
        assert_eq!(Arc::strong_count(&own), 1, "the function is dropped");
    }
}

#[test]
fn a_function_may_make_and_cancel_others() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let next_to_it = timer.sleep(2 * SECOND).call(calls.noted(&timer));
    let (note, handle) = (calls.noted(&timer), timer.clone());
    let _callback = timer.sleep(SECOND).call(move || {
        assert!(next_to_it.cancel_and_wait());
        handle.sleep(SECOND).call(note).detach();
        handle.sleep(Duration::ZERO).call(|| {}).detach();
    });
    assert_eq!(clock.advance(5 * SECOND), 3);
    assert_eq!(calls.since(start), [2]);
    assert_eq!(timer.stats().waker_panics, 0);
}

#[test]
fn a_function_may_drop_the_timer() {
    let timer = Timer::builder().build().expect("the options are valid");
    let (tell, told) = channel();
    let last = timer.clone();
    let callback = timer.sleep(ms(1)).call(move || {
        drop(last);
        tell.send(()).expect("the test waits");
    });
    drop(timer);
    told.recv().expect("it is called");
    callback.cancel_and_wait();
}

#[test]
fn a_panic_is_counted_and_ends_that_callback_alone() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let count = Arc::new(AtomicUsize::new(0));
    let dropped = Dropped { count: count.clone(), panics: true };
    let panics = every(&timer, SECOND, move || panic!("a function that panics: {dropped:?}"));
    let _other = every(&timer, SECOND, calls.noted(&timer));
    assert_eq!(clock.advance(3 * SECOND), 4);
    assert_eq!(calls.since(start), [1, 2, 3]);
    assert_eq!((timer.stats().waker_panics, count.load(Ordering::SeqCst)), (2, 1));
    // Another thread would wait for the call to end.
    let cancelled = thread::scope(|scope| scope.spawn(|| panics.cancel_and_wait()).join());
    assert!(!cancelled.expect("it returns"), "it is over");
}

#[test]
fn a_drop_that_panics_reaches_who_cancels_and_all_is_over() {
    let (timer, clock) = virtual_timer();
    let count = Arc::new(AtomicUsize::new(0));
    let dropped = Dropped { count: count.clone(), panics: true };
    let callback = timer.sleep(SECOND).call(move || drop(dropped));
    std::panic::catch_unwind(|| callback.cancel()).expect_err("the drop panics");
    assert!(!callback.cancel_and_wait());
    assert_eq!((clock.pending(), count.load(Ordering::SeqCst)), (0, 1));
}

#[test]
fn a_call_under_way_is_waited_for_if_that_is_asked_for() {
    let timer = Timer::builder().build().expect("the options are valid");
    for repeats in [false, true] {
        let ((tell, told), (release, released)) = (channel(), channel::<()>());
        let count = Arc::new(AtomicUsize::new(0));
        let dropped = Dropped { count: count.clone(), panics: false };
        let function = move || {
            let _dropped = &dropped;
            tell.send(()).expect("the test waits");
            released.recv().expect("the test lets it go on");
        };
        let callback = match repeats {
            false => timer.sleep(ms(1)).call(function),
            true => every(&timer, ms(1), function),
        };
        told.recv().expect("it is called");
        assert!(!callback.cancel(), "a call is under way");
        assert_eq!(count.load(Ordering::SeqCst), 0);
        let waiters = [(); 2].map(|()| {
            let count = count.clone();
            let callback = &callback;
            move || {
                assert!(!callback.cancel_and_wait());
                assert_eq!(count.load(Ordering::SeqCst), 1, "the function is dropped");
            }
        });
        thread::scope(|scope| {
            for waiter in waiters {
                scope.spawn(waiter);
            }
            release.send(()).expect("the function waits");
        });
        assert!(told.recv().is_err(), "it is not called again");
    }
}

#[test]
fn calls_and_cancels_from_many_threads_agree() {
    let timer = Timer::builder().shards(2).build().expect("the options are valid");
    let made = AtomicUsize::new(0);
    let calls = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..500 {
                    let own = Arc::new(AtomicUsize::new(0));
                    let (calls, count) = (calls.clone(), own.clone());
                    let callback = timer.sleep(Duration::from_micros(n % 50)).call(move || {
                        count.fetch_add(1, Ordering::Relaxed);
                        calls.fetch_add(1, Ordering::Relaxed);
                    });
                    if n % 3 == 0 {
                        thread::yield_now();
                    }
                    let prevented = callback.cancel_and_wait();
                    assert_eq!(own.load(Ordering::Relaxed), usize::from(!prevented));
                    made.fetch_add(usize::from(!prevented), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(calls.load(Ordering::Relaxed), made.load(Ordering::Relaxed));
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_reset_moves_the_call_whatever_the_direction() {
    let (timer, clock) = virtual_timer();
    for (to, at) in [(8, 8), (2, 3), (0, 3), (5, 5)] {
        let (calls, start) = (Calls::default(), clock.now());
        let callback = timer.sleep(5 * SECOND).call(calls.noted(&timer));
        clock.advance(3 * SECOND);
        assert!(callback.reset(start + to * SECOND));
        assert_eq!(calls.count(), 0, "never within the reset");
        clock.advance(Duration::ZERO);
        clock.advance(10 * SECOND);
        assert_eq!(calls.since(start), [at]);
        assert!(!callback.reset(start + 20 * SECOND), "the only call has been made");
        assert_eq!(clock.advance(20 * SECOND), 0);
    }
}

#[test]
fn a_reset_on_the_systems_clock_is_never_early_and_does_not_call_twice() {
    let timer = Timer::builder().build().expect("the options are valid");
    let (tell, told) = channel();
    let callbacks = [0, 5, 20].map(|to| {
        let (tell, deadline) = (tell.clone(), Instant::now() + ms(to));
        let note = move || tell.send((deadline, Instant::now())).expect("the test waits");
        let callback = timer.sleep(ms(10)).call(note);
        for _ in 0..100 {
            assert!(callback.reset(deadline) || Instant::now() >= deadline);
        }
        callback
    });
    drop(tell);
    assert_eq!(told.iter().filter(|(deadline, at)| at >= deadline).count(), callbacks.len());
}

/// While the driver fires for the old deadline of a timer that was reset without a lock: it has
/// taken the waker, and wakes it after another function has made the reset.
#[test]
fn a_reset_between_a_fire_and_its_call_puts_the_call_off() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    for to in [1, 3] {
        let (calls, own, start) = (Calls::default(), Own::default(), clock.now());
        let found = own.clone();
        let _first = timer.sleep_until(start + SECOND).call(move || {
            let own = found.lock().unwrap();
            assert!(own.as_ref().expect("it is there").reset(start + to * SECOND));
        });
        let second = timer.sleep_until(start + SECOND).call(calls.noted(&timer));
        *own.lock().unwrap() = Some(second);
        for _ in 0..5 {
            clock.jump(SECOND);
            driver.turn();
        }
        assert_eq!(calls.since(start), [to.into()]);
    }
}

#[test]
fn a_reset_after_a_cancel_or_beside_the_only_call_is_too_late() {
    let (timer, clock) = virtual_timer();
    let cancelled = timer.sleep(SECOND).call(|| panic!("called"));
    assert!(cancelled.cancel());
    assert!(!cancelled.reset_after(SECOND));
    let (own, calls) = (Own::default(), Calls::default());
    let (found, note) = (own.clone(), calls.noted(&timer));
    let callback = timer.sleep(SECOND).call(move || {
        note();
        assert!(!taken(&found).reset_after(SECOND));
    });
    *own.lock().unwrap() = Some(callback);
    clock.advance(10 * SECOND);
    assert_eq!((calls.count(), timer.stats().waker_panics), (1, 0));
}

#[test]
fn a_reset_to_never_keeps_the_function_for_another() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let armed = timer.sleep(SECOND).call(calls.noted(&timer));
    let never = timer.never().call(calls.noted(&timer));
    assert!(armed.reset_after(Duration::MAX) && never.reset_after(Duration::MAX));
    assert_eq!(clock.advance(10 * SECOND), 0);
    assert!(armed.reset_after(SECOND) && never.reset_after(2 * SECOND));
    clock.advance(10 * SECOND);
    assert_eq!(calls.since(start), [11, 12]);
}

#[test]
fn an_interval_without_further_ticks_calls_once_for_each_reset() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let watchdog = every(&timer, Duration::MAX, calls.noted(&timer));
    for _ in 0..3 {
        assert!(watchdog.reset_after(SECOND));
        clock.advance(10 * SECOND);
    }
    assert_eq!(calls.since(start), [1, 11, 21]);
    assert_eq!(clock.pending(), 0, "it keeps nothing armed in between");
}

#[test]
fn a_reset_beside_a_call_that_repeats_moves_the_next_one() {
    let (timer, clock) = virtual_timer();
    let (calls, own, start) = (Calls::default(), Own::default(), clock.now());
    let (note, found) = (calls.noted(&timer), own.clone());
    let mut count = 0;
    let callback = every(&timer, 10 * SECOND, move || {
        note();
        count += 1;
        let own = found.lock().unwrap();
        let own = own.as_ref().expect("it is there");
        match count {
            1 => assert!(own.reset_after(3 * SECOND)),
            3 => assert!(own.reset_after(SECOND) && own.reset_after(Duration::MAX)),
            4 => {
                assert!(!own.cancel());
                assert!(!own.reset_after(SECOND) && !own.set_period(SECOND));
            }
            _ => {}
        }
    });
    *own.lock().unwrap() = Some(callback);
    clock.advance(50 * SECOND);
    assert_eq!(calls.since(start), [10, 13, 23], "the period applies after the reset");
    assert!(own.lock().unwrap().as_ref().expect("it is there").reset_after(SECOND));
    clock.advance(50 * SECOND);
    assert_eq!(calls.since(start), [10, 13, 23, 51]);
    assert_eq!((clock.pending(), timer.stats().waker_panics), (0, 0));
}

#[test]
fn resets_from_many_threads_lose_no_call() {
    let timer = Timer::builder().build().expect("the options are valid");
    for round in 0..200 {
        let (tell, told) = channel();
        let period = Duration::from_micros(50 + round);
        let mut interval = timer.interval(Duration::MAX);
        interval.reset_after(period);
        let callback = interval.call(move |call| _ = tell.send(call.tick));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for n in 0..20 {
                        assert!(callback.reset_after(period * (n % 3)));
                    }
                });
            }
        });
        // The last reset has its call: no other call's end undoes it.
        let last = Instant::now() + period;
        assert!(callback.reset(last));
        while told.recv().expect("the callback is there") != last {}
    }
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_period_is_changed_from_the_next_call_on() {
    let (timer, clock) = virtual_timer();
    let (calls, start) = (Calls::default(), clock.now());
    let callback = every(&timer, 10 * SECOND, calls.noted(&timer));
    clock.advance(5 * SECOND);
    assert!(callback.set_period(2 * SECOND));
    clock.advance(9 * SECOND);
    assert_eq!(calls.since(start), [10, 12, 14]);
    callback.cancel();
    assert!(!callback.set_period(SECOND));
    let once = timer.sleep(SECOND).call(|| {});
    assert!(!once.set_period(SECOND), "it has no period");
}

#[test]
fn a_function_may_change_its_own_period() {
    let (timer, clock) = virtual_timer();
    let (calls, own, start) = (Calls::default(), Own::default(), clock.now());
    let (note, found) = (calls.noted(&timer), own.clone());
    let mut period = SECOND;
    let callback = every(&timer, period, move || {
        note();
        period *= 2;
        assert!(found.lock().unwrap().as_ref().expect("it is there").set_period(period));
    });
    *own.lock().unwrap() = Some(callback);
    clock.advance(20 * SECOND);
    assert_eq!(calls.since(start), [1, 3, 7, 15]);
    drop(taken(&own));
}

#[test]
fn a_fine_period_set_later_calls_for_each_tick() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let start = timer.now() + 60 * SECOND;
    let callback = timer.interval_at(start, SECOND).call(|_| {});
    assert!(callback.set_period(Duration::from_micros(1)));
    assert!(callback.reset(start), "as one that ticks in bursts moves its deadline");
    assert_eq!(driver.turn().next, Some(start));
}

#[test]
#[should_panic(expected = "must not be zero")]
fn a_change_of_the_period_to_zero_panics() {
    every(&virtual_timer().0, SECOND, || {}).set_period(Duration::ZERO);
}

#[test]
fn a_call_has_its_tick_and_the_number_of_missed_ones() {
    for (behavior, expected) in [
        (MissedTickBehavior::Burst, vec![(10, 0), (20, 0), (30, 0), (40, 0), (50, 0)]),
        (MissedTickBehavior::Skip, vec![(10, 0), (40, 2), (50, 0)]),
        (MissedTickBehavior::Delay, vec![(10, 0), (48, 2), (58, 0)]),
    ] {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let (tell, told) = channel();
        let mut interval = timer.interval_at(start + 10 * SECOND, 10 * SECOND);
        interval.set_missed_tick_behavior(behavior);
        let _callback = interval.call(move |call| {
            tell.send(((call.tick - start).as_secs(), call.missed)).expect("the test waits");
        });
        clock.jump(38 * SECOND);
        for _ in 0..20 {
            clock.advance(SECOND);
        }
        assert_eq!(told.try_iter().collect::<Vec<_>>()[..expected.len()], expected);
    }
}

#[test]
fn a_reset_replaces_ticks_and_none_of_those_is_missed() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let (tell, told) = channel();
    let mut interval = timer.interval_at(start + 10 * SECOND, 10 * SECOND);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let callback = interval.call(move |call| tell.send(call).expect("the test waits"));
    assert!(callback.reset(start + 100 * SECOND));
    clock.advance(105 * SECOND);
    clock.jump(16 * SECOND);
    clock.advance(9 * SECOND);
    let calls: Vec<_> = told.try_iter().map(|call| (call.tick - start, call.missed)).collect();
    assert_eq!(calls, [(100 * SECOND, 0), (110 * SECOND, 0), (130 * SECOND, 1)]);
}

#[test]
fn missed_ticks_are_counted_once_also_if_the_call_is_followed_by_a_reset() {
    let (timer, clock) = virtual_timer();
    let (own, start) = (Own::default(), clock.now());
    let (tell, told) = channel();
    let mut interval = timer.interval_at(start + 10 * SECOND, 10 * SECOND);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let found = own.clone();
    let callback = interval.call(move |call| {
        tell.send(((call.tick - start).as_secs(), call.missed)).expect("the test waits");
        if call.missed > 0 {
            assert!(found.lock().unwrap().as_ref().expect("it is there").reset_after(SECOND));
        }
    });
    *own.lock().unwrap() = Some(callback);
    clock.jump(38 * SECOND);
    clock.advance(14 * SECOND);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(10, 0), (40, 2), (41, 0), (51, 0)]);
    own.lock().unwrap().take();
}

#[test]
fn a_callback_says_when_it_is_called_next_and_whether_it_is() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let once = timer.sleep(SECOND).call(|| ());
    assert_eq!((once.is_pending(), once.next_call()), (true, Some(start + SECOND)));
    once.reset_after(Duration::MAX);
    assert_eq!((once.is_pending(), once.next_call()), (true, None));
    once.reset_after(SECOND);
    clock.advance(SECOND);
    assert_eq!((once.is_pending(), once.next_call()), (false, None));

    let (own, seen) = (Own::default(), Arc::new(Mutex::new(Vec::new())));
    let (found, sees, later) = (own.clone(), seen.clone(), start + 60 * SECOND);
    let callback = every(&timer, 10 * SECOND, move || {
        let own = found.lock().unwrap();
        let own = own.as_ref().expect("it is there");
        let look = || sees.lock().unwrap().push((own.is_pending(), own.next_call()));
        look();
        own.reset(later);
        look();
        if own.next_call() == Some(later) && sees.lock().unwrap().len() > 2 {
            own.cancel();
            sees.lock().unwrap().push((own.is_pending(), own.next_call()));
        }
    });
    *own.lock().unwrap() = Some(callback);
    clock.advance(60 * SECOND);
    let call = [(true, None), (true, Some(later))];
    assert_eq!(*seen.lock().unwrap(), [call[0], call[1], call[0], call[1], (false, None)]);
    let callback = taken(&own);
    assert_eq!((callback.is_pending(), callback.next_call()), (false, None));
}
