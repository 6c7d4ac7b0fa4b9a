//! A million timers that fire.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::Peer;
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::Random;
use crate::process::processor_time;
use crate::statistics::{micros, percentile};

const TIMERS: u64 = 1_000_000;
/// Time to arm them all before the first is due.
const LEAD: Duration = Duration::from_secs(4);
const SECOND: Duration = Duration::from_secs(1);
/// None should take longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Processor nanoseconds per timer, deadlines random within a second.
pub(crate) fn spread<P: Peer>() -> Vec<f64> {
    cost::<P>(SECOND)
}

/// The same with one deadline for all.
pub(crate) fn at_once<P: Peer>() -> Vec<f64> {
    cost::<P>(Duration::from_nanos(1))
}

fn cost<P: Peer>(span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    let woken = Count::new();
    let waker = woken.waker();
    let mut random = Random::new();
    let start = Instant::now() + LEAD;
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    for _ in 0..TIMERS {
        let deadline = start + random.within(span);
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
    }
    sleep_until(start - Duration::from_millis(100));
    let before = processor_time();
    wait_for(start, || woken.get() == TIMERS);
    vec![(processor_time() - before).as_nanos() as f64 / TIMERS as f64]
}

/// Remembers when it was woken.
struct Stamp {
    deadline: Instant,
    woken: OnceLock<Instant>,
    left: Arc<AtomicU64>,
}

impl Wake for Stamp {
    fn wake(self: Arc<Self>) {
        if self.woken.set(Instant::now()).is_ok() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// With a thread that arms and cancels all the while: microseconds of lateness, p50 and p99; and
/// what an arm and cancel takes that thread, p50, p99.9 and the longest.
pub(crate) fn with_inserter<P: Peer>() -> Vec<f64> {
    let _entered = P::enter();
    let left = Arc::new(AtomicU64::new(TIMERS));
    let mut random = Random::new();
    let start = Instant::now() + LEAD;
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    let mut stamps = Vec::with_capacity(TIMERS as usize);
    for _ in 0..TIMERS {
        let deadline = start + random.within(SECOND);
        let stamp = Stamp { deadline, woken: OnceLock::new(), left: Arc::clone(&left) };
        let stamp = Arc::new(stamp);
        let waker = Waker::from(Arc::clone(&stamp));
        assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
        stamps.push(stamp);
    }
    let over = AtomicBool::new(false);
    let inserts = thread::scope(|scope| {
        let inserter = scope.spawn(|| insert::<P>(start, &over));
        wait_for(start, || left.load(Ordering::Relaxed) == 0);
        over.store(true, Ordering::Relaxed);
        inserter.join().expect("it ends")
    });
    let late = |stamp: &Arc<Stamp>| *stamp.woken.get().expect("all are woken") - stamp.deadline;
    let late: Vec<Duration> = stamps.iter().map(late).collect();
    let mut figures = micros(&late, [0.5, 0.99]).to_vec();
    let insert = |part| percentile(inserts.clone(), part).expect("it inserted") / 1e3;
    figures.extend([insert(0.5), insert(0.999), insert(1.0)]);
    figures
}

/// Arms and cancels from `start` until it is `over`. Returns the nanoseconds each took.
fn insert<P: Peer>(start: Instant, over: &AtomicBool) -> Vec<f64> {
    const FAR: Duration = Duration::from_secs(1_000);
    const PACE: Duration = Duration::from_micros(1);
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut taken = Vec::with_capacity(4_000_000);
    sleep_until(start);
    let mut now = Instant::now();
    while !over.load(Ordering::Relaxed) {
        assert!(poll(pin!(P::sleep_until(now + FAR)), &waker).is_pending());
        taken.push(now.elapsed().as_nanos() as f64);
        let next = now + PACE;
        while now < next {
            now = Instant::now();
        }
    }
    taken
}

pub(crate) fn sleep_until(instant: Instant) {
    let now = Instant::now();
    assert!(now < instant, "it took too long to arm them all");
    thread::sleep(instant - now);
}

pub(crate) fn wait_for(start: Instant, over: impl Fn() -> bool) {
    while !over() {
        assert!(start.elapsed() < LIMIT, "they do not all fire");
        thread::sleep(Duration::from_millis(10));
    }
}
