//! Runs: occurrences that are due, that run, and that are over.

use tourbillon_durable::store::{RecordQuery, State, Timer, TimerOrder, TimerQuery};
use tourbillon_durable::{Outcome, Record, RecordSummary, Revival, StoreError, Time, TimerId};

use super::Catalog;
use super::error::{Conflict, Error, Missing, Result};
use super::pages::{PageBudget, ROWS};
use crate::callback::{open, read_attempts};
use crate::model::{self, CompletionState, LastRun, Page, Run, RunState, Stored};

/// Query of a list of runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunQuery {
    /// Key of the schedule.
    pub(crate) key: Option<String>,
    /// Text that the keys have to contain, in small or large letters.
    pub(crate) search: Option<String>,
    /// State of the runs; `None` for runs that are over.
    pub(crate) state: Option<RunState>,
    /// Earliest time of a record, or earliest due time.
    pub(crate) since: Option<Time>,
    /// End of these times, exclusive.
    pub(crate) until: Option<Time>,
    /// True to list runs that are over from the newest to the oldest.
    pub(crate) newest_first: bool,
    /// Most runs of the page.
    pub(crate) limit: u32,
    /// `next` of the page before.
    pub(crate) cursor: Option<String>,
}

impl RunQuery {
    /// Returns whether a run is listed that the store has found.
    fn takes(&self, run: &Run) -> bool {
        // Runs that wait for their completion are pending for the store.
        let is_state = self.state.is_none_or(|state| state == run.state);
        // Both are of ASCII, or the text is in no key.
        let has = |part: &String| run.key.to_ascii_lowercase().contains(&part.to_ascii_lowercase());
        is_state && self.search.as_ref().is_none_or(has)
    }
}

/// A run that was read: its place in the list, how much of it is stored, and how it is shown.
type Row = ((Time, TimerId), usize, Run);

impl Catalog {
    /// Lists runs.
    pub(crate) async fn runs(&self, app: &str, query: RunQuery) -> Result<Page<Run>> {
        let cursor = query.cursor.as_deref().map(read_cursor).transpose()?;
        let mut left = PageBudget::new(query.limit as usize);
        let (mut items, mut last) = (Vec::new(), cursor);
        let next = |last: Option<(Time, TimerId)>| {
            last.map(|(time, id)| format!("{}.{id}", time.as_micros()))
        };
        let began = self.timer.now();
        loop {
            let limit = left.rows();
            let rows = self.rows(app, &query, limit, last).await?;
            let is_last = rows.len() < limit as usize;
            for (place, stored, run) in rows {
                if left.is_none() {
                    return Ok(Page::new(items, next(last)));
                }
                last = Some(place);
                if !query.takes(&run) {
                    left.pass(stored);
                    continue;
                }
                left.take(stored);
                items.push(run);
            }
            if is_last {
                return Ok(Page::new(items, None));
            }
            if self.has_read_long(began) {
                return Ok(Page::new(items, next(last)));
            }
        }
    }

    /// Reads so many rows of a list after a place, of timers or of records.
    async fn rows(
        &self,
        app: &str,
        query: &RunQuery,
        limit: u32,
        after: Option<(Time, TimerId)>,
    ) -> Result<Vec<Row>> {
        let unfinished = match query.state {
            Some(RunState::Pending | RunState::Waiting) => Some(State::Pending),
            Some(RunState::Running) => Some(State::Running),
            _ => None,
        };
        let name = query.key.as_deref().map(|key| model::name(app, key));
        if unfinished.is_some() {
            let mut page = TimerQuery::new().kind(model::kind(app)).limit(limit);
            (page.name, page.since, page.until) = (name, query.since, query.until);
            (page.state, page.order) = (unfinished, TimerOrder::Due { after });
            let row = |timer: &Timer| {
                let stored = timer.new.payload.len() + timer.detail.len();
                ((timer.new.due, timer.new.id), stored, of_timer(timer))
            };
            return Ok(self.reader.timers(page).await?.iter().map(row).collect());
        }
        let mut page = RecordQuery::new().kind(model::kind(app)).limit(limit);
        (page.name, page.since, page.until) = (name, query.since, query.until);
        (page.newest_first, page.after) = (query.newest_first, after);
        page.outcome = query.state.and_then(outcome_of);
        let row = |record: &Record| {
            let stored = record.payload.as_ref().map_or(0, Vec::len) + record.detail.len();
            ((record.recorded, record.timer), stored, of_record(record))
        };
        Ok(self.reader.records(page).await?.iter().map(row).collect())
    }

    /// Calls `each` with the runs of a key: first the unfinished ones, and then up to about `most`
    /// finished ones, the newest first.
    pub(crate) async fn each_run(
        &self,
        app: &str,
        key: &str,
        most: usize,
        mut each: impl FnMut(Run),
    ) -> Result<()> {
        let name = model::name(app, key);
        let waiting = self.reader.timers(TimerQuery::new().name(&*name).limit(ROWS)).await?;
        waiting.iter().rev().for_each(|timer| each(of_timer(timer)));
        let mut newest = RecordQuery::new().name(name).newest_first().limit(ROWS);
        let mut counted = 0;
        loop {
            let records = self.reader.records(newest.clone()).await?;
            let is_last = records.len() < ROWS as usize;
            newest.after = records.last().map(|record| (record.recorded, record.timer));
            counted += records.len();
            records.iter().for_each(|record| each(of_record(record)));
            if is_last || counted >= most {
                return Ok(());
            }
        }
    }

    /// Finds a run of the app.
    pub(crate) async fn run(&self, app: &str, id: &str) -> Result<Run> {
        let timer = id.parse().map_err(|_| Missing::Run)?;
        let run = match self.client.timers(TimerQuery::new().timer(timer)).await?.first() {
            Some(timer) => Some(of_timer(timer)),
            None => {
                let by_id = RecordQuery::new().timer(timer);
                self.client.records(by_id).await?.first().map(of_record)
            }
        };
        run.filter(|run| run.app == app).ok_or(Error::Missing(Missing::Run))
    }

    /// Returns the run of a key that ended last, if it is dead; skipped and cancelled runs aside.
    pub(crate) async fn dead_before(
        &self,
        app: &str,
        key: &str,
    ) -> std::result::Result<Option<TimerId>, StoreError> {
        let newest = RecordQuery::new().name(model::name(app, key)).newest_first().limit(1);
        let done = self.reader.records(newest.clone().outcome(Outcome::Succeeded)).await?.pop();
        let done = done.map(|done| (done.recorded, done.timer));
        // Searched no further back, as runs that are all successful have none.
        let mut dead = newest.outcome(Outcome::Dead);
        dead.since = done.map(|(recorded, _)| recorded);
        let dead = self.reader.records(dead).await?.pop();
        Ok(dead.filter(|dead| Some((dead.recorded, dead.timer)) > done).map(|dead| dead.timer))
    }

    /// Returns the most attempts that a run may have, unless it is over.
    pub(crate) async fn most_attempts(
        &self,
        run: TimerId,
    ) -> std::result::Result<Option<u32>, StoreError> {
        let timers = self.client.timers(TimerQuery::new().timer(run)).await?;
        Ok(timers.first().map(|timer| timer.new.retry.attempts))
    }

    /// Makes a new run of a dead one. A repeat makes nothing, and returns the same run.
    pub(crate) async fn retry(&self, app: &str, id: &str) -> Result<TimerId> {
        let run = self.run(app, id).await?;
        let timer = run.id.parse().map_err(|_| Missing::Run)?;
        let id = match self.client.revive(timer).await? {
            Revival::Done(id) => id,
            Revival::NotDead => return Err(Conflict::NotDead.into()),
            Revival::Disabled => return Err(Conflict::RunDisabled.into()),
            Revival::Removed => return Err(Conflict::RunDeleted.into()),
            Revival::Busy => return Err(Conflict::Overlap.into()),
            Revival::Gone => return Err(Missing::Run.into()),
        };
        // It may have been made before, and be over; or a DELETE came first, which made it to free
        // the key.
        let record = self.client.records(RecordQuery::new().timer(id)).await?.pop();
        if record.is_some_and(|record| record.outcome == Outcome::Cancelled) {
            return Err(Conflict::Cancelled(id.to_string()).into());
        }
        Ok(id)
    }
}

fn read_cursor(text: &str) -> Result<(Time, TimerId)> {
    let cursor = text
        .split_once('.')
        .and_then(|(time, id)| Some((Time::from_micros(time.parse().ok()?), id.parse().ok()?)));
    cursor.ok_or_else(|| Error::field("cursor", "it is not a cursor from a list"))
}

fn outcome_of(state: RunState) -> Option<Outcome> {
    match state {
        RunState::Succeeded => Some(Outcome::Succeeded),
        RunState::Dead => Some(Outcome::Dead),
        RunState::Skipped => Some(Outcome::Skipped),
        RunState::Cancelled => Some(Outcome::Cancelled),
        RunState::Pending | RunState::Running | RunState::Waiting => None,
    }
}

fn state_of(outcome: Outcome) -> RunState {
    match outcome {
        Outcome::Succeeded => RunState::Succeeded,
        Outcome::Dead => RunState::Dead,
        Outcome::Skipped => RunState::Skipped,
        _ => RunState::Cancelled,
    }
}

/// Returns the time of a finished run. A run that was held until it was taken back has none.
fn scheduled_for(time: Time, recorded: Time) -> String {
    model::rfc3339(if time == Time::NEVER { recorded } else { time })
}

/// Returns the app and the key of a run. A run that was made again may have no name.
fn app_and_key(kind: &str, name: Option<&str>, payload: Option<&[u8]>) -> (String, String) {
    if let Some((app, key)) = name.and_then(model::app_and_key) {
        return (app.to_owned(), key.to_owned());
    }
    let app = kind.strip_prefix("http.").unwrap_or_default();
    let stored = payload.and_then(|payload| serde_json::from_slice::<Stored>(payload).ok());
    (app.to_owned(), stored.map(|stored| stored.key).unwrap_or_default())
}

/// Returns whether a pending timer waits until its receiver completes its last attempt.
fn waits(timer: &Timer) -> bool {
    // Seldom, and known without a look at the payload.
    let Some(last) = read_attempts(&timer.detail).pop() else { return false };
    let Some(completion) = &last.completion else { return false };
    let stored = serde_json::from_slice::<Stored>(&timer.new.payload);
    let is_open = |stored: Stored| open(&timer.detail, &stored.definition, timer.version).is_some();
    completion.state == CompletionState::Waiting && stored.is_ok_and(is_open)
}

/// A run that is not over.
fn of_timer(timer: &Timer) -> Run {
    let new = &timer.new;
    let (app, key) = app_and_key(&new.kind, new.name.as_deref(), Some(&new.payload));
    let (scheduled_for, due) = (new.scheduled_for, new.due);
    Run {
        id: new.id.to_string(),
        app,
        key,
        scheduled_for: model::rfc3339(scheduled_for),
        state: match timer.running {
            Some(_) => RunState::Running,
            None if waits(timer) => RunState::Waiting,
            None => RunState::Pending,
        },
        reason: None,
        due: (due != Time::NEVER).then(|| model::rfc3339(due)),
        recorded: None,
        attempts: timer.attempt,
        failures: timer.failures,
        node: timer.running.map(|lease| lease.node.to_string()),
        ended_attempts: read_attempts(&timer.detail),
        can_retry: false,
    }
}

/// A run that is over, as lists of schedules show it.
pub(super) fn of_summary(record: &RecordSummary) -> LastRun {
    let last = read_attempts(&record.detail).pop();
    LastRun {
        id: record.timer.to_string(),
        scheduled_for: scheduled_for(record.scheduled_for, record.recorded),
        state: state_of(record.outcome),
        recorded: model::rfc3339(record.recorded),
        ms: last.as_ref().map(|last| last.ms),
        status: last.and_then(|last| last.status),
    }
}

/// A run that is over.
pub(super) fn of_record(record: &Record) -> Run {
    let (app, key) = app_and_key(&record.kind, record.name.as_deref(), record.payload.as_deref());
    Run {
        id: record.timer.to_string(),
        app,
        key,
        scheduled_for: scheduled_for(record.scheduled_for, record.recorded),
        state: state_of(record.outcome),
        reason: record.reason.map(|reason| reason.to_string()),
        due: None,
        recorded: Some(model::rfc3339(record.recorded)),
        attempts: record.attempts,
        failures: record.failures,
        node: record.node.map(|node| node.to_string()),
        ended_attempts: read_attempts(&record.detail),
        can_retry: record.outcome == Outcome::Dead && record.payload.is_some(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tourbillon::Timer;
    use tourbillon_durable::store::{Memory, NewTimer};
    use tourbillon_durable::{Store, Time, TimerId};

    use super::RunQuery;
    use crate::catalog::pages::READING;
    use crate::catalog::{Label, Query};
    use crate::config::Config;
    use crate::model::RunState;
    use crate::service::Service;
    use crate::watched::Watched;

    const RUNS: usize = 1_000;

    /// A service whose app `a` has [`RUNS`] pending runs. Each read of a list takes so long.
    fn service(each: Duration) -> (Arc<Service>, Arc<AtomicUsize>) {
        let mut memory = Memory::new(&Timer::global());
        let at = Time::from_micros(7_258_118_400_000_000);
        let timers = (0..RUNS).map(|number| {
            let mut timer = NewTimer::new(TimerId::new(at), "http.a", at);
            timer.name = Some(format!("a/k{number:05}"));
            timer
        });
        memory.insert(&timers.collect::<Vec<_>>()).unwrap();
        let (clock, timer) = crate::watched::clocked();
        let lists = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&lists);
        let store = Watched::before(memory, move |name| {
            if name == "timers" {
                count.fetch_add(1, Ordering::SeqCst);
                clock.advance(each);
            }
        });
        (Service::start(store, Config::default(), &timer).unwrap(), lists)
    }

    fn of(state: RunState, limit: u32, cursor: Option<String>) -> RunQuery {
        RunQuery { state: Some(state), newest_first: true, limit, cursor, ..RunQuery::default() }
    }

    #[tokio::test]
    async fn a_list_of_runs_by_a_state_that_few_have_reads_many_rows_at_a_time() {
        let (service, lists) = service(Duration::ZERO);
        for limit in [1, 1_000] {
            lists.store(0, Ordering::SeqCst);
            let page = service.catalog.runs("a", of(RunState::Waiting, limit, None)).await.unwrap();
            assert_eq!((page.items.len(), page.next), (0, None));
            let lists = lists.load(Ordering::SeqCst);
            assert!(lists <= RUNS / 64 + 2, "{limit}: {lists}");
        }
        service.stop().await;
    }

    #[tokio::test]
    async fn a_page_of_a_store_that_is_slow_says_in_time_where_to_go_on() {
        let each = Duration::from_secs(3);
        let (service, lists) = service(each);
        let most = READING.div_duration_f64(each).ceil() as usize;
        for (state, count) in [(RunState::Waiting, 0), (RunState::Pending, RUNS)] {
            let (mut found, mut pages, mut cursor) = (0, 0, None);
            loop {
                lists.store(0, Ordering::SeqCst);
                let page = service.catalog.runs("a", of(state, 1_000, cursor)).await.unwrap();
                assert!(lists.load(Ordering::SeqCst) <= most);
                (found, pages) = (found + page.items.len(), pages + 1);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, count);
            assert!(pages > 1);
        }
        let label = Some(Label { name: "few".to_owned(), value: None });
        let mut query = Query { label, count: true, limit: 100, ..Query::default() };
        let mut pages = 0;
        loop {
            lists.store(0, Ordering::SeqCst);
            let page = service.catalog.list("a", query.clone()).await.unwrap();
            // With the total.
            assert!(lists.load(Ordering::SeqCst) <= 2 * most);
            assert!(page.total.is_none_or(|total| total.at_least));
            (query.count, query.cursor, pages) = (false, page.next, pages + 1);
            if query.cursor.is_none() {
                break;
            }
        }
        assert!(pages > 1);
        service.stop().await;
    }
}
