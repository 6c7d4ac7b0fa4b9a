//! Each thing that a child may have inherited, and what it does about it there.

use std::sync::mpsc::channel;

use tourbillon::virtual_time::VirtualClock;

use super::*;

/// A timer with a thread, which runs by now.
fn started(builder: tourbillon::timer::Builder) -> Timer {
    let timer = builder.build().expect("the options are valid");
    timer.start().expect("a thread can be started");
    eventually("the driver parks", || is_parked(&timer));
    timer
}

fn holds(clock: &VirtualClock) -> String {
    let shown = format!("{clock:?}");
    shown.split("holds: ").nth(1).expect("it shows them").split(',').next().unwrap().to_owned()
}

#[test]
fn a_sleep_and_an_interval_of_its_parent_call_a_function_of_the_child() {
    in_a_process_of_its_own("fork::inherited::child_calls_by_inherited_timers");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_calls_by_inherited_timers() {
    let own = started(Timer::builder());
    Timer::global().start().expect("a thread can be started");
    eventually("the driver parks", || is_parked(&Timer::global()));
    for timer in [own, Timer::global()] {
        let (sleep, mut interval) = (timer.sleep(ms(1)), timer.interval(ms(1)));
        pollster::block_on(interval.tick());
        let status = status_of_a_child(move || {
            let (tell, told) = channel();
            let again = tell.clone();
            let once = sleep.call(move || tell.send("once").expect("the child waits"));
            assert_eq!(told.recv(), Ok("once"));
            let every = interval.call(move |_| again.send("every").expect("the child waits"));
            assert_eq!([told.recv(), told.recv()], [Ok("every"); 2]);
            drop((once, every));
        });
        assert_eq!(status, 0);
    }
}

#[test]
fn a_child_starts_threads_of_its_own() {
    in_a_process_of_its_own("fork::inherited::child_starts_threads");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_starts_threads() {
    let own = Timer::builder().build().expect("the options are valid");
    let timers = [own, Timer::global()];
    let status = status_of_a_child(|| {
        for timer in &timers {
            timer.start().expect("a thread can be started");
            eventually("the driver parks", || is_parked(timer));
        }
    });
    assert_eq!(status, 0);
}

#[test]
fn a_child_does_not_wait_for_a_call_of_its_parents() {
    in_a_process_of_its_own("fork::inherited::child_cancels_what_its_parent_calls");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_cancels_what_its_parent_calls() {
    let timer = started(Timer::builder());
    let (blocking, blocked) = channel();
    let (release, released) = channel::<()>();
    let callback = every(&timer, ms(1), move || {
        blocking.send(()).expect("the test waits");
        released.recv().expect("the test lets it go on");
    });
    blocked.recv().expect("it is called");
    let status = status_of_a_child(|| {
        assert!(!callback.reset_after(SECOND) && !callback.set_period(SECOND));
        assert!(!callback.cancel() && !callback.cancel_and_wait());
        assert!(format!("{callback:?}").contains("over"));
    });
    assert_eq!(status, 0);
    assert!(!callback.cancel(), "a call is under way");
    release.send(()).expect("the function waits");
    assert!(!callback.cancel_and_wait(), "it was before");
}

#[test]
fn a_child_has_the_tolerance_that_its_parents_timer_has() {
    in_a_process_of_its_own("fork::inherited::child_is_tolerant");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_is_tolerant() {
    let fixed = Timer::builder().tolerance(SECOND).build().expect("the options are valid");
    let share = tourbillon::timer::Tolerance::percent_of_delay(10, SECOND);
    let share = Timer::builder().tolerance(share).build().expect("the options are valid");
    let status = status_of_a_child(|| {
        assert_eq!(fixed.sleep(ms(10)).tolerance(), SECOND);
        assert_eq!(share.sleep(SECOND).tolerance(), ms(100));
    });
    assert_eq!(status, 0);
}

#[test]
fn a_child_has_no_hold_of_its_parents_and_ends_none() {
    in_a_process_of_its_own("fork::inherited::child_drops_an_inherited_hold");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_drops_an_inherited_hold() {
    let (timer, clock) = virtual_timer();
    let hold = clock.hold();
    let (first, second) = (clock.clone(), timer.clone());
    let status = status_of_a_child(move || {
        assert_eq!(holds(&first), "0");
        let own = first.hold();
        drop(hold);
        assert_eq!(holds(&first), "1", "its own");
        drop(own);
        first.block_on(second.sleep(SECOND));
    });
    assert_eq!((status, holds(&clock).as_str()), (0, "0"), "the parent's went with the closure");
}

#[test]
fn a_child_polls_a_tracked_future_that_another_thread_was_waking() {
    in_a_process_of_its_own("fork::inherited::child_polls_a_tracked_future");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_polls_a_tracked_future() {
    let (timer, clock) = virtual_timer();
    let (kept, done) = (Arc::default(), Arc::default());
    let mut tracked = clock.track(waiting(&kept, &done));
    assert!(poll(&mut tracked).is_pending());
    let waker = kept.lock().unwrap().clone().expect("it was polled");
    let over = Arc::new(AtomicBool::new(false));
    let wakes = std::thread::spawn({
        let (waker, over) = (waker.clone(), Arc::clone(&over));
        move || {
            while !over.load(Ordering::Relaxed) {
                waker.wake_by_ref();
            }
        }
    });
    let failed: Vec<_> = (0..100)
        .map(|_| {
            status_of_a_child(|| {
                let waker = waker.clone();
                waker.wake_by_ref();
                assert_eq!(holds(&clock), "0", "no poll follows a wake-up before the first");
                clock.block_on(timer.sleep(SECOND));
                assert!(poll(&mut tracked).is_pending());
                assert_eq!(holds(&clock), "0", "it waits");
                waker.wake_by_ref();
                assert_eq!(holds(&clock), "1", "it can run");
                done.store(true, Ordering::Relaxed);
                assert!(poll(&mut tracked).is_ready());
                waker.wake_by_ref();
                assert_eq!(holds(&clock), "0", "it is over");
            })
        })
        .filter(|status| *status != 0)
        .collect();
    over.store(true, Ordering::Relaxed);
    wakes.join().expect("no panic");
    assert_eq!(failed, [0; 0], "children failed, or hung");
}

/// A thread of the child forks while another uses what the child has inherited for the first time.
#[test]
fn a_child_of_a_child_has_timers_too() {
    in_a_process_of_its_own("fork::inherited::child_forks_in_turn");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_forks_in_turn() {
    fn in_grandchild(timers: &[Timer; 2], clock: &VirtualClock, by_clock: &Timer) {
        for timer in timers {
            assert_eq!(timer.stats().pending, 0);
            let start = timer.now();
            pollster::block_on(timer.sleep(ms(1)));
            assert!(timer.now() >= start + ms(1));
        }
        let wall = clock.wall_now();
        clock.block_on(by_clock.sleep(SECOND));
        assert_eq!(clock.wall_now(), wall + SECOND);
    }

    let (by_clock, clock) = virtual_timer();
    let timers = [started(Timer::builder()), Timer::global()];
    eventually("the driver parks", || {
        // On a slow machine one may be over before it is armed, which starts no driver.
        pollster::block_on(tourbillon::sleep(ms(1)));
        is_parked(&timers[1])
    });
    let failed: Vec<_> = (0..100)
        .map(|round: u32| {
            status_of_a_child(|| {
                let (go, over) = (AtomicBool::new(false), AtomicBool::new(false));
                let (running, runs) = channel();
                std::thread::scope(|scope| {
                    let (go, over) = (&go, &over);
                    let (timers, by_clock, clock) = (&timers, &by_clock, &clock);
                    scope.spawn(move || {
                        running.send(()).expect("the child waits");
                        while !go.load(Ordering::Relaxed) {}
                        // Nothing that starts a thread.
                        for timer in timers {
                            drop(timer.sleep(SECOND));
                        }
                        clock.set_wall(clock.wall_now());
                        clock.advance(ms(1));
                        drop((by_clock.stats(), clock.hold()));
                        // A thread that ends holds a lock of `std`'s.
                        while !over.load(Ordering::Relaxed) {
                            std::thread::sleep(ms(1));
                        }
                    });
                    runs.recv().expect("it runs");
                    go.store(true, Ordering::Relaxed);
                    for _ in 0..round * 20 {
                        std::hint::spin_loop();
                    }
                    let status = status_of_a_child(|| in_grandchild(timers, clock, by_clock));
                    over.store(true, Ordering::Relaxed);
                    assert_eq!(status, 0, "of the child's child");
                });
            })
        })
        .filter(|status| *status != 0)
        .collect();
    assert_eq!(failed, [0; 0], "children failed, or hung");
}
