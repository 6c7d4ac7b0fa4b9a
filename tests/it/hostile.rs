//! Storms of hostile foreign code against every public type, and what must hold all the same:
//! healthy timers beside them fire and are not early, the counters add up, nothing hangs, and
//! nothing that was handed over is leaked or dropped twice.
//!
//! A storm follows from its seed where one thread runs it. `TOURBILLON_STORMS` says how many there
//! are of each kind; `ci/hostile.sh`, in the repository, runs more, and under valgrind.

mod foreign;
mod subjects;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;
use foreign::{Planned, World};

/// Number of steps of each thread in a storm.
const STEPS: usize = 1_000;

/// Longest time for a storm before it counts as hung. Under valgrind they are slow.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Panics that were not planned.
static FAILURES: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn storms_of_hostile_code_harm_no_timer_of_a_virtual_clock() {
    alone!();
    storms(60, |seed| {
        let clock = VirtualClock::new();
        let world = World::new(seed, Some(clock.clone()));
        let builder = Timer::builder().shards(1 + seed as usize % 4);
        world.set_timer(builder.virtual_clock(&clock).build().expect("the options are valid"));
        world
    });
}

#[test]
fn storms_of_hostile_code_harm_no_timer_that_is_turned_by_hand() {
    alone!();
    storms(60, |seed| {
        let clock = VirtualClock::new();
        let world = World::new(seed, Some(clock.clone()));
        let builder = Timer::builder().shards(1 + seed as usize % 4).virtual_clock(&clock);
        let (timer, driver) =
            builder.build_manual(foreign::hook(&world)).expect("the options are valid");
        world.set_timer(timer);
        *world.driver.lock().unwrap() = Some(driver);
        world
    });
}

#[test]
fn storms_of_hostile_code_harm_no_timer_with_a_thread() {
    alone!();
    storms(6, |seed| {
        let world = World::new(seed, None);
        let builder = Timer::builder().shards(1 + seed as usize % 4);
        world.set_timer(builder.build().expect("the options are valid"));
        world
    });
}

/// Runs as many storms as the environment says, or else `count`, in the worlds that `make` makes.
fn storms(count: u64, make: impl Fn(u64) -> Arc<World>) {
    let count = std::env::var("TOURBILLON_STORMS")
        .map_or(count, |count| count.parse().expect("a number of storms"));
    std::panic::set_hook(Box::new(|panic| {
        if !panic.payload().is::<Planned>() {
            eprintln!("{panic}");
            FAILURES.lock().unwrap().push(panic.to_string());
        }
    }));
    let seed = Arc::new(AtomicU64::new(0));
    watch(Arc::clone(&seed));
    let subscribers = subscribe();
    for now in 1..=count {
        seed.store(now, Ordering::Relaxed);
        let world = make(now);
        *subscribers.lock().unwrap() = Arc::downgrade(&world);
        storm(&world);
        let failures = std::mem::take(&mut *FAILURES.lock().unwrap());
        assert!(failures.is_empty(), "storm {now}: {failures:?}");
    }
}

/// Ends the process if the number in `seed` stays the same for too long.
fn watch(seed: Arc<AtomicU64>) {
    thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(SECOND);
            let now = seed.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > HANGS_AFTER {
                eprintln!("storm {now} hangs");
                std::process::abort();
            }
        }
    });
}

/// Installs a hostile subscriber, for the world that is put into what this returns.
fn subscribe() -> Arc<Mutex<Weak<World>>> {
    let world = Arc::new(Mutex::new(Weak::new()));
    #[cfg(feature = "tracing")]
    tracing::subscriber::set_global_default(foreign::Subscriber(Arc::clone(&world)))
        .expect("the process is the test's own");
    world
}

/// One storm, and what must hold during and after it.
fn storm(world: &Arc<World>) {
    let timer = world.timer();
    let mut healthy: Vec<_> = (0..8).map(|_| Healthy::new(world)).collect();
    thread::scope(|scope| {
        // Of a timer by hand all is done by one thread, so that it can be repeated.
        for _ in 0..if world.clock.is_some() { 0 } else { 2 } {
            scope.spawn(|| {
                for _ in 0..STEPS {
                    rough(|| world.step());
                }
            });
        }
        for _ in 0..STEPS {
            rough(|| world.step());
            if world.random(32) == 0 {
                rough(|| world.block_on());
            }
            let len = healthy.len() as u64;
            healthy[world.random(len) as usize].step(world);
        }
    });
    world.calm_down();
    while rough(|| world.drop_another()) != Some(false) || world.is_elsewhere() {
        thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(world.alive(), 0, "wakers and values that are left");

    pass_time(world, SECOND);
    for mut healthy in healthy {
        healthy.end(world);
    }
    let mut last = Healthy::new(world);
    last.arm(world, ms(1));
    pass_time(world, ms(1));
    last.end(world);
    drop(last);
    let stats = timer.stats();
    assert_eq!((stats.armed, stats.pending), (stats.fired + stats.cancelled, 0), "{stats:?}");
}

/// Runs code that may panic as planned; `None` if it did.
fn rough<R>(action: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(action)).ok()
}

/// Lets `span` pass and all fire that is due then, where that is done by hand.
fn pass_time(world: &World, span: Duration) {
    if let Some(clock) = &world.clock {
        clock.advance(span);
        if let Some(driver) = &mut *world.driver.lock().unwrap() {
            driver.turn();
        }
    }
}

/// A sleep whose task does nothing bad.
struct Healthy {
    sleep: Sleep,
    /// Raised by the waker.
    woken: Arc<AtomicBool>,
    waker: Waker,
    armed: bool,
}

impl Healthy {
    fn new(world: &Arc<World>) -> Self {
        let woken = Arc::new(AtomicBool::new(false));
        let raised = Arc::clone(&woken);
        let waker = callback(move || raised.store(true, Ordering::SeqCst));
        Self { sleep: world.timer().sleep(ms(5)), woken, waker, armed: false }
    }

    fn arm(&mut self, world: &World, span: Duration) {
        self.sleep = world.timer().sleep(span);
        self.woken.store(false, Ordering::SeqCst);
        self.armed = false;
        self.poll(world);
    }

    /// Polls; true if it is ready. It must not be early.
    fn poll(&mut self, world: &World) -> bool {
        let ready = poll_with(&mut self.sleep, &self.waker).is_ready();
        assert!(!ready || world.timer().now() >= self.sleep.deadline(), "early");
        self.armed = !ready;
        ready
    }

    fn step(&mut self, world: &World) {
        match world.random(8) {
            0 => self.arm(world, Duration::from_micros(world.random(20_000))),
            1 if self.armed && !self.woken.load(Ordering::SeqCst) => {
                self.sleep.reset_after(Duration::from_micros(world.random(20_000)));
                if world.clock.is_none() {
                    // It may just have fired.
                    self.poll(world);
                }
            }
            2 => drop(self.poll(world)),
            _ => {}
        }
    }

    /// Waits until it is woken and ready: its deadline has come, or comes by itself.
    fn end(&mut self, world: &World) {
        while self.armed {
            if world.clock.is_none() {
                // The thread comes in its own time, and perhaps first for an earlier deadline.
                while !self.woken.swap(false, Ordering::SeqCst) {
                    thread::sleep(Duration::from_micros(100));
                }
                self.poll(world);
            } else {
                assert!(self.woken.load(Ordering::SeqCst), "never woken: {:?}", self.sleep);
                assert!(self.poll(world), "woken, and not ready: {:?}", self.sleep);
            }
        }
    }
}
