//! [`Stats`]: counts of a node's work so far.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan::Plan;
use crate::record::{Outcome, Reason};
use crate::store::{Finished, How};

#[cfg(feature = "metrics-0_24")]
pub(crate) static METADATA: metrics_0_24::Metadata<'static> = metrics_0_24::Metadata::new(
    "tourbillon_durable",
    metrics_0_24::Level::INFO,
    Some("tourbillon_durable::metrics_0_24"),
);

/// A number that any thread of a node may raise.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        // ORDERING: Relaxed; nothing is published with a count.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Raises it to `value`, if that is more.
    fn raise(&self, value: u64) {
        // ORDERING: Relaxed; as in `add`.
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    fn set(&self, value: u64) {
        // ORDERING: Relaxed; as in `add`.
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        // ORDERING: Relaxed; as in `add`.
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A node's counters, at one moment. They start at zero with the node.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// The longest that a timer was claimed after it was due, by the database's clock.
            pub lateness_max: Duration,
            /// Time since the first occurrence that the last look at schedules found due and not
            /// yet turned into a timer or a record; zero while schedules are advanced in time.
            pub planner_behind: Duration,
        }

        /// A node's counters.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
            lateness_max_us: Counter,
            planner_behind_us: Counter,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats {
                    $($name: self.$name.get(),)*
                    lateness_max: Duration::from_micros(self.lateness_max_us.get()),
                    planner_behind: Duration::from_micros(self.planner_behind_us.get()),
                }
            }
        }

        #[cfg(feature = "metrics-0_24")]
        impl Stats {
            /// Every counter, with its name.
            pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Attempts that were claimed.
    claimed,
    /// Timers asked for and not given: they were early, another's, or taken back.
    refused,
    /// Attempts that succeeded.
    succeeded,
    /// Attempts that failed, and were followed by another.
    retried,
    /// Timers whose last attempt failed.
    dead,
    /// Attempts postponed.
    postponed,
    /// Attempts handed back.
    handed_back,
    /// Attempts whose end did not count, because they were no longer this node's.
    fenced,
    /// Occurrences that became timers.
    planned,
    /// Occurrences that were skipped, for any reason.
    skipped,
    /// Those of them that were [missed](Reason::Missed).
    skipped_missed,
    /// Those that a later one [stands for](Reason::Coalesced).
    skipped_coalesced,
    /// Those that [overlap](Reason::Overlap) another.
    skipped_overlap,
    /// Those in an [excluded](Reason::Excluded) window.
    skipped_excluded,
    /// Schedules whose next occurrence moved, because the rules of their zone changed.
    rezoned,
    /// Times that a look found a schedule whose text this version does not understand.
    not_understood,
    /// Attempts of dead nodes made pending again by this one.
    orphans,
    /// Times that this node lost its lease.
    leases_lost,
    /// Times that the connection for notices was lost or refused; it is tried again each second.
    deaf,
    /// Reads of due timers.
    scans,
    /// Calls that claimed, ended attempts, or both.
    calls,
    /// Calls that failed.
    store_errors,
    /// Statements that the database ended because a lock was not free in time. The store repeats
    /// them, so few of them become failed calls.
    lock_timeouts,
}

impl Counters {
    pub(crate) fn count_claim(&self, lateness: Duration) {
        self.claimed.add(1);
        self.lateness_max_us.raise(micros(lateness));
        #[cfg(feature = "metrics-0_24")]
        record_lateness(lateness);
    }

    pub(crate) fn count_end(&self, how: &How, answer: Finished) {
        let counter = match (answer, how) {
            (Finished::Fenced, _) => &self.fenced,
            (Finished::Accepted, How::Done(Outcome::Succeeded, ..)) => &self.succeeded,
            (Finished::Accepted, How::Done(..)) => &self.dead,
            (Finished::Accepted, How::Retry(..)) => &self.retried,
            (Finished::Accepted, How::Postpone(..)) => &self.postponed,
            (Finished::Accepted, How::HandBack) => &self.handed_back,
        };
        counter.add(1);
    }

    pub(crate) fn count_plan(&self, plan: &Plan) {
        self.planned.add(plan.run.len() as u64);
        self.skipped.add(plan.skip.len() as u64);
        for (_, reason) in &plan.skip {
            match reason {
                Reason::Missed => self.skipped_missed.add(1),
                Reason::Coalesced => self.skipped_coalesced.add(1),
                Reason::Overlap => self.skipped_overlap.add(1),
                Reason::Excluded => self.skipped_excluded.add(1),
                _ => {}
            }
        }
    }

    /// Notes how long ago the first occurrence was due that a look at schedules found.
    pub(crate) fn set_behind(&self, behind: Duration) {
        self.planner_behind_us.set(micros(behind));
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Records in the histogram of lateness that a timer was claimed this late.
#[cfg(feature = "metrics-0_24")]
fn record_lateness(lateness: Duration) {
    static LATENESS: metrics_0_24::Key =
        metrics_0_24::Key::from_static_name("tourbillon_durable_lateness_seconds");
    metrics_0_24::with_recorder(|recorder| {
        recorder.register_histogram(&LATENESS, &METADATA).record(lateness.as_secs_f64());
    });
}
