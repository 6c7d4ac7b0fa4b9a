//! Holds, which keep a virtual clock from moving by itself: work on threads that it cannot see.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use pin_project_lite::pin_project;

use crate::fork::{Generation, PerProcess};
use crate::sync::unmodelled::AtomicBool;
use crate::sync::{Mutex, MutexGuard, Ordering, StdArc, Waiters, lock};

/// Keeps a [`VirtualClock`](crate::virtual_time::VirtualClock) from moving by itself for as long as
/// it lives.
///
/// Made by [`VirtualClock::hold`](crate::virtual_time::VirtualClock::hold). May be sent to another
/// thread and dropped there. A panic that drops it ends it too.
#[must_use = "the clock is held only until this is dropped"]
pub struct Hold {
    holds: Holds,
    /// A child process has none of its parent's threads, and none of their holds.
    generation: Generation,
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        if !self.generation.is_past() {
            let monitor = self.holds.monitor();
            let mut state = lock(&monitor.state);
            state.held -= 1;
            state.ended += u64::from(state.held == 0);
            monitor.changed.notify_all(state);
        }
    }
}

impl fmt::Debug for Hold {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").finish_non_exhaustive()
    }
}

/// The holds of one clock.
#[derive(Clone)]
pub(super) struct Holds(StdArc<PerProcess<Monitor>>);

/// State shared by the threads that hold a clock and the threads that wait to move it.
struct Monitor {
    state: Mutex<HoldCount>,
    /// Signalled when the last hold has gone, and when a future of `block_on` is woken.
    changed: Waiters,
}

impl Monitor {
    #[inline]
    fn new() -> Self {
        Self { state: Mutex::new(HoldCount { held: 0, ended: 0 }), changed: Waiters::new() }
    }
}

struct HoldCount {
    /// Holds alive.
    held: usize,
    /// Number of times that the last of them has gone.
    ended: u64,
}

impl Holds {
    #[inline]
    pub(super) fn new() -> Self {
        Self(StdArc::new(PerProcess::new(Monitor::new())))
    }

    #[inline]
    fn monitor(&self) -> &Monitor {
        self.0.get(|_| Monitor::new())
    }

    #[inline]
    pub(super) fn hold(&self) -> Hold {
        lock(&self.monitor().state).held += 1;
        Hold { holds: self.clone(), generation: Generation::at_birth() }
    }

    /// Returns how many are alive.
    #[inline]
    pub(super) fn count(&self) -> usize {
        lock(&self.monitor().state).held
    }

    /// The future to be polled with this waker waits on these holds.
    #[inline]
    pub(super) fn woken(&self) -> StdArc<Woken> {
        StdArc::new(Woken { flag: AtomicBool::new(false), holds: self.clone() })
    }
}

/// The waker of [`VirtualClock::block_on`](crate::virtual_time::VirtualClock::block_on).
pub(super) struct Woken {
    /// Written under the lock of the monitor.
    flag: AtomicBool,
    holds: Holds,
}

impl Woken {
    /// Returns whether it was woken since it was last asked.
    #[inline]
    pub(super) fn take(&self) -> bool {
        let _order = lock(&self.holds.monitor().state);
        self.take_locked()
    }

    /// Waits until no hold is alive, and the last one has gone since `ended` was returned if that
    /// is given. Returns how often that happened so far; `None` if it was woken.
    #[inline]
    pub(super) fn wait(&self, ended: Option<u64>) -> Option<u64> {
        let monitor = self.holds.monitor();
        let mut state = lock(&monitor.state);
        loop {
            if self.take_locked() {
                return None;
            }
            if state.held == 0 && ended != Some(state.ended) {
                return Some(state.ended);
            }
            state = monitor.changed.wait(state);
        }
    }

    #[inline]
    fn take_locked(&self) -> bool {
        // ORDERING: Relaxed; the lock orders it.
        self.flag.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    #[inline]
    fn wake(self: StdArc<Self>) {
        let monitor = self.holds.monitor();
        let order = lock(&monitor.state);
        // ORDERING: Relaxed; the lock orders it.
        self.flag.store(true, Ordering::Relaxed);
        monitor.changed.notify_all(order);
    }
}

pin_project! {
    /// A future that holds a [`VirtualClock`](crate::virtual_time::VirtualClock) while it can run.
    ///
    /// Made by [`VirtualClock::track`](crate::virtual_time::VirtualClock::track).
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner future and ends the hold.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct Tracked<F> {
        #[pin]
        future: F,
        track: Track,
    }
}

impl<F> Tracked<F> {
    #[inline]
    pub(super) fn new(future: F, holds: &Holds) -> Self {
        let runnable = Runnable { hold: Some(holds.hold()), waker: None, awaits_poll: true };
        let runnable = PerProcess::new(Mutex::new(runnable));
        let tracker = StdArc::new(Tracker { holds: holds.clone(), runnable });
        let waker = Waker::from(StdArc::clone(&tracker));
        Self { future, track: Track { tracker, waker } }
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // If it is woken meanwhile, there will be another hold.
        let _hold = this.track.tracker.begin_poll(cx.waker().clone());
        let polled = this.future.poll(&mut Context::from_waker(&this.track.waker));
        if polled.is_ready() {
            this.track.tracker.end();
        }
        polled
    }
}

/// Ends the tracking with the future.
#[derive(Debug)]
struct Track {
    tracker: StdArc<Tracker>,
    /// The inner future's waker: the tracker.
    waker: Waker,
}

impl Drop for Track {
    #[inline]
    fn drop(&mut self) {
        self.tracker.end();
    }
}

/// Knows whether a future has been woken and not been polled yet, and holds the clock meanwhile.
struct Tracker {
    holds: Holds,
    /// In a child process, that of a future that was not polled there yet.
    runnable: PerProcess<Mutex<Runnable>>,
}

struct Runnable {
    /// Hold from each wake-up to the poll that follows.
    hold: Option<Hold>,
    /// Waker of the last poll, until it is woken.
    waker: Option<Waker>,
    /// True if a wake-up is followed by a poll. Not once the future is ready or gone. Nor in a
    /// child process until it is polled there: its parent's waker may be behind a lock.
    awaits_poll: bool,
}

impl Runnable {
    /// Makes that of a future which waits, and which no wake-up makes runnable.
    #[inline]
    fn unpolled() -> Self {
        Self { hold: None, waker: None, awaits_poll: false }
    }
}

impl Tracker {
    #[inline]
    fn runnable(&self) -> MutexGuard<'_, Runnable> {
        lock(self.runnable.get(|_| Mutex::new(Runnable::unpolled())))
    }

    /// The hold of the poll that begins.
    #[inline]
    fn begin_poll(&self, waker: Waker) -> Hold {
        let mut runnable = self.runnable();
        runnable.awaits_poll = true;
        let hold = runnable.hold.take();
        let old = runnable.waker.replace(waker);
        drop(runnable);
        drop(old);
        hold.unwrap_or_else(|| self.holds.hold())
    }

    #[inline]
    fn end(&self) {
        let mut runnable = self.runnable();
        runnable.awaits_poll = false;
        let rest = (runnable.hold.take(), runnable.waker.take());
        drop(runnable);
        drop(rest);
    }
}

impl Wake for Tracker {
    #[inline]
    fn wake(self: StdArc<Self>) {
        self.wake_by_ref();
    }

    #[inline]
    fn wake_by_ref(self: &StdArc<Self>) {
        let mut runnable = self.runnable();
        if !runnable.awaits_poll {
            return;
        }
        if runnable.hold.is_none() {
            runnable.hold = Some(self.holds.hold());
        }
        let waker = runnable.waker.take();
        drop(runnable);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl fmt::Debug for Tracker {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}
