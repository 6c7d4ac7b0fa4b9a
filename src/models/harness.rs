//! Parts that the loom models share: a timer on a clock that they move, and wakers that are
//! counted.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::pin::{Pin, pin};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use crate::clock::{Clock, VirtualTime};
use crate::driver;
use crate::engine::{DrivenBy, DriverThread, Engine, SharedEngine};
use crate::sleep::Sleep;
use crate::sync::{Arc, Condvar, Mutex, StdArc, lock, wait};
use crate::tick::Tick;
use crate::timer::Timer;
use crate::tolerance::Tolerance;

pub(crate) fn at(nanos: u64) -> Tick {
    Tick::ORIGIN.saturating_add(Duration::from_nanos(nanos))
}

/// A timer with a driver thread, on a clock that the model moves.
pub(crate) struct Harness {
    pub(crate) timer: Timer,
    pub(crate) time: Arc<VirtualTime>,
}

impl Harness {
    pub(crate) fn new(shards: usize) -> Self {
        Self::with(shards, Clock::Model, Tolerance::default())
    }

    /// On a clock that runs on in suspend, unlike the driver's parks.
    pub(crate) fn counting_suspend() -> Self {
        Self::with(1, Clock::ModelBoottime, Tolerance::default())
    }

    /// Whose sleeps have this tolerance.
    pub(crate) fn with_tolerance(tolerance: Tolerance) -> Self {
        Self::with(1, Clock::Model, tolerance)
    }

    fn with(shards: usize, clock: fn(Arc<VirtualTime>) -> Clock, tolerance: Tolerance) -> Self {
        let time = Arc::new(VirtualTime::new());
        let clock = clock(Arc::clone(&time));
        let thread =
            DriverThread::new("driver".into(), driver::watch_resumes(clock.counts_suspend()));
        let engine = Engine::new(clock, shards, DrivenBy::Thread(thread));
        let engine = engine.with_tolerance(tolerance);
        Self { timer: Timer::of(engine.shared()), time }
    }

    pub(crate) fn sleep(&self, nanos: u64) -> Sleep {
        Sleep::new(self.timer.engine_ref(), at(nanos))
    }

    /// A sleep that is armed, and the signal it was polled with.
    pub(crate) fn armed(&self, nanos: u64) -> (Sleep, Arc<Signal>) {
        let (mut sleep, signal) = (self.sleep(nanos), Signal::new());
        assert_eq!(poll(&mut sleep, &signal), Poll::Pending);
        (sleep, signal)
    }

    /// What moves the clock, and holds nothing that a driver waits for the end of.
    pub(crate) fn clock_mover(&self) -> ClockMover {
        ClockMover { engine: Arc::clone(self.timer.shared_engine()), time: Arc::clone(&self.time) }
    }

    pub(crate) fn advance(&self, nanos: u64) {
        self.clock_mover().advance(nanos);
    }

    /// See [`ClockMover::hold`].
    pub(crate) fn hold(&self, shard: usize) -> impl Sized + '_ {
        self.timer.engine().hold(shard)
    }

    /// Suspends the machine until that time: the clock runs on, but no park ends by it.
    pub(crate) fn suspend_until(&self, nanos: u64) {
        self.time.move_to(at(nanos));
        self.time.steps.announce();
    }

    /// A timer so far off that no model reaches it, armed: the driver runs, and has something to
    /// park for.
    pub(crate) fn far_timer(&self) -> Sleep {
        self.armed(1_000_000).0
    }
}

pub(crate) struct ClockMover {
    engine: SharedEngine,
    time: Arc<VirtualTime>,
}

impl ClockMover {
    /// Holds the lock of a shard until dropped. Nobody finds a lock taken whose holder does not
    /// wait for anything under it: loom does not switch threads as a lock is released.
    pub(crate) fn hold(&self, shard: usize) -> impl Sized + '_ {
        self.engine.hold(shard)
    }

    pub(crate) fn advance(&self, nanos: u64) {
        self.time.move_to(at(nanos));
        if let DrivenBy::Thread(thread) = self.engine.driven_by() {
            thread.advanced();
        }
    }
}

/// A flag that wakers of it raise, and a count of how often they did.
pub(crate) struct Signal {
    raised: Mutex<bool>,
    changed: Condvar,
    wakes: AtomicUsize,
}

impl Signal {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            raised: Mutex::new(false),
            changed: Condvar::new(),
            wakes: AtomicUsize::new(0),
        })
    }

    pub(crate) fn raise(&self) {
        let mut raised = lock(&self.raised);
        self.wakes.fetch_add(1, Ordering::SeqCst); // ORDERING: outside the model
        *raised = true;
        drop(raised);
        self.changed.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut raised = lock(&self.raised);
        while !*raised {
            raised = wait(&self.changed, raised);
        }
        *raised = false;
    }

    /// Waits until it has been raised so often.
    pub(crate) fn wait_for(&self, wakes: usize) {
        let mut raised = lock(&self.raised);
        while self.wakes() < wakes {
            raised = wait(&self.changed, raised);
        }
        *raised = false;
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst) // ORDERING: outside the model
    }
}

/// A waker that is a reference of loom's, so that loom counts it.
pub(crate) fn waker(signal: &Arc<Signal>) -> Waker {
    fn raw(signal: Arc<Signal>) -> RawWaker {
        RawWaker::new(Arc::into_raw(signal).cast(), &VTABLE)
    }
    /// # Safety
    ///
    /// `data` came from `raw`.
    unsafe fn own(data: *const ()) -> Arc<Signal> {
        // SAFETY: as the caller says; each waker stands for one reference.
        unsafe { Arc::from_raw(data.cast()) }
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the data of a waker is from `raw`.
            let signal = unsafe { own(data) };
            let clone = raw(Arc::clone(&signal));
            std::mem::forget(signal);
            clone
        },
        // SAFETY: as above; waking by value and dropping give the reference up.
        |data| unsafe { own(data) }.raise(),
        |data| {
            // SAFETY: as above.
            let signal = unsafe { own(data) };
            signal.raise();
            std::mem::forget(signal);
        },
        // SAFETY: as above.
        |data| drop(unsafe { own(data) }),
    );
    // SAFETY: the four functions above keep the contract of a waker for a counted reference.
    unsafe { Waker::from_raw(raw(Arc::clone(signal))) }
}

pub(crate) fn poll(sleep: &mut Sleep, signal: &Arc<Signal>) -> Poll<()> {
    poll_with(sleep, &waker(signal))
}

pub(crate) fn poll_with(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

/// Returns what `action` does, or `None` if it panics. Where a thread could not be started, the
/// panic prints nothing; a panic of another thread of the model, at the same time, prints its
/// message.
pub(crate) fn quietly<R>(action: impl FnOnce() -> R) -> Option<R> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let message = info.payload().downcast_ref::<String>();
            if !message.is_some_and(|message| message.starts_with("cannot start the timer's")) {
                before(info);
            }
        }));
    });
    catch_unwind(AssertUnwindSafe(action)).ok()
}

/// A waker that calls a closure.
pub(crate) fn callback(action: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Callback<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Callback<F> {
        fn wake(self: StdArc<Self>) {
            (self.0)();
        }
    }

    Waker::from(StdArc::new(Callback(action)))
}

/// Polls until ready, and waits for the signal in between.
pub(crate) fn block_on(future: impl Future<Output = ()>, signal: &Arc<Signal>) {
    let mut future = pin!(future);
    let waker = waker(signal);
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        signal.wait();
    }
}
