//! Long runs with many threads. Ignored by default: `ci/stress.sh` and `ci/sanitize.sh`,
//! in the repository, run them.
//!
//! Progress of a run depends on the machine, its assertions do not: none bounds real time. A
//! wake-up that is lost shows itself as a test that does not end.
//!
//! - `TOURBILLON_STRESS_SECONDS`: how long each churn lasts; 3 unless set.
//! - `TOURBILLON_STRESS_TIMERS`: timers armed where memory is counted; ten million unless set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tourbillon::{Sleep, Timer};

const HOUR: Duration = Duration::from_secs(3600);

/// Passes everything on to the system, and counts the bytes that are allocated.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: each method calls the system's own, with the same contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the same contract.
        let new = unsafe { System.alloc(layout) };
        if !new.is_null() {
            LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        }
        new
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `old` is the system's, as `alloc` passes on nothing else.
        unsafe { System.dealloc(old, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn live_bytes() -> usize {
    LIVE_BYTES.load(Ordering::Relaxed)
}

/// Held by each test, because they share the counts of bytes and of wakers.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |value| value.parse().expect("a number"))
}

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// xorshift64: the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    /// Mostly so short that timers fire while others are worked on; sometimes past at once, beyond
    /// the driver's coarse step, or not to be seen at all.
    fn delay(&mut self) -> Duration {
        match self.below(8) {
            0 => Duration::from_nanos(self.below(1_000)),
            1 => Duration::from_millis(self.below(600)),
            2 => HOUR + Duration::from_nanos(self.below(1_000_000_000_000)),
            _ => Duration::from_nanos(self.below(2_000_000)),
        }
    }
}

/// A waker that does nothing but be counted while it lives. Relaxed, so that the counting orders
/// nothing between threads that the timer has to order itself.
struct Tracked;

static WAKERS: AtomicUsize = AtomicUsize::new(0);

impl Tracked {
    fn waker() -> Waker {
        WAKERS.fetch_add(1, Ordering::Relaxed);
        Waker::from(Arc::new(Self))
    }
}

impl Wake for Tracked {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Tracked {
    fn drop(&mut self) {
        WAKERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A sleep, and the waker that it was last polled with.
struct Kept {
    sleep: Sleep,
    waker: Waker,
}

impl Kept {
    /// Polls; whether the sleep is over. It must not be over too soon.
    fn look(&mut self) -> bool {
        let ready = poll(&mut self.sleep, &self.waker).is_ready();
        assert!(!ready || Instant::now() >= self.sleep.deadline(), "early: {:?}", self.sleep);
        ready
    }
}

fn await_it(mut sleep: Sleep) {
    let deadline = sleep.deadline();
    pollster::block_on(&mut sleep);
    assert!(Instant::now() >= deadline, "early: {sleep:?}");
}

/// One thread of a churn: does this and that with sleeps of its own and of its neighbours.
struct Churner<'a> {
    timer: &'a Timer,
    random: Random,
    kept: Vec<Kept>,
    neighbour: Sender<Kept>,
    inbox: Receiver<Kept>,
    awaited: usize,
}

impl Churner<'_> {
    const MOST_KEPT: usize = 400;

    fn run(&mut self, end: Instant) {
        while Instant::now() < end {
            (0..100).for_each(|_| self.step());
        }
        // Half of the sleeps left are dropped as they are, the rest have to complete.
        self.kept.truncate(self.kept.len() / 2);
        for mut kept in self.kept.drain(..) {
            kept.sleep.reset_after(Duration::from_micros(self.random.below(1_000)));
            await_it(kept.sleep);
            self.awaited += 1;
        }
    }

    fn step(&mut self) {
        if self.kept.len() >= Self::MOST_KEPT {
            self.kept.truncate(Self::MOST_KEPT / 2);
        }
        match self.random.below(256) {
            0..80 => {
                let sleep = self.timer.sleep(self.random.delay());
                self.keep_unless_over(Kept { sleep, waker: Tracked::waker() });
            }
            80..120 => {
                let Some(mut kept) = self.pick() else { return };
                kept.waker = Tracked::waker();
                self.keep_unless_over(kept);
            }
            120..140 => {
                // Enough of them to be trusting at first and then to look at the clock.
                let Some(mut kept) = self.pick() else { return };
                let over = (0..20).any(|_| kept.look());
                if !over {
                    self.kept.push(kept);
                }
            }
            140..185 => {
                let Some(mut kept) = self.pick() else { return };
                kept.sleep.reset_after(self.random.delay());
                self.kept.push(kept);
            }
            185..205 => {
                let Some(kept) = self.pick() else { return };
                // A neighbour that is through already has dropped its inbox: then this is a drop.
                drop(self.neighbour.send(kept));
            }
            205..230 => {
                let Ok(kept) = self.inbox.try_recv() else { return };
                self.keep_unless_over(kept);
            }
            230..250 => drop(self.pick()),
            250..253 => {
                let Some(mut kept) = self.pick() else { return };
                kept.sleep.reset_after(Duration::MAX);
                assert!(!kept.look(), "this one never ends");
                self.kept.push(kept);
            }
            _ => {
                let soon = Duration::from_micros(self.random.below(200));
                let sleep = match self.pick() {
                    Some(mut kept) => {
                        kept.sleep.reset_after(soon);
                        kept.sleep
                    }
                    None => self.timer.sleep(soon),
                };
                await_it(sleep);
                self.awaited += 1;
            }
        }
    }

    fn pick(&mut self) -> Option<Kept> {
        let count = self.kept.len() as u64;
        (count > 0).then(|| self.kept.swap_remove(self.random.below(count) as usize))
    }

    /// Polls. A sleep that is over is dropped, or begins again.
    fn keep_unless_over(&mut self, mut kept: Kept) {
        if kept.look() {
            assert!(kept.look(), "ready once, ready again");
            if self.random.below(2) == 0 {
                return;
            }
            kept.sleep.reset_after(self.random.delay());
        }
        self.kept.push(kept);
    }
}

/// Waits until the driver is through with the wakers of all sleeps that were dropped before.
fn flush(timer: &Timer) {
    struct Tell(Sender<()>);

    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.send(()).expect("somebody waits");
        }
    }

    let (tell, told) = mpsc::channel();
    let mut sleep = timer.sleep(HOUR);
    assert!(poll(&mut sleep, &Waker::from(Arc::new(Tell(tell)))).is_pending());
    sleep.reset_after(Duration::ZERO);
    told.recv().expect("the driver wakes it");
}

/// Makes threads churn on `timer`; then all that they armed has to be accounted for.
fn churn(timer: &Timer) {
    let threads = (2 * thread::available_parallelism().map_or(1, usize::from)).clamp(4, 16);
    let seconds = setting("TOURBILLON_STRESS_SECONDS", 3) as u64;
    let end = Instant::now() + Duration::from_secs(seconds);
    let (senders, inboxes): (Vec<_>, Vec<_>) = (0..threads).map(|_| mpsc::channel()).unzip();
    let awaited: usize = thread::scope(|scope| {
        let churners: Vec<_> = inboxes
            .into_iter()
            .enumerate()
            .map(|(index, inbox)| {
                let mut churner = Churner {
                    timer,
                    random: Random(0x9E37_79B9_7F4A_7C15 + index as u64),
                    kept: Vec::new(),
                    neighbour: senders[(index + 1) % threads].clone(),
                    inbox,
                    awaited: 0,
                };
                scope.spawn(move || {
                    churner.run(end);
                    churner.awaited
                })
            })
            .collect();
        churners.into_iter().map(|churner| churner.join().expect("no claim fails")).sum()
    });
    // The last inboxes went with their threads and their contents.
    let stats = timer.stats();
    println!("{threads} threads, {awaited} awaited: {stats:?}");
    assert!(awaited > 0 && stats.fired > 0 && stats.cancelled > 0, "it is a churn");
    assert_eq!((stats.pending, stats.waker_panics), (0, 0));
    assert_eq!(stats.armed, stats.fired + stats.cancelled);
    flush(timer);
    assert_eq!(WAKERS.load(Ordering::Relaxed), 0, "a waker was kept or lost");
}

#[test]
#[ignore = "long"]
fn churn_on_the_global_timer_loses_nothing_and_is_never_early() {
    let _alone = alone();
    churn(&Timer::global());
}

#[test]
#[ignore = "long"]
fn churn_on_two_shards_loses_nothing_and_is_never_early() {
    let _alone = alone();
    churn(&Timer::builder().shards(2).build().expect("the options are valid"));
}

#[test]
#[ignore = "long"]
fn churn_on_a_timer_driven_by_hand_loses_nothing_and_is_never_early() {
    /// Ends the loop, also if the churn fails.
    struct Stop<'a>(&'a AtomicBool, Sender<()>);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            _ = self.1.send(());
        }
    }

    let _alone = alone();
    let (unpark, unparked) = mpsc::channel();
    let call = unpark.clone();
    let (timer, mut driver) =
        Timer::builder().build_manual(move || _ = call.send(())).expect("the options are valid");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = Stop(&done, unpark);
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                driver.turn();
                let heard = match driver.max_wait() {
                    Some(limit) => unparked.recv_timeout(limit).ok(),
                    None => unparked.recv().ok(),
                };
                // Once is enough, however often it was called.
                heard.into_iter().chain(unparked.try_iter()).for_each(drop);
            }
        });
        churn(&timer);
        drop(stop);
    });
}

/// Bytes that a timer may keep once everything is dropped, if no thread ever had more timers armed
/// than its part of `peak`.
///
/// - Each shard keeps three chunks of entries and three of blocks: of the last one cancelled, of
///   the last one released, and an empty one. Each has 64 of 32 or 64 bytes, and as much as one
///   more for the counts of the `Arc` that they are in.
/// - Each shard keeps the heads of its slots, in 44 groups of 256 bytes.
/// - Each shard keeps two tables of chunks, and two lists of places in each, at 24, 4 and 4 bytes a
///   place. A chunk is added only when all others are full, and all but the first three have 64
///   entries, so there were no more than one to 64 timers, and four. A timer has at most a block
///   for itself. A vector that doubles has room for twice its contents, or for four. A thread arms
///   in its own shard or in the one beside it; it may have had its part in either, at different
///   times.
fn kept_at_most(shards: usize, peak: usize) -> usize {
    const CHUNK: usize = 64;
    let chunks = 3 * (CHUNK + 1) * (32 + 64);
    let places = 2 * peak / CHUNK + 4 * shards;
    shards * (chunks + 44 * 256) + 2 * (2 * places + 4 * shards) * (24 + 4 + 4)
}

/// Other allocations that may be live afterwards: the driver thread's own, and whatever the
/// test harness does in its thread meanwhile.
const OTHERS: usize = 64 * 1024;

#[test]
#[ignore = "long"]
fn memory_is_given_back_after_ten_million_timers() {
    const THREADS: usize = 4;
    /// Armed by a thread in one go.
    const ROUND: usize = 160_000;

    /// Arms `count` sleeps and returns them with the number that were over at once.
    fn armed(timer: &Timer, count: usize) -> (Vec<Sleep>, usize) {
        let mut over = 0;
        let sleeps = (0..count).map(|n| {
            // One in 16 fires before it is dropped, or nearly so.
            let near = if n % 16 == 0 { Duration::from_millis(1) } else { HOUR };
            let mut sleep = timer.sleep(near + Duration::from_nanos(n as u64));
            over += usize::from(poll(&mut sleep, Waker::noop()).is_ready());
            sleep
        });
        (sleeps.collect(), over)
    }

    /// Drops sleeps in the order they were armed, in the opposite one, or here and there.
    fn drop_all(mut sleeps: Vec<Sleep>, round: usize) {
        match round % 3 {
            0 => drop(sleeps),
            1 => while sleeps.pop().is_some() {},
            _ => {
                let mut random = Random(0x2545_F491_4F6C_DD1D);
                while !sleeps.is_empty() {
                    drop(sleeps.swap_remove(random.below(sleeps.len() as u64) as usize));
                }
            }
        }
    }

    let _alone = alone();
    let share = setting("TOURBILLON_STRESS_TIMERS", 10_000_000).div_ceil(THREADS);
    let round = ROUND.min(share);
    // The sleeps that each thread is arming, and the half of its earlier ones that its neighbour
    // has.
    let peak = THREADS * round * 3 / 2;
    let timer = Timer::builder().build().expect("the options are valid");
    let before = live_bytes();
    let work = |index: usize, to: SyncSender<Vec<Sleep>>, from: Receiver<Vec<Sleep>>| {
        let (mut left, mut over) = (share, 0);
        for number in 0.. {
            let (mut sleeps, over_at_once) = armed(&timer, round.min(left));
            over += over_at_once;
            let bytes = (sleeps.len() - over_at_once) * 48;
            assert!(live_bytes() - before >= bytes, "bytes are counted");
            left -= sleeps.len();
            let half = sleeps.split_off(sleeps.len() / 2);
            drop_all(sleeps, number);
            // Sending waits for the neighbour, so one has to begin by receiving.
            let mut half = Some(half);
            let mut send = || half.take().map(|half| to.send(half).expect("the neighbour runs"));
            if index > 0 {
                send();
            }
            drop_all(from.recv().expect("the neighbour runs"), number + 1);
            send();
            if left == 0 {
                break;
            }
        }
        over
    };
    let over: usize = thread::scope(|scope| {
        let (mut to, from): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::sync_channel(0)).unzip();
        to.rotate_left(1);
        let threads: Vec<_> = (0..THREADS)
            .zip(to.into_iter().zip(from))
            .map(|(index, (to, from))| {
                let work = &work;
                scope.spawn(move || work(index, to, from))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no claim fails")).sum()
    });
    flush(&timer);

    let kept = live_bytes().saturating_sub(before);
    let stats = timer.stats();
    let bound = kept_at_most(stats.shards, peak) + OTHERS;
    println!("{kept} bytes are kept, {bound} at most: {stats:?}");
    assert_eq!((stats.pending, stats.armed), (0, (THREADS * share - over) as u64 + 1));
    assert_eq!(stats.armed, stats.fired + stats.cancelled);
    assert!(kept <= bound, "{kept} bytes are kept, and {bound} are the bound: {stats:?}");
}
