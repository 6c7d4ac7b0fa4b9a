//! Each thing that a child may have inherited, with its use there.

use std::sync::atomic::AtomicUsize;
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
    alone!();
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
    alone!();
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
    alone!();
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

/// The driver of a timer: a thread, a loop or a clock.
enum Drive {
    Thread,
    Loop(tourbillon::driver::Driver),
    Clock(VirtualClock),
}

/// A timer with each option that a timer has, and what its hook was called for.
struct WithOptions {
    timer: Timer,
    drive: Drive,
    panics: Arc<AtomicUsize>,
}

/// Name of the thread of a timer with options.
const NAME: &str = "options";

/// Limit of a slow call. A slow call takes longer here, and less than the default.
const SLOW: Duration = ms(20);

impl WithOptions {
    fn all() -> [Self; 3] {
        let with = |build: &dyn Fn(tourbillon::timer::Builder) -> (Timer, Drive)| {
            let panics = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&panics);
            let builder = Timer::builder().shards(4).thread_name(NAME).lateness_histogram(true);
            let builder = builder.tolerance(SECOND).slow_call_limit(SLOW);
            let hook = move || _ = counted.fetch_add(1, Ordering::Relaxed);
            let (timer, drive) = build(builder.on_waker_panic(hook));
            Self { timer, drive, panics }
        };
        [
            with(&|builder| (started(builder), Drive::Thread)),
            with(&|builder| {
                let (timer, driver) = builder.build_manual(|| {}).expect("the options are valid");
                (timer, Drive::Loop(driver))
            }),
            with(&|builder| {
                let clock = VirtualClock::new();
                let builder = builder.virtual_clock(&clock);
                (builder.build().expect("the options are valid"), Drive::Clock(clock))
            }),
        ]
    }

    /// Calls a waker that is slow, and panics.
    fn call(&mut self) {
        let slow = match &self.drive {
            Drive::Clock(clock) => Some(clock.clone()),
            _ => None,
        };
        let (tell, told) = channel();
        let waker = self::callback(move || {
            match &slow {
                Some(clock) => clock.jump(2 * SLOW),
                None => std::thread::sleep(2 * SLOW),
            }
            tell.send(()).expect("the process waits");
            panic!("a waker that panics");
        });
        // On a slow machine it may be over before it is armed.
        let mut sleep = loop {
            let mut sleep = self.timer.sleep(ms(5)).with_tolerance(ms(0));
            if poll_with(&mut sleep, &waker).is_pending() {
                break sleep;
            }
        };
        match &mut self.drive {
            Drive::Thread => {}
            Drive::Loop(driver) => {
                while driver.turn().fired == 0 {
                    std::thread::sleep(ms(1));
                }
            }
            Drive::Clock(clock) => _ = clock.advance(ms(5)),
        }
        told.recv().expect("it is woken");
        eventually("the panic is counted", || self.timer.stats().waker_panics == 1);
        assert!(poll(&mut sleep).is_ready());
    }

    /// In a process that has not used the timer: it has all options, and nothing of the past.
    fn is_new_with_all_options(&mut self) {
        let timer = self.timer.clone();
        let before = self.panics.load(Ordering::Relaxed);
        let stats = timer.stats();
        let counts = [stats.armed, stats.fired, stats.cancelled, stats.waker_panics];
        assert_eq!((counts, stats.slow_calls, stats.pending, stats.shards), ([0; 4], 0, 0, 4));
        assert_eq!((stats.longest_call, stats.lateness_max), (ms(0), ms(0)));
        assert_eq!(timer.lateness().map(|lateness| lateness.count()), Some(0));
        #[cfg(feature = "pending")]
        assert!(timer.pending().is_empty());
        assert_eq!(timer.sleep(ms(10)).tolerance(), SECOND);
        self.call();
        // It follows the count, on the driver's thread.
        eventually("the hook is called", || self.panics.load(Ordering::Relaxed) == before + 1);
        let stats = timer.stats();
        assert!(stats.slow_calls == 1 && stats.longest_call >= 2 * SLOW, "{stats:?}");
        assert_eq!((stats.armed, stats.fired), (1, 1));
        assert_eq!(timer.lateness().map(|lateness| lateness.count()), Some(1));
        #[cfg(target_os = "linux")]
        assert_eq!(has_thread(NAME), matches!(self.drive, Drive::Thread));
        // Something of this process, for its child to leave alone.
        let armed = polled(timer.sleep(3600 * SECOND));
        std::mem::forget(armed);
    }
}

#[test]
fn a_child_and_its_child_have_each_option_of_a_timer_and_nothing_of_its_past() {
    alone!();
    for mut parents in WithOptions::all() {
        parents.call();
        let status = status_of_a_child(move || {
            parents.is_new_with_all_options();
            let status = status_of_a_child(move || {
                parents.is_new_with_all_options();
                let status = status_of_a_child(|| parents.is_new_with_all_options());
                assert_eq!(status, 0, "of the third in the line");
            });
            assert_eq!(status, 0, "of the child's child");
        });
        assert_eq!(status, 0, "of the child");
    }
}

/// The last handle goes there, beside a sleep that is armed there.
#[cfg(target_os = "linux")]
#[test]
fn the_last_handle_of_a_child_of_a_child_ends_its_thread() {
    alone!();

    fn armed(timer: &Timer) -> tourbillon::Sleep {
        let sleep = polled(timer.sleep(3600 * SECOND));
        eventually("the thread has its name", || has_thread(NAME));
        eventually("the driver parks", || is_parked(timer));
        sleep
    }

    let timer = started(Timer::builder().thread_name(NAME));
    let status = status_of_a_child(move || {
        let _of_child = armed(&timer);
        let status = status_of_a_child(move || {
            let sleep = armed(&timer);
            drop(timer);
            assert!(has_thread(NAME), "it waits for the sleep");
            drop(sleep);
            eventually("the thread ends", || !has_thread(NAME));
        });
        assert_eq!(status, 0, "of the child's child");
    });
    assert_eq!(status, 0);
}

#[test]
fn a_child_has_no_hold_of_its_parents_and_ends_none() {
    alone!();
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
    alone!();
    let (timer, clock) = virtual_timer();
    let (kept, done) = (Arc::default(), Arc::default());
    let mut tracked = polled(clock.track(waiting(&kept, &done)));
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

/// A thread of the child forks while another makes the first use of an inherited thing.
#[test]
fn a_child_of_a_child_has_timers_too() {
    alone!();

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
