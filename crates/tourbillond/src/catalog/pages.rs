//! Pages of lists, with bounded cost, whatever the query and the stored data.
//!
//! A page ends at its limit, or sooner once its reads reach so many bytes or take so long; then it
//! says where the next begins. The store is read in parts, so that no more is read than needed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tourbillon_durable::Time;
use tourbillon_durable::store::{ScheduleQuery, ScheduleRow, State, Timer, TimerOrder, TimerQuery};

use super::Catalog;
use super::error::Result;
use super::found::Found;
use crate::model::{self, Page, Schedule, ScheduleKind, ScheduleState, Total};

/// Most bytes that are read for a page, and that it has, but for the last item.
pub(crate) const PAGE: usize = 1 << 20;

/// Most rows that are read at a time.
pub(crate) const ROWS: u32 = 64;

/// Most bytes of a row.
const ROW: usize = 64 << 10;

/// Bytes that each item counts beside its stored bytes.
const ITEM: usize = 512;

/// Bytes that each run counts that is shown beside its schedule.
const LAST_RUN: usize = 256;

/// Least bytes that each row counts that is read and not listed.
const PASSED: usize = 64;

/// Part of its bytes that such a row counts.
const PASSED_PART: usize = 8;

/// Time after which nothing more is read for a page. A request has three times as much, also for
/// its turn and for a total.
pub(super) const READING: Duration = Duration::from_secs(10);

/// Budget that a page has left.
#[derive(Debug)]
pub(crate) struct PageBudget {
    items: usize,
    bytes: usize,
    /// Items that were taken, and their bytes.
    taken: (usize, usize),
    /// True if a row was passed.
    has_passed: bool,
}

impl PageBudget {
    /// A page of so many items at most.
    pub(crate) fn new(items: usize) -> Self {
        Self { items, bytes: PAGE, taken: (0, 0), has_passed: false }
    }

    /// Returns whether nothing more is to be read.
    pub(crate) fn is_none(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }

    /// Takes an item with so many stored bytes.
    pub(crate) fn take(&mut self, stored: usize) {
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(stored + ITEM);
        self.taken = (self.taken.0 + 1, self.taken.1 + stored + ITEM);
    }

    /// Returns how many rows to read next: as many as the page still has room for, by the size of
    /// the rows so far, and another that shows whether there is more. Once a row was passed over,
    /// few of the next may be listed, so it is the most that are read at a time.
    pub(crate) fn rows(&self) -> u32 {
        if self.has_passed {
            return ROWS;
        }
        let each = self.taken.1.checked_div(self.taken.0).unwrap_or(ROW);
        let rows = (self.bytes / each).min(self.items).saturating_add(1);
        u32::try_from(rows).unwrap_or(ROWS).min(ROWS)
    }

    /// Passes a row with so many stored bytes that is not listed. So a page passes 16,384 rows and
    /// 8 MiB of them at most.
    pub(crate) fn pass(&mut self, stored: usize) {
        self.has_passed = true;
        self.bytes = self.bytes.saturating_sub(PASSED.max(stored / PASSED_PART));
    }
}

/// Schedules and one-shots that are not over, in the order of their names.
pub(crate) struct Live<'a> {
    catalog: &'a Catalog,
    schedules: Option<Part<ScheduleRow, ScheduleQuery>>,
    timers: Option<Part<Timer, TimerQuery>>,
}

/// Rows read from one table, and the query for the next.
struct Part<T, Q> {
    /// Query that is made next; `None` if none is.
    next: Option<Q>,
    rows: VecDeque<T>,
}

impl<T, Q: Clone> Part<T, Q> {
    fn new(query: Q) -> Self {
        Self { next: Some(query), rows: VecDeque::new() }
    }

    /// Returns whether it is to be read before its next row is known.
    fn is_to_read(&self) -> bool {
        self.next.is_some() && self.rows.is_empty()
    }

    /// Returns the query to make now, if any.
    fn wanted(&self) -> Option<Q> {
        self.next.clone().filter(|_| self.is_to_read())
    }

    /// Takes the rows of a read with a limit. `after` makes the query for the rows after a given
    /// row.
    fn read(&mut self, limit: u32, rows: Vec<T>, after: impl Fn(Q, &T) -> Q) {
        let is_last = rows.len() < limit as usize;
        let next = self.next.take().filter(|_| !is_last).zip(rows.last());
        self.next = next.map(|(query, last)| after(query, last));
        self.rows = rows.into();
    }
}

/// Returns the query of timers by name that follow one.
fn after(mut query: TimerQuery, last: &Timer) -> TimerQuery {
    if let TimerOrder::Name { after, .. } = &mut query.order {
        after.clone_from(&last.new.name);
    }
    query
}

impl<'a> Live<'a> {
    /// Joins the rows of both queries; the query for timers is in the order of names.
    pub(crate) fn new(
        catalog: &'a Catalog,
        schedules: Option<ScheduleQuery>,
        timers: Option<TimerQuery>,
    ) -> Self {
        Self { catalog, schedules: schedules.map(Part::new), timers: timers.map(Part::new) }
    }

    /// Returns whether the store is read for the next.
    fn is_to_read(&self) -> bool {
        self.schedules.as_ref().is_some_and(Part::is_to_read)
            || self.timers.as_ref().is_some_and(Part::is_to_read)
    }

    /// Returns the next, and its name. Missing rows are read by so many `rows`.
    pub(crate) async fn next(&mut self, rows: u32) -> Result<Option<(String, Found)>> {
        let reader = &self.catalog.reader;
        if let Some(part) = &mut self.schedules {
            if let Some(query) = part.wanted() {
                let read = reader.schedules(query.limit(rows)).await?;
                part.read(rows, read, |query, last| query.after(&*last.name));
            }
        }
        if let Some(part) = &mut self.timers {
            if let Some(query) = part.wanted() {
                let read = reader.timers(query.limit(rows)).await?;
                part.read(rows, read, after);
            }
        }
        let schedules = self.schedules.as_mut().map(|part| &mut part.rows);
        let timers = self.timers.as_mut().map(|part| &mut part.rows);
        let name = |timer: &Timer| timer.new.name.clone().unwrap_or_default();
        let is_timer = match (
            schedules.as_ref().and_then(|rows| rows.front()),
            timers.as_ref().and_then(|rows| rows.front()),
        ) {
            (Some(row), Some(timer)) => name(timer) < row.name,
            (None, timer) => timer.is_some(),
            (Some(_), None) => false,
        };
        Ok(if is_timer {
            let timer = timers.and_then(VecDeque::pop_front);
            timer.map(|timer| (name(&timer), Found::Once(timer)))
        } else {
            let row = schedules.and_then(VecDeque::pop_front);
            row.map(|row| (row.name.clone(), Found::Repeated(row)))
        })
    }
}

/// Query of a list of schedules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    /// Prefix of the keys.
    pub(crate) prefix: Option<String>,
    /// State of the schedules.
    pub(crate) state: Option<ScheduleState>,
    /// Kind of the schedules.
    pub(crate) kind: Option<ScheduleKind>,
    /// Text that the keys contain, in small or large letters.
    pub(crate) search: Option<String>,
    /// Label of the schedules.
    pub(crate) label: Option<Label>,
    /// Number of runs to show of each schedule, the last to end.
    pub(crate) last_runs: u32,
    /// True to count the schedules of all pages.
    pub(crate) count: bool,
    /// Most schedules of the page.
    pub(crate) limit: u32,
    /// Key that the page comes after.
    pub(crate) cursor: Option<String>,
}

/// Label that schedules are found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Name of the label.
    pub(crate) name: String,
    /// Value of the label; any if it is `None`.
    pub(crate) value: Option<String>,
}

impl Label {
    fn is_of(&self, found: &Found) -> bool {
        let labels = found.labels();
        let is_value = |is: &String| self.value.as_ref().is_none_or(|wanted| is == wanted);
        labels.get(&self.name).is_some_and(is_value)
    }
}

impl Catalog {
    /// Reads the repeating schedules of an app whose keys have a prefix, by key.
    pub(crate) fn repeating(&self, app: &str, prefix: &str) -> Live<'_> {
        Live::new(self, Some(ScheduleQuery::new().prefix(model::name(app, prefix))), None)
    }

    /// Lists schedules, and one-shots that are not over, by key.
    pub(crate) async fn list(&self, app: &str, query: Query) -> Result<Page<Schedule>> {
        let total = match query.count {
            true => Some(self.total(app, &query).await?),
            false => None,
        };
        let mut page = match query.search {
            Some(_) => self.searched(app, &query).await?,
            None => self.listed(app, &query).await?,
        };
        if query.last_runs > 0 {
            self.show_last_runs(app, &mut page, query.last_runs).await?;
        }
        Ok(Page { total, ..page })
    }

    /// Reads the matches of a query, label and text aside, after a name.
    fn live(&self, app: &str, query: &Query, after: Option<String>) -> Live<'_> {
        let prefix = model::name(app, query.prefix.as_deref().unwrap_or(""));
        let enabled = match query.state {
            Some(ScheduleState::Enabled) => Some(true),
            Some(ScheduleState::Disabled) => Some(false),
            _ => None,
        };
        let state = match query.state {
            Some(ScheduleState::Running) => Some(State::Running),
            Some(ScheduleState::Pending | ScheduleState::Disabled) => Some(State::Pending),
            _ => None,
        };
        let is_any = query.state.is_none();
        let repeats = query.kind != Some(ScheduleKind::Once) && (is_any || enabled.is_some());
        let happens = query.kind != Some(ScheduleKind::Repeated) && (is_any || state.is_some());
        let mut schedules = ScheduleQuery::new().prefix(&*prefix);
        (schedules.enabled, schedules.after) = (enabled, after.clone());
        // The index of a kind keeps enabled schedules apart from disabled ones. The index of names
        // has both, and few of them may match.
        schedules.kind = enabled.map(|_| model::kind(app));
        let mut timers = TimerQuery::new().by_name(prefix, after);
        timers.state = state;
        match query.state {
            None => {}
            // Held, which no time is.
            Some(ScheduleState::Disabled) => {
                (timers.kind, timers.since) = (Some(model::kind(app)), Some(Time::NEVER));
            }
            // A timer that waits in a lane is never due, and a held one is not pending.
            Some(ScheduleState::Pending) => {}
            Some(_) => timers.kind = Some(model::kind(app)),
        }
        Live::new(self, repeats.then_some(schedules), happens.then_some(timers))
    }

    async fn listed(&self, app: &str, query: &Query) -> Result<Page<Schedule>> {
        let now = self.reader.now().await?;
        let after = query.cursor.as_ref().map(|key| model::name(app, key));
        let mut live = self.live(app, query, after);
        let mut left = PageBudget::new(query.limit as usize);
        let (mut items, mut next, mut last) = (Vec::new(), None, None);
        let began = self.timer.now();
        while let Some((name, found)) = live.next(left.rows()).await? {
            if left.is_none() {
                next = last;
                break;
            }
            last = model::app_and_key(&name).map(|(_, key)| key.to_owned());
            let fits = query.takes(&found);
            match last.as_ref().filter(|_| fits).and_then(|key| found.view(app, key, now)) {
                Some(view) => {
                    left.take(found.size() + query.bytes());
                    items.push(without_body(view));
                }
                None => left.pass(found.size()),
            }
            if live.is_to_read() && self.has_read_long(began) {
                next = last;
                break;
            }
        }
        Ok(Page::new(items, next))
    }

    /// Returns whether nothing more is to be read for a page that was begun at this time.
    pub(super) fn has_read_long(&self, began: Instant) -> bool {
        self.timer.now().duration_since(began) >= READING
    }

    /// Counts the schedules of all pages of a list with a label, among as many as a page looks at
    /// that lists none.
    pub(super) async fn total_of_label(&self, app: &str, query: &Query) -> Result<Total> {
        let mut live = self.live(app, query, None);
        let mut left = PageBudget::new(1);
        let mut total = Total { count: 0, at_least: false };
        let began = self.timer.now();
        while let Some((name, found)) = live.next(ROWS).await? {
            if left.is_none() || self.has_read_long(began) {
                total.at_least = true;
                break;
            }
            left.pass(found.size());
            total.count += u64::from(query.finds(&name) && query.takes(&found));
        }
        Ok(total)
    }
}

impl Query {
    /// Returns whether it is of the state, the kind and the label that are asked for.
    pub(super) fn takes(&self, found: &Found) -> bool {
        let kind = match found {
            Found::Repeated(_) => ScheduleKind::Repeated,
            _ => ScheduleKind::Once,
        };
        self.kind.is_none_or(|wanted| kind == wanted)
            && self.state.is_none_or(|wanted| found.state() == wanted)
            && self.label.as_ref().is_none_or(|label| label.is_of(found))
    }

    /// Returns whether the key of a name contains the text that is asked for.
    fn finds(&self, name: &str) -> bool {
        let text = self.search.as_ref().map(|text| text.to_ascii_lowercase());
        text.is_none_or(|text| {
            model::app_and_key(name)
                .is_some_and(|(_, key)| key.to_ascii_lowercase().contains(&text))
        })
    }

    /// Returns about how many bytes the runs of an item have.
    pub(super) fn bytes(&self) -> usize {
        self.last_runs as usize * LAST_RUN
    }
}

/// A schedule as lists show it.
pub(super) fn without_body(mut schedule: Schedule) -> Schedule {
    if let Some(callback) = schedule.callback.as_mut().filter(|callback| !callback.body.is_empty())
    {
        callback.body_bytes = Some(std::mem::take(&mut callback.body).len());
    }
    schedule
}

#[cfg(test)]
mod tests;
