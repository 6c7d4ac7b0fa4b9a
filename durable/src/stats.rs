//! [`Stats`]: what a node has done so far.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::plan::Plan;
use crate::record::Outcome;
use crate::store::{Finished, How};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A node's counters, at one moment. They start at zero with the node.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
            /// The longest that a timer was claimed after it was due, by the database's clock.
            pub lateness_max: Duration,
        }

        /// What is counted. ORDERING: Relaxed throughout; nothing is published with them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            lateness_max_us: AtomicU64,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> Stats {
                Stats {
                    $($name: self.$name.load(Relaxed),)*
                    lateness_max: Duration::from_micros(self.lateness_max_us.load(Relaxed)),
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
    /// Ends that did not count, as the attempt was not this node's any more.
    fenced,
    /// Occurrences that became timers.
    planned,
    /// Occurrences that were skipped.
    skipped,
    /// Times that a look found a schedule whose text this version does not understand.
    not_understood,
    /// Attempts of dead nodes made pending again by this one.
    orphans,
    /// Times that this node lost its lease.
    leases_lost,
    /// Reads of what is due.
    scans,
    /// Calls that claimed, ended attempts, or both.
    calls,
    /// Calls that failed.
    store_errors,
}

impl Counters {
    pub(crate) fn count_claim(&self, lateness: Duration) {
        self.claimed.fetch_add(1, Relaxed);
        let late_us = u64::try_from(lateness.as_micros()).unwrap_or(u64::MAX);
        self.lateness_max_us.fetch_max(late_us, Relaxed);
        #[cfg(feature = "metrics-0_24")]
        crate::metrics_0_24::record_lateness(lateness);
    }

    pub(crate) fn count_end(&self, how: &How, answer: Finished) {
        let counter = match (answer, how) {
            (Finished::Fenced, _) => &self.fenced,
            (Finished::Accepted, How::Done(Outcome::Succeeded, ..)) => &self.succeeded,
            (Finished::Accepted, How::Done(..)) => &self.dead,
            (Finished::Accepted, How::Retry(..)) => &self.retried,
            (Finished::Accepted, How::Postpone(_)) => &self.postponed,
            (Finished::Accepted, How::HandBack) => &self.handed_back,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn count_plan(&self, plan: &Plan) {
        self.planned.fetch_add(plan.run.len() as u64, Relaxed);
        self.skipped.fetch_add(plan.skip.len() as u64, Relaxed);
    }
}
