//! Wakes tasks when a wall clock is set.

use std::io;
use std::task::Waker;
use std::time::Duration;

use crate::clock::both::Both;
use crate::clock::notices::{Notice, Notices, Recheck};
use crate::foreign::{Running, guarded};
use crate::fork::{self, Generation, PerProcess};
use crate::sync::unmodelled::AtomicU64;
use crate::sync::{Mutex, MutexGuard, Ordering, SetOnce, Thread, join, lock, spawn};

/// Period of comparing the wall clock with the monotonic one, in case there was no notice of a
/// step. Seldom enough to cost nothing that can be measured; and half of cron's minute, so a job
/// that a step makes due is still on time when the step is found.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// The name of the thread that waits for steps of the system's clock.
const WATCHER: &str = "tourbillon-wall";

/// Tasks to wake when one wall clock is set.
///
/// A waker that is registered before the clock is read is woken after every step that this reading
/// did not show: an announcement takes the wakers out under the lock, after the step. So either the
/// waker was in by then and is woken; or it came later, and so did the reading.
///
/// There may be steps without a notice (a preloaded library that fakes the clock). So the thread
/// that waits for notices also compares the two clocks every [`RECHECK`], while a waker is
/// registered that [needs](Need) it. It announces a step if they show one since the last that it
/// announced, or since its start. It starts before any waker is registered. The driver is not that
/// thread: to wait for a file too would cost each park and unpark a system call.
#[derive(Debug)]
pub(crate) struct Steps {
    source: Source,
    waiting: PerProcess<Mutex<Waiting>>,
    /// Held by a thread that ends the watcher, until that is gone.
    ends: PerProcess<Mutex<()>>,
}

/// Source of the announcements of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The thread that sets a virtual clock.
    Setter,
    /// A thread that waits for the system's notices.
    Watcher,
}

#[derive(Debug)]
struct Waiting {
    wakers: Wakers,
    announcer: Announcer,
}

/// The registered wakers, each in a place that its [`Registration`] knows. A map in order of their
/// numbers would be a tenth of the machine code of this crate.
#[derive(Debug, Default)]
struct Wakers {
    /// `None` is a place that is free.
    places: Vec<Option<Registered>>,
    /// The free places, and some at the end that were given back.
    free: Vec<usize>,
}

#[derive(Debug)]
struct Registered {
    /// The number of its [`Registration`].
    number: u64,
    need: Need,
    waker: Waker,
}

impl Wakers {
    /// The place of `key`'s waker, if it is registered.
    #[inline]
    fn find(&mut self, key: &Registration) -> Option<&mut Option<Registered>> {
        let is_own = |known: &Registered| known.number == key.number;
        self.places.get_mut(key.place).filter(|place| place.as_ref().is_some_and(is_own))
    }

    /// Registers `waker` in the place of `key`'s waker, and returns that, if any.
    #[inline]
    fn insert(&mut self, key: &mut Registration, need: Need, waker: Waker) -> Option<Registered> {
        let registered = Some(Registered { number: key.number, need, waker });
        if let Some(known) = self.find(key) {
            return std::mem::replace(known, registered);
        }
        // Skips places that were given back since they came free. None of them exists again: places
        // are added only once none is listed.
        let len = self.places.len();
        let free = std::iter::from_fn(|| self.free.pop()).find(|place| *place < len);
        key.place = free.unwrap_or_else(|| {
            self.places.push(None);
            len
        });
        self.places[key.place] = registered;
        None
    }

    #[inline]
    fn remove(&mut self, key: &Registration) -> Option<Registered> {
        let removed = self.find(key)?.take();
        self.free.push(key.place);
        while let Some(None) = self.places.last() {
            self.places.pop();
        }
        let len = self.places.len();
        if len <= self.places.capacity() / 4 {
            // The places of a crowd are given back, so seldom that it costs each removal little.
            self.places.shrink_to(2 * len);
            self.free.retain(|place| *place < len);
            self.free.shrink_to(2 * len);
        }
        removed
    }
}

/// Present source of announcements.
#[derive(Debug)]
enum Announcer {
    Nobody,
    Setter,
    /// `running`: the time to the next recheck is running. It is while a waker is registered
    /// that needs it, and until its end if that was the last.
    Watcher {
        recheck: Recheck,
        running: bool,
        thread: Thread,
    },
}

impl Announcer {
    /// Makes the watcher, if there is one, compare the clocks every [`RECHECK`].
    #[inline]
    fn recheck(&mut self) -> io::Result<()> {
        if let Self::Watcher { recheck, running: running @ false, .. } = self {
            recheck.start(RECHECK)?;
            *running = true;
        }
        Ok(())
    }
}

/// Announcements that a registered waker needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The system's notices.
    Notices,
    /// Notices, and steps that a recheck shows without one.
    Rechecks,
}

impl Waiting {
    /// No wakers yet, for steps that come from `source`.
    #[inline]
    fn from(source: Source) -> Mutex<Self> {
        let announcer = match source {
            Source::Setter => Announcer::Setter,
            Source::Watcher => Announcer::Nobody,
        };
        Mutex::new(Self { wakers: Wakers::default(), announcer })
    }
}

/// Name of a registered waker.
#[derive(Debug)]
pub(crate) struct Registration {
    /// No two in a process, nor in it and its children, are the same.
    number: u64,
    /// Index of its last registration. Once the waker has been taken out, another may be there.
    place: usize,
}

impl Registration {
    #[inline]
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // ORDERING: Relaxed; only the numbers' distinctness matters.
        Self { number: NEXT.fetch_add(1, Ordering::Relaxed), place: 0 }
    }
}

/// Result of [`Steps::watch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A waker was registered under the key already, so there was no step since.
    Kept,
    /// None was: it is the first time, or there was a step.
    New,
    /// Steps are not announced here, and nothing was registered.
    Unannounced,
}

impl Steps {
    /// Makes the steps of a virtual clock.
    #[inline]
    pub(crate) fn of_a_virtual_clock() -> Self {
        Self::new(Source::Setter)
    }

    /// Returns the steps of the system's clock, in this process.
    #[inline]
    pub(crate) fn of_the_system() -> &'static Self {
        static SYSTEM: SetOnce<Steps> = SetOnce::new();
        SYSTEM.get_or_init(|| Self::new(Source::Watcher))
    }

    #[inline]
    fn new(source: Source) -> Self {
        let waiting = PerProcess::new(Waiting::from(source));
        Self { source, waiting, ends: PerProcess::new(Mutex::new(())) }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(self.waiting.get(|_| Waiting::from(self.source)))
    }

    /// Registers `waker` for the next step, once, in the place of the one under the same key.
    #[inline]
    pub(crate) fn watch(&self, key: &mut Registration, waker: &Waker, need: Need) -> Watch {
        {
            let mut waiting = self.lock();
            if matches!(waiting.announcer, Announcer::Nobody) {
                let Ok((recheck, thread)) = start_watcher() else { return Watch::Unannounced };
                waiting.announcer = Announcer::Watcher { recheck, running: false, thread };
            }
            let known = waiting.wakers.find(key).and_then(|known| known.as_ref());
            if known.is_some_and(|known| known.waker.will_wake(waker)) {
                return Watch::Kept;
            }
        }
        // Cloned and dropped with the lock released: both are foreign code.
        let waker = waker.clone();
        let mut waiting = self.lock();
        let announced = match need {
            Need::Rechecks => waiting.announcer.recheck().is_ok(),
            Need::Notices => true,
        };
        if !announced || matches!(waiting.announcer, Announcer::Nobody) {
            let old = waiting.wakers.remove(key);
            drop(waiting);
            drop(old);
            return Watch::Unannounced;
        }
        let old = waiting.wakers.insert(key, need, waker);
        drop(waiting);
        if old.is_some() { Watch::Kept } else { Watch::New }
    }

    /// Removes the waker under `key`.
    #[inline]
    pub(crate) fn forget(&self, key: &Registration) {
        let removed = self.lock().wakers.remove(key);
        drop(removed);
    }

    /// Wakes all registered wakers: the clock was set. Returns how many panicked.
    #[inline]
    pub(crate) fn announce(&self) -> u64 {
        let wakers = std::mem::take(&mut self.lock().wakers);
        let _running = Running::begin();
        let registered = wakers.places.into_iter().flatten();
        registered.map(|one| u64::from(guarded(|| one.waker.wake()).is_none())).sum()
    }

    /// Begins the time to the next recheck, if a waker needs it.
    #[inline]
    fn recheck_again(&self) -> io::Result<()> {
        let Waiting { wakers, announcer } = &mut *self.lock();
        if let Announcer::Watcher { running, .. } = announcer {
            *running = false;
        }
        let needed = wakers.places.iter().flatten().any(|one| one.need == Need::Rechecks);
        if needed { announcer.recheck() } else { Ok(()) }
    }

    /// Ends the watcher, unless a waker is registered, and waits until it is gone. The next
    /// registration starts another. Not to be called on a thread that it may wait for.
    #[inline]
    pub(crate) fn end_watcher(&self) {
        let _ends = lock(self.ends.get(|_| Mutex::new(())));
        let mut waiting = self.lock();
        if waiting.wakers.places.iter().flatten().next().is_some() {
            return;
        }
        if let Announcer::Watcher { .. } = waiting.announcer {
            let watcher = std::mem::replace(&mut waiting.announcer, Announcer::Nobody);
            drop(waiting);
            let Announcer::Watcher { recheck, thread, .. } = watcher else { return };
            // A watcher that cannot be reached is left alone.
            if recheck.end().is_ok() {
                join(thread);
            }
        }
    }

    /// Notes that steps are no longer announced, and wakes all.
    #[inline]
    pub(crate) fn stop_announcing(&self) {
        self.lock().announcer = Announcer::Nobody;
        self.announce();
    }
}

/// Starts the thread that announces the steps of the system's clock.
///
/// The watcher lives until it [is ended](Steps::end_watcher). Once this returns, each step that the
/// system gives notice of is announced, and so is any other while the time of the recheck is
/// running.
#[cold]
fn start_watcher() -> io::Result<(Recheck, Thread)> {
    let (notices, recheck) = Notices::subscribe()?;
    let clocks = Both::now();
    let thread = spawn(WATCHER, move || {
        // For life: no thread waits for itself.
        std::mem::forget(Running::begin());
        let steps = Steps::of_the_system();
        if announce_all(steps, notices, clocks).is_err() {
            // There will be no more notices.
            steps.stop_announcing();
        }
    })?;
    Ok((recheck, thread))
}

/// Announces the steps of the system's clock, until it is to end. `clocks` show none yet.
#[inline]
fn announce_all(steps: &Steps, mut notices: Notices, mut clocks: Both) -> io::Result<()> {
    let generation = Generation::at_birth();
    loop {
        let notice = notices.wait()?;
        if notice == Notice::End {
            return Ok(());
        }
        let now = Both::now();
        if notice == Notice::Step || now.shows_step_since(&clocks) {
            // Before the announcement: a step after this reading is the next one.
            clocks = now;
            let panics = steps.announce();
            if generation.is_past() {
                // A waker has forked, and this is the child: its copy of a thread of ours.
                fork::end_child(panics > 0);
            }
        }
        if notice == Notice::Recheck {
            steps.recheck_again()?;
        }
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A waker, and a reference whose count is higher while it is registered.
    fn waker() -> (Waker, Arc<impl std::task::Wake>) {
        struct Nothing;
        impl std::task::Wake for Nothing {
            fn wake(self: Arc<Self>) {}
        }
        let nothing = Arc::new(Nothing);
        (Arc::clone(&nothing).into(), nothing)
    }

    fn watch(steps: &Steps, key: &mut Registration, waker: &Waker) -> Watch {
        steps.watch(key, waker, Need::Notices)
    }

    #[test]
    fn a_place_that_a_step_has_emptied_is_the_next_waiters() {
        let steps = Steps::of_a_virtual_clock();
        let (mut first, mut second) = (Registration::new(), Registration::new());
        let (waker, _) = waker();
        assert_eq!(watch(&steps, &mut first, &waker), Watch::New);
        assert_eq!(watch(&steps, &mut first, &waker), Watch::Kept);
        steps.announce();
        assert_eq!(watch(&steps, &mut second, &waker), Watch::New);
        assert_eq!(first.place, second.place);
        steps.forget(&first);
        assert_eq!(watch(&steps, &mut second, &waker), Watch::Kept);
        assert_eq!(watch(&steps, &mut first, &waker), Watch::New);
        assert_eq!(watch(&steps, &mut second, &waker), Watch::Kept);
    }

    #[test]
    fn places_are_used_again_and_given_back_when_nobody_waits() {
        let steps = Steps::of_a_virtual_clock();
        let (waker, kept) = waker();
        let mut keys: Vec<_> = (0..10).map(|_| Registration::new()).collect();
        keys.iter_mut().for_each(|key| assert_eq!(watch(&steps, key, &waker), Watch::New));
        for key in &mut keys {
            steps.forget(key);
            assert_eq!(watch(&steps, key, &waker), Watch::New);
        }
        assert_eq!(steps.lock().wakers.places.len(), 10);
        keys.iter().for_each(|key| steps.forget(key));
        assert_eq!(steps.lock().wakers.places.capacity(), 0);
        assert_eq!(Arc::strong_count(&kept), 2, "`waker` has the other");
    }

    #[test]
    fn a_crowd_s_places_are_given_back_while_one_still_waits() {
        let steps = Steps::of_a_virtual_clock();
        let (waker, _) = waker();
        let mut first = Registration::new();
        assert_eq!(watch(&steps, &mut first, &waker), Watch::New);
        for reversed in [false, true] {
            let mut crowd: Vec<_> = (0..1000).map(|_| Registration::new()).collect();
            crowd.iter_mut().for_each(|key| assert_eq!(watch(&steps, key, &waker), Watch::New));
            if reversed {
                crowd.reverse();
            }
            crowd.iter().for_each(|key| steps.forget(key));
            let Wakers { places, free } = &steps.lock().wakers;
            assert!(places.capacity() <= 8 && free.capacity() <= 8, "reversed: {reversed}");
        }
        assert_eq!(watch(&steps, &mut first, &waker), Watch::Kept);
    }

    #[test]
    fn a_place_that_was_given_back_is_nobody_s() {
        let steps = Steps::of_a_virtual_clock();
        let (waker, _) = waker();
        let mut keys: Vec<_> = (0..10).map(|_| Registration::new()).collect();
        keys.iter_mut().for_each(|key| assert_eq!(watch(&steps, key, &waker), Watch::New));
        // The last in order takes those before it along.
        keys[6..].iter().for_each(|key| steps.forget(key));
        steps.forget(&keys[2]);
        assert_eq!(steps.lock().wakers.places.len(), 6);
        for key in [2, 6, 7, 8, 9] {
            assert_eq!(watch(&steps, &mut keys[key], &waker), Watch::New);
        }
        let mut places: Vec<_> = keys.iter().map(|key| key.place).collect();
        places.sort_unstable();
        assert!(places.into_iter().eq(0..10));
        keys.iter_mut().for_each(|key| assert_eq!(watch(&steps, key, &waker), Watch::Kept));
    }
}
