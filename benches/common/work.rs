//! The timed work: each function prepares it for one peer, and returns a closure that does it a
//! number of times and returns the time taken.
//!
//! Whatever checks that the work was really done runs outside of the time taken.

use std::future::{Future, poll_fn, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use super::peers::Peer;
use super::slots::Slots;
use super::wakers::{Count, poll};

/// Does the work so many times and returns the time it took.
pub(crate) type Work = Box<dyn FnMut(u64) -> Duration>;

/// Deadlines of the timers that are worked on lie this far off, so that none fires...
pub(crate) const FAR: Duration = Duration::from_secs(1_000);
/// ...and those of the others on both sides of that.
const OTHERS_FROM: Duration = Duration::from_secs(500);
const OTHERS_SPREAD: Duration = Duration::from_secs(1_000);

const NANOSECOND: Duration = Duration::from_nanos(1);
const MICROSECOND: Duration = Duration::from_micros(1);
const MILLISECOND: Duration = Duration::from_millis(1);

/// Random numbers, the same in every run (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new() -> Self {
        Self(0)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    pub(crate) fn within(&mut self, span: Duration) -> Duration {
        Duration::from_nanos(self.below(span.as_nanos() as u64))
    }
}

/// Arms `count` timers that stay pending.
pub(crate) fn others<P: Peer>(count: usize) -> Slots<P::Sleep> {
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut random = Random::new();
    let start = Instant::now() + OTHERS_FROM;
    let mut sleeps = Slots::with_capacity(count);
    checked::<P, ()>(count as u64, || {
        for _ in 0..count {
            let sleep = sleeps.push(P::sleep_until(start + random.within(OTHERS_SPREAD)));
            assert!(poll(sleep, &waker).is_pending());
        }
    });
    sleeps
}

/// Instants in ascending order, made beforehand: to add to one takes as long as some of the work.
struct Deadlines {
    instants: Vec<Instant>,
    next: usize,
}

impl Deadlines {
    const COUNT: usize = 4_096;

    fn new() -> Self {
        Self::stepping(NANOSECOND)
    }

    fn stepping(step: Duration) -> Self {
        let start = Instant::now() + FAR;
        Self { instants: (0..Self::COUNT as u32).map(|n| start + step * n).collect(), next: 0 }
    }

    /// The next one; after the last the first again.
    #[inline]
    fn next(&mut self) -> Instant {
        self.next = (self.next + 1) % Self::COUNT;
        black_box(self.instants[self.next])
    }
}

/// Runs `work`, and checks that it armed so many timers if the peer counts them.
fn checked<P: Peer, R>(armed: u64, work: impl FnOnce() -> R) -> R {
    let before = P::counters();
    let result = work();
    if let (Some(before), Some(after)) = (before, P::counters()) {
        assert_eq!(after.armed - before.armed, armed, "{}: timers armed", P::NAME);
    }
    result
}

/// A call of its own, as `instructions` counts what runs in it.
#[inline(never)]
pub(crate) fn timed(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// `sleep_until`, poll once, drop.
pub(crate) fn arm_cancel<P: Peer>(pending: usize) -> Work {
    let others = others::<P>(pending);
    Box::new(move |times| {
        let _kept = &others;
        let _entered = P::enter();
        let waker = Count::new().waker();
        let mut deadlines = Deadlines::new();
        checked::<P, _>(times, || {
            timed(|| {
                for _ in 0..times {
                    let sleep = pin!(P::sleep_until(deadlines.next()));
                    assert!(poll(sleep, &waker).is_pending());
                }
            })
        })
    })
}

/// `sleep`, poll once, drop: the clock is read for each.
pub(crate) fn arm_cancel_after<P: Peer>(pending: usize) -> Work {
    arm_cancel_within::<P>(pending, FAR)
}

/// Arms and cancels sleeps of `delay`.
pub(crate) fn arm_cancel_within<P: Peer>(pending: usize, delay: Duration) -> Work {
    let others = others::<P>(pending);
    Box::new(move |times| {
        let _kept = &others;
        let _entered = P::enter();
        let waker = Count::new().waker();
        let mut past = 0;
        let taken = timed(|| {
            for _ in 0..times {
                let sleep = pin!(P::sleep(black_box(delay)));
                // Its thread may have waited for a processor for so long.
                past += u64::from(poll(sleep, &waker).is_ready());
            }
        });
        assert!(past * 1_000 <= times, "{}: {past} of {times} are not armed", P::NAME);
        taken
    })
}

/// Make a sleep and drop it unpolled.
pub(crate) fn create_drop<P: Peer>() -> Work {
    Box::new(|times| {
        let _entered = P::enter();
        let mut deadlines = Deadlines::new();
        checked::<P, _>(0, || {
            timed(|| {
                for _ in 0..times {
                    drop(black_box(P::sleep_until(deadlines.next())));
                }
            })
        })
    })
}

/// Poll an armed sleep again with the same waker.
pub(crate) fn poll_again<P: Peer>() -> Work {
    let mut others = others::<P>(10_000);
    Box::new(move |times| {
        let _entered = P::enter();
        let waker = Count::new().waker();
        let mut sleep = others.at(0);
        assert!(poll(sleep.as_mut(), &waker).is_pending());
        checked::<P, _>(0, || {
            timed(|| {
                for _ in 0..times {
                    assert!(poll(black_box(sleep.as_mut()), &waker).is_pending());
                }
            })
        })
    })
}

/// Poll a sleep whose deadline is past until it is ready, which should be at once, and drop it.
pub(crate) fn past_deadline<P: Peer>() -> Work {
    Box::new(|times| {
        let _entered = P::enter();
        let waker = Count::new().waker();
        let deadline = Instant::now();
        // tokio goes by the time its driver last looked, so have it look. The coarse clock, which
        // some go by, is 10 ms behind at most.
        drop(pollster::block_on(P::sleep(Duration::from_millis(20))));
        checked::<P, _>(0, || {
            timed(|| {
                for _ in 0..times {
                    let mut sleep = pin!(P::sleep_until(black_box(deadline)));
                    while poll(sleep.as_mut(), &waker).is_pending() {
                        thread::yield_now();
                    }
                }
            })
        })
    })
}

/// Drop a sleep that has fired and was not polled since.
pub(crate) fn drop_fired<P: Peer>() -> Work {
    const AT_ONCE: u64 = 20_000;
    let mut lead = Duration::from_millis(30);
    Box::new(move |times| {
        let _entered = P::enter();
        let mut sleeps = Slots::with_capacity(AT_ONCE.min(times) as usize);
        let mut sum = Duration::ZERO;
        let mut left = times;
        while left > 0 {
            let count = left.min(AT_ONCE);
            let woken = Count::new();
            let waker = woken.waker();
            let deadline = Instant::now() + lead;
            let mut arm = || poll(sleeps.push(P::sleep_until(deadline)), &waker).is_pending();
            if !(0..count).all(|_| arm()) {
                // A busy machine takes longer to arm them all.
                sleeps.clear();
                lead *= 2;
                continue;
            }
            left -= count;
            // Shows as well that each was armed.
            while woken.get() < count {
                thread::sleep(Duration::from_millis(1));
            }
            sum += timed(|| sleeps.clear());
        }
        sum
    })
}

/// `timeout` around a future that is ready at once.
pub(crate) fn timeout_ready<P: Peer>() -> Work {
    Box::new(|times| {
        let _entered = P::enter();
        let waker = Count::new().waker();
        timed(|| {
            for _ in 0..times {
                let timeout = pin!(P::timeout(black_box(FAR), ready(())));
                assert_eq!(poll(timeout, &waker), Poll::Ready(true));
            }
        })
    })
}

/// A timeout with a deadline that is known, around a future that is ready at once.
pub(crate) fn timeout_at_ready<P: Peer>() -> Work {
    Box::new(|times| {
        let _entered = P::enter();
        let waker = Count::new().waker();
        let deadline = Instant::now() + FAR;
        timed(|| {
            for _ in 0..times {
                let timeout = pin!(P::timeout_at(black_box(deadline), ready(())));
                assert_eq!(poll(timeout, &waker), Poll::Ready(true));
            }
        })
    })
}

/// `timeout` around a future that is pending once.
pub(crate) fn timeout_pending_once<P: Peer>() -> Work {
    Box::new(|times| {
        let _entered = P::enter();
        let waker = Count::new().waker();
        checked::<P, _>(times, || {
            timed(|| {
                for _ in 0..times {
                    let mut timeout = pin!(P::timeout(black_box(FAR), pending_once()));
                    assert_eq!(poll(timeout.as_mut(), &waker), Poll::Pending);
                    assert_eq!(poll(timeout, &waker), Poll::Ready(true));
                }
            })
        })
    })
}

fn pending_once() -> impl Future<Output = ()> + Send {
    let mut polled = false;
    poll_fn(
        move |_| {
            if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
        },
    )
}

/// Direction to move a deadline.
#[derive(Clone, Copy)]
pub(crate) enum Towards {
    Later,
    Earlier,
}

/// Reset one armed sleep, each time by a millisecond.
pub(crate) fn reset<P: Peer>(towards: Towards, pending: usize) -> Work {
    let others = others::<P>(pending);
    Box::new(move |times| {
        let _kept = &others;
        let _entered = P::enter();
        let waker = Count::new().waker();
        let mut deadlines = Deadlines::stepping(MILLISECOND).instants;
        if let Towards::Earlier = towards {
            deadlines.reverse();
        }
        let mut sum = Duration::ZERO;
        let mut left = times as usize;
        while left > 0 {
            let ahead = &deadlines[..left.min(Deadlines::COUNT - 1) + 1];
            let (first, ahead) = ahead.split_first().expect("there is one more than are left");
            left -= ahead.len();
            let mut sleep = pin!(P::sleep_until(*first));
            assert!(poll(sleep.as_mut(), &waker).is_pending());
            sum += checked::<P, _>(0, || {
                timed(|| ahead.iter().for_each(|next| P::reset(sleep.as_mut(), black_box(*next))))
            });
        }
        sum
    })
}

/// Reset a random sleep of many armed to later than ever before.
pub(crate) fn reset_random<P: Peer>(pending: usize) -> Work {
    let mut others = others::<P>(pending);
    let mut random = Random::new();
    let mut deadline = Instant::now() + OTHERS_FROM + OTHERS_SPREAD;
    Box::new(move |times| {
        let _entered = P::enter();
        checked::<P, _>(0, || {
            timed(|| {
                for _ in 0..times {
                    deadline += MICROSECOND;
                    P::reset(others.at(random.below(pending as u64) as usize), deadline);
                }
            })
        })
    })
}

/// `sleep_until`, poll once and drop on several threads at a time; the time that passes, over all
/// timers together.
pub(crate) fn contended<P: Peer>(threads: u64) -> Work {
    let others = others::<P>(10_000);
    Box::new(move |times| {
        let _kept = &others;
        let each = times.div_ceil(threads);
        let absent = AtomicU64::new(threads);
        let spans = checked::<P, Vec<_>>(each * threads, || {
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads)
                    .map(|_| scope.spawn(|| arm_cancel_from::<P>(&absent, each)))
                    .collect();
                workers.into_iter().map(|worker| worker.join().expect("it ends")).collect()
            })
        });
        let start = spans.iter().map(|(start, _)| *start).min().expect("there are threads");
        let end = spans.iter().map(|(_, end)| *end).max().expect("there are threads");
        (end - start).mul_f64(times as f64 / (each * threads) as f64)
    })
}

fn arm_cancel_from<P: Peer>(absent: &AtomicU64, times: u64) -> (Instant, Instant) {
    let _entered = P::enter();
    let waker = Count::new().waker();
    let mut deadlines = Deadlines::new();
    meet(absent);
    let start = Instant::now();
    for _ in 0..times {
        let sleep = pin!(P::sleep_until(deadlines.next()));
        assert!(poll(sleep, &waker).is_pending());
    }
    (start, Instant::now())
}

/// Lets threads begin together, each on a processor of its own if there are enough.
///
/// Spins: a thread parked at a barrier would be woken beside another, and begin after that one.
fn meet(absent: &AtomicU64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(30) {
        thread::yield_now();
    }
    absent.fetch_sub(1, Ordering::Relaxed);
    while absent.load(Ordering::Relaxed) > 0 {
        thread::yield_now();
    }
}

/// Arm on this thread, drop on another, both at the same time.
pub(crate) fn handed_over<P: Peer>() -> Work {
    const BATCH: u64 = 256;
    const BATCHES: usize = 8;
    let others = others::<P>(10_000);
    Box::new(move |times| {
        let _kept = &others;
        let _entered = P::enter();
        let waker = Count::new().waker();
        let absent = &AtomicU64::new(2);
        checked::<P, _>(times, || {
            thread::scope(|scope| {
                let (hand_over, taken) = mpsc::channel::<Slots<P::Sleep>>();
                let (give_back, empty) = mpsc::channel();
                for _ in 0..BATCHES {
                    give_back.send(Slots::with_capacity(BATCH as usize)).expect("it is open");
                }
                let dropper = scope.spawn(move || {
                    let _entered = P::enter();
                    meet(absent);
                    for mut sleeps in taken {
                        sleeps.clear();
                        // Nobody waits for the last ones.
                        drop(give_back.send(sleeps));
                    }
                    Instant::now()
                });
                let mut deadlines = Deadlines::new();
                meet(absent);
                let start = Instant::now();
                let mut left = times;
                while left > 0 {
                    let mut sleeps: Slots<P::Sleep> = empty.recv().expect("the dropper runs");
                    for _ in 0..left.min(BATCH) {
                        let sleep = sleeps.push(P::sleep_until(deadlines.next()));
                        assert!(poll(sleep, &waker).is_pending());
                    }
                    left -= sleeps.len() as u64;
                    hand_over.send(sleeps).expect("the dropper runs");
                }
                drop(hand_over);
                dropper.join().expect("it ends") - start
            })
        })
    })
}
