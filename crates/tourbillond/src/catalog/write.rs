//! [`Draft`]: a definition to create under a key, or to put in place of another.

use tourbillon_durable::store::{ScheduleQuery, Timer, TimerUpdate};
use tourbillon_durable::{Created, Replacement, Time, TimerId, Upsert};

use super::definition::{Plan, Times, check_key, payload};
use super::error::{Conflict, Error, Result};
use super::found::{Found, Slot};
use super::{Catalog, TRIES};
use crate::callback::Trace;
use crate::config::App;
use crate::model::{self, Definition, Stored, XTimer};

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The key was free.
    Created,
    /// The definition is in place of another, or of itself.
    Replaced,
    /// The same definition was there.
    Unchanged,
}

/// Definition to write under a key.
pub(crate) struct Draft<'a> {
    app: &'a str,
    key: &'a str,
    plan: Plan,
    pub(crate) stored: Stored,
}

impl<'a> Draft<'a> {
    /// Keeps data of XTimer's routes beside the definition.
    pub(crate) fn xtimer(mut self, xtimer: XTimer) -> Self {
        self.stored.xtimer = Some(xtimer);
        self
    }

    fn name(&self) -> String {
        model::name(self.app, self.key)
    }

    /// Returns when a one-shot is due: never while it is disabled.
    fn due(&self) -> Time {
        match self.stored.at_us {
            Some(at) if self.stored.definition.enabled => Time::from_micros(at),
            _ => Time::NEVER,
        }
    }

    /// Returns what is kept in place of `old`: what no definition has stays as it was, and so do
    /// values of headers that came back masked.
    ///
    /// # Errors
    ///
    /// Each masked value that there is nothing to put in place of.
    fn in_place_of(&self, old: Option<Stored>) -> Result<Stored> {
        let mut stored = self.stored.clone();
        let callback = old.as_ref().map(|old| &old.definition.callback);
        stored.definition.callback.keep(callback).map_err(Error::Invalid)?;
        let Some(old) = old else { return Ok(stored) };
        if (&stored.definition, stored.at_us) == (&old.definition, old.at_us) {
            stored.traceparent = old.traceparent;
        }
        stored.created = old.created;
        stored.xtimer = stored.xtimer.or(old.xtimer);
        Ok(stored)
    }

    /// Makes it under a key that is free. Returns `false` if the key is not free any more.
    async fn make(&self, catalog: &Catalog, id: TimerId) -> Result<bool> {
        let (name, payload) = (self.name(), payload(&self.in_place_of(None)?)?);
        let client = &catalog.client;
        let Times::Repeated(schedule) = &self.plan.times else {
            let once = client.once(&model::kind(self.app), self.due()).id(id).name(&*name);
            let once = once.payload(payload).retry(self.plan.retry);
            if let Created::Exists(_) = once.create().await? {
                return Ok(false);
            }
            // A schedule may be made at the same time: who finds the other there steps back.
            let rivals = ScheduleQuery::new().name(name);
            let is_alone = client.schedules(rivals).await?.is_empty();
            return Ok(is_alone || client.cancel(id).await? != TimerUpdate::Done);
        };
        match self.upsert(catalog, schedule, payload, None).await? {
            Upsert::Created => {}
            _ => return Ok(false),
        }
        let is_alone = client.find(&name).await?.is_none();
        if !is_alone {
            client.remove(&name).await?;
        }
        Ok(is_alone)
    }

    /// Makes a schedule, or changes that of this version.
    async fn upsert(
        &self,
        catalog: &Catalog,
        schedule: &tourbillon_durable::Schedule,
        payload: Vec<u8>,
        expect: Option<u64>,
    ) -> Result<Upsert> {
        let every = catalog.client.every(&self.name(), schedule.clone());
        let every = every.kind(model::kind(self.app)).payload(payload).expect(expect);
        let every = self.plan.policies(every).enabled(self.stored.definition.enabled);
        Ok(every.upsert().await?)
    }

    /// Makes it, unless it is there.
    pub(crate) async fn create(&self, catalog: &Catalog, app: &App) -> Result<Written> {
        for _ in 0..TRIES {
            let id = match catalog.look(self.app, self.key).await? {
                Slot::Free(id) => id,
                Slot::Taken(found) => {
                    let stored = self.in_place_of(found.stored())?;
                    if found.is_of(&stored.definition) {
                        return Ok(Written::Unchanged);
                    }
                    if matches!(found, Found::Over(_)) {
                        return Err(Conflict::Used.into());
                    }
                    return Err(Conflict::Taken.into());
                }
            };
            catalog.quota.check(catalog, self.app, app.limits.schedules).await?;
            if self.make(catalog, id).await? {
                catalog.quota.count(self.app);
                return Ok(Written::Created);
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Makes it, or puts it in place of what is there, which has to have the version `expect`.
    pub(crate) async fn replace(
        &self,
        catalog: &Catalog,
        app: &App,
        expect: Option<u64>,
    ) -> Result<Written> {
        for _ in 0..TRIES {
            let found = match catalog.look(self.app, self.key).await? {
                Slot::Free(_) if expect.is_some() => return Err(Error::Stale),
                Slot::Free(id) => {
                    catalog.quota.check(catalog, self.app, app.limits.schedules).await?;
                    if self.make(catalog, id).await? {
                        catalog.quota.count(self.app);
                        return Ok(Written::Created);
                    }
                    continue;
                }
                Slot::Taken(found) => found,
            };
            let version = found.version();
            if expect.is_some_and(|expect| expect != version) {
                return Err(Error::Stale);
            }
            let stored = self.in_place_of(found.stored())?;
            let is_done = match (&found, &self.plan.times) {
                (Found::Repeated(_), Times::Repeated(schedule)) => {
                    let payload = payload(&stored)?;
                    self.upsert(catalog, schedule, payload, Some(version)).await? != Upsert::Stale
                }
                (Found::Once(timer), Times::At(_) | Times::After(_)) => {
                    self.change(catalog, timer, &stored).await?
                }
                // Asked for again at another time, it is another.
                (Found::Over(_), Times::At(_)) if found.is_of(&stored.definition) => true,
                (Found::Over(_), _) => return Err(Conflict::Used.into()),
                _ => return Err(Conflict::OtherKind.into()),
            };
            if is_done {
                return Ok(Written::Replaced);
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Changes a one-shot, if it is as it was found.
    async fn change(&self, catalog: &Catalog, timer: &Timer, stored: &Stored) -> Result<bool> {
        if timer.new.retry != self.plan.retry {
            let why = "a one-shot keeps the policy that it was made with";
            return Err(Error::field("retry", why));
        }
        let (due, payload) = (self.due(), payload(stored)?);
        if (timer.new.scheduled_for, &timer.new.payload) == (due, &payload) {
            return Ok(true);
        }
        let replacement = Replacement::at(due).payload(payload).expect(timer.version);
        catalog.give(timer.new.id, replacement).await
    }
}

impl Catalog {
    /// Checks a definition that a key is to have.
    ///
    /// # Errors
    ///
    /// Each field that is wrong.
    pub(crate) async fn draft<'a>(
        &self,
        (app, limits): (&'a str, &App),
        key: &'a str,
        definition: Definition,
        traceparent: Option<&str>,
    ) -> Result<Draft<'a>> {
        check_key(key)?;
        let plan = Plan::new(limits, &definition)?;
        let traceparent = traceparent.filter(|trace| Trace::parse(trace).is_some());
        let now = self.client.now().await?;
        let at = match plan.times {
            Times::Repeated(_) => None,
            Times::At(at) => Some(at),
            Times::After(after) => Some(now + after),
        };
        let stored = Stored {
            key: key.to_owned(),
            definition,
            created: model::rfc3339(now),
            at_us: at.map(Time::as_micros),
            traceparent: traceparent.map(str::to_owned),
            xtimer: None,
        };
        Ok(Draft { app, key, plan, stored })
    }

    /// Gives a one-shot another time. Returns `false` if it is not as it was found.
    pub(super) async fn give(&self, timer: TimerId, replacement: Replacement) -> Result<bool> {
        match self.client.replace(timer, replacement).await? {
            TimerUpdate::Done => Ok(true),
            TimerUpdate::Running { attempt } => Err(Conflict::Running(attempt).into()),
            TimerUpdate::Stale | TimerUpdate::Gone => Ok(false),
        }
    }
}
