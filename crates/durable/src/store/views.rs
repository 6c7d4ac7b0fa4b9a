//! Reads for observers: names by a text, and counts of records by time.

use std::time::Duration;

use crate::record::Outcome;
use crate::store::{Count, RecordQuery, Result, ScheduleQuery, Store, TimerQuery};
use crate::time::Time;

/// Rows that a search or a tally reads at most, unless it says otherwise.
const MOST: u32 = 20_000;

/// State of a name that a [`Search`] looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameState {
    /// Schedule that is enabled.
    Enabled,
    /// Schedule that is disabled.
    Disabled,
    /// Timer without a schedule that waits for its time, for a node, or in its lane.
    Pending,
    /// Timer without a schedule that is held: it is scheduled for [`Time::NEVER`].
    Held,
    /// Timer without a schedule that runs.
    Running,
}

impl NameState {
    /// All states.
    pub const ALL: [Self; 5] =
        [Self::Enabled, Self::Disabled, Self::Pending, Self::Held, Self::Running];
}

/// Query of [`Store::search`]: names of schedules, and of timers that have a name and no schedule,
/// in the order of their bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Search {
    /// Only names with this prefix.
    pub prefix: String,
    /// Only names that have this text behind their first [`behind`](Self::behind) characters, be
    /// the letters of ASCII large or small. The text has no large ones.
    pub text: String,
    /// Number of characters of a name that are not searched.
    pub behind: u32,
    /// Only names of timers and schedules in one of these states.
    pub states: Vec<NameState>,
    /// Only names that come after this one.
    pub after: Option<String>,
    /// Most rows of schedules, and of timers, that are read, whether or not they fit; 20,000 by
    /// default.
    pub most: u32,
    /// Most names to return; 1,000 by default.
    pub limit: u32,
}

/// Answer to a [`Search`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hits {
    /// Names that fit, in the order of their bytes.
    pub names: Vec<String>,
    /// Number of names that fit in all rows that were read.
    pub count: Count,
    /// Name to continue after; `None` if nothing else fits.
    pub rest: Option<String>,
}

/// Rows of one table that a search has read.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Number of rows.
    pub(super) rows: u64,
    /// Name of the last of them.
    pub(super) last: Option<String>,
    /// Number of rows that fit.
    pub(super) count: u64,
    /// First names that fit, up to one more than the limit.
    pub(super) names: Vec<String>,
}

impl Search {
    /// Makes a search for all names with a prefix.
    pub fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            text: String::new(),
            behind: 0,
            states: NameState::ALL.to_vec(),
            after: None,
            most: MOST,
            limit: 1_000,
        }
    }

    /// Finds only names that have a text behind their first `behind` characters, be the letters of
    /// ASCII large or small.
    #[must_use]
    pub fn contains(mut self, behind: u32, text: &str) -> Self {
        (self.behind, self.text) = (behind, text.to_ascii_lowercase());
        self
    }

    /// Finds only names of timers and schedules in one of these states.
    #[must_use]
    pub fn states(mut self, states: &[NameState]) -> Self {
        self.states = states.to_vec();
        self
    }

    /// Finds only names that come after this one.
    #[must_use]
    pub fn after(mut self, name: impl Into<String>) -> Self {
        self.after = Some(name.into());
        self
    }

    /// Reads so many rows of schedules, and of timers, at most.
    #[must_use]
    pub fn most(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// Returns at most `limit` names.
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Returns whether a state is looked for.
    pub(super) fn has(&self, state: NameState) -> bool {
        self.states.contains(&state)
    }

    /// Returns whether a schedule is looked for.
    pub(super) fn has_schedules(&self) -> bool {
        self.has(NameState::Enabled) || self.has(NameState::Disabled)
    }

    /// Returns whether a timer is looked for.
    pub(super) fn has_timers(&self) -> bool {
        [NameState::Pending, NameState::Held, NameState::Running].iter().any(|is| self.has(*is))
    }

    /// Returns most names that each table has to find: one more says that there are more.
    pub(super) fn names(&self) -> u32 {
        self.limit.saturating_add(1)
    }

    /// Returns a name that comes before all that are looked for.
    fn begin(&self) -> String {
        self.after.clone().unwrap_or_default()
    }

    fn takes(&self, name: &str, state: NameState) -> bool {
        let searched: String = name.chars().skip(self.behind as usize).collect();
        self.has(state) && searched.to_ascii_lowercase().contains(&self.text)
    }

    /// Makes a walk of rows that were read in the order of their names.
    pub(super) fn walk(&self, rows: impl IntoIterator<Item = (String, NameState)>) -> Walk {
        let mut walk = Walk::default();
        for (name, state) in rows {
            walk.rows += 1;
            if self.takes(&name, state) {
                walk.count += 1;
                if walk.names.len() < self.names() as usize {
                    walk.names.push(name.clone());
                }
            }
            walk.last = Some(name);
        }
        walk
    }

    /// Puts the tables together. Names that come after the end of a walk which stopped are left
    /// for the next search.
    pub(super) fn hits(&self, walks: Vec<Walk>) -> Hits {
        let mut hits = Hits::default();
        for walk in walks {
            let is_cut = walk.rows >= self.most.into();
            hits.count.add(walk.count, is_cut);
            if is_cut {
                let last = walk.last.unwrap_or_else(|| self.begin());
                let is_first = hits.rest.as_ref().is_none_or(|rest| last < *rest);
                hits.rest = if is_first { Some(last) } else { hits.rest };
            }
            hits.names.extend(walk.names);
        }
        hits.names.sort_unstable();
        if let Some(rest) = &hits.rest {
            hits.names.retain(|name| name <= rest);
        }
        if hits.names.len() > self.limit as usize {
            hits.names.truncate(self.limit as usize);
            hits.rest = hits.names.last().cloned().or_else(|| Some(self.begin()));
        }
        hits
    }
}

/// Searches by the lists of a store.
pub(super) fn search(store: &mut (impl Store + ?Sized), search: &Search) -> Result<Hits> {
    let mut walks = Vec::new();
    if search.has_schedules() {
        let mut query = ScheduleQuery::new().prefix(&*search.prefix).limit(search.most);
        query.after.clone_from(&search.after);
        let state = |is_enabled| match is_enabled {
            true => NameState::Enabled,
            false => NameState::Disabled,
        };
        let rows = store.schedules(&query)?.into_iter().map(|row| (row.name, state(row.enabled)));
        walks.push(search.walk(rows));
    }
    if search.has_timers() {
        let query = TimerQuery::new().by_name(&*search.prefix, search.after.clone());
        let rows = store.timers(&query.limit(search.most))?.into_iter().map(|timer| {
            let state = match timer.running {
                Some(_) => NameState::Running,
                None if timer.new.scheduled_for == Time::NEVER => NameState::Held,
                None => NameState::Pending,
            };
            (timer.new.name.unwrap_or_default(), state)
        });
        walks.push(search.walk(rows));
    }
    Ok(search.hits(walks))
}

/// Query of [`Store::tally`]: records of a kind between two times, counted in parts of equal
/// length.
///
/// The last part is shorter where the span cannot be divided into whole microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TallyOf {
    /// Kind of the records.
    pub kind: String,
    /// Only records of this name: of the schedule, or of the timer itself. Its records of other
    /// kinds are read too, however many.
    pub name: Option<String>,
    /// Start of the first part.
    pub since: Time,
    /// End of the last part, exclusive.
    pub until: Time,
    /// Number of parts, at least 1.
    pub parts: u32,
    /// Most records that are counted, the newest first; 20,000 by default.
    pub most: u32,
}

/// Numbers of records, in parts of time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Start of each part, and its number of records by outcome, in the order of [`Outcome::code`].
    pub parts: Vec<(Time, Vec<(Outcome, u64)>)>,
    /// Time since which all records are counted; `None` if none are left out. It is just after the
    /// newest that is left out.
    pub cut: Option<Time>,
}

impl TallyOf {
    /// Makes a query of the records of a kind between two times, as one part.
    pub fn new(kind: impl Into<String>, since: Time, until: Time) -> Self {
        Self { kind: kind.into(), name: None, since, until, parts: 1, most: MOST }
    }

    /// Counts only records of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Counts in so many parts.
    #[must_use]
    pub fn parts(mut self, parts: u32) -> Self {
        self.parts = parts;
        self
    }

    /// Counts so many records at most.
    #[must_use]
    pub fn most(mut self, most: u32) -> Self {
        self.most = most;
        self
    }

    /// Returns the length of a part.
    pub(super) fn part(&self) -> Duration {
        let span = self.until.since(self.since).as_micros();
        let part = span.div_ceil(u128::from(self.parts.max(1))).max(1);
        Duration::from_micros(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// Returns the starts of the parts.
    pub(super) fn starts(&self) -> Vec<Time> {
        let part = self.part();
        (0..self.parts.max(1)).map(|number| self.since + part * number).collect()
    }

    /// Returns most records that are read: one more says that some are left out.
    pub(super) fn reads(&self) -> u32 {
        self.most.saturating_add(1)
    }

    /// Makes a tally from rows: the number of the part, the outcome, the number of records, and the
    /// time of the first of them.
    pub(super) fn tally(
        &self,
        counts: impl IntoIterator<Item = (usize, Outcome, u64, Time)>,
    ) -> Tally {
        let mut parts: Vec<_> = self.starts().into_iter().map(|at| (at, Vec::new())).collect();
        let mut counts: Vec<_> = counts.into_iter().collect();
        let all: u64 = counts.iter().map(|(_, _, count, _)| count).sum();
        let first = counts.iter_mut().min_by_key(|(_, _, _, at)| *at);
        // The first row beyond the limit.
        let left_out = first.filter(|_| all > self.most.into()).map(|(_, _, count, at)| {
            *count -= 1;
            *at
        });
        for (part, outcome, count, _) in counts {
            if count == 0 {
                continue;
            }
            let Some((_, outcomes)) = parts.get_mut(part) else { continue };
            match outcomes.iter_mut().find(|(other, _)| *other == outcome) {
                Some((_, sum)) => *sum += count,
                None => outcomes.push((outcome, count)),
            }
        }
        for (_, outcomes) in &mut parts {
            outcomes.sort_by_key(|(outcome, _)| outcome.code());
        }
        Tally { parts, cut: left_out.map(|at| at + Duration::from_micros(1)) }
    }
}

/// Counts by the list of records of a store.
pub(super) fn tally(store: &mut (impl Store + ?Sized), of: &TallyOf) -> Result<Tally> {
    let mut query = RecordQuery::new().kind(&*of.kind).since(of.since).until(of.until);
    query.name.clone_from(&of.name);
    let records = store.records(&query.newest_first().limit(of.reads()))?;
    let starts = of.starts();
    let part = |at: Time| starts.partition_point(|start| *start <= at).saturating_sub(1);
    let counts = records.iter().map(|record| {
        let at = record.recorded;
        (part(at), record.outcome, 1, at)
    });
    Ok(of.tally(counts))
}
