//! Policies for occurrences that are missed, that overlap or that fail.

mod text;

use std::time::Duration;

pub use tourbillon_cron::Missed;

pub use self::text::PolicyError;

/// Policy for an occurrence that is due while another of its schedule is not finished.
///
/// An occurrence is unfinished from when it is due until its outcome is recorded, its waits between
/// two attempts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// The occurrence runs beside the other.
    #[default]
    Allow,
    /// The occurrence is skipped, and recorded as [`Reason::Overlap`](crate::Reason::Overlap).
    Skip,
    /// The occurrence waits, and is due when the others before it are finished, oldest first.
    Queue {
        /// Most that may wait; beyond that occurrences are skipped. At least 1.
        at_most: u32,
    },
}

impl Overlap {
    /// Returns whether occurrences may wait for another one's end.
    pub(crate) fn has_queue(self) -> bool {
        matches!(self, Self::Queue { .. })
    }
}

/// Policy for failed attempts: how often another follows, and when.
///
/// The pause before the n-th further attempt is `first * 2^(n-1)`, at most `longest`. An attempt
/// that was handed back, or whose node died, does not count as failed. A timer's spans are kept to
/// the microsecond, up to a thousand years, and its attempts up to 2^31.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Retry {
    /// Number of attempts that may fail before the outcome is [`Dead`](crate::Outcome::Dead). 0
    /// counts as 1.
    pub attempts: u32,
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Retry {
    /// Makes a policy of `attempts`, with the first and the longest pause between two of them.
    pub const fn new(attempts: u32, first: Duration, longest: Duration) -> Self {
        Self { attempts, first, longest }
    }

    /// No second attempt after a failed one.
    pub const NEVER: Self = Self { attempts: 1, first: Duration::ZERO, longest: Duration::ZERO };

    /// Returns the pause before the next attempt once `failures` attempts have failed; `None` if
    /// there is no other attempt.
    pub fn pause(&self, failures: u32) -> Option<Duration> {
        if failures >= self.attempts.max(1) {
            return None;
        }
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(self.first.saturating_mul(doubled).min(self.longest))
    }
}

impl Default for Retry {
    /// Ten attempts, a second apart at first and five minutes at last.
    fn default() -> Self {
        Self { attempts: 10, first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// The policies of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Policies {
    /// Policy for occurrences that were due while no node was there to make timers of them.
    ///
    /// If several are found together, the newest is on time unless it is later than
    /// [`on_time_within`](Self::on_time_within); the others were missed. A missed occurrence that
    /// does not run is recorded as [`Reason::Missed`](crate::Reason::Missed), or with
    /// [`Missed::Coalesce`] as [`Reason::Coalesced`](crate::Reason::Coalesced). Occurrences that
    /// became timers before the nodes went away run, however late. At most 10,000 are caught up.
    pub missed: Missed,
    /// Lateness up to which an occurrence counts as on time, unless the next is due already.
    pub on_time_within: Duration,
    /// Policy for occurrences that overlap.
    pub overlap: Overlap,
    /// Each occurrence is due up to this much later than scheduled. By how much depends on the
    /// schedule and the occurrence alone, so that every node comes to the same.
    pub jitter: Duration,
    /// Policy for attempts that fail.
    pub retry: Retry,
}

impl Default for Policies {
    /// The last missed occurrence runs, overlapping ones run side by side, no jitter, ten attempts.
    fn default() -> Self {
        Self {
            missed: Missed::Coalesce,
            on_time_within: Duration::from_secs(60),
            overlap: Overlap::Allow,
            jitter: Duration::ZERO,
            retry: Retry::default(),
        }
    }
}
