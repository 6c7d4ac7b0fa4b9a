//! A million timers that fire.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{Peer, Tourbillon};
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
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    let Stamped { start, left, stamps } = Stamped::arm::<P>(LEAD, &mut sleeps);
    let over = AtomicBool::new(false);
    let inserts = thread::scope(|scope| {
        let inserter = scope.spawn(|| {
            sleep_until(start);
            insert::<P>(Duration::from_micros(1), &over)
        });
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

/// How long a shard's lock may be held, seen from outside: a thread arms and cancels without a
/// pause in the very shard that a million timers fire from. Microseconds each took, p99.9 and the
/// longest, and the same while none of the million fires. It is a bound, and not a
/// tight one: the lock is not fair, so a thread may wait for many holds in a row, and the time that
/// it, or the driver with the lock, waits for a processor is in it.
///
/// To be called first in a process, since it sets the number of shards.
pub(crate) fn one_shard() -> Vec<f64> {
    let timer = tourbillon::Timer::builder().shards(1).build().expect("the options are valid");
    tourbillon::Timer::set_global(timer).expect("nothing has used it");
    one_lock::<Tourbillon>()
}

/// The same for a timer that has one lock anyway.
pub(crate) fn one_lock<P: Peer>() -> Vec<f64> {
    let _entered = P::enter();
    let mut sleeps = Slots::with_capacity(TIMERS as usize);
    let Stamped { start, left, .. } = Stamped::arm::<P>(LEAD + SECOND, &mut sleeps);
    let insert_until = |over: &dyn Fn() -> bool| {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let inserter = scope.spawn(|| insert::<P>(Duration::ZERO, &ended));
            wait_for(start, over);
            ended.store(true, Ordering::Relaxed);
            inserter.join().expect("it ends")
        })
    };
    let control_start = Instant::now();
    let control = insert_until(&|| control_start.elapsed() >= SECOND);
    sleep_until(start);
    let taken = insert_until(&|| left.load(Ordering::Relaxed) == 0);
    let of = |taken: Vec<f64>| {
        [0.999, 1.0].map(|part| percentile(taken.clone(), part).expect("it inserted") / 1e3)
    };
    [of(taken), of(control)].concat()
}

/// Timers that remember when they were woken.
struct Stamped {
    /// The first are due then.
    start: Instant,
    left: Arc<AtomicU64>,
    stamps: Vec<Arc<Stamp>>,
}

impl Stamped {
    /// Arms a million, at random within a second.
    fn arm<P: Peer>(lead: Duration, sleeps: &mut Slots<P::Sleep>) -> Self {
        let left = Arc::new(AtomicU64::new(TIMERS));
        let mut random = Random::new();
        let start = Instant::now() + lead;
        let mut stamps = Vec::with_capacity(TIMERS as usize);
        for _ in 0..TIMERS {
            let deadline = start + random.within(SECOND);
            let stamp = Stamp { deadline, woken: OnceLock::new(), left: Arc::clone(&left) };
            let stamp = Arc::new(stamp);
            let waker = Waker::from(Arc::clone(&stamp));
            assert!(poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending());
            stamps.push(stamp);
        }
        Self { start, left, stamps }
    }
}

/// Arms and cancels until it is `over`, every `pace` at most. Returns the nanoseconds each took.
fn insert<P: Peer>(pace: Duration, over: &AtomicBool) -> Vec<f64> {
    const FAR: Duration = Duration::from_secs(1_000);
    /// Of which there is room without a pause for more.
    const INSERTS: usize = 40_000_000;
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut taken = Vec::with_capacity(INSERTS);
    let mut now = Instant::now();
    while !over.load(Ordering::Relaxed) && taken.len() < INSERTS {
        assert!(poll(pin!(P::sleep_until(now + FAR)), &waker).is_pending());
        taken.push(now.elapsed().as_nanos() as f64);
        let next = now + pace;
        while {
            now = Instant::now();
            now < next
        } {}
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
