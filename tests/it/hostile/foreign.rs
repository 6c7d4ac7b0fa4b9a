//! Code that a timer has to call and cannot trust: wakers, hooks, values with a drop, sources of
//! streams, futures, schedules and subscribers. Each call does something at random: it panics,
//! blocks for a moment, or comes back into the timer.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::Duration;

use futures::Stream;
use tourbillon::Timer;
use tourbillon::driver::Driver;
use tourbillon::virtual_time::VirtualClock;

use super::subjects::{self, Subject};
use crate::support::*;

/// Payload of the panics of hostile code. Any other panic is a failure.
pub(super) struct Planned;

/// The most subjects at a time.
const SUBJECTS_MAX: usize = 24;

/// Deepest nesting of hostile calls.
const DEPTH_MAX: usize = 3;

/// Things that hostile code can get at.
pub(super) struct World {
    random: AtomicU64,
    timer: OnceLock<Timer>,
    /// Clock of the timer, if it is moved by hand.
    pub(super) clock: Option<VirtualClock>,
    /// Clock of the process-wide timer, which some types go by.
    globals_clock: &'static VirtualClock,
    pub(super) driver: Mutex<Option<Driver>>,
    /// Subjects that have timers, and are polled, changed and dropped from everywhere.
    pool: Mutex<Vec<Box<dyn Subject>>>,
    /// Wakers, values and subjects that were made and not dropped.
    alive: AtomicUsize,
    /// Nothing is hostile any more.
    calm: AtomicBool,
}

impl World {
    pub(super) fn new(seed: u64, clock: Option<VirtualClock>) -> Arc<Self> {
        Arc::new(Self {
            random: AtomicU64::new(seed),
            timer: OnceLock::new(),
            clock,
            globals_clock: globals_clock(),
            driver: Mutex::default(),
            pool: Mutex::default(),
            alive: AtomicUsize::new(0),
            calm: AtomicBool::new(false),
        })
    }

    pub(super) fn set_timer(&self, timer: Timer) {
        self.timer.set(timer).expect("it is set once");
    }

    pub(super) fn timer(&self) -> &Timer {
        self.timer.get().expect("the timer is set before the storm")
    }

    /// A number below `end` (SplitMix64).
    pub(super) fn random(&self, end: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.random.fetch_add(GOLDEN, Ordering::Relaxed).wrapping_add(GOLDEN);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }

    /// A time that is past, near, or too far to come.
    pub(super) fn span(&self) -> Duration {
        match self.random(8) {
            0 => Duration::ZERO,
            1 => Duration::from_nanos(self.random(1_000)),
            2..=5 => Duration::from_micros(self.random(20_000)),
            6 => 3600 * SECOND,
            _ => Duration::MAX,
        }
    }

    /// Waits for a hostile future, where time passes by hand.
    pub(super) fn block_on(self: &Arc<Self>) {
        if let Some(clock) = &self.clock {
            let mut future = Box::pin(self.timer().timeout(ms(1), Source::new(self)));
            // The result of a function is leaked if a local of it panics in its drop
            // (rust-lang/rust#47949). So nothing hostile is returned.
            clock.block_on(poll_fn(|cx| future.as_mut().poll(cx).map(drop)));
        }
    }

    pub(super) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Wakers, values and subjects that are still there.
    pub(super) fn alive(&self) -> usize {
        self.alive.load(Ordering::Relaxed)
    }

    /// Returns whether the last are in use by a thread of the crate's, which gives them back.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.clock.is_none() && self.alive() > 0
    }

    /// Something at random: one step of a storm.
    pub(super) fn step(self: &Arc<Self>) {
        match self.random(16) {
            0..=2 => self.make(),
            3..=8 => self.with_another(|world, subject| subject.poll(&waker(world))),
            9 | 10 => self.with_another(|world, subject| subject.disturb(world)),
            11 => drop(self.drop_another()),
            12 => drop((self.timer().stats(), format!("{:?}", self.timer()))),
            _ => self.pass_time(),
        }
    }

    /// Runs the planned act of hostile code.
    fn act(self: &Arc<Self>) {
        thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });

        struct Deeper;

        impl Drop for Deeper {
            fn drop(&mut self) {
                DEPTH.set(DEPTH.get() - 1);
            }
        }

        if self.calm.load(Ordering::Relaxed) || DEPTH.get() == DEPTH_MAX {
            return;
        }
        DEPTH.set(DEPTH.get() + 1);
        let _deeper = Deeper;
        match self.random(8) {
            0 if !thread::panicking() => panic_any(Planned),
            1 if self.clock.is_none() => thread::sleep(Duration::from_micros(self.random(100))),
            2 | 3 => self.step(),
            _ => {}
        }
    }

    fn make(self: &Arc<Self>) {
        if self.pool.lock().unwrap().len() < SUBJECTS_MAX {
            let subject = subjects::make(self);
            self.alive.fetch_add(1, Ordering::Relaxed);
            self.pool.lock().unwrap().push(subject);
        }
    }

    fn take(&self) -> Option<Box<dyn Subject>> {
        let mut pool = self.pool.lock().unwrap();
        let len = pool.len() as u64;
        (len > 0).then(|| pool.swap_remove(self.random(len) as usize))
    }

    /// Does `action` with one of the pool, and puts it back afterwards, also after a panic.
    fn with_another(self: &Arc<Self>, action: impl FnOnce(&Arc<Self>, &mut dyn Subject)) {
        let Some(mut subject) = self.take() else { return };
        let done = catch_unwind(AssertUnwindSafe(|| action(self, &mut *subject)));
        self.pool.lock().unwrap().push(subject);
        self.pass_on(done);
    }

    pub(super) fn drop_another(&self) -> bool {
        let Some(subject) = self.take() else { return false };
        let done = catch_unwind(AssertUnwindSafe(|| drop(subject)));
        self.alive.fetch_sub(1, Ordering::Relaxed);
        self.pass_on(done);
        true
    }

    /// Panics on, unless that would be the second at a time.
    fn pass_on(&self, done: thread::Result<()>) {
        match done {
            Err(panic) if !thread::panicking() => resume_unwind(panic),
            _ => {}
        }
    }

    /// Time passes, as far as it does so by hand. However hostile the wakers are, that does not
    /// panic.
    fn pass_time(&self) {
        let span = Duration::from_micros(self.random(5_000));
        let done = catch_unwind(AssertUnwindSafe(|| {
            self.globals_clock.advance(span);
            match (&self.clock, self.random(8)) {
                (None, _) => {}
                (Some(clock), 0) => clock.jump(span),
                (Some(clock), 1) => clock.suspend(span),
                (Some(clock), 2) => clock.set_wall(clock.wall_now() - span),
                (Some(clock), 3) => drop(clock.advance_to_next()),
                (Some(clock), _) => drop(clock.advance(span)),
            }
            // Not each time, so that polls find deadlines past by themselves.
            if self.random(2) == 0 {
                if let Ok(mut driver) = self.driver.try_lock() {
                    driver.as_mut().map(Driver::turn);
                }
            }
        }));
        assert!(done.is_ok(), "what makes time pass panicked");
    }
}

/// The clock of the process-wide timer, made virtual.
fn globals_clock() -> &'static VirtualClock {
    static CLOCK: OnceLock<VirtualClock> = OnceLock::new();
    CLOCK.get_or_init(|| {
        let (timer, clock) = virtual_timer();
        Timer::set_global(timer).expect("the process is the test's own");
        clock
    })
}

/// A waker that is hostile whenever it is cloned, woken or dropped.
pub(super) fn waker(world: &Arc<World>) -> Waker {
    fn raw(world: Arc<World>) -> RawWaker {
        world.alive.fetch_add(1, Ordering::Relaxed);
        RawWaker::new(Arc::into_raw(world).cast(), &VTABLE)
    }
    /// # Safety
    ///
    /// `data` came from `raw`, and its reference is not given up.
    unsafe fn borrow(data: *const ()) -> Arc<World> {
        // SAFETY: as the caller says; so one reference more can be taken.
        unsafe { Arc::increment_strong_count(data.cast::<World>()) };
        // SAFETY: this is the reference just taken.
        unsafe { Arc::from_raw(data.cast()) }
    }
    /// # Safety
    ///
    /// `data` came from `raw`, and is not used again.
    unsafe fn end(data: *const ()) {
        // SAFETY: as the caller says.
        let world = unsafe { Arc::<World>::from_raw(data.cast()) };
        world.alive.fetch_sub(1, Ordering::Relaxed);
        world.act();
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the data of a waker is from `raw`.
            let world = unsafe { borrow(data) };
            world.act();
            raw(world)
        },
        // SAFETY: as above; the caller gives the waker up.
        |data| unsafe { end(data) },
        // SAFETY: as above.
        |data| unsafe { borrow(data) }.act(),
        // SAFETY: as above; the caller gives the waker up.
        |data| unsafe { end(data) },
    );
    // SAFETY: the four functions above keep the contract of a waker for a counted reference.
    unsafe { Waker::from_raw(raw(Arc::clone(world))) }
}

/// Makes the hook that is called when a driver has to turn.
pub(super) fn hook(world: &Arc<World>) -> impl Fn() + Send + Sync + 'static {
    // Not counted, because the timer holds it, and the world the timer.
    let world = Arc::downgrade(world);
    move || {
        if let Some(world) = world.upgrade() {
            world.act();
        }
    }
}

/// A value that is hostile when it is dropped.
pub(super) struct Value(Arc<World>);

impl Value {
    pub(super) fn new(world: &Arc<World>) -> Self {
        world.alive.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(world))
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
        self.0.act();
    }
}

/// A source of values, or a future of one, that keeps the waker of its last poll.
pub(super) struct Source {
    world: Arc<World>,
    waker: Option<Waker>,
    _held: Value,
}

impl Source {
    pub(super) fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), waker: None, _held: Value::new(world) }
    }

    /// Does one thing that a task may do with its waker; true if there is a value.
    fn is_ready(&mut self, cx: &Context<'_>) -> bool {
        self.world.act();
        match self.world.random(4) {
            0 => cx.waker().wake_by_ref(),
            1 => drop(self.waker.take()),
            2 => self.waker = Some(cx.waker().clone()),
            _ => return true,
        }
        false
    }
}

impl Stream for Source {
    type Item = Value;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Value>> {
        if !self.is_ready(cx) {
            return Poll::Pending;
        }
        Poll::Ready((self.world.random(16) > 0).then(|| Value::new(&self.world)))
    }
}

impl Future for Source {
    type Output = Value;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Value> {
        match self.is_ready(cx) && self.world.random(4) == 0 {
            true => Poll::Ready(Value::new(&self.world)),
            false => Poll::Pending,
        }
    }
}

/// A subscriber that is hostile in every call, for the `world` that there is at the time.
#[cfg(feature = "tracing")]
pub(super) struct Subscriber(pub(super) Arc<Mutex<std::sync::Weak<World>>>);

#[cfg(feature = "tracing")]
impl Subscriber {
    fn act(&self) {
        let world = self.0.lock().unwrap().upgrade();
        if let Some(world) = world {
            world.act();
        }
    }
}

#[cfg(feature = "tracing")]
impl tracing::Subscriber for Subscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        self.act();
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        self.act();
    }

    fn try_close(&self, _: tracing::span::Id) -> bool {
        self.act();
        true
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
