//! Queries of the lists: one type for each of them.
//!
//! A query is made with `new` and conditions, which all apply together. The last row of a page
//! determines where the next page begins.

use crate::id::{ScheduleId, TimerId};
use crate::record::{Outcome, Record};
use crate::store::{ScheduleRow, Timer};
use crate::time::Time;

/// Rows that a query returns at most, unless it says otherwise.
const LIMIT: u32 = 1_000;

/// State of a timer: whether an attempt runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// None does: the timer waits for its time, for a node, or for its schedule's queue.
    Pending,
    /// One does.
    Running,
}

/// Order of a list of timers, and the place of its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimerOrder {
    /// Order of `(due, id)`.
    Due {
        /// Only timers that come after this `due` and id.
        after: Option<(Time, TimerId)>,
    },
    /// Order of names, by their bytes; only timers that have a name and no schedule.
    Name {
        /// Only names with this prefix.
        prefix: String,
        /// Only names that come after this one.
        after: Option<String>,
    },
}

/// Query of [`Store::timers`](super::Store::timers).
///
/// A query by `timer`, `name` or `kind`, or in the order of names, is answered from an index,
/// however long the table is; so are `since` and `until` with no condition but a `kind`.
/// Other conditions are checked row by row. Running timers are looked for among the due ones. In
/// the order of names, a query for running or held timers (`since` [`Time::NEVER`]) of a kind reads
/// all of them from an index and sorts them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerQuery {
    /// Only timers of this kind.
    pub kind: Option<String>,
    /// Only timers of this name: the timer's own, or its schedule's. An attempt that still runs
    /// after its schedule was removed is not found by the schedule's name.
    pub name: Option<String>,
    /// Only this timer.
    pub timer: Option<TimerId>,
    /// Only timers in this state.
    pub state: Option<State>,
    /// Only timers that are due then or later.
    pub since: Option<Time>,
    /// Only timers that are due before.
    pub until: Option<Time>,
    /// Order of the timers.
    pub order: TimerOrder,
    /// Most timers to return; 1,000 by default.
    pub limit: u32,
}

/// Query of [`Store::schedules`](super::Store::schedules): in the order of names, by their bytes.
///
/// By `kind`, `name` or `prefix` a page is answered from an index, however long the table is; so is
/// `enabled` beside a `kind`. Without a kind, `enabled` is checked row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleQuery {
    /// Only schedules of this kind.
    pub kind: Option<String>,
    /// Only the schedule of this name.
    pub name: Option<String>,
    /// Only names with this prefix.
    pub prefix: Option<String>,
    /// Only enabled schedules, or only disabled ones.
    pub enabled: Option<bool>,
    /// Only names that come after this one.
    pub after: Option<String>,
    /// Most schedules to return; 1,000 by default.
    pub limit: u32,
}

/// Query of [`Store::records`](super::Store::records): in the order of `(recorded, timer)`, or in
/// the reverse.
///
/// By `timer`, `name` or `kind` a page is answered from an index, however long the table is; so are
/// `since` and `until`, and an `outcome` other than [`Succeeded`](Outcome::Succeeded) beside a
/// `kind`. Other conditions are checked row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordQuery {
    /// Only records of this kind.
    pub kind: Option<String>,
    /// Only records of this name: of the schedule, or of the timer itself.
    pub name: Option<String>,
    /// Only the record of this timer.
    pub timer: Option<TimerId>,
    /// Only records with this outcome.
    pub outcome: Option<Outcome>,
    /// Only records that were written then or later.
    pub since: Option<Time>,
    /// Only records that were written before.
    pub until: Option<Time>,
    /// True for the newest record first.
    pub newest_first: bool,
    /// Only records that come after this `recorded` and timer, in the order of the query.
    pub after: Option<(Time, TimerId)>,
    /// Most records to return; 1,000 by default.
    pub limit: u32,
}

/// Conditions that one or more queries have, each with a method that sets it.
macro_rules! conditions {
    ($($query:ident: $($condition:ident)*;)*) => {
        $(impl $query {
            $(conditions!(@ $condition);)*

            /// Returns at most `limit` rows.
            #[must_use]
            pub fn limit(mut self, limit: u32) -> Self {
                self.limit = limit;
                self
            }
        }

        impl Default for $query {
            /// Returns the query of all rows, a thousand at a time.
            fn default() -> Self {
                Self::new()
            }
        })*
    };
    (@ kind) => {
        /// Returns only rows of this kind.
        #[must_use]
        pub fn kind(mut self, kind: impl Into<String>) -> Self {
            self.kind = Some(kind.into());
            self
        }
    };
    (@ name) => {
        /// Returns only rows of this name.
        #[must_use]
        pub fn name(mut self, name: impl Into<String>) -> Self {
            self.name = Some(name.into());
            self
        }
    };
    (@ timer) => {
        /// Returns only the row of this timer.
        #[must_use]
        pub fn timer(mut self, timer: TimerId) -> Self {
            self.timer = Some(timer);
            self
        }
    };
    (@ since) => {
        /// Returns only rows from this time on: of `due` for timers, of `recorded` for records.
        #[must_use]
        pub fn since(mut self, since: Time) -> Self {
            self.since = Some(since);
            self
        }
    };
    (@ until) => {
        /// Returns only rows before this time, compared as in `since`.
        #[must_use]
        pub fn until(mut self, until: Time) -> Self {
            self.until = Some(until);
            self
        }
    };
}

conditions! {
    TimerQuery: kind name timer since until;
    ScheduleQuery: kind name;
    RecordQuery: kind name timer since until;
}

impl TimerQuery {
    /// Makes a query of all timers, in the order of `(due, id)`.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kind: None,
            name: None,
            timer: None,
            state: None,
            since: None,
            until: None,
            order: TimerOrder::Due { after: None },
            limit: LIMIT,
        }
    }

    /// Returns only timers in this state.
    #[must_use]
    pub fn state(mut self, state: State) -> Self {
        self.state = Some(state);
        self
    }

    /// Returns timers in the order of `(due, id)`, from after this place.
    #[must_use]
    pub fn after(mut self, due: Time, timer: TimerId) -> Self {
        self.order = TimerOrder::Due { after: Some((due, timer)) };
        self
    }

    /// Returns timers that have a name with this prefix and no schedule, in the order of names;
    /// from after a name, if there is one.
    #[must_use]
    pub fn by_name(mut self, prefix: impl Into<String>, after: Option<String>) -> Self {
        self.order = TimerOrder::Name { prefix: prefix.into(), after };
        self
    }
}

impl ScheduleQuery {
    /// Makes a query of all schedules.
    #[must_use]
    pub fn new() -> Self {
        Self { kind: None, name: None, prefix: None, enabled: None, after: None, limit: LIMIT }
    }

    /// Returns only schedules whose name has this prefix.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// Returns only enabled schedules, or only disabled ones.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    /// Returns only schedules whose name comes after this one.
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }
}

impl RecordQuery {
    /// Makes a query of all records, oldest first.
    #[must_use]
    pub fn new() -> Self {
        Self {
            kind: None,
            name: None,
            timer: None,
            outcome: None,
            since: None,
            until: None,
            newest_first: false,
            after: None,
            limit: LIMIT,
        }
    }

    /// Returns only records with this outcome.
    #[must_use]
    pub fn outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// Returns the newest record first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.newest_first = true;
        self
    }

    /// Returns only records that come after this place, in the order of the query.
    #[must_use]
    pub fn after(mut self, recorded: Time, timer: TimerId) -> Self {
        self.after = Some((recorded, timer));
        self
    }
}

impl TimerQuery {
    /// Returns whether a timer fulfils the conditions. `named` is the schedule of the name in the
    /// query.
    pub(super) fn takes(&self, timer: &Timer, named: Option<ScheduleId>) -> bool {
        let new = &timer.new;
        let state = if timer.running.is_some() { State::Running } else { State::Pending };
        let is_of_it = new.schedule.is_none() || new.schedule == named;
        is_or_any(&self.kind, Some(&new.kind))
            && is_or_any(&self.name, new.name.as_ref())
            && (self.name.is_none() || is_of_it)
            && is_or_any(&self.timer, Some(&new.id))
            && is_or_any(&self.state, Some(&state))
            && is_within(new.due, self.since, self.until)
    }
}

impl ScheduleQuery {
    /// Returns whether a schedule fulfils the conditions.
    pub(super) fn takes(&self, row: &ScheduleRow) -> bool {
        is_or_any(&self.kind, Some(&row.kind))
            && is_or_any(&self.name, Some(&row.name))
            && self.prefix.as_ref().is_none_or(|prefix| row.name.starts_with(prefix))
            && is_or_any(&self.enabled, Some(&row.enabled))
            && self.after.as_ref() < Some(&row.name)
    }
}

impl RecordQuery {
    /// Returns whether a record fulfils the conditions.
    pub(super) fn takes(&self, record: &Record) -> bool {
        let place = (record.recorded, record.timer);
        let is_after = |after| if self.newest_first { place < after } else { place > after };
        is_or_any(&self.kind, Some(&record.kind))
            && is_or_any(&self.name, record.name.as_ref())
            && is_or_any(&self.timer, Some(&record.timer))
            && is_or_any(&self.outcome, Some(&record.outcome))
            && is_within(record.recorded, self.since, self.until)
            && self.after.is_none_or(is_after)
    }
}

fn is_or_any<T: PartialEq>(wanted: &Option<T>, found: Option<&T>) -> bool {
    wanted.is_none() || wanted.as_ref() == found
}

fn is_within(time: Time, since: Option<Time>, until: Option<Time>) -> bool {
    since.is_none_or(|since| time >= since) && until.is_none_or(|until| time < until)
}

/// Returns the string that comes right after all that start with `prefix`, in the order of bytes;
/// `None` if none does.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn prefix_end(prefix: &str) -> Option<String> {
    let mut end: Vec<char> = prefix.chars().collect();
    while let Some(last) = end.pop() {
        // Characters and their bytes are in the same order.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return Some(end.into_iter().collect());
        }
    }
    None
}
