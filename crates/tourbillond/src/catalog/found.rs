//! [`Found`]: the schedule or one-shot of a key.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use tourbillon_durable::store::{Named, RecordQuery, ScheduleQuery, ScheduleRow, Timer};
use tourbillon_durable::{Outcome, Record, Time, TimerId};

use super::Catalog;
use super::definition::check_key;
use super::error::{Conflict, Error, Missing, Result};
use crate::callback::was_of;
use crate::model::{self, AtWhen, Definition, Schedule, ScheduleState, Stored, When};

/// Number of next times that are shown.
const NEXT: usize = 5;

/// Number of a key's newest records that are searched for a one-shot's. Runs of an earlier schedule
/// of the key may have ended since.
const LOOKED: u32 = 1_000;

/// State of a key.
#[derive(Clone)]
pub(crate) enum Found {
    /// Repeating schedule.
    Repeated(ScheduleRow),
    /// One-shot that is not over.
    Once(Timer),
    /// One-shot that is over.
    Over(Record),
}

/// State of a key.
#[expect(clippy::large_enum_variant, reason = "one is taken apart as soon as it is there")]
pub(super) enum Slot {
    /// Something is there.
    Taken(Found),
    /// Nothing is; the identity of the one-shot that is made next.
    Free(TimerId),
}

impl Catalog {
    /// Looks up a key, by one statement unless a record is there; with the database's time.
    ///
    /// The first one-shot of a key has an identity by its name, and each further one by that before
    /// it. So of all that make it at the same time, one does, and a request that is carried out
    /// late makes nothing that is over already.
    ///
    /// # Errors
    ///
    /// [`Missing::Schedule`] for an invalid key. It is not looked up: the store may refuse it, and
    /// with it the other names of the same statement.
    pub(super) async fn look(&self, app: &str, key: &str) -> Result<(Time, Slot)> {
        check_key(key).map_err(|_| Missing::Schedule)?;
        let name = model::name(app, key);
        let (now, named) = self.client.named(&name).await?;
        Ok((now, self.slot(&name, named).await?))
    }

    /// Returns the state of a key that has these rows.
    pub(super) async fn slot(&self, name: &str, named: Named) -> Result<Slot> {
        let Named { schedule, timer, record } = named;
        // A revived timer has another id, and the same name.
        let found = schedule.map(Found::Repeated).or(timer.map(Found::Once));
        if let Some(found) = found {
            return Ok(Slot::Taken(found));
        }
        let mut last = record;
        if last.as_ref().is_some_and(|record| record.schedule.is_some()) {
            let newest = RecordQuery::new().name(name).newest_first();
            let more = self.client.records(newest.limit(LOOKED)).await?;
            last = more.into_iter().find(|record| record.schedule.is_none());
        }
        let Some(mut last) = last else {
            return Ok(Slot::Free(model::once_id(name)));
        };
        // Records of one moment have no order of time.
        let next = loop {
            let next = TimerId::of_revival(last.timer);
            match self.client.records(RecordQuery::new().timer(next)).await?.pop() {
                Some(record) => last = record,
                None => break next,
            }
        };
        Ok(match last.outcome {
            Outcome::Cancelled => Slot::Free(next),
            _ => Slot::Taken(Found::Over(last)),
        })
    }

    /// Returns a key's schedule or one-shot as the API shows it.
    pub(crate) async fn show(&self, app: &str, key: &str) -> Result<Schedule> {
        match self.look(app, key).await? {
            (now, Slot::Taken(found)) => found.view(app, key, now).ok_or(Error::Unreadable),
            (_, Slot::Free(_)) => Err(Missing::Schedule.into()),
        }
    }

    /// Finds the repeating schedule of a key.
    pub(crate) async fn repeated(&self, app: &str, key: &str) -> Result<Option<Found>> {
        let by_name = ScheduleQuery::new().name(model::name(app, key));
        Ok(self.reader.schedules(by_name).await?.pop().map(Found::Repeated))
    }

    /// Finds the schedule or one-shot of the key.
    pub(crate) async fn find(&self, app: &str, key: &str) -> Result<Option<Found>> {
        Ok(match self.look(app, key).await?.1 {
            Slot::Taken(found) => Some(found),
            Slot::Free(_) => None,
        })
    }
}

impl Found {
    /// Returns the payload for its handler, unless it is over.
    fn payload(&self) -> Option<&[u8]> {
        match self {
            Self::Repeated(row) => Some(&row.payload),
            Self::Once(timer) => Some(&timer.new.payload),
            Self::Over(record) => record.payload.as_deref(),
        }
    }

    /// Returns about how many bytes it takes in the store.
    pub(crate) fn size(&self) -> usize {
        self.payload().map_or(0, <[u8]>::len)
    }

    /// Returns the definition, unless it is over.
    pub(crate) fn stored(&self) -> Option<Stored> {
        serde_json::from_slice(self.payload()?).ok()
    }

    /// Returns its labels. Nothing else of the payload is kept, so it costs less than
    /// [`stored`](Self::stored).
    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        #[derive(Deserialize)]
        struct Payload {
            definition: Labelled,
        }
        #[derive(Deserialize)]
        struct Labelled {
            #[serde(default)]
            labels: BTreeMap<String, String>,
        }
        let payload = self.payload().and_then(|payload| serde_json::from_slice(payload).ok());
        payload.map(|Payload { definition }| definition.labels).unwrap_or_default()
    }

    /// Returns `true` if this definition asked for it.
    pub(super) fn is_of(&self, definition: &Definition) -> bool {
        match self {
            Self::Over(Record { payload: None, detail, .. }) => was_of(detail, definition),
            _ => self.stored().is_some_and(|stored| stored.definition == *definition),
        }
    }

    /// Returns `true` if nobody has changed it since the write that left `wrote`.
    pub(super) fn is_still(&self, wrote: &Self) -> bool {
        match (self, wrote) {
            // A write can count several changes: a long backlog is recorded in parts.
            (Self::Repeated(row), Self::Repeated(wrote)) => {
                (row.id, row.enabled, &row.payload) == (wrote.id, wrote.enabled, &wrote.payload)
            }
            (Self::Once(timer), Self::Once(wrote)) => {
                (timer.new.id, timer.version) == (wrote.new.id, wrote.version)
            }
            (Self::Over(record), Self::Once(wrote)) => {
                (record.timer, record.scheduled_for) == (wrote.new.id, wrote.new.scheduled_for)
            }
            (Self::Over(record), Self::Over(wrote)) => record.timer == wrote.timer,
            _ => false,
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Repeated(row) => row.version,
            Self::Once(timer) => timer.version,
            Self::Over(_) => 0,
        }
    }

    pub(crate) fn state(&self) -> ScheduleState {
        match self {
            Self::Repeated(row) if row.enabled => ScheduleState::Enabled,
            Self::Repeated(_) => ScheduleState::Disabled,
            Self::Once(timer) if timer.running.is_some() => ScheduleState::Running,
            // A timer that waits in its lane is not due either.
            Self::Once(timer) if timer.new.scheduled_for == Time::NEVER => ScheduleState::Disabled,
            Self::Once(_) => ScheduleState::Pending,
            Self::Over(record) => match record.outcome {
                Outcome::Succeeded => ScheduleState::Succeeded,
                Outcome::Dead => ScheduleState::Dead,
                Outcome::Skipped => ScheduleState::Skipped,
                _ => ScheduleState::Cancelled,
            },
        }
    }

    fn is_enabled(&self) -> bool {
        use ScheduleState::{Enabled, Pending, Running};
        matches!(self.state(), Enabled | Pending | Running)
    }

    fn next(&self, now: Time) -> Vec<Time> {
        match self {
            Self::Repeated(row) if row.enabled => match &row.rule {
                Ok(rule) => {
                    let after = now + Duration::from_micros(1);
                    let first = row.paused.map_or(after, |until| until.max(after));
                    rule.schedule.occurrences_from(first).take(NEXT).collect()
                }
                Err(_) => Vec::new(),
            },
            Self::Once(timer) if timer.new.due != Time::NEVER => vec![timer.new.due],
            // It waits in its lane.
            Self::Once(timer) if timer.new.scheduled_for != Time::NEVER => {
                vec![timer.new.scheduled_for]
            }
            _ => Vec::new(),
        }
    }

    /// # Errors
    ///
    /// [`Conflict::Unreadable`] if this node cannot read the schedule, and so make no run of it.
    pub(super) fn check_readable(row: &ScheduleRow) -> Result<()> {
        let readable = row.rule.as_ref();
        Ok(readable.map(drop).map_err(|why| Conflict::Unreadable(why.to_string()))?)
    }

    /// Returns the reason why it does not run on a machine like this one, if it is enabled.
    fn unreadable(&self) -> Option<String> {
        match self {
            Self::Repeated(row) if row.enabled => row.rule.as_ref().err().map(ToString::to_string),
            _ => None,
        }
    }

    /// Returns the end of its pause, if in the future.
    fn paused(&self, now: Time) -> Option<Time> {
        match self {
            Self::Repeated(row) if row.enabled => row.paused.filter(|until| *until > now),
            _ => None,
        }
    }

    /// Returns it as the API shows it; `None` if a newer version has written it.
    pub(super) fn view(&self, app: &str, key: &str, now: Time) -> Option<Schedule> {
        let stored = self.stored();
        let (id, at) = match self {
            Self::Repeated(row) => (row.id.to_string(), None),
            Self::Once(timer) => (timer.new.id.to_string(), Some(timer.new.scheduled_for)),
            Self::Over(record) => (record.timer.to_string(), Some(record.scheduled_for)),
        };
        let given = stored.as_ref().and_then(|stored| stored.at_us).map(Time::from_micros);
        let created = stored.as_ref().map(|stored| stored.created.clone());
        let enabled = self.is_enabled();
        let (when, rest, xtimer, disabled_by) = match stored {
            Some(Stored { definition, xtimer, disabled_by, .. }) => {
                (definition.when.clone(), Some(definition.masked()), xtimer, disabled_by)
            }
            None => (When::At(AtWhen { at: model::rfc3339(at?) }), None, None, None),
        };
        let rest = rest.as_ref();
        let xtimer = xtimer.and_then(|kept| kept.view(key));
        Some(Schedule {
            app: app.to_owned(),
            key: key.to_owned(),
            id,
            version: self.version(),
            state: self.state(),
            next: self.next(now).into_iter().map(model::rfc3339).collect(),
            unreadable: self.unreadable(),
            paused_until: self.paused(now).map(model::rfc3339),
            created,
            when,
            at: given.or(at).map(model::rfc3339),
            callback: rest.map(|rest| rest.callback.clone()),
            labels: rest.map(|rest| rest.labels.clone()).unwrap_or_default(),
            missed: rest.and_then(|rest| rest.missed),
            on_time_within: rest.and_then(|rest| rest.on_time_within.clone()),
            overlap: rest.and_then(|rest| rest.overlap),
            jitter: rest.and_then(|rest| rest.jitter.clone()),
            lane: rest.and_then(|rest| rest.lane.clone()),
            retry: rest.and_then(|rest| rest.retry.clone()),
            notify: rest.and_then(|rest| rest.notify.clone()),
            success_within: rest.and_then(|rest| rest.success_within.clone()),
            disable_after: rest.and_then(|rest| rest.disable_after),
            enabled,
            disabled_by: disabled_by.filter(|_| !enabled),
            xtimer,
            last_runs: None,
            claimed: Vec::new(),
        })
    }
}
