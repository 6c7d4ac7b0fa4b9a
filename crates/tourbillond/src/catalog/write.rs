//! [`Draft`]: a definition to create under a key, or to put in place of another.

use tourbillon_durable::store::{ScheduleRow, Timer, TimerUpdate};
use tourbillon_durable::{Created, Replacement, Rule, Time, TimerId, Upsert};

use super::definition::{Plan, Times, payload};
use super::error::{Conflict, Error, Result};
use super::found::{Found, Slot};
use super::switch::{after_a_write, is_done, named};
use super::{Catalog, TRIES};
use crate::callback::Trace;
use crate::config::App;
use crate::model::{self, Definition, Schedule, Stored, XTimer};

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

/// Schedule or one-shot that a write has left under its key.
pub(crate) struct Left {
    pub(crate) written: Written,
    found: Found,
    /// Time of the look-up.
    now: Time,
    /// Runs that keep the definition that was replaced, with their numbers of attempts.
    claimed: Vec<(TimerId, u32)>,
}

impl Left {
    fn new(written: Written, found: Found, now: Time) -> Self {
        Self { written, found, now, claimed: Vec::new() }
    }

    /// Returns it as the API shows it.
    pub(crate) fn view(&self, app: &str, key: &str) -> Result<Schedule> {
        let view = self.found.view(app, key, self.now).ok_or(Error::Unreadable)?;
        Ok(Schedule { claimed: named(&self.claimed), ..view })
    }
}

/// Definition to write under a key.
pub(crate) struct Draft<'a> {
    app: &'a str,
    /// Most schedules of the app.
    most: u32,
    key: &'a str,
    plan: Plan,
    definition: Definition,
    traceparent: Option<&'a str>,
    xtimer: Option<XTimer>,
}

impl<'a> Draft<'a> {
    /// Keeps data of XTimer's routes beside the definition.
    pub(crate) fn xtimer(mut self, xtimer: XTimer) -> Self {
        self.xtimer = Some(xtimer);
        self
    }

    fn name(&self) -> String {
        model::name(self.app, self.key)
    }

    /// Returns the lane in the store, where all apps share the names of lanes.
    fn lane(&self) -> Option<String> {
        self.definition.lane.as_ref().map(|lane| model::name(self.app, lane))
    }

    /// Returns the definition kept from `now` on in place of `old`: fields outside definitions
    /// stay, and so do values of headers that came back masked.
    ///
    /// # Errors
    ///
    /// Each masked value that there is nothing to put in place of.
    fn in_place_of(&self, old: Option<Stored>, now: Time) -> Result<Stored> {
        let at = match self.plan.times {
            Times::Repeated(_) => None,
            Times::At(at) => Some(at),
            Times::After(after) => Some(now + after),
        };
        let mut stored = Stored {
            key: self.key.to_owned(),
            definition: self.definition.clone(),
            created: model::rfc3339(now),
            at_us: at.map(Time::as_micros),
            traceparent: self.traceparent.map(str::to_owned),
            xtimer: self.xtimer.clone(),
            disabled_by: None,
            is_notice: false,
        };
        let definition = old.as_ref().map(|old| &old.definition);
        stored.definition.keep(definition).map_err(Error::Invalid)?;
        let Some(old) = old else { return Ok(stored) };
        if (&stored.definition, stored.at_us) == (&old.definition, old.at_us) {
            stored.traceparent = old.traceparent;
        }
        stored.created = old.created;
        stored.xtimer = stored.xtimer.or(old.xtimer);
        Ok(stored)
    }

    /// Returns the state of a key after its creation, from the state `found` there: the created
    /// one, if another request has changed it since.
    ///
    /// # Errors
    ///
    /// [`Conflict::Contended`] if another has deleted it since.
    fn first(&self, found: Found, id: TimerId, stored: &Stored, payload: &[u8]) -> Result<Found> {
        let is_made = match &found {
            Found::Repeated(_) => matches!(self.plan.times, Times::Repeated(_)),
            Found::Once(timer) => timer.new.id == id,
            Found::Over(record) => record.timer == id,
        };
        let made = self.given(&found, stored, payload, 1);
        if is_made && found.is_still(&made) {
            Ok(found)
        } else if is_made && found.version() > 1 {
            Ok(made)
        } else {
            Err(Conflict::Contended.into())
        }
    }

    /// Returns `old` as it is once this is written into it and it has this version.
    fn given(&self, old: &Found, stored: &Stored, payload: &[u8], version: u64) -> Found {
        let mut given = old.clone();
        match (&mut given, &self.plan.times) {
            (Found::Repeated(row), Times::Repeated(schedule)) => {
                let enabled = stored.definition.enabled;
                let lane = self.lane();
                let old = row.rule.as_ref().map(|rule| &rule.schedule);
                let is_same = old == Ok(schedule) && row.lane == lane;
                row.paused = row.paused.filter(|_| is_same && row.enabled == enabled);
                let policies = row.rule.as_ref().map(|rule| rule.policies).unwrap_or_default();
                row.rule = Ok(Rule::new(schedule.clone(), policies));
                payload.clone_into(&mut row.payload);
                (row.enabled, row.version, row.lane) = (enabled, version, lane);
            }
            (Found::Once(timer), Times::At(_) | Times::After(_)) => {
                let due = due(stored);
                payload.clone_into(&mut timer.new.payload);
                (timer.new.due, timer.new.scheduled_for) = (due, due);
                (timer.running, timer.version) = (None, version);
            }
            _ => {}
        }
        given
    }

    /// Creates it under a free key, and returns the key's state; `None` if the key was no longer
    /// free.
    async fn make(&self, catalog: &Catalog, id: TimerId, now: Time) -> Result<Option<Left>> {
        let stored = self.in_place_of(None, now)?;
        let (name, due, payload) = (self.name(), due(&stored), payload(&stored)?);
        let client = &catalog.client;
        let left = |found, now| Some(Left::new(Written::Created, found, now));
        // Another may make the other kind at the same time: who finds the other there steps back.
        // Each looks after its own commit, so that at least one finds the other.
        let Times::Repeated(schedule) = &self.plan.times else {
            let once = client.once(&model::kind(self.app), due).id(id).name(&*name);
            let mut once = once.payload(payload.clone()).retry(self.plan.retry);
            if let Some(lane) = self.lane() {
                once = once.lane(lane);
            }
            let (created, (now, named)) = once.create_and_look().await?;
            if let Created::Exists(_) = created {
                return Ok(None);
            }
            return match catalog.slot(&name, named).await? {
                Slot::Taken(Found::Repeated(_))
                    if client.cancel(id).await? == TimerUpdate::Done =>
                {
                    Ok(None)
                }
                Slot::Taken(found) => Ok(left(self.first(found, id, &stored, &payload)?, now)),
                Slot::Free(_) => Err(Conflict::Contended.into()),
            };
        };
        if stored.definition.enabled {
            catalog.see_to_watch((self.app, self.key), &stored.definition, None, now).await?;
        }
        match self.upsert(catalog, schedule, payload.clone(), (None, now)).await? {
            Upsert::Created => {}
            _ => return Ok(None),
        }
        let (now, named) = client.named(&name).await?;
        if named.timer.is_some() {
            client.remove(&name).await?;
            return Ok(None);
        }
        let row = named.schedule.ok_or(Conflict::Contended)?;
        Ok(left(self.first(Found::Repeated(row), id, &stored, &payload)?, now))
    }

    /// Makes a schedule, or changes that of this version; `now` is the time of the last look.
    async fn upsert(
        &self,
        catalog: &Catalog,
        schedule: &tourbillon_durable::Schedule,
        payload: Vec<u8>,
        (expect, now): (Option<u64>, Time),
    ) -> Result<Upsert> {
        let every = catalog.client.every(&self.name(), schedule.clone());
        let every = every.kind(model::kind(self.app)).payload(payload).expect(expect).as_of(now);
        let mut every = self.plan.policies(every).enabled(self.definition.enabled);
        if let Some(lane) = self.lane() {
            every = every.lane(lane);
        }
        Ok(every.upsert().await?)
    }

    /// Makes it, unless it is there. With `expect`, it has to be there in that version.
    pub(crate) async fn create(&self, catalog: &Catalog, expect: Option<u64>) -> Result<Left> {
        self.write(catalog, expect, false).await
    }

    /// Creates it, or replaces the existing one, if that has the version `expect`.
    pub(crate) async fn replace(&self, catalog: &Catalog, expect: Option<u64>) -> Result<Left> {
        self.write(catalog, expect, true).await
    }

    async fn write(&self, catalog: &Catalog, expect: Option<u64>, replaces: bool) -> Result<Left> {
        for _ in 0..TRIES {
            let (now, slot) = catalog.look(self.app, self.key).await?;
            let left = match slot {
                Slot::Free(_) if expect.is_some() => return Err(Error::Stale),
                Slot::Free(id) => {
                    catalog.quota.check(catalog, self.app, self.most).await?;
                    let left = self.make(catalog, id, now).await?;
                    if left.is_some() {
                        catalog.quota.count(self.app);
                    }
                    left
                }
                Slot::Taken(found) if expect.is_some_and(|expect| expect != found.version()) => {
                    return Err(Error::Stale);
                }
                Slot::Taken(found) if replaces => self.put(catalog, found, now).await?,
                Slot::Taken(found) => Some(self.confirm(catalog, found, now).await?),
            };
            if let Some(left) = left {
                return Ok(left);
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Confirms a creation that is repeated.
    async fn confirm(&self, catalog: &Catalog, found: Found, now: Time) -> Result<Left> {
        let stored = self.in_place_of(found.stored(), now)?;
        if found.is_of(&stored.definition) {
            catalog.client.confirm().await?;
            return Ok(Left::new(Written::Unchanged, found, now));
        }
        if matches!(found, Found::Over(_)) {
            return Err(Conflict::Used.into());
        }
        Err(Conflict::Taken.into())
    }

    /// Puts it in place of another, if that is as it was found; `None` if it is not.
    async fn put(&self, catalog: &Catalog, found: Found, now: Time) -> Result<Option<Left>> {
        let stored = self.in_place_of(found.stored(), now)?;
        let changed = match (&found, &self.plan.times) {
            (Found::Repeated(row), Times::Repeated(schedule)) => {
                let old = found.stored().map(|old| old.definition);
                self.change_schedule(catalog, (row, old), (schedule, &stored), now).await?
            }
            (Found::Once(timer), Times::At(_) | Times::After(_)) => {
                self.change(catalog, timer, &stored).await?
            }
            // Asked for again at another time, it is another.
            (Found::Over(_), Times::At(_)) if found.is_of(&stored.definition) => {
                catalog.client.confirm().await?;
                Upsert::Unchanged
            }
            (Found::Over(_), _) => return Err(Conflict::Used.into()),
            _ => return Err(Conflict::OtherKind.into()),
        };
        let written = Written::Replaced;
        let claimed = match changed {
            Upsert::Stale => return Ok(None),
            Upsert::Unchanged => return Ok(Some(Left::new(written, found, now))),
            Upsert::Created => Vec::new(),
            Upsert::Changed { claimed } => claimed,
        };
        let wrote = self.given(&found, &stored, &payload(&stored)?, found.version() + 1);
        let (now, slot) = catalog.look(self.app, self.key).await?;
        // The version that another has made since is not the version of this answer.
        let found = match slot {
            Slot::Taken(found) if found.is_still(&wrote) => found,
            _ => wrote,
        };
        Ok(Some(Left { claimed, ..Left::new(written, found, now) }))
    }

    /// Changes a schedule and its watch, if it is as it was found, with its `old` definition.
    async fn change_schedule(
        &self,
        catalog: &Catalog,
        (row, old): (&ScheduleRow, Option<Definition>),
        (schedule, stored): (&tourbillon_durable::Schedule, &Stored),
        now: Time,
    ) -> Result<Upsert> {
        let payload = payload(stored)?;
        let (of, new) = ((self.app, self.key), &stored.definition);
        let old = old.filter(|_| row.enabled);
        let is_watched = |of: &Definition| catalog.alerts(self.app, of).is_watched();
        if new.enabled && old.as_ref() != Some(new) {
            catalog.see_to_watch(of, new, old.as_ref(), now).await?;
        }
        let changed = self.upsert(catalog, schedule, payload, (Some(row.version), now)).await?;
        let is_changed = matches!(changed, Upsert::Changed { .. });
        if is_changed && old.is_some_and(|old| is_watched(&old) && !is_watched(new)) {
            catalog.end_watch(self.app, self.key).await;
        }
        if is_changed && row.paused.is_some() {
            let followed = catalog.follow_pause(of, now).await;
            followed.map_err(|error| after_a_write(true, error))?;
        }
        Ok(changed)
    }

    /// Changes a one-shot, if it is as it was found.
    async fn change(&self, catalog: &Catalog, timer: &Timer, stored: &Stored) -> Result<Upsert> {
        if timer.new.retry != self.plan.retry {
            let why = "the retry policy of a one-shot cannot be changed";
            return Err(Error::field("retry", why));
        }
        if timer.new.lane != self.lane() {
            return Err(Error::field("lane", "the lane of a one-shot cannot be changed"));
        }
        let (due, payload) = (due(stored), payload(stored)?);
        if (timer.new.scheduled_for, &timer.new.payload) == (due, &payload) {
            catalog.client.confirm().await?;
            return Ok(Upsert::Unchanged);
        }
        let replacement = Replacement::at(due).payload(payload).expect(timer.version);
        let is_given = catalog.give(timer.new.id, replacement).await?;
        Ok(if is_given { Upsert::Changed { claimed: Vec::new() } } else { Upsert::Stale })
    }
}

/// Returns when a one-shot is due: never while it is disabled.
fn due(stored: &Stored) -> Time {
    match stored.at_us {
        Some(at) if stored.definition.enabled => Time::from_micros(at),
        _ => Time::NEVER,
    }
}

impl Catalog {
    /// Checks a definition that a key is to have.
    ///
    /// # Errors
    ///
    /// Each field that is wrong.
    pub(crate) fn draft<'a>(
        &self,
        (app, config): (&'a str, &App),
        key: &'a str,
        definition: Definition,
        traceparent: Option<&'a str>,
    ) -> Result<Draft<'a>> {
        let (most, plan) = (config.limits.schedules, Plan::new(config, key, &definition)?);
        let traceparent = traceparent.filter(|trace| Trace::parse(trace).is_some());
        Ok(Draft { app, most, key, plan, definition, traceparent, xtimer: None })
    }

    /// Puts a definition under a key, and returns what came of that.
    #[cfg(test)]
    pub(crate) async fn put(
        &self,
        app: &str,
        key: &str,
        definition: serde_json::Value,
        expect: Option<u64>,
    ) -> Result<(Written, Schedule)> {
        let config = self.config.borrow().clone();
        let definition = serde_json::from_value(definition).unwrap();
        let draft = self.draft((app, &config.apps[app]), key, definition, None)?;
        let left = draft.replace(self, expect).await?;
        Ok((left.written, left.view(app, key)?))
    }

    /// Gives a one-shot another time. Returns `false` if it is not as it was found.
    pub(super) async fn give(&self, timer: TimerId, replacement: Replacement) -> Result<bool> {
        is_done(self.client.replace(timer, replacement).await?)
    }
}

#[cfg(test)]
mod raced;

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::Duration;

    use serde_json::{Value, json};
    use tourbillon_durable::store::{Memory, TimerQuery};
    use tourbillon_durable::{Lease, NodeId, Store};

    use super::Written;
    use crate::config::Config;
    use crate::model::{self, RunningAttempt, Stored};
    use crate::service::Service;
    use crate::watched::Watched;

    /// A definition of these times, with a callback to this path.
    fn definition(when: Value, path: &str) -> Value {
        json!({ "when": when, "callback": { "url": format!("https://example.com/{path}") } })
    }

    #[tokio::test]
    async fn each_write_is_answered_by_the_look_that_follows_it_and_a_repeat_is_confirmed() {
        let (timer, seen) = (tourbillon::Timer::global(), Arc::<Mutex<Vec<_>>>::default());
        let calls = Arc::clone(&seen);
        let store = Watched::before(Memory::new(&timer), move |name| {
            if ["named", "insert", "schedule", "change", "reschedule", "confirm"].contains(&name) {
                calls.lock().unwrap().push((name, thread::current().id()));
            }
        });
        let mut config = Config::default();
        config.apps.insert("a".to_owned(), Default::default());
        let service = Service::start(store, config, &timer).unwrap();
        let once = |at: &str| definition(json!({ "at": at }), "");
        let repeats = definition(json!({ "every": "1h" }), "");
        let (first, other) = (once("2199-01-01T00:00:00Z"), once("2199-01-02T00:00:00Z"));
        let put = async |key, definition: &Value| {
            let put = service.catalog.put("a", key, definition.clone(), None).await;
            let (written, view) = put.unwrap();
            let calls = std::mem::take(&mut *seen.lock().unwrap());
            let (names, by): (Vec<&str>, Vec<_>) = calls.into_iter().unzip();
            if names.contains(&"insert") {
                // A look by itself is made by a thread that does not write. A store that is a
                // network away answers the write and the look after it by one round trip.
                assert!(by[0] != by[1] && by[1] == by[2], "{by:?}");
            }
            (written, view.version, names)
        };
        let (made, again) = (Written::Created, Written::Replaced);
        assert_eq!(put("k", &first).await, (made, 1, vec!["named", "insert", "named"]));
        assert_eq!(put("k", &first).await, (again, 1, vec!["named", "confirm"]));
        assert_eq!(put("k", &other).await, (again, 2, vec!["named", "reschedule", "named"]));
        assert_eq!(put("r", &repeats).await, (made, 1, vec!["named", "change", "named"]));
        assert_eq!(put("r", &repeats).await, (again, 1, vec!["named", "schedule", "confirm"]));
        service.catalog.show("a", "k").await.unwrap();
        assert!(matches!(seen.lock().unwrap()[..], [("named", _)]));
        service.stop().await;
    }

    #[tokio::test]
    async fn a_put_is_in_force_for_what_waits_and_names_what_was_claimed() {
        let timer = tourbillon::Timer::global();
        let mut store = Memory::new(&timer);
        let mut config = Config::default();
        config.apps.insert("a".to_owned(), Default::default());
        // Nothing but this test claims.
        let service = Service::start(Box::new(store.clone()), config, &timer).unwrap();
        let put = async |path: &str| {
            let definition = definition(json!({ "every": "1h" }), path);
            service.catalog.put("a", "k", definition, None).await.unwrap().1
        };
        assert_eq!(put("old").await.claimed, []);
        for _ in 0..2 {
            service.catalog.client.run_now(&model::name("a", "k")).await.unwrap();
        }
        let id = store.timers(&TimerQuery::new()).unwrap()[0].new.id;
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        store.join(lease, Duration::from_secs(60)).unwrap();
        assert_eq!(store.claim(lease, &[id]).unwrap().timers.len(), 1);
        assert_eq!(put("new").await.claimed, [RunningAttempt { run: id.to_string(), attempt: 1 }]);
        for timer in store.timers(&TimerQuery::new()).unwrap() {
            let stored: Stored = serde_json::from_slice(&timer.new.payload).unwrap();
            let expected = if timer.new.id == id { "old" } else { "new" };
            assert!(stored.definition.callback.url.ends_with(expected), "{timer:?}");
        }
        assert_eq!(put("new").await.claimed, []);
        service.stop().await;
    }
}
