//! [`Overview`]: counts of timers, schedules and records, at one moment.

use std::time::Duration;

use crate::record::Outcome;
use crate::time::Time;

/// Time that an overview covers, ahead and back.
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// Query of [`Store::overview`](super::Store::overview).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverviewOf {
    /// Kinds to count; none of them twice.
    pub kinds: Vec<String>,
    /// Most rows that each count reads, of all kinds together. Each kind has an equal part. Ten
    /// thousand take some tens of milliseconds, however many there are; a hundred thousand ten
    /// times as long.
    pub most: u32,
}

/// Counts of a store's rows, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overview {
    /// The database's clock.
    pub now: Time,
    /// Timers that are pending and due by now.
    pub overdue: Count,
    /// When the first of those was due.
    pub oldest_due: Option<Time>,
    /// Timers that are running. They are found among due timers, in the order of their times,
    /// because each was due.
    pub running: Count,
    /// Timers due in each minute of the next hour: 60 counts.
    pub next_hour: Vec<u64>,
    /// Time until which all of those are counted: an hour from now, or sooner if there are more.
    pub next_hour_until: Time,
    /// Schedules that are enabled.
    pub enabled: Count,
    /// Schedules that are not.
    pub disabled: Count,
    /// Records of the last hour by how they ended, in the order of [`Outcome::code`].
    pub outcomes: Vec<(Outcome, u64)>,
    /// Since when all of those are counted: an hour ago, or later if there are more.
    pub outcomes_since: Time,
}

/// A count that stops where it would cost too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Count {
    /// Number of rows found.
    pub count: u64,
    /// True if there may be more.
    pub is_cut: bool,
}

impl OverviewOf {
    /// Makes a query of these kinds. Each count reads at most `most` of their rows.
    pub fn new(kinds: Vec<String>, most: u32) -> Self {
        Self { kinds, most }
    }

    /// Returns how many rows of each kind are read.
    pub(super) fn part(&self) -> u32 {
        let kinds = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        (self.most / kinds.max(1)).max(1)
    }
}

impl Overview {
    /// Makes an overview with nothing counted.
    pub(crate) fn new(now: Time) -> Self {
        Self {
            now,
            overdue: Count::default(),
            oldest_due: None,
            running: Count::default(),
            next_hour: vec![0; 60],
            next_hour_until: now + HOUR,
            enabled: Count::default(),
            disabled: Count::default(),
            outcomes: Vec::new(),
            outcomes_since: now - HOUR,
        }
    }

    /// Adds due timers of one kind: the pending ones, the time of the first, and the running ones;
    /// at most `part` rows.
    pub(super) fn add_due(&mut self, pending: u64, oldest: Option<Time>, running: u64, part: u32) {
        let is_cut = pending + running >= part.into();
        self.overdue.add(pending, is_cut);
        self.running.add(running, is_cut);
        self.oldest_due = [self.oldest_due, oldest].into_iter().flatten().min();
    }

    /// Adds the next due times of one kind: minutes, their counts and last times; at most `part`
    /// rows.
    pub(super) fn add_next(&mut self, minutes: &[(u32, u64, Time)], part: u32) {
        for (minute, count, _) in minutes {
            self.next_hour[*minute as usize] += count;
        }
        if minutes.iter().map(|(_, count, _)| count).sum::<u64>() >= part.into() {
            let last = minutes.iter().map(|(_, _, last)| *last).max();
            self.next_hour_until = last.map_or(self.now, |last| last.min(self.next_hour_until));
        }
    }

    /// Adds schedules of one kind; of `part` rows of each at most.
    pub(super) fn add_schedules(&mut self, enabled: u64, disabled: u64, part: u32) {
        self.enabled.add(enabled, enabled >= part.into());
        self.disabled.add(disabled, disabled >= part.into());
    }

    /// Adds records of one kind: outcomes, their counts and first times; of `part` rows at most.
    pub(super) fn add_outcomes(&mut self, outcomes: &[(Outcome, u64, Time)], part: u32) {
        for (outcome, count, _) in outcomes {
            match self.outcomes.iter_mut().find(|(other, _)| other == outcome) {
                Some((_, sum)) => *sum += count,
                None => self.outcomes.push((*outcome, *count)),
            }
        }
        self.outcomes.sort_by_key(|(outcome, _)| outcome.code());
        if outcomes.iter().map(|(_, count, _)| count).sum::<u64>() >= part.into() {
            let first = outcomes.iter().map(|(_, _, first)| *first).min();
            self.outcomes_since = first.map_or(self.now, |first| first.max(self.outcomes_since));
        }
    }
}

impl Count {
    pub(super) fn add(&mut self, count: u64, is_cut: bool) {
        self.count += count;
        self.is_cut |= is_cut;
    }
}
