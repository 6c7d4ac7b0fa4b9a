//! Numbers that an engine keeps about itself, and the panics of foreign code.

use alloc::boxed::Box;
use core::time::Duration;

use crate::engine::calls::{self, Calls};
use crate::engine::{DrivenBy, Engine};
use crate::foreign::guarded;
use crate::fork;
use crate::stats::{Histogram, Stats};
use crate::sync::unmodelled::AtomicU64;
use crate::sync::{Ordering, StdArc};
use crate::trace;

/// The numbers that no shard keeps, and the hook for the first panic.
pub(super) struct Observed {
    /// Parks that ended. The driver's.
    wakeups: AtomicU64,
    /// Unparks sent, and calls of the hook.
    pub(super) unparks: AtomicU64,
    /// Wakers and hooks that panicked.
    panics: AtomicU64,
    /// Called at the first panic that is counted.
    pub(super) panic_hook: Option<StdArc<dyn Fn() + Send + Sync>>,
    pub(super) calls: Calls,
    /// Gives each shard a histogram, if they keep one.
    pub(super) keeps_lateness: Option<KeepLateness>,
}

/// The function that gives an engine its histograms. A pointer, so that only programs that ask for
/// them have the code.
pub(super) type KeepLateness = fn(&mut Engine);

impl Observed {
    pub(super) fn new() -> Self {
        Self {
            wakeups: AtomicU64::new(0),
            unparks: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            panic_hook: None,
            calls: Calls::new(calls::LIMIT),
            keeps_lateness: None,
        }
    }
}

impl Engine {
    /// Gives each shard a lateness histogram.
    ///
    /// One to a shard, rather than one to the engine: fires are counted under a shard's lock, so it
    /// needs no other lock and no atomics. The price is 4 KiB to a shard.
    pub(crate) fn keep_lateness(&mut self) {
        self.observed.keeps_lateness = Some(Self::keep_lateness);
        for shard in &*self.shards {
            let histogram = Box::new(Histogram::new());
            shard.lock().lateness.histogram = Some(histogram);
        }
    }

    /// Counts a park that has ended.
    pub(crate) fn count_wakeup(&self) {
        // ORDERING: Relaxed; a statistic.
        self.observed.wakeups.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> Stats {
        // ORDERING: Relaxed, thrice; statistics.
        let mut stats = Stats {
            shards: self.shards.len(),
            driver_wakeups: self.observed.wakeups.load(Ordering::Relaxed),
            unparks: self.observed.unparks.load(Ordering::Relaxed),
            waker_panics: self.observed.panics.load(Ordering::Relaxed),
            longest_call: self.observed.calls.longest(&self.clock),
            slow_calls: self.observed.calls.slow(),
            ..Stats::default()
        };
        for shard in &*self.shards {
            let shard = shard.lock();
            stats.armed += shard.counters.armed;
            stats.fired += shard.counters.fired;
            stats.cancelled += shard.counters.cancelled;
            stats.pending += shard.pending();
            stats.shards_used += usize::from(shard.counters.armed > 0);
            let lateness_max = Duration::from_nanos(shard.lateness.ns_max);
            stats.lateness_max = stats.lateness_max.max(lateness_max);
        }
        stats
    }

    /// The shards' histograms in one; `None` if they keep none.
    pub(crate) fn lateness(&self) -> Option<Histogram> {
        self.observed.keeps_lateness.map(|_| {
            let mut all = Histogram::new();
            for shard in &*self.shards {
                shard.lock().lateness.histogram.iter().for_each(|own| all.merge(own));
            }
            all
        })
    }

    /// Ends the process if this is the copy of a driver's thread in a child, forked by foreign code
    /// that has returned: the thread is the engine's, so there is nothing else to return to.
    pub(crate) fn end_forked_driver(&self, panicked: bool) {
        if self.generation.is_past() && matches!(self.driven_by, DrivenBy::Thread(_)) {
            fork::end_child(panicked);
        }
    }

    /// Counts panics of foreign code, and reports the first. With no lock held: this may call a
    /// subscriber and a hook.
    pub(crate) fn count_panics(&self, panics: u64) {
        if panics > 0 {
            self.note_panics(panics);
        }
    }

    #[cold]
    fn note_panics(&self, panics: u64) {
        // ORDERING: Relaxed; a statistic. One call adds to zero.
        let before = self.observed.panics.fetch_add(panics, Ordering::Relaxed);
        if before > 0 {
            return;
        }
        trace::panicked();
        if let Some(hook) = &self.observed.panic_hook {
            guarded(|| hook());
        }
    }
}
