//! Random schedules of scenarios too large to explore: six threads, four shards, hundreds of
//! operations, under shuttle. The oracles are those of the models.
//!
//! `TOURBILLON_SCHEDULES` says how many schedules; shuttle prints the seed of one that fails.

use std::time::Duration;

use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicBool, Ordering};
use shuttle::sync::{Arc, Mutex};
use shuttle::thread;

use crate::clock::VirtualTime;
use crate::handle::EngineRef;
use crate::models::harness::{Harness, Signal, at, block_on, poll};
use crate::sleep::Sleep;
use crate::sync::{StdArc, set_thread_index};

const SHARDS: usize = 4;
const THREADS: usize = 4;
const ROUNDS: usize = 30;
/// The furthest that a deadline lies ahead, in nanoseconds: within three levels of the wheel.
const AHEAD: u64 = 5_000;

fn check(scenario: impl Fn() + Send + Sync + 'static) {
    let schedules = std::env::var("TOURBILLON_SCHEDULES");
    let count = schedules.map_or(300, |count| count.parse().expect("a number of schedules"));
    shuttle::check_random(scenario, count);
}

/// What each worker does its rounds with.
struct Worker {
    engine: EngineRef,
    time: Arc<VirtualTime>,
    /// Armed sleeps on their way to another thread, with what they were last polled with.
    exchange: Arc<Mutex<Vec<(Sleep, Arc<Signal>)>>>,
}

impl Worker {
    fn sleep(&self) -> Sleep {
        let delay = Duration::from_nanos(thread_rng().gen_range(0..AHEAD));
        Sleep::new(self.engine.clone(), self.time.now().saturating_add(delay))
    }

    fn wait(&self, mut sleep: Sleep, signal: &Arc<Signal>) {
        block_on(&mut sleep, signal);
        assert!(self.time.now() >= sleep.deadline_tick(), "early");
    }

    fn round(&self) {
        let signal = Signal::new();
        let mut sleep = self.sleep();
        match thread_rng().gen_range(0..6) {
            0 => self.wait(sleep, &signal),
            1 => {
                let _ = poll(&mut sleep, &signal);
                let deadline = self.sleep().deadline_tick();
                sleep.reset_to(deadline);
                self.wait(sleep, &signal);
            }
            2 => {
                let _ = poll(&mut sleep, &signal);
                let later = sleep.deadline_tick().saturating_add(Duration::from_nanos(500));
                sleep.reset_to(later);
                self.wait(sleep, &Signal::new());
            }
            3 => {
                let _ = poll(&mut sleep, &signal);
            }
            4 => {
                let _ = poll(&mut sleep, &signal);
                self.exchange.lock().unwrap().push((sleep, signal));
            }
            _ => {
                let theirs = self.exchange.lock().unwrap().pop();
                if let Some((sleep, signal)) = theirs {
                    self.wait(sleep, &signal);
                }
            }
        }
    }
}

/// Oracles: deadlock; never early; in the end nothing is pending, and the driver ends.
#[test]
fn everything_armed_fires_or_is_cancelled() {
    check(|| {
        let harness = Harness::new(SHARDS);
        let exchange = Arc::new(Mutex::new(Vec::new()));
        let workers: Vec<_> = (0..THREADS)
            .map(|index| {
                let worker = Worker {
                    engine: harness.timer.engine_ref(),
                    time: Arc::clone(&harness.time),
                    exchange: Arc::clone(&exchange),
                };
                thread::spawn(move || {
                    set_thread_index(index);
                    (0..ROUNDS).for_each(|_| worker.round());
                })
            })
            .collect();
        let done = StdArc::new(AtomicBool::new(false));
        let clock = thread::spawn({
            let (mover, done) = (harness.clock_mover(), StdArc::clone(&done));
            move || {
                let mut now = 0;
                // ORDERING: shuttle treats every ordering as SeqCst.
                while !done.load(Ordering::SeqCst) {
                    now += thread_rng().gen_range(1..AHEAD / 4);
                    mover.advance(now);
                    thread::yield_now();
                }
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::SeqCst); // ORDERING: as above
        clock.join().unwrap();
        exchange.lock().unwrap().clear();
        let stats = harness.timer.stats();
        assert_eq!((stats.pending, stats.armed), (0, stats.fired + stats.cancelled));
    });
}

/// Every handle goes while sleeps are armed here and there; the driver has to end with the last.
#[test]
fn handles_go_while_sleeps_come_and_go() {
    check(|| {
        let harness = Harness::new(SHARDS);
        let mover = harness.clock_mover();
        let workers: Vec<_> = (0..THREADS)
            .map(|index| {
                let engine = harness.timer.engine_ref();
                let time = Arc::clone(&harness.time);
                thread::spawn(move || {
                    set_thread_index(index);
                    for round in 0..ROUNDS as u64 {
                        let deadline = at(thread_rng().gen_range(0..AHEAD));
                        let mut sleep = Sleep::new(engine.clone(), deadline);
                        let signal = Signal::new();
                        if round % 3 == 0 {
                            block_on(&mut sleep, &signal);
                            assert!(time.now() >= deadline, "early");
                        } else {
                            let _ = poll(&mut sleep, &signal);
                        }
                    }
                })
            })
            .collect();
        drop(harness);
        for step in 1..=10 {
            mover.advance(step * AHEAD / 10);
        }
        for worker in workers {
            worker.join().unwrap();
        }
    });
}
