//! Masses of timers that fire.

use std::hint::spin_loop;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::peers::{Peer, Tourbillon};
use crate::common::slots::Slots;
use crate::common::wakers::{Count, poll};
use crate::common::work::{FAR, Random, timed};
use crate::process::processor_time;
use crate::statistics::{micros, percentile};

const SECOND: Duration = Duration::from_secs(1);
/// Between when all are armed and when the first is due, at least.
const MARGIN: Duration = Duration::from_millis(150);
/// None should take longer than this.
const LIMIT: Duration = Duration::from_secs(60);

/// Processor nanoseconds per timer, deadlines random within a second.
pub(crate) fn spread<P: Peer>(count: usize) -> Vec<f64> {
    cost::<P>(count, SECOND)
}

/// Processor nanoseconds per timer, one deadline for all.
pub(crate) fn at_once<P: Peer>(count: usize) -> Vec<f64> {
    cost::<P>(count, Duration::from_nanos(1))
}

fn cost<P: Peer>(count: usize, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    let (start, woken, _sleeps) = in_time(count, |start| {
        let woken = Count::new();
        let waker = woken.waker();
        let sleeps = armed::<P>(count, start, span, |_| waker.clone())?;
        Some((start, woken, sleeps))
    });
    sleep_until(start - MARGIN / 2);
    let before = processor_time();
    wait_for(start, || woken.get() == count as u64);
    vec![(processor_time() - before).as_nanos() as f64 / count as f64]
}

/// Arms so many timers, the first due at the instant given, with a lead that is enough for the
/// peer and on this machine.
fn in_time<R>(count: usize, mut arm: impl FnMut(Instant) -> Option<R>) -> R {
    let mut lead = 2 * MARGIN + Duration::from_nanos(500) * count as u32;
    loop {
        let start = Instant::now() + lead;
        match arm(start) {
            Some(armed) if Instant::now() + MARGIN < start => return armed,
            _ => lead *= 2,
        }
    }
}

/// Timers at random instants within `span`. None if any of them is due already.
fn armed<P: Peer>(
    count: usize,
    start: Instant,
    span: Duration,
    mut waker: impl FnMut(Instant) -> Waker,
) -> Option<Slots<P::Sleep>> {
    let mut random = Random::new();
    let mut sleeps = Slots::with_capacity(count);
    let mut arm =
        |deadline| poll(sleeps.push(P::sleep_until(deadline)), &waker(deadline)).is_pending();
    (0..count).all(|_| arm(start + random.within(span))).then_some(sleeps)
}

/// Remembers when it was woken.
struct Stamp {
    deadline: Instant,
    woken: OnceLock<Instant>,
    left: Arc<AtomicU64>,
}

impl Stamp {
    /// Once it was woken.
    fn lateness(&self) -> Duration {
        *self.woken.get().expect("it was woken") - self.deadline
    }
}

impl Wake for Stamp {
    fn wake(self: Arc<Self>) {
        if self.woken.set(Instant::now()).is_ok() {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// With a thread that arms and cancels all the while: microseconds of lateness, p50 and p99; and
/// the time of that thread's arm and cancel, p50, p99.9 and the longest.
pub(crate) fn with_inserter<P: Peer>(count: usize) -> Vec<f64> {
    let _entered = P::enter();
    let armed = Stamped::<P>::arm(count, SECOND, Duration::ZERO);
    let start = armed.start;
    let over = AtomicBool::new(false);
    let inserts = thread::scope(|scope| {
        let inserter = scope.spawn(|| {
            sleep_until(start);
            insert::<P>(Duration::from_micros(1), &over)
        });
        armed.wait();
        over.store(true, Ordering::Relaxed);
        inserter.join().expect("it ends")
    });
    let mut figures = micros(&armed.lateness(), [0.5, 0.99]).to_vec();
    let insert = |part| percentile(inserts.clone(), part).expect("it inserted") / 1e3;
    figures.extend([insert(0.5), insert(0.999), insert(1.0)]);
    figures
}

/// So many timers a second, at random instants: microseconds of lateness, p50, p99 and p99.9.
pub(crate) fn at_a_rate<P: Peer>(per_second: usize, span: Duration) -> Vec<f64> {
    let _entered = P::enter();
    let count = (per_second as f64 * span.as_secs_f64()) as usize;
    let armed = Stamped::<P>::arm(count, span, Duration::ZERO);
    armed.wait();
    micros(&armed.lateness(), [0.5, 0.99, 0.999]).to_vec()
}

/// Timers that are due within 10 ms of each other, and so long ahead that they share a slot of a
/// wheel: microseconds of the first one's lateness; and, until then, the longest time to cancel a
/// timer of the same shard.
pub(crate) fn one_slot<P: Peer>(count: usize) -> Vec<f64> {
    const SPAN: Duration = Duration::from_millis(10);
    /// A wheel may move them that much earlier.
    const BEFORE: Duration = Duration::from_millis(100);
    const CANCELS: usize = 200_000;
    const PACE: Duration = Duration::from_micros(1);
    let _entered = P::enter();
    let mut cancelled = Slots::with_capacity(CANCELS);
    let waker = Count::new().waker();
    let far = Instant::now() + 2 * FAR;
    for _ in 0..CANCELS {
        let sleep = cancelled.push(Some(P::sleep_until(far))).as_pin_mut();
        assert!(poll(sleep.expect("it was just made"), &waker).is_pending());
    }
    let armed = Stamped::<P>::arm(count, SPAN, Duration::from_secs(1));
    sleep_until(armed.start - BEFORE);
    let mut longest = Duration::ZERO;
    let mut next = Instant::now();
    for index in 0..CANCELS {
        longest = longest.max(timed(|| cancelled.at(index).set(None)));
        if armed.left() < count as u64 {
            break;
        }
        next += PACE;
        while Instant::now() < next {
            spin_loop();
        }
    }
    armed.wait();
    let first = armed.stamps.iter().min_by_key(|stamp| stamp.deadline).expect("there are some");
    [first.lateness(), longest].map(|time| time.as_secs_f64() * 1e6).to_vec()
}

/// How late another thread's sleeps of a millisecond are at worst, one after the other, while
/// timers become due: microseconds. That thread has its own shard. All of them are so long ahead
/// when they are armed that a wheel has them in a few slots, or one, and files them again later.
pub(crate) fn bystander<P: Peer>(count: usize, span: Duration) -> Vec<f64> {
    const BEFORE: Duration = Duration::from_millis(300);
    let _entered = P::enter();
    let armed = Stamped::<P>::arm(count, span, SECOND);
    let (start, left) = (armed.start - BEFORE, &armed.left);
    let worst = thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let _entered = P::enter();
            worst::<P>(start, || left.load(Ordering::Relaxed) == 0)
        });
        bystander.join().expect("it ends")
    });
    vec![worst.as_secs_f64() * 1e6]
}

/// The same of the thread that armed the others, so that a wheel has its sleeps in the same slots:
/// until the first of the others is due, and from then on.
pub(crate) fn among_them<P: Peer>(count: usize, span: Duration) -> Vec<f64> {
    /// A wheel may file them again that much earlier.
    const BEFORE: Duration = Duration::from_millis(1_200);
    let _entered = P::enter();
    let armed = Stamped::<P>::arm(count, span, 2 * SECOND);
    let until_due = worst::<P>(armed.start - BEFORE, || Instant::now() >= armed.start);
    let from_then = worst::<P>(Instant::now(), || armed.left() == 0);
    [until_due, from_then].map(|worst| worst.as_secs_f64() * 1e6).to_vec()
}

/// The worst lateness of sleeps, one after the other, from an instant on until it is `over`.
fn worst<P: Peer>(start: Instant, over: impl Fn() -> bool) -> Duration {
    const DELAY: Duration = Duration::from_millis(1);
    thread::sleep(start.saturating_duration_since(Instant::now()));
    let mut worst = Duration::ZERO;
    while !over() {
        let deadline = Instant::now() + DELAY;
        pollster::block_on(P::sleep_until(deadline));
        worst = worst.max(deadline.elapsed());
    }
    worst
}

/// Hold times of a shard's lock, seen from outside: a thread arms and cancels without a
/// pause in the very shard that a mass of timers fires from. Microseconds each took, p99.9 and the
/// longest, and the same while none of the mass fires. It is a bound, and not a
/// tight one: the lock is not fair, so a thread may wait for many holds in a row, and the time that
/// it, or the driver with the lock, waits for a processor is in it.
///
/// To be called first in a process, since it sets the number of shards.
pub(crate) fn one_shard(count: usize) -> Vec<f64> {
    let timer = tourbillon::Timer::builder().shards(1).build().expect("the options are valid");
    tourbillon::Timer::set_global(timer).expect("nothing has used it");
    one_lock::<Tourbillon>(count)
}

/// Measures that for a timer that has one lock anyway.
pub(crate) fn one_lock<P: Peer>(count: usize) -> Vec<f64> {
    let _entered = P::enter();
    let armed = Stamped::<P>::arm(count, SECOND, SECOND);
    let start = armed.start;
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
    let taken = insert_until(&|| armed.left() == 0);
    let of = |taken: Vec<f64>| {
        [0.999, 1.0].map(|part| percentile(taken.clone(), part).expect("it inserted") / 1e3)
    };
    [of(taken), of(control)].concat()
}

/// Timers that remember when they were woken.
struct Stamped<P: Peer> {
    /// The first are due then.
    start: Instant,
    stamps: Vec<Arc<Stamp>>,
    left: Arc<AtomicU64>,
    _sleeps: Slots<P::Sleep>,
}

impl<P: Peer> Stamped<P> {
    /// At random instants within `span`, which begins `ahead` after they are armed, or later.
    fn arm(count: usize, span: Duration, ahead: Duration) -> Self {
        in_time(count, |start| {
            let start = start + ahead;
            let mut stamps = Vec::with_capacity(count);
            let left = Arc::new(AtomicU64::new(count as u64));
            let sleeps = armed::<P>(count, start, span, |deadline| {
                let stamp = Stamp { deadline, woken: OnceLock::new(), left: Arc::clone(&left) };
                let stamp = Arc::new(stamp);
                stamps.push(Arc::clone(&stamp));
                Waker::from(stamp)
            })?;
            Some(Self { start, stamps, left, _sleeps: sleeps })
        })
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    fn wait(&self) {
        wait_for(self.start, || self.left() == 0);
    }

    /// Returns the lateness of each, once all are woken.
    fn lateness(&self) -> Vec<Duration> {
        self.stamps.iter().map(|stamp| stamp.lateness()).collect()
    }
}

/// Arms and cancels until it is `over`, every `pace` at most. Returns the nanoseconds each took.
fn insert<P: Peer>(pace: Duration, over: &AtomicBool) -> Vec<f64> {
    /// Most inserts, with room made before the first.
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
