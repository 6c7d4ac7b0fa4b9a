//! Timers of a child of `fork`, and its parent's, left alone. Each test forks in a process of its
//! own: `std` holds a lock while a thread starts or ends, and a child would inherit it.

mod foreign;
mod inherited;
#[cfg(target_os = "linux")]
mod storm;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tourbillon::Timer;

use crate::support::*;

/// Longest time for a child, in seconds, before it counts as hung.
const HANGS_AFTER: libc::c_uint = 120;

/// Forks. A child that hangs is ended by a signal.
fn fork() -> libc::pid_t {
    // SAFETY: the child calls only functions that the C library promises to a child of a process
    // with threads, the subject of these tests: it allocates and starts threads.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork failed");
    if child == 0 {
        // On a thread of a timer's, the signal would be blocked.
        tourbillon::callback::unblock_signals().expect("signals can be unblocked");
        // SAFETY: a plain number.
        unsafe { libc::alarm(HANGS_AFTER) };
    }
    child
}

/// Runs the rest of a child, and ends it, because it is a copy of a test in the middle. Its status
/// is not 0 if `body` panics.
fn end_child_with(body: impl FnOnce()) -> ! {
    let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
    // SAFETY: a plain number.
    unsafe { libc::_exit(i32::from(failed)) }
}

/// Returns the status of a child: 0 if it ended as it should, the number of the signal if one
/// ended it, and otherwise its exit status, times 256.
fn status_of(child: libc::pid_t) -> libc::c_int {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the answer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that keeps its waker where it is found, and is ready once its flag is set.
fn waiting(kept: &Arc<Mutex<Option<Waker>>>, done: &Arc<AtomicBool>) -> Waiting {
    let (kept, done) = (Arc::clone(kept), Arc::clone(done));
    Box::pin(std::future::poll_fn(move |cx| {
        *kept.lock().unwrap() = Some(cx.waker().clone());
        if done.load(Ordering::Relaxed) { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// Forks, runs `body` in the child, and returns its status.
pub(crate) fn status_of_a_child(body: impl FnOnce()) -> libc::c_int {
    match fork() {
        0 => end_child_with(body),
        child => status_of(child),
    }
}

#[test]
fn after_fork_the_child_has_timers_and_the_parent_keeps_its_own() {
    alone!();

    /// Runs in a child. A failed assertion ends it, and not with 0.
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
                    let _sleep = polled(timer.sleep(3600 * SECOND));
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

#[test]
fn after_fork_the_child_moves_a_virtual_clock_that_another_thread_was_moving() {
    alone!();

    use std::sync::mpsc::channel;
    use std::time::SystemTime;

    use tourbillon::virtual_time::VirtualClock;

    fn into_2000(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(946_684_800 + secs)
    }

    fn in_child(timer: &Timer, clock: &VirtualClock) {
        let (now, wall) = (clock.now(), clock.wall_now());
        assert_eq!(wall, into_2000(1));
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
    let node = clock.node(1_000_000);
    let on_node = Timer::builder().virtual_clock(&node).build().expect("the options are valid");
    let in_child_by_node = || {
        let (mut nap, now, wall) = (on_node.sleep(2 * SECOND), clock.now(), node.wall_now());
        assert!(poll(&mut nap).is_pending());
        assert_eq!(node.advance(2 * SECOND), 1);
        assert!(poll(&mut nap).is_ready());
        assert_eq!((clock.now(), node.wall_now()), (now + SECOND, wall + 2 * SECOND));
    };
    let mover = clock.clone();
    let mover = std::thread::spawn(move || mover.advance(9 * SECOND));
    blocked.recv().expect("the clock is on its way");
    assert_eq!(status_of_a_child(|| in_child(&timer, &clock)), 0);
    assert_eq!(status_of_a_child(in_child_by_node), 0);
    release.send(()).expect("the waker waits");
    mover.join().expect("no panic");
    assert_eq!(clock.wall_now(), into_2000(9));
}

#[cfg(target_os = "linux")]
#[test]
fn after_fork_the_thread_ends_wherever_the_last_handle_went() {
    alone!();

    const NAME: &str = "inherited";

    /// Two sleeps of a timer, only one armed.
    fn two_of(timer: &Timer) -> [tourbillon::Sleep; 2] {
        let mut sleeps = [(); 2].map(|()| timer.sleep(3600 * SECOND));
        assert!(poll(&mut sleeps[0]).is_pending());
        // A thread that starts or ends holds a lock of std's, and a child would inherit it.
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
    alone!();

    use std::os::fd::AsRawFd;

    use crate::driven_by_hand::descriptor::is_readable;

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

#[test]
fn after_fork_the_child_has_callbacks_and_does_not_call_its_parents() {
    alone!();

    use std::sync::mpsc::channel;

    use tourbillon::callback::Callback;

    /// Uses, in a child, its parent's callbacks and a callback of its own.
    fn in_child(timer: &Timer, callbacks: [Callback; 2]) {
        let [cancelled, dropped] = callbacks;
        assert!(!cancelled.cancel() && !cancelled.cancel_and_wait(), "there is nothing to prevent");
        drop(dropped);
        for timer in [timer.clone(), Timer::global()] {
            let (tell, told) = channel();
            let call = move || tell.send(()).expect("the child waits");
            let _callback = timer.sleep(Duration::ZERO).call(call);
            told.recv().expect("it is called");
        }
    }

    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    let (tell, told) = channel();
    let failed: Vec<_> = (0..30)
        .map(|_| {
            // A callback that is called most of the time, so that its lock may be held at the fork,
            // and a callback that a child of a second would call.
            let tell = tell.clone();
            let callbacks = [
                every(&timer, Duration::from_nanos(1), move || {
                    _ = tell.send(std::process::id());
                }),
                timer.sleep(ms(300)).call(|| panic!("called")),
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
