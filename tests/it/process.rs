//! The driver thread: when it starts, sleeps and ends; and what threads share.

use std::task::Waker;
use std::time::{Duration, Instant};

use tourbillon::Timer;

use crate::support::*;

/// Waits until `condition` holds. Says so, if that takes a minute.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(ms(1));
    }
}

/// Whether this process has a thread called `name`.
#[cfg(target_os = "linux")]
fn has_thread(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
    tasks.flatten().any(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Whether the timer's driver has said when it will wake.
fn is_parked(timer: &Timer) -> bool {
    let shown = format!("{timer:?}");
    assert!(shown.contains("alarm: "), "{shown}");
    !["absent", "awake", "scanning"].iter().any(|busy| shown.contains(&format!("alarm: {busy}")))
}

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
    let mut first = timer.sleep(3600 * SECOND);
    assert!(poll(&mut first).is_pending());
    eventually("the driver parks", || is_parked(&timer));
    let before = timer.stats();
    for n in 0..10_000 {
        let mut sleep = timer.sleep(3601 * SECOND + Duration::from_nanos(n));
        assert!(poll(&mut sleep).is_pending());
    }
    drop(first);
    let after = timer.stats();
    assert_eq!(after.unparks, before.unparks);
    assert_eq!((after.armed, after.cancelled), (10_001, 10_001));
}

#[test]
fn a_park_that_an_insert_ends_counts_as_a_wake_up() {
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    let mut sleep = timer.sleep(3600 * SECOND);
    assert!(poll(&mut sleep).is_pending());
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
    let own = tourbillon::Builder::default().build().expect("the options are valid");
    assert_eq!((own.stats().armed, own.stats().shards), (0, Timer::default().stats().shards));
}

#[test]
fn threads_use_shards_of_their_own() {
    let timer = Timer::builder().shards(4).build().expect("the options are valid");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut sleep = timer.sleep(3600 * SECOND);
                assert!(poll(&mut sleep).is_pending());
            });
        }
    });
    let stats = timer.stats();
    assert_eq!((stats.shards, stats.shards_used), (4, 4));
}

#[test]
fn a_sleep_armed_here_may_be_dropped_there() {
    let timer = Timer::builder().shards(4).build().expect("the options are valid");
    for _ in 0..100 {
        let counter = Counter::new();
        let mut sleep = timer.sleep(3600 * SECOND);
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        std::thread::spawn(move || drop(sleep)).join().expect("dropping does not panic");
        assert_eq!(std::sync::Arc::strong_count(&counter), 1);
    }
    assert_eq!((timer.stats().cancelled, timer.stats().pending), (100, 0));
}

#[test]
fn the_global_timer_can_be_replaced_before_its_first_use() {
    in_a_process_of_its_own("process::child_replaces_the_global_timer");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_replaces_the_global_timer() {
    let (timer, clock) = virtual_timer();
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
    in_a_process_of_its_own("process::child_runs_out_of_address_space");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_runs_out_of_address_space() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn limit_address_space(bytes: libc::rlim_t) {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: `limit` is a valid rlimit.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    }

    let mut sleep = tourbillon::sleep(3600 * SECOND);
    let [mut early, mut late] = [3601, 3602].map(|n| tourbillon::sleep(n * SECOND));
    // Room to go on, but not for another thread's stack.
    let status = std::fs::read_to_string("/proc/self/statm").expect("procfs is there");
    let pages: libc::rlim_t =
        status.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    limit_address_space(pages * 4096 + (1 << 20));

    let error = Timer::global().start().expect_err("there is no room for a stack");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}");
    for sleep in [&mut sleep, &mut early, &mut late] {
        let panic = catch_unwind(AssertUnwindSafe(|| poll(sleep))).expect_err("nor for a poll");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.contains("cannot start the timer's driver thread"), "{message}");
    }
    assert_eq!(Timer::global().stats().pending, 0);
    assert!(poll(&mut tourbillon::sleep(Duration::ZERO)).is_ready(), "needs no driver");

    limit_address_space(libc::RLIM_INFINITY);
    // Not the earliest that was tried for, so it has to start the driver all the same.
    assert!(poll(&mut late).is_pending());
    sleep.reset_after(ms(1));
    pollster::block_on(sleep);
    Timer::global().start().expect("a thread can be started");
}

#[test]
fn timers_work_while_thread_locals_are_destroyed() {
    struct SleepsInDrop;

    impl Drop for SleepsInDrop {
        fn drop(&mut self) {
            pollster::block_on(tourbillon::sleep(ms(1)));
            let mut sleep = tourbillon::sleep(3600 * SECOND);
            assert!(poll(&mut sleep).is_pending());
        }
    }

    thread_local!(static SLEEPS: SleepsInDrop = const { SleepsInDrop });
    if cfg!(windows) {
        // No thread starts there while one destroys its thread-locals.
        pollster::block_on(tourbillon::sleep(ms(1)));
    }
    std::thread::spawn(|| SLEEPS.with(|_| {})).join().expect("the destructor does not panic");
}

/// Not on Windows, where other threads are ended before the thread-locals of the one that exits are
/// destroyed, and where a destructor that waits keeps the process from its end.
#[cfg(not(windows))]
#[test]
fn a_process_exits_cleanly_with_sleeps_in_thread_locals() {
    let output = alone("process::child_exits_with_sleeps_in_thread_locals").output();
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

/// As the process exits, there are thread-locals with armed sleeps of four threads: one that has
/// ended, one that is being destroyed, one that goes on, and the one that exits. The C library does
/// with the last one's what it does with the main thread's when `main` returns.
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
            let mut sleep = tourbillon::sleep(3600 * SECOND);
            assert!(poll(&mut sleep).is_pending());
            // Not by `eprintln`, which the test harness may catch.
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

#[cfg(unix)]
#[test]
fn after_fork_the_child_has_timers_and_the_parent_keeps_its_own() {
    in_a_process_of_its_own("process::child_forks");
}

#[cfg(unix)]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_forks() {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// What a child does. A failed assertion ends it, and not with 0.
    fn in_child(own: &Timer, mut armed: [tourbillon::Sleep; 3], mut past: tourbillon::Sleep) {
        /// Awaits an end in a moment. It is armed before that is set, so that it counts as fired
        /// though the moment may have passed by the next poll.
        fn end(sleep: &mut tourbillon::Sleep) {
            assert!(poll(sleep).is_pending());
            sleep.reset_after(ms(1));
            pollster::block_on(sleep);
        }

        assert_eq!(Timer::global().stats().pending, 0);
        let deadlines = armed.each_ref().map(tourbillon::Sleep::deadline);
        end(&mut tourbillon::sleep(3600 * SECOND));
        end(&mut own.sleep(3600 * SECOND));
        assert!(poll(&mut past).is_ready());
        // Inherited while armed: reset, awaited and dropped.
        armed[0].reset_after(3600 * SECOND);
        end(&mut armed[0]);
        end(&mut armed[1]);
        assert_eq!(armed[2].deadline(), deadlines[2]);
        drop(armed);
        assert_eq!((own.stats().fired, own.stats().pending), (2, 0));
        assert!(own.lateness().is_some_and(|lateness| lateness.count() <= 2), "it begins anew");
        assert!(pollster::block_on(own.timeout(ms(1), std::future::pending::<()>())).is_err());
    }

    let builder = Timer::builder().shards(1).lateness_histogram(true);
    let own = builder.build().expect("the options are valid");
    let counter = Counter::new();
    let mut parents = [tourbillon::sleep(3600 * SECOND), own.sleep(3600 * SECOND)];
    for sleep in &mut parents {
        assert!(poll_with(sleep, &Waker::from(counter.clone())).is_pending());
        sleep.reset_after(ms(300));
    }
    let done = AtomicBool::new(false);
    let mut failed = Vec::new();
    std::thread::scope(|scope| {
        // So that locks are held when it forks.
        for timer in [Timer::global(), own.clone()] {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let mut sleep = timer.sleep(3600 * SECOND);
                    assert!(poll(&mut sleep).is_pending());
                }
            });
        }
        for _ in 0..30 {
            let hour = 3600 * SECOND;
            let mut armed = [own.sleep(hour), tourbillon::sleep(hour), own.sleep(hour)];
            armed.iter_mut().for_each(|sleep| assert!(poll(sleep).is_pending()));
            let mut past = tourbillon::sleep(Duration::from_micros(10));
            let _ = poll(&mut past);
            std::thread::sleep(ms(1));
            let status = status_of_a_child(|| in_child(&own, armed, past));
            if status != 0 {
                failed.push(status);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed, [0; 0], "children failed, or hung");
    parents.iter_mut().for_each(pollster::block_on);
    assert!(counter.wakes() <= 2, "once each, unless pollster's waker came first");
}

/// Forks, runs `body` in the child, and returns its exit status; that of a panic is not 0.
#[cfg(unix)]
fn status_of_a_child(body: impl FnOnce()) -> libc::c_int {
    // SAFETY: the child calls what a child of a process with threads may call by the C library's
    // own promises, as the tests are about: it allocates and starts threads.
    match unsafe { libc::fork() } {
        0 => {
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err();
            // SAFETY: ends the child at once, as it is a copy of a test in the middle.
            unsafe { libc::_exit(i32::from(failed)) }
        }
        child => wait_for(child),
    }
}

#[cfg(unix)]
#[test]
fn after_fork_the_child_moves_a_virtual_clock_that_another_thread_was_moving() {
    in_a_process_of_its_own("process::child_moves_an_inherited_clock");
}

#[cfg(unix)]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_moves_an_inherited_clock() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::time::SystemTime;

    use tourbillon::VirtualClock;

    fn into_2000(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800 + secs)
    }

    /// What a child does with a clock that shows one of the wall times of `walls`.
    fn in_child(timer: &Timer, clock: &VirtualClock, walls: std::ops::RangeInclusive<u64>) {
        let (now, wall) = (clock.now(), clock.wall_now());
        let walls = into_2000(*walls.start())..=into_2000(*walls.end());
        assert!(walls.contains(&wall), "{wall:?}");
        let mut sleep = timer.sleep(SECOND);
        let mut by_wall = timer.sleep_until_wall(wall + 3 * SECOND);
        assert!(poll(&mut sleep).is_pending() && poll(&mut by_wall).is_pending());
        assert_eq!(clock.advance(SECOND), 1);
        assert!(poll(&mut sleep).is_ready() && poll(&mut by_wall).is_pending());
        assert_eq!((clock.now(), clock.wall_now()), (now + SECOND, wall + SECOND));
        clock.jump(SECOND);
        clock.suspend(SECOND);
        assert!(poll(&mut by_wall).is_ready());
    }

    // Another thread is in a waker, at a deadline on its way to a goal.
    let (timer, clock) = virtual_timer();
    let (blocking, blocked) = channel();
    let (release, released) = channel::<()>();
    let (mut sleep, released) = (timer.sleep(SECOND), Mutex::new(released));
    let waker = callback(move || {
        blocking.send(()).expect("the test waits");
        released.lock().unwrap().recv().expect("the test lets it go on");
    });
    assert!(poll_with(&mut sleep, &waker).is_pending());
    let mover = clock.clone();
    let mover = std::thread::spawn(move || mover.advance(9 * SECOND));
    blocked.recv().expect("the clock is on its way");
    assert_eq!(status_of_a_child(|| in_child(&timer, &clock, 1..=1)), 0);
    release.send(()).expect("the waker waits");
    mover.join().expect("no panic");
    assert_eq!(clock.wall_now(), into_2000(9));

    // Others do all that takes a lock, most of the time.
    let (timer, clock) = virtual_timer();
    let done = Arc::new(AtomicBool::new(false));
    let threads = [(); 2].map(|()| {
        let (clock, done) = (clock.clone(), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                clock.advance(Duration::from_nanos(1));
                clock.jump(Duration::from_nanos(1));
                clock.set_wall(clock.wall_now());
            }
        })
    });
    let failed: Vec<_> = (0..100)
        .map(|_| status_of_a_child(|| in_child(&timer, &clock, 0..=3600)))
        .filter(|status| *status != 0)
        .collect();
    done.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(failed, [0; 0], "children failed, or hung");
}

#[cfg(target_os = "linux")]
#[test]
fn after_fork_the_thread_ends_wherever_the_last_handle_went() {
    in_a_process_of_its_own("process::child_drops_an_inherited_handle");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_drops_an_inherited_handle() {
    const NAME: &str = "inherited";

    /// Two sleeps of a timer, one of them armed.
    fn two_of(timer: &Timer) -> [tourbillon::Sleep; 2] {
        let mut sleeps = [(); 2].map(|()| timer.sleep(3600 * SECOND));
        assert!(poll(&mut sleeps[0]).is_pending());
        // A thread that starts or ends holds a lock of std's, which a child would inherit.
        eventually("the thread has started", || is_parked(timer));
        sleeps
    }

    /// Arms the sleeps, then drops them: the thread starts and ends.
    fn in_child(mut sleeps: [tourbillon::Sleep; 2]) {
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
        eventually("the thread has its name", || has_thread(NAME));
        drop(sleeps);
        eventually("the thread ends", || !has_thread(NAME));
    }

    let timer = || Timer::builder().thread_name(NAME).build().expect("the options are valid");
    // In the child, before anything is armed there.
    let own = timer();
    let sleeps = two_of(&own);
    let status = status_of_a_child(move || {
        drop(own);
        in_child(sleeps);
    });
    assert_eq!(status, 0);
    eventually("the parent's thread ends", || !has_thread(NAME));
    // In the child, where a thread runs by then.
    let own = timer();
    let mut sleeps = two_of(&own);
    let status = status_of_a_child(move || {
        assert!(poll(&mut sleeps[1]).is_pending());
        drop(own);
        in_child(sleeps);
    });
    assert_eq!(status, 0);
    eventually("the parent's thread ends", || !has_thread(NAME));
    // In the parent, before the fork.
    let own = timer();
    let sleeps = two_of(&own);
    drop(own);
    assert_eq!(status_of_a_child(move || in_child(sleeps)), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn after_fork_the_child_leaves_the_descriptor_of_its_parents_driver_alone() {
    in_a_process_of_its_own("process::child_turns_an_inherited_driver");
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_turns_an_inherited_driver() {
    use std::os::fd::{AsFd, AsRawFd};

    use rustix::event::{PollFd, PollFlags, poll as poll_fds};
    use rustix::time::Timespec;

    fn is_readable(descriptor: impl AsFd) -> bool {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        poll_fds(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).expect("it is open") == 1
    }

    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let parents = driver.turn_fd().expect("there is one");
    let status = status_of_a_child(|| {
        driver.turn();
        assert!(is_readable(&parents), "not taken back");
        let own = driver.turn_fd().expect("there is another");
        assert_ne!(own.as_raw_fd(), parents.as_raw_fd());
        driver.turn();
        assert!(!is_readable(&own));
        assert!(poll(&mut timer.sleep(3600 * SECOND)).is_pending());
        assert!(is_readable(&own));
    });
    assert_eq!(status, 0);
    driver.turn();
    let status = status_of_a_child(|| {
        driver.turn();
        assert!(poll(&mut timer.sleep(3600 * SECOND)).is_pending());
        assert!(!is_readable(&parents), "not set");
    });
    assert_eq!(status, 0);
    assert!(!is_readable(&parents));
}

#[cfg(unix)]
#[test]
fn after_fork_the_child_has_callbacks_and_does_not_call_its_parents() {
    in_a_process_of_its_own("process::child_inherits_callbacks");
}

#[cfg(unix)]
#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_inherits_callbacks() {
    use std::sync::mpsc::channel;

    use tourbillon::Callback;

    /// What a child does with its parent's callbacks, and with one of its own.
    fn in_child(timer: &Timer, callbacks: [Callback; 2]) {
        let [cancelled, dropped] = callbacks;
        assert!(!cancelled.cancel() && !cancelled.cancel_and_wait(), "there is nothing to prevent");
        drop(dropped);
        for timer in [timer.clone(), Timer::global()] {
            let (tell, told) = channel();
            let call = move || tell.send(()).expect("the child waits");
            let _callback = timer.call_after(Duration::ZERO, call);
            told.recv().expect("it is called");
        }
    }

    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    let (tell, told) = channel();
    let failed: Vec<_> = (0..30)
        .map(|_| {
            // One that is called most of the time, so that its lock may be held when it forks, and
            // one that a child of a second would call.
            let tell = tell.clone();
            let callbacks = [
                timer
                    .call_every(Duration::from_nanos(1), move || _ = tell.send(std::process::id())),
                timer.call_after(ms(300), || panic!("called")),
            ];
            told.recv().expect("it is called");
            status_of_a_child(|| in_child(&timer, callbacks))
        })
        .filter(|status| *status != 0)
        .collect();
    assert_eq!(failed, [0; 0], "children failed, or hung");
    drop(tell);
    assert!(told.iter().all(|process| process == std::process::id()));
}

/// The exit status of the process `child`; ends it if it takes a minute.
#[cfg(unix)]
fn wait_for(child: libc::pid_t) -> libc::c_int {
    assert!(child > 0, "fork failed");
    let start = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the answer.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            // SAFETY: plain numbers.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(ms(1));
    }
}
