//! The alarm: the tick by which the driver has promised to look at the wheels again.
//!
//! One word, and the only thing that an inserter and a parked driver share beside the shards. How
//! it keeps a deadline from being slept through is argued in `PROTOCOL.md`.

use std::fmt;

use crate::canary::{Canary, seeded};
use crate::sync::{AtomicU64, Ordering};
use crate::tick::Tick;

/// The driver runs, and will scan every shard before it parks.
const AWAKE: u64 = 0;
/// The driver parks until the tick it published, a value from here to `LAST`...
const _: () = assert!(AWAKE < Tick::PAST.raw() && Tick::LAST.raw() < ABSENT);
/// There is no driver thread yet, or no longer.
const ABSENT: u64 = u64::MAX - 2;
/// The driver parks without a time limit.
const IDLE: u64 = u64::MAX - 1;
/// The driver is scanning the shards and has not parked.
const SCANNING: u64 = u64::MAX;

/// What an inserter has to do after [`Alarm::pull_forward`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summons {
    /// Nothing: the driver looks early enough.
    None,
    /// Unpark the driver.
    Unpark,
    /// Start the driver.
    Start,
}

/// What the driver found in its scan, and promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// To be awake by this tick.
    By(Tick),
    /// To park until unparked.
    WhenCalled,
    /// Nothing: the driver ends, and somebody has to start another.
    Gone,
}

/// Transitions, by the driver unless said:
///
/// ```text
/// any                   --begin_scan-->             SCANNING
/// SCANNING              --commit(By(t))-->          t
/// SCANNING              --commit(WhenCalled)-->     IDLE
/// SCANNING              --commit(Gone)-->           ABSENT
/// any                   --stay_awake-->             AWAKE
/// SCANNING              --pull_forward (anyone)-->  AWAKE
/// t later than the arm  --pull_forward (anyone)-->  AWAKE, and unparks
/// IDLE                  --pull_forward (anyone)-->  AWAKE, and unparks
/// ```
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    /// Of an engine whose thread has yet to be started.
    pub(crate) fn absent() -> Self {
        Self(AtomicU64::new(ABSENT))
    }

    /// Of an engine that is driven by whoever holds it.
    pub(crate) fn awake() -> Self {
        Self(AtomicU64::new(AWAKE))
    }

    /// Announces a scan. From here on, every insert that might be the earliest is noticed by
    /// [`commit`](Self::commit).
    pub(crate) fn begin_scan(&self) {
        if seeded(Canary::ScanUnannounced) {
            return;
        }
        // ORDERING: Relaxed; the shard locks that follow publish it. Edge `alarm`; loom
        // `inserts_race_park_on_two_shards`.
        self.0.store(SCANNING, Ordering::Relaxed);
    }

    /// Publishes the outcome of a scan. Returns whether it stands: not if a shard's earliest
    /// deadline was lowered since [`begin_scan`](Self::begin_scan), in which case the driver scans
    /// again.
    #[must_use]
    pub(crate) fn commit(&self, promise: Promise) -> bool {
        let value = match promise {
            Promise::By(tick) => tick.raw(),
            Promise::WhenCalled => IDLE,
            Promise::Gone => ABSENT,
        };
        if seeded(Canary::CommitBlindly) || seeded(Canary::ScanUnannounced) {
            self.0.store(value, Ordering::Relaxed); // ORDERING: seeded bug
            return true;
        }
        // ORDERING: Relaxed; whoever scans or inserts next is ordered by the shard's lock, and a
        // failed exchange means no more than "scan again". Loom `insert_races_park`.
        self.0.compare_exchange(SCANNING, value, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Tells inserters that nobody needs to be woken: the driver will scan in a moment.
    pub(crate) fn stay_awake(&self) {
        // ORDERING: Relaxed; as in `begin_scan`.
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Makes sure that the driver scans by `deadline`. To be called after the shard's lock has
    /// been released by the thread that lowered the shard's earliest deadline to `deadline`.
    #[must_use]
    pub(crate) fn pull_forward(&self, deadline: Tick) -> Summons {
        // ORDERING: Relaxed; the shard lock orders this load. If the driver scanned the shard
        // after the insert, it saw the entry. If before, the inserter took the lock the driver
        // had released, so it reads the SCANNING stored before that scan, or a later value.
        // Edge `alarm`; loom `inserts_race_park_on_two_shards`.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen <= deadline.raw() {
                return Summons::None;
            }
            if seen == ABSENT {
                return Summons::Start;
            }
            // ORDERING: Relaxed; the driver finds the entry through the shard's lock. The parker
            // orders the unpark itself.
            match self.0.compare_exchange(seen, AWAKE, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(SCANNING) => return Summons::None,
                Ok(_) => return Summons::Unpark,
                Err(newer) => seen = newer,
            }
        }
    }

    /// For a thread that has not lowered its shard's earliest deadline: what to do if there is no
    /// driver at all.
    #[must_use]
    pub(crate) fn call_if_absent(&self) -> Summons {
        // ORDERING: Relaxed; ordered by the shard's lock as in `pull_forward`.
        if self.0.load(Ordering::Relaxed) == ABSENT { Summons::Start } else { Summons::None }
    }

    /// Whether a driver is parked, for no longer than until `deadline`.
    pub(crate) fn is_set_for(&self, deadline: Tick) -> bool {
        // ORDERING: Relaxed; only decides whether a poll looks at the clock itself.
        let seen = self.0.load(Ordering::Relaxed);
        seen != AWAKE && seen <= deadline.raw()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ORDERING: Relaxed; a snapshot for people.
        match self.0.load(Ordering::Relaxed) {
            AWAKE => f.write_str("awake"),
            SCANNING => f.write_str("scanning"),
            IDLE => f.write_str("idle"),
            ABSENT => f.write_str("absent"),
            tick => Tick::from_raw(tick).fmt(f),
        }
    }
}
