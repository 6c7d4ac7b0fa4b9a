//! [`Every`]: makes or changes a schedule; other changes of schedules.

use std::time::Duration;

use super::Client;
use super::once::{check, check_lane};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{ScheduleId, TimerId};
use crate::plan;
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::Reason;
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{Change, Changed, Result, ScheduleRow, Store};
use crate::time::Time;

/// Number of times that a change is planned anew because another came first.
const TRIES: usize = 1_000;

/// Number of repeats after a conflict. A store reports one only after it has waited itself.
const CONFLICTS: usize = 3;

/// First time at which a schedule cannot be next: stores do not keep much later times. 50,000
/// years.
const TOO_LATE: Time = Time::from_micros(50_000 * 365 * 86_400 * 1_000_000);

/// A schedule to be made or changed with [`upsert`](Self::upsert).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `upsert`"]
pub struct Every {
    client: Client,
    wanted: Wanted,
    /// Time of the database that the caller has read.
    as_of: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) schedule: Schedule,
    pub(crate) policies: Policies,
    pub(crate) lane: Option<String>,
    pub(crate) payload: Vec<u8>,
    /// State to set; `None` keeps it, and enables a new schedule.
    pub(crate) enabled: Option<bool>,
    /// Version that the schedule must have; `Some(None)` if the schedule must not exist.
    pub(crate) expect: Option<Option<u64>>,
}

impl Wanted {
    pub(crate) fn new(name: &str, kind: &str, schedule: Schedule) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            schedule,
            policies: Policies::default(),
            lane: None,
            payload: Vec::new(),
            enabled: None,
            expect: None,
        }
    }
}

/// Result of an [`Every`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upsert {
    /// No schedule had its name.
    Created,
    /// There was one, and it was as wanted.
    Unchanged,
    /// The schedule existed, and is changed. It stays enabled or disabled unless [`Every::enabled`]
    /// was called.
    Changed {
        /// Occurrences that were claimed before, each with its number of attempts. They keep the
        /// payload and the retries that they were made with: those that run and, if the times, the
        /// kind and the lane stay, those that wait for another attempt.
        claimed: Vec<(TimerId, u32)>,
    },
    /// The version is not that of [`Every::expect`]; nothing was changed.
    Stale,
}

/// Result of enabling, disabling or removing a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScheduleUpdate {
    /// The schedule was switched or removed.
    Done {
        /// Attempts that run still, each with its number: they are not interrupted. Of a schedule
        /// that is enabled from now, also those that wait to be repeated.
        running: Vec<(TimerId, u32)>,
    },
    /// The schedule was so already.
    Unchanged,
    /// There is no schedule of that name.
    Gone,
}

/// Result of a try to change a schedule.
pub(super) enum Tried<T> {
    Done(T),
    /// A part of its backlog is recorded; more follows.
    Further,
    /// Another change came first.
    Stale,
}

impl<T> Tried<T> {
    pub(super) fn map<U>(self, to: impl FnOnce(T) -> U) -> Tried<U> {
        match self {
            Self::Done(done) => Tried::Done(to(done)),
            Self::Further => Tried::Further,
            Self::Stale => Tried::Stale,
        }
    }
}

impl Every {
    pub(super) fn new(client: &Client, name: &str, schedule: Schedule) -> Self {
        Self { client: client.clone(), wanted: Wanted::new(name, name, schedule), as_of: None }
    }

    /// Sets the kind of handler that its occurrences are for; the schedule's name by default.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.wanted.kind = kind.into();
        self
    }

    /// For the handler; at most 64 KiB.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.wanted.payload = payload.into();
        self
    }

    /// For the handler, as JSON.
    ///
    /// # Errors
    ///
    /// If `value` cannot be written so.
    #[cfg(feature = "serde")]
    pub fn json<T: serde::Serialize>(mut self, value: &T) -> serde_json::Result<Self> {
        self.wanted.payload = serde_json::to_vec(value)?;
        Ok(self)
    }

    /// Sets the policy for occurrences that no node was there for; [`Missed::Coalesce`] by default.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.wanted.policies.missed = missed;
        self
    }

    /// Sets how late an occurrence may be found and still be on time; a minute by default.
    pub fn on_time_within(mut self, span: Duration) -> Self {
        self.wanted.policies.on_time_within = span;
        self
    }

    /// Sets the policy for occurrences that overlap; [`Overlap::Allow`] by default.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.wanted.policies.overlap = overlap;
        self
    }

    /// Sets how much later than scheduled an occurrence may be due; none by default.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.wanted.policies.jitter = most;
        self
    }

    /// Sets the retries of failed attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.wanted.policies.retry = retry;
        self
    }

    /// Runs the schedule's occurrences in a lane, one after another, and after earlier timers and
    /// occurrences of the lane: see [`Once::lane`](super::Once::lane). By default they are in no
    /// lane, and an [`upsert`](Self::upsert) without a lane takes them out of it. Jitter delays
    /// none of them.
    ///
    /// With [`Overlap::Skip`], an occurrence is skipped also while one before it waits in the lane.
    /// [`Overlap::Queue`] beside a lane is an error: the lane is a queue. Like a change of the
    /// times, a change of the lane takes back pending occurrences. An attempt that still runs in
    /// the old lane may overlap the occurrences that a [backfill](Client::backfill) makes in the
    /// new one.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.wanted.lane = Some(lane.into());
        self
    }

    /// Enables or disables the schedule. By default it stays as it is, and a new one is enabled.
    ///
    /// `false` does the same as [`Client::disable`], except that the answer does not name running
    /// attempts.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.wanted.enabled = Some(enabled);
        self
    }

    /// Changes the schedule only if it has this [version](ScheduleRow::version); with `None`, makes
    /// it only if there is none.
    pub fn expect(mut self, version: Option<u64>) -> Self {
        self.wanted.expect = Some(version);
        self
    }

    /// Takes `now` for the database's time, which the caller has just read, as by
    /// [`Client::named`]. With [`expect(None)`](Self::expect), it spares [`upsert`](Self::upsert) a
    /// read of its own. If the schedule's first occurrence is past by then, it reads all the same.
    pub fn as_of(mut self, now: Time) -> Self {
        self.as_of = Some(now);
        self
    }

    /// Makes the schedule, or changes the existing one with its name.
    ///
    /// If its times, kind or lane change, pending occurrences are taken back, and the schedule
    /// begins anew from now; occurrences that were due until then and did not run are recorded as
    /// [replaced](Reason::Replaced). Otherwise the schedule continues. Once this is answered, each
    /// first attempt has the new payload and retries. Occurrences that were claimed before keep
    /// the old ones, and are [named](Upsert::Changed).
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) for a kind, a name, a lane or a payload that no store
    /// takes, or for a lane beside a queue; nothing is changed then. If the error is
    /// [`Uncertain`](StoreErrorKind::Uncertain), it may be made. It can be repeated.
    pub async fn upsert(self) -> Result<Upsert> {
        let Self { client, wanted, as_of } = self;
        check(&wanted.kind, Some(&wanted.name), &wanted.payload)?;
        check_lane(wanted.lane.as_deref())?;
        if wanted.lane.is_some() && wanted.policies.overlap.has_queue() {
            let why = "a schedule has a lane or a queue, not both";
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        client.upsert(wanted, as_of).await
    }
}

impl Client {
    /// Enables a schedule, from now. Also ends a pause.
    pub async fn enable(&self, name: &str) -> Result<ScheduleUpdate> {
        let name = name.to_owned();
        self.call(move |store| enable(store, &name)).await
    }

    /// Disables a schedule. Pending occurrences are taken back: once this returns
    /// [`ScheduleUpdate::Done`], no attempt starts, except those named as running. Occurrences that
    /// were due and did not run are recorded as [disabled](Reason::Disabled).
    pub async fn disable(&self, name: &str) -> Result<ScheduleUpdate> {
        let name = name.to_owned();
        self.call(move |store| stop(store, &name, Reason::Disabled)).await
    }

    /// Pauses an enabled schedule until an instant: pending occurrences are taken back as
    /// [`disable`](Self::disable) does it, recorded as [paused](Reason::Paused) if they were due,
    /// and it continues with its first occurrence at `until` or later. Those in between are none.
    ///
    /// The pause is stored with the schedule, as [`ScheduleRow::paused`]. [`enable`](Self::enable)
    /// ends it, and so do other times; another change does not. Meanwhile the schedule is enabled,
    /// so that [`run_now`](Self::run_now) and [`backfill`](Self::backfill) make occurrences. If the
    /// schedule is disabled, or the instant is past, nothing changes:
    /// [`ScheduleUpdate::Unchanged`].
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) if the first occurrence after the pause is in 50,000
    /// years or later.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_durable::store::Memory;
    /// use tourbillon_durable::{Client, Schedule};
    ///
    /// # pollster::block_on(async {
    /// let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global())))?;
    /// client.every("report", Schedule::every(Duration::from_secs(60))).upsert().await?;
    /// let until = client.now().await? + Duration::from_secs(3_600);
    /// client.pause("report", until).await?;
    /// assert!(client.upcoming("report", 1).await?[0] >= until);
    /// client.enable("report").await?;
    /// assert!(client.upcoming("report", 1).await?[0] < until);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn pause(&self, name: &str, until: impl Into<Time>) -> Result<ScheduleUpdate> {
        let (name, until) = (name.to_owned(), until.into());
        self.call(move |store| pause(store, &name, until)).await
    }

    /// Removes a schedule, as [`disable`](Self::disable) stops it. Its records stay.
    pub async fn remove(&self, name: &str) -> Result<ScheduleUpdate> {
        let name = name.to_owned();
        self.call(move |store| stop(store, &name, Reason::Removed)).await
    }

    /// Returns the next occurrences of an enabled schedule, at most `count` of them, that are not
    /// timers yet. Excluded ones are left out.
    pub async fn upcoming(&self, name: &str, count: usize) -> Result<Vec<Time>> {
        let name = name.to_owned();
        self.read(move |store| {
            let row = store.schedule(&name)?.1.filter(|row| row.enabled);
            let Some((row, next)) = row.and_then(|row| row.next.map(|next| (row, next))) else {
                return Ok(Vec::new());
            };
            Ok(row.rule()?.schedule.occurrences_from(next).take(count).collect())
        })
        .await
    }
}

/// Plans a change from the state that it reads, and makes it; repeats both if another change came
/// between.
pub(super) fn attempt<T>(mut change: impl FnMut() -> Result<Tried<T>>) -> Result<T> {
    let (mut stale, mut conflicts, mut is_begun) = (0, 0, false);
    // A part that was committed stays.
    let judged = |is_begun: bool, error: StoreError| match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::Conflict if is_begun => {
            StoreError::new(StoreErrorKind::Uncertain, error)
        }
        _ => error,
    };
    loop {
        match change() {
            Ok(Tried::Done(done)) => return Ok(done),
            Ok(Tried::Further) => (conflicts, is_begun) = (0, true),
            Ok(Tried::Stale) if stale < TRIES => stale += 1,
            Ok(Tried::Stale) => {
                let why = "others changed the schedule at every try; try again";
                return Err(judged(is_begun, StoreError::new(StoreErrorKind::Conflict, why)));
            }
            Err(error) if error.kind() == StoreErrorKind::Conflict && conflicts + 1 < CONFLICTS => {
                conflicts += 1;
            }
            Err(error) => return Err(judged(is_begun, error)),
        }
    }
}

/// Answers from a read, once that read is as durable as a write.
pub(super) fn seen<T>(store: &mut dyn Store, answer: T) -> Result<Tried<T>> {
    store.confirm()?;
    Ok(Tried::Done(answer))
}

/// Returns the row of a schedule that is made at `now`.
pub(super) fn new_row(wanted: &Wanted, enabled: bool, now: Time) -> Result<ScheduleRow> {
    let next = check_next(wanted.schedule.next_of_all(now))?;
    let rule = Ok(Rule::new(wanted.schedule.clone(), wanted.policies));
    Ok(ScheduleRow {
        payload: wanted.payload.clone(),
        enabled,
        lane: wanted.lane.clone(),
        ..ScheduleRow::new(ScheduleId::new(now), &wanted.name, &wanted.kind, rule, next)
    })
}

pub(crate) fn upsert(store: &mut dyn Store, wanted: &Wanted) -> Result<Upsert> {
    let mut expect = wanted.expect;
    attempt(|| {
        let (now, old) = store.schedule(&wanted.name)?;
        if expect.is_some_and(|expect| expect != old.as_ref().map(|old| old.version)) {
            return seen(store, Upsert::Stale);
        }
        let enabled = wanted.enabled.or(old.as_ref().map(|old| old.enabled)).unwrap_or(true);
        let mut row = new_row(wanted, enabled, now)?;
        let Some(old) = old else {
            let change = Change { expect: None, row: Some(&row), ..plain(&row) };
            return Ok(make(store, &change)?.map(|_| Upsert::Created));
        };
        // Pending timers have the old lane and the old kind, whose workers may be gone.
        let old_times = old.rule.as_ref().map(|rule| &rule.schedule);
        let is_same = old.kind == row.kind && old.lane == row.lane;
        let goes_on = old_times == Ok(&wanted.schedule) && is_same;
        (row.id, row.version) = (old.id, old.version);
        if goes_on && enabled == old.enabled {
            (row.next, row.wall, row.paused) = (old.next, old.wall.clone(), old.paused);
        }
        if row == old {
            return seen(store, Upsert::Unchanged);
        }
        let reason = match enabled {
            false => Some(Reason::Disabled),
            true => (!goes_on).then_some(Reason::Replaced),
        };
        let made = replace(store, &old, Some(row), now, reason.filter(|_| old.enabled))?;
        if let Tried::Further = made {
            // A part of the backlog is recorded, which counts as a change.
            expect = expect.map(|version| version.map(|version| version + 1));
        }
        Ok(made.map(|claimed| Upsert::Changed { claimed }))
    })
}

pub(crate) fn enable(store: &mut dyn Store, name: &str) -> Result<ScheduleUpdate> {
    attempt(|| {
        let (now, old) = store.schedule(name)?;
        let Some(old) = old else { return seen(store, ScheduleUpdate::Gone) };
        if old.enabled && old.paused.is_none_or(|until| until <= now) {
            return seen(store, ScheduleUpdate::Unchanged);
        }
        let next = old.rule()?.schedule.next_of_all(now);
        let row = ScheduleRow { enabled: true, paused: None, ..old.clone() }.with_next(next);
        let made = make(store, &Change { row: Some(&row), ..plain(&old) })?;
        Ok(made.map(|running| ScheduleUpdate::Done { running }))
    })
}

pub(crate) fn stop(store: &mut dyn Store, name: &str, reason: Reason) -> Result<ScheduleUpdate> {
    attempt(|| {
        let (now, old) = store.schedule(name)?;
        let Some(old) = old else { return seen(store, ScheduleUpdate::Gone) };
        let is_removal = reason == Reason::Removed;
        if !old.enabled && !is_removal {
            return seen(store, ScheduleUpdate::Unchanged);
        }
        let row = ScheduleRow { enabled: false, paused: None, ..old.clone() }.with_next(None);
        let made = replace(store, &old, (!is_removal).then_some(row), now, Some(reason))?;
        Ok(made.map(|running| ScheduleUpdate::Done { running }))
    })
}

pub(crate) fn pause(store: &mut dyn Store, name: &str, until: Time) -> Result<ScheduleUpdate> {
    attempt(|| {
        let (now, old) = store.schedule(name)?;
        let Some(old) = old else { return seen(store, ScheduleUpdate::Gone) };
        if !old.enabled || until <= now || old.paused == Some(until) {
            return seen(store, ScheduleUpdate::Unchanged);
        }
        let next = match &old.rule {
            Ok(rule) => rule.schedule.first_of_all(until),
            // A node that can read it looks for the occurrence.
            Err(_) => Some(until),
        };
        let row = ScheduleRow { paused: Some(until), ..old.clone() };
        let row = row.with_next(check_next(next)?);
        let made = replace(store, &old, Some(row), now, Some(Reason::Paused))?;
        Ok(made.map(|running| ScheduleUpdate::Done { running }))
    })
}

/// Refuses a next time that is [too late](TOO_LATE).
fn check_next(next: Option<Time>) -> Result<Option<Time>> {
    match next {
        Some(at) if at >= TOO_LATE => {
            let why = format!("a schedule that is next at {at} is more than 50,000 years away");
            Err(StoreError::new(StoreErrorKind::Invalid, why))
        }
        _ => Ok(next),
    }
}

/// Makes a change. If there is a `reason`, it takes back pending timers and records occurrences
/// that were due until now. A long backlog takes several transactions; the last makes the change.
fn replace(
    store: &mut dyn Store,
    old: &ScheduleRow,
    row: Option<ScheduleRow>,
    now: Time,
    reason: Option<Reason>,
) -> Result<Tried<Vec<(TimerId, u32)>>> {
    let plain = plain(old);
    let mut skipped = Vec::new();
    if let Some(reason) = reason.filter(|_| old.enabled) {
        let first;
        (skipped, first) = plan::stop(old, now, reason);
        if let Some(first) = first {
            let change = Change { row: Some(&first), skipped: &skipped, ..plain };
            return Ok(match make(store, &change)? {
                Tried::Done(_) => Tried::Further,
                other => other,
            });
        }
    }
    make(store, &Change { row: row.as_ref(), withdraw: reason, skipped: &skipped, ..plain })
}

/// A change of `old` that removes it and records nothing.
fn plain(old: &ScheduleRow) -> Change<'_> {
    let expect = Some(old.version);
    Change { name: &old.name, expect, row: None, withdraw: None, skipped: &[] }
}

/// Makes a change, and returns the timers that were claimed before.
fn make(store: &mut dyn Store, change: &Change<'_>) -> Result<Tried<Vec<(TimerId, u32)>>> {
    Ok(match store.change(change)? {
        Changed::Done { claimed } => Tried::Done(claimed),
        Changed::Stale => Tried::Stale,
    })
}
