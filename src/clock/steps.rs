//! Who is to be woken when a wall clock is set.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::Duration;

use crate::clock::notices::Notices;
use crate::foreign::guarded;
use crate::fork::Generation;
use crate::sync::unmodelled::AtomicU64;
use crate::sync::{Mutex, OnceLock, Ordering, lock, spawn};

/// How often to look at a clock of whose steps one is not told.
pub(crate) const RECHECK: Duration = Duration::from_secs(30);

/// The name of the thread that waits for steps of the system's clock.
const WATCHER: &str = "tourbillon-wall";

/// Those who wait for the steps of one wall clock.
///
/// A waker that is registered before the clock is read is woken after every step that this reading
/// did not show: whoever announces steps takes the wakers out under the lock, after the step. So
/// either the waker was in by then and is woken; or it came later, and so did the reading.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The process that it was made in.
    generation: Generation,
    /// What stands in for it in a child of that process.
    successor: OnceLock<Box<Self>>,
    source: Source,
    waiting: Mutex<Waiting>,
}

/// Who announces the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Whoever sets a virtual clock.
    Setter,
    /// A thread that waits for the system's notices.
    Watcher,
}

#[derive(Debug)]
struct Waiting {
    wakers: BTreeMap<Key, Waker>,
    /// Whether somebody announces steps.
    told: bool,
}

/// Whose waker it is. No two in a process, nor in it and its children, are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u64);

impl Key {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // ORDERING: Relaxed; only the numbers' distinctness matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// What [`Steps::watch`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// A waker was registered under the key already, so there was no step since.
    Kept,
    /// None was: it is the first time, or there was a step.
    New,
    /// Steps are not announced here, and nothing was registered.
    Untold,
}

impl Steps {
    /// Of a virtual clock.
    pub(crate) fn told() -> Self {
        Self::new(Source::Setter)
    }

    /// Of the system's clock, in this process.
    pub(crate) fn of_the_system() -> &'static Self {
        static SYSTEM: OnceLock<Steps> = OnceLock::new();
        SYSTEM.get_or_init(|| Self::new(Source::Watcher)).current()
    }

    fn new(source: Source) -> Self {
        let told = source == Source::Setter;
        Self {
            generation: Generation::at_birth(),
            successor: OnceLock::new(),
            source,
            waiting: Mutex::new(Waiting { wakers: BTreeMap::new(), told }),
        }
    }

    /// Itself, or what stands in for it if it is a parent process's, whose lock may be held by a
    /// thread that is not there.
    pub(crate) fn current(&self) -> &Self {
        if !self.generation.is_past() {
            return self;
        }
        self.successor.get_or_init(|| Box::new(Self::new(self.source))).current()
    }

    /// Has `waker` woken at the next step, once, in the place of the one under the same key.
    pub(crate) fn watch(&self, key: Key, waker: &Waker) -> Watch {
        {
            let mut waiting = lock(&self.waiting);
            if !waiting.told {
                if start_watcher().is_err() {
                    return Watch::Untold;
                }
                waiting.told = true;
            }
            if waiting.wakers.get(&key).is_some_and(|known| known.will_wake(waker)) {
                return Watch::Kept;
            }
        }
        // Cloned and dropped with the lock released, as both are foreign code.
        let waker = waker.clone();
        let mut waiting = lock(&self.waiting);
        if !waiting.told {
            drop(waiting);
            return Watch::Untold;
        }
        let old = waiting.wakers.insert(key, waker);
        drop(waiting);
        if old.is_some() { Watch::Kept } else { Watch::New }
    }

    /// Wakes nobody under `key` any more.
    pub(crate) fn forget(&self, key: Key) {
        let waker = lock(&self.waiting).wakers.remove(&key);
        drop(waker);
    }

    /// Wakes all who wait: the clock was set. Returns how many wakers panicked.
    pub(crate) fn announce(&self) -> u64 {
        let wakers = std::mem::take(&mut lock(&self.waiting).wakers);
        wakers.into_values().map(|waker| u64::from(guarded(|| waker.wake()).is_none())).sum()
    }

    /// Says that nobody announces steps any more.
    fn fall_silent(&self) {
        lock(&self.waiting).told = false;
        self.announce();
    }
}

/// Starts the thread that announces the steps of the system's clock.
///
/// It lives as long as the process. From when this returns, no step goes unannounced.
#[cold]
fn start_watcher() -> io::Result<()> {
    let mut notices = Notices::subscribe()?;
    spawn(WATCHER, move || {
        let steps = Steps::of_the_system();
        while notices.wait().is_ok() {
            steps.announce();
        }
        steps.fall_silent();
    })
}
