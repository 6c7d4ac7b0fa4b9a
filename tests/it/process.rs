//! The driver thread: when it starts, sleeps and ends; and what threads share.

use std::time::{Duration, Instant};

use tourbillon::{StreamExt, Timer};

use crate::support::*;

#[cfg(target_os = "linux")]
#[test]
fn the_thread_starts_with_the_first_armed_sleep_and_ends_with_the_last() {
    let name = "first-to-last";
    let timer = Timer::builder().thread_name(name).build().expect("the options are valid");
    let mut sleep = timer.sleep(3600 * SECOND);
    pollster::block_on(timer.sleep(Duration::ZERO));
    assert!(!has_thread(name), "nothing is armed");
    assert!(poll(&mut sleep).is_pending());
    eventually("the thread has its name", || has_thread(name));
    drop(timer);
    assert!(has_thread(name), "a sleep is armed");
    drop(sleep);
    eventually("the thread ends", || !has_thread(name));
}

#[cfg(target_os = "linux")]
#[test]
fn the_thread_ends_with_the_last_handle() {
    let name = "last-handle";
    let timer = Timer::builder().thread_name(name).build().expect("the options are valid");
    timer.start().expect("a thread can be started");
    let clone = timer.clone();
    eventually("the thread has its name", || has_thread(name));
    drop(timer);
    assert!(has_thread(name), "there is another handle");
    drop(clone);
    eventually("the thread ends", || !has_thread(name));
}

#[cfg(target_os = "linux")]
#[test]
fn a_sleep_armed_after_the_thread_ended_starts_it_again() {
    let name = "started-again";
    let timer = Timer::builder().thread_name(name).build().expect("the options are valid");
    timer.start().expect("a thread can be started");
    eventually("the thread has its name", || has_thread(name));
    let (sleep, other) = (timer.sleep(ms(20)), timer.sleep(ms(1)));
    drop(timer);
    eventually("the thread ends", || !has_thread(name));
    pollster::block_on(sleep);
    pollster::block_on(other);
    eventually("the thread ends again", || !has_thread(name));
}

#[test]
fn cancelling_never_wakes_the_driver_and_arming_later_does_not_either() {
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    let first = polled(timer.sleep(3600 * SECOND));
    eventually("the driver parks", || is_parked(&timer));
    let before = timer.stats();
    for n in 0..10_000 {
        let _sleep = polled(timer.sleep(3601 * SECOND + Duration::from_nanos(n)));
    }
    drop(first);
    let after = timer.stats();
    assert_eq!(after.unparks, before.unparks);
    assert_eq!((after.armed, after.cancelled), (10_001, 10_001));
}

#[test]
fn a_park_that_an_insert_ends_counts_as_a_wake_up() {
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    let mut sleep = polled(timer.sleep(3600 * SECOND));
    eventually("the driver parks", || is_parked(&timer));
    assert_eq!((timer.stats().unparks, timer.stats().driver_wakeups), (0, 0));
    sleep.reset_after(Duration::ZERO);
    assert_eq!(timer.stats().unparks, 1);
    eventually("the driver fires it", || timer.stats().fired == 1);
    eventually("the driver parks again", || is_parked(&timer));
    assert_eq!(timer.stats().driver_wakeups, 1);
}

#[test]
fn a_driver_with_nothing_pending_does_not_wake() {
    let timer = Timer::builder().build().expect("the options are valid");
    timer.start().expect("a thread can be started");
    std::thread::sleep(ms(50));
    assert_eq!((timer.stats().driver_wakeups, timer.stats().unparks), (0, 0));
}

#[test]
fn a_far_timer_wakes_the_driver_twice_at_most() {
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    timer.start().expect("a thread can be started");
    // Longer than the 268 ms from which on the driver approaches a deadline in two steps.
    pollster::block_on(timer.sleep(ms(600)));
    let stats = timer.stats();
    // One wake-up more is the insert's, if the driver had parked without a limit before.
    assert!(stats.driver_wakeups <= 2 + stats.unparks && stats.unparks <= 1, "{stats:?}");
}

#[test]
fn defaults_are_the_process_wide_timer_and_options_of_another() {
    let mut sleep = Timer::default().sleep(3600 * SECOND);
    let armed = Timer::global().stats().armed;
    assert!(poll(&mut sleep).is_pending());
    assert!(Timer::global().stats().armed > armed);
    let own = tourbillon::timer::Builder::default().build().expect("the options are valid");
    assert_eq!((own.stats().armed, own.stats().shards), (0, Timer::default().stats().shards));
}

#[test]
fn threads_use_shards_of_their_own() {
    let timer = Timer::builder().shards(4).build().expect("the options are valid");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let _sleep = polled(timer.sleep(3600 * SECOND));
            });
        }
    });
    let stats = timer.stats();
    assert_eq!((stats.shards, stats.shards_used), (4, 4));
}

#[test]
fn the_global_timer_can_be_replaced_before_its_first_use() {
    alone!();
    let (timer, clock) = virtual_timer();
    let ticks = timer.interval(SECOND).on_timer(&timer);
    let _chain = ticks.timeout(SECOND).throttle(SECOND).debounce(SECOND).chunks_timeout(2, SECOND);
    Timer::set_global(timer.clone()).expect("nothing has used it");
    let start = Instant::now();
    clock.block_on(tourbillon::sleep(1_000_000 * SECOND));
    assert!(start.elapsed() < 1_000_000 * SECOND);
    assert_eq!((timer.stats().fired, Timer::global().stats().fired), (1, 1));
    assert!(Timer::set_global(timer).is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_cannot_be_started_is_an_error_or_a_panic_and_tried_again() {
    alone!();

    use std::panic::{AssertUnwindSafe, catch_unwind};

    let mut sleep = tourbillon::sleep(3600 * SECOND);
    let [mut early, mut late] = [3601, 3602].map(|n| tourbillon::sleep(n * SECOND));
    leave_no_room_for_a_thread();
    let error = Timer::global().start().expect_err("there is no room for a stack");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
    for sleep in [&mut sleep, &mut early, &mut late] {
        let panic = catch_unwind(AssertUnwindSafe(|| poll(sleep))).expect_err("nor for a poll");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains("cannot start the timer's driver"), "{message}");
    }
    let (called, calls) = std::sync::mpsc::channel();
    let never = tourbillon::sleep(Duration::MAX);
    let callback = never.call(move || called.send(()).expect("it is waited for"));
    catch_unwind(AssertUnwindSafe(|| callback.reset_after(ms(1)))).expect_err("nor for a reset");
    assert_eq!(Timer::global().stats().pending, 0);
    assert!(poll(&mut tourbillon::sleep(Duration::ZERO)).is_ready(), "needs no driver");

    limit_address_space(libc::RLIM_INFINITY);
    assert!(callback.reset_after(ms(2)));
    calls.recv().expect("the reset starts the driver");
    // Not the earliest that was tried for, so it has to start the driver all the same.
    assert!(poll(&mut late).is_pending());
    sleep.reset_after(ms(1));
    pollster::block_on(sleep);
    Timer::global().start().expect("a thread can be started");
}

#[cfg(target_os = "linux")]
#[test]
fn a_runtime_that_ends_where_no_thread_can_be_started_wakes_what_is_armed() {
    alone!();

    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Waker};

    let timer = Timer::global();
    let kept: Arc<Mutex<Option<Waker>>> = Arc::default();
    let end = Arc::clone(&kept);
    let watch = move |cx: &mut Context<'_>| {
        // Pending once, and then the runtime ends.
        match kept.lock().expect("no panic").replace(cx.waker().clone()) {
            None => Poll::Pending,
            Some(_) => Poll::Ready(Err(std::io::ErrorKind::Other.into())),
        }
    };
    timer.drive_on(|_| Ok(watch)).expect("it is the first");
    let counter = Counter::new();
    let near = armed(&timer, &counter.clone().into());
    let mut far = timer.sleep(3600 * SECOND);
    assert!(poll_with(&mut far, &counter.clone().into()).is_pending());
    let (called, calls) = std::sync::mpsc::channel();
    let _callback = timer.sleep(ms(2)).call(move || called.send(()).expect("it is waited for"));
    leave_no_room_for_a_thread();
    let waker = end.lock().expect("no panic").clone().expect("it is registered");
    waker.wake();
    assert_eq!(counter.wakes(), 2);
    catch_unwind(AssertUnwindSafe(|| poll(&mut far))).expect_err("nor for a poll");

    limit_address_space(libc::RLIM_INFINITY);
    // Another task's poll looks for a driver as well.
    let another = Counter::new().into();
    assert!(poll_with(&mut far, &another).is_pending(), "it was woken before its deadline");
    calls.recv().expect("the driver calls it");
    pollster::block_on(near);
    far.reset_after(ms(1));
    pollster::block_on(far);
}

#[cfg(target_os = "linux")]
fn limit_address_space(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: `limit` is a valid rlimit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
}

/// Leaves room to continue, but not for another thread's stack.
#[cfg(target_os = "linux")]
fn leave_no_room_for_a_thread() {
    let status = std::fs::read_to_string("/proc/self/statm").expect("procfs is there");
    let pages: libc::rlim_t =
        status.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    limit_address_space(pages * 4096 + (1 << 20));
}

#[test]
fn timers_work_while_thread_locals_are_destroyed() {
    struct SleepsInDrop;

    impl Drop for SleepsInDrop {
        fn drop(&mut self) {
            pollster::block_on(tourbillon::sleep(ms(1)));
            let _sleep = polled(tourbillon::sleep(3600 * SECOND));
        }
    }

    thread_local!(static SLEEPS: SleepsInDrop = const { SleepsInDrop });
    if cfg!(windows) {
        // No thread starts there while one destroys its thread-locals.
        pollster::block_on(tourbillon::sleep(ms(1)));
    }
    std::thread::spawn(|| SLEEPS.with(|_| {})).join().expect("the destructor does not panic");
}

/// Not on Windows, where other threads are ended before the thread-locals of the exiting thread are
/// destroyed, and where a destructor that waits keeps the process from its end.
#[cfg(not(windows))]
#[test]
fn a_process_exits_cleanly_with_sleeps_in_thread_locals() {
    let output = command_of("process::child_exits_with_sleeps_in_thread_locals").output();
    let output = output.expect("the test binary can be run");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
    // Whether they are destroyed as a process exits is up to the platform.
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        assert_eq!(stderr.matches(DESTROYED).count(), 2, "{stderr}");
    }
}

#[cfg(not(windows))]
const EXIT_CODE: i32 = 42;
#[cfg(not(windows))]
const DESTROYED: &str = "a thread-local was destroyed";

/// Exits while thread-locals have armed sleeps of four threads: an ended one, one being destroyed,
/// a continuing one, and the exiting one. The C library treats the last one's like the main
/// thread's when `main` returns.
#[cfg(not(windows))]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_exits_with_sleeps_in_thread_locals() {
    use std::cell::RefCell;
    use std::io::Write;
    use std::sync::mpsc::channel;
    use std::thread;

    struct Parting {
        own: Timer,
        _armed: [tourbillon::Sleep; 2],
        /// Called in between.
        midway: Box<dyn FnOnce()>,
    }

    impl Drop for Parting {
        fn drop(&mut self) {
            std::mem::replace(&mut self.midway, Box::new(|| {}))();
            pollster::block_on(self.own.sleep(ms(1)));
            pollster::block_on(tourbillon::sleep(ms(1)));
            let _sleep = polled(tourbillon::sleep(3600 * SECOND));
            // Not by `eprintln`, because the test harness may catch it.
            writeln!(std::io::stderr(), "{DESTROYED}").expect("the parent reads it");
        }
    }

    fn prepare(own: &Timer, midway: impl FnOnce() + 'static) {
        thread_local!(static PARTING: RefCell<Option<Parting>> = const { RefCell::new(None) });
        let mut armed = [own.sleep(3600 * SECOND), tourbillon::sleep(3600 * SECOND)];
        assert!(armed.iter_mut().all(|sleep| poll(sleep).is_pending()));
        let parting = Parting { own: own.clone(), _armed: armed, midway: Box::new(midway) };
        PARTING.set(Some(parting));
    }

    let own = Timer::builder().build().expect("the options are valid");
    let ended = own.clone();
    thread::spawn(move || prepare(&ended, || {})).join().expect("the destructor does not panic");

    let (say, heard) = channel();
    let (being_destroyed, going_on) = ((own.clone(), say.clone()), (own.clone(), say));
    thread::spawn(move || {
        let (own, say) = being_destroyed;
        let far = own.sleep(3600 * SECOND);
        prepare(&own, move || {
            say.send(()).expect("the test waits");
            pollster::block_on(far);
        });
    });
    thread::spawn(move || {
        let (own, say) = going_on;
        prepare(&own, || {});
        say.send(()).expect("the test waits");
        pollster::block_on(own.sleep(3600 * SECOND));
    });
    heard.recv().expect("one of them");
    heard.recv().expect("the other");

    prepare(&own, || {});
    drop(own);
    std::process::exit(EXIT_CODE);
}
