//! [`Missed`]: the policy for missed occurrences, a pure rule.

use std::time::Duration;

/// The policy for missed occurrences.
///
/// A poll of [`Ticks`](crate::Ticks) finds an occurrence *missed* if the next one is due too, or
/// if it is more than a minute late (see
/// [`Ticks::on_time_within`](crate::Ticks::on_time_within)). That happens if the task was busy,
/// the machine was suspended, or the wall clock was set forward.
///
/// # Examples
///
/// An hourly schedule, on a machine that is suspended for five hours and twenty minutes:
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use tourbillon_cron::{Cron, Missed, Ticks};
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let minutes = |count: u64| Duration::from_secs(60 * count);
/// for (policy, expected) in [
///     (Missed::Skip, vec![(6, 5), (7, 0)]),
///     (Missed::Coalesce, vec![(5, 4), (6, 0)]),
///     (Missed::CatchUp { max_count: 2, max_age: minutes(600) }, vec![(4, 3), (5, 0), (6, 0)]),
///     (Missed::CatchUp { max_count: 9, max_age: minutes(90) }, vec![(4, 3), (5, 0), (6, 0)]),
/// ] {
///     let clock = VirtualClock::new();
///     clock.set_wall(SystemTime::UNIX_EPOCH);
///     let timer = Timer::builder().virtual_clock(&clock).build()?;
///     let mut ticks = Ticks::with_timer(Cron::parse("@hourly", "UTC")?, &timer).missed(policy);
///     clock.suspend(minutes(320));
///     for (hour, missed) in expected {
///         let tick = clock.block_on(ticks.tick()).unwrap();
///         assert_eq!(tick.scheduled(), SystemTime::UNIX_EPOCH + minutes(60 * hour));
///         assert_eq!(tick.missed(), missed);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// Skips them. The stream continues with the occurrence that is on time, or the next one.
    Skip,
    /// Delivers one tick for all that are due, scheduled for the last of them.
    #[default]
    Coalesce,
    /// Delivers them one by one, oldest first, within these limits. Skips the rest.
    CatchUp {
        /// Most missed occurrences that come: the newest of the ones found together.
        max_count: u64,
        /// Longest time since the oldest of them was due when it comes.
        max_age: Duration,
    },
}

impl Missed {
    /// Returns whether a due occurrence runs. `later` counts the newer ones found due with it.
    ///
    /// `age` is the time since it was due. `is_newest_on_time` says whether the newest occurrence
    /// found is late by no more than the span that counts as on time: then it was not missed, and
    /// runs with every policy.
    ///
    /// [`Ticks`](crate::Ticks) asks this for each occurrence. A program that keeps its occurrences
    /// elsewhere can ask it too, and gets the same rule.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_cron::Missed;
    ///
    /// // Three are due, and the newest is on time: so two were missed.
    /// let one = Missed::CatchUp { max_count: 1, max_age: Duration::MAX };
    /// let runs = |policy: Missed| [2, 1, 0].map(|later| policy.runs(later, Duration::ZERO, true));
    /// assert_eq!(runs(Missed::Skip), [false, false, true]);
    /// assert_eq!(runs(one), [false, true, true]);
    /// // If it is not on time, all three were.
    /// assert!(!Missed::Skip.runs(0, Duration::ZERO, false));
    /// assert!(Missed::Coalesce.runs(0, Duration::ZERO, false));
    /// assert!(!one.runs(1, Duration::ZERO, false));
    /// ```
    pub fn runs(self, later: u64, age: Duration, is_newest_on_time: bool) -> bool {
        let is_newest = later == 0;
        if is_newest && is_newest_on_time {
            return true;
        }
        match self {
            Self::Skip => false,
            Self::Coalesce => is_newest,
            Self::CatchUp { max_count, max_age } => {
                // The missed ones, from this to the newest.
                let missed = if is_newest_on_time { later } else { later.saturating_add(1) };
                missed <= max_count && age <= max_age
            }
        }
    }

    /// Returns the most occurrences that can run of all found together: beside missed ones, the
    /// newest may be on time.
    pub(crate) fn kept(self) -> u64 {
        match self {
            Self::Skip | Self::Coalesce => 1,
            Self::CatchUp { max_count, .. } => max_count.saturating_add(1),
        }
    }
}
