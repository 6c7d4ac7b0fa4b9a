//! [`Watch`]: the state of `success_within` and `disable_after`, beside a schedule.
//!
//! A watch is a timer of a separate kind, so that it is durable and no run. It is due when the
//! schedule has to have succeeded, and counts the dead runs since the last success. While it waits
//! for neither, it is held. It is made before the schedule, and judged only by the node that finds
//! it due. That node then reads the schedule: a watch without a schedule, left by a node that ended
//! in between or by a deleted schedule, ends by itself. No client cancels a watch, because another
//! client may be about to create a schedule of the same key.
//!
//! The definition of a schedule says which of the two apply; if not, the current configuration of
//! its app does: when the schedule is written, when a run ends, and when a watch is due.

mod of_app;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tourbillon_durable::store::{ScheduleQuery, ScheduleRow, Timer, TimerUpdate};
use tourbillon_durable::{
    Created, Replacement, Schedule, ScheduleId, StoreError, StoreErrorKind, Time, TimerId, Upsert,
};

use super::error::{Conflict, Result};
use super::found::Found;
use super::{Catalog, TRIES};
use crate::config::App;
use crate::model::{self, Alerts, Callback, Definition, DisabledBy, Stored};

/// Kind of all watches.
pub(crate) const WATCH: &str = "watch";

/// Longest pause of a watch before it is judged anew.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// Time that a watch waits for its schedule to be written after it.
const MARGIN: Duration = Duration::from_secs(60);

/// Pause before a watch is changed that a node has just found due.
const PAUSE: Duration = Duration::from_millis(50);

/// Content of a watch, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatchState {
    pub(crate) app: String,
    pub(crate) key: String,
    /// Time of the last success, or else from which one is awaited, in microseconds since the Unix
    /// epoch.
    since_us: i64,
    /// Runs that were dead since the last success, as far as they are counted.
    #[serde(default)]
    dead: Vec<String>,
    /// True if a notice of an earlier time without a success has no recovery yet.
    #[serde(default)]
    was_silent: bool,
}

impl WatchState {
    pub(crate) fn since(&self) -> Time {
        Time::from_micros(self.since_us)
    }
}

/// A watch as it was found.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    timer: Timer,
    state: WatchState,
}

impl Watch {
    fn new(timer: Timer) -> Option<Self> {
        let state = serde_json::from_slice(&timer.new.payload).ok()?;
        Some(Self { timer, state })
    }

    /// Returns when it is judged.
    #[cfg(test)]
    pub(crate) fn due(&self) -> Time {
        self.timer.new.due
    }

    /// Returns whether a notice says that its schedule has not succeeded.
    pub(crate) fn is_notified(&self, now: Time) -> bool {
        self.is_postponed(now) || self.state.was_silent
    }

    /// Returns whether a node has made that notice, and so has postponed it for good.
    fn is_postponed(&self, now: Time) -> bool {
        // After a pause, the watch is due long after now, but not long after the end of the pause.
        let from = now.max(self.state.since());
        self.timer.new.due != Time::NEVER && self.timer.new.due > from + 2 * LONGEST
    }

    /// Returns whether a success at `now` changes nothing.
    fn has_nothing_to_note(&self, within: Option<Duration>, now: Time) -> bool {
        let is_noted = match within {
            // A due watch is from a time that the app had before, and may have again.
            None => self.timer.new.due == Time::NEVER,
            Some(_) => self.state.since() >= now,
        };
        is_noted && self.state.dead.is_empty() && !self.is_notified(now)
    }

    /// Returns an identity that no other time without a success has.
    pub(crate) fn id(&self) -> String {
        lapse(self.timer.new.id, &self.state)
    }
}

/// Returns an identity of the time without a success that a watch has come to.
pub(crate) fn lapse(watch: TimerId, state: &WatchState) -> String {
    format!("{watch}/{}", state.since_us)
}

/// Result of a look at a schedule whose watch is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// There is nothing to watch any more.
    Over,
    /// The schedule has so much time left.
    Later(Duration),
    /// The schedule has not succeeded in time.
    Silent,
}

/// Judges an enabled schedule that last succeeded, or was enabled, at `since`.
///
/// Time without occurrences does not count: a pause, excluded windows, and the time before the
/// schedule's start. If occurrences are further apart than `within`, it counts from the next.
pub(crate) fn judge(
    schedule: &Schedule,
    paused: Option<Time>,
    within: Option<Duration>,
    since: Time,
    now: Time,
) -> Judged {
    let Some(within) = within else { return Judged::Later(LONGEST) };
    let base = paused.map_or(since, |until| until.max(since));
    // That of `since` itself has succeeded.
    let from = base.max(since + Duration::from_micros(1));
    let Some(first) = schedule.occurrences_from(from).next() else { return Judged::Over };
    judge_by(Some(if first <= base + within { base + within } else { first + within }), now)
}

/// Judges a schedule that is silent from `due` on.
fn judge_by(due: Option<Time>, now: Time) -> Judged {
    match due {
        Some(due) if due <= now => Judged::Silent,
        Some(due) => Judged::Later(due.since(now).min(LONGEST)),
        None => Judged::Later(LONGEST),
    }
}

fn name(app: &str, key: &str) -> String {
    // No app has such a name.
    format!("{WATCH}:{}", model::name(app, key))
}

impl Catalog {
    /// Returns the alerts that are in force for a schedule of an app with this definition.
    pub(crate) fn alerts(&self, app: &str, definition: &Definition) -> Alerts {
        let config = self.config.borrow();
        let of_app = config.apps.get(app).map(App::alerts);
        definition.alerts(of_app.unwrap_or_default())
    }

    /// Finds the watch of a key.
    pub(crate) async fn watch(
        &self,
        app: &str,
        key: &str,
    ) -> std::result::Result<Option<Watch>, StoreError> {
        Ok(self.client.find(&name(app, key)).await?.and_then(Watch::new))
    }

    /// Judges the schedule of a watch that is due. Returns its definition, if it is silent.
    pub(crate) async fn judge(&self, state: &WatchState) -> Result<(Judged, Option<Definition>)> {
        let now = self.client.now().await?;
        // That of a pause is to come: its schedule was there before it.
        let waits = state.since() <= now && now.since(state.since()) < MARGIN;
        let over = (if waits { Judged::Later(MARGIN) } else { Judged::Over }, None);
        let Some(found) = self.repeated(&state.app, &state.key).await? else { return Ok(over) };
        let definition = found.stored().map(|stored| stored.definition);
        let (Found::Repeated(row), Some(definition)) = (found, definition) else {
            return Ok(over);
        };
        let alerts = self.alerts(&state.app, &definition);
        if !row.enabled || !alerts.is_watched() {
            return Ok(over);
        }
        let judged = match &row.rule {
            Ok(rule) => {
                // The last of the occurrences may be that much later.
                let within = alerts.success_within.map(|within| within + rule.policies.jitter);
                judge(&rule.schedule, row.paused, within, state.since(), now)
            }
            // It has no run here, and so no success.
            Err(_) => {
                let base = row.paused.map_or(state.since(), |until| until.max(state.since()));
                judge_by(alerts.success_within.map(|within| base + within), now)
            }
        };
        Ok((judged, Some(definition)))
    }

    /// Makes the watch of a key's schedule, if this definition, in place of `old`, needs one. It
    /// comes before the schedule is written.
    ///
    /// A success is awaited from `now` on, if there is no such `old` that is watched, or its times
    /// differ or the time within which to succeed does. Dead runs are counted anew from any change.
    pub(super) async fn see_to_watch(
        &self,
        (app, key): (&str, &str),
        definition: &Definition,
        old: Option<&Definition>,
        now: Time,
    ) -> Result<()> {
        let alerts = |of: &Definition| self.alerts(app, of);
        if !alerts(definition).is_watched() {
            return Ok(());
        }
        let within = alerts(definition).success_within;
        let timing =
            |of: &Definition| (of.when.clone(), of.lane.clone(), alerts(of).success_within);
        let old = old.filter(|old| alerts(old).is_watched());
        let begins = old.is_none_or(|old| timing(old) != timing(definition));
        for _ in 0..TRIES {
            let Some(watch) = self.watch(app, key).await? else {
                if within.is_none() {
                    // The first death makes one.
                    return Ok(());
                }
                let state = WatchState::new(app, key, now);
                match self.make_watch(&state, within).await? {
                    Created::Created(_) => return Ok(()),
                    Created::Exists(_) => continue,
                }
            };
            let was_silent = watch.is_notified(now);
            let mut state = WatchState { was_silent, ..WatchState::new(app, key, now) };
            let mut at = due(&state, within);
            if !begins {
                (state.since_us, at) = (watch.state.since_us, watch.timer.new.due);
            }
            if self.write_watch(&watch, &state, at).await? {
                return Ok(());
            }
            self.timer.sleep(PAUSE).await;
        }
        Err(Conflict::Contended.into())
    }

    /// Sees to it that a success of a key's schedule is awaited from the end of its pause, or from
    /// `now` if its pause has been ended. It comes after the schedule is written.
    ///
    /// A request that ends the pause writes the watch before the schedule, and another may come
    /// between any two steps. So the schedule is read again after each write of the watch.
    ///
    /// # Errors
    ///
    /// A [conflict](StoreErrorKind::Conflict) if the watch changes again and again.
    pub(super) async fn follow_pause(
        &self,
        (app, key): (&str, &str),
        now: Time,
    ) -> std::result::Result<(), StoreError> {
        for _ in 0..TRIES {
            let Some(watch) = self.watch(app, key).await? else { return Ok(()) };
            let by_name = ScheduleQuery::new().name(model::name(app, key));
            let Some(row) = self.client.schedules(by_name).await?.pop() else {
                // A write of the watch may have come after that which ends it.
                return self.try_end_watch(app, key).await;
            };
            let paused = row.paused.filter(|until| *until > now);
            let definition = Found::Repeated(row).stored().map(|stored| stored.definition);
            let alerts = definition.map(|definition| self.alerts(app, &definition));
            let Some(within) = alerts.and_then(|alerts| alerts.success_within) else {
                return Ok(());
            };
            let since = match paused {
                Some(until) => until,
                None => watch.state.since().min(now),
            };
            if watch.state.since() == since {
                return Ok(());
            }
            let was_silent = watch.is_notified(now);
            let since_us = since.as_micros();
            let state = WatchState { since_us, was_silent, ..watch.state.clone() };
            if !self.write_watch(&watch, &state, since + within).await? {
                self.timer.sleep(PAUSE).await;
            }
        }
        Err(contended())
    }

    /// Makes the watch of a key end soon, if the key has no schedule any more, or an unwatched one.
    ///
    /// The schedule is written already, so that an error is none of the request.
    pub(super) async fn end_watch(&self, app: &str, key: &str) {
        if let Err(error) = self.try_end_watch(app, key).await {
            tracing::warn!(app, key, %error, "a watch was not ended");
        }
    }

    async fn try_end_watch(&self, app: &str, key: &str) -> std::result::Result<(), StoreError> {
        for _ in 0..TRIES {
            let Some(watch) = self.watch(app, key).await? else { return Ok(()) };
            let by_name = ScheduleQuery::new().name(model::name(app, key));
            let row = self.client.schedules(by_name).await?.pop().map(Found::Repeated);
            let stored = row.and_then(|row| row.stored());
            if stored.is_some_and(|stored| self.alerts(app, &stored.definition).is_watched()) {
                // Another has made it meanwhile.
                return Ok(());
            }
            let at = self.client.now().await? + MARGIN;
            let replacement = Replacement::at(at).expect(watch.timer.version);
            match self.client.replace(watch.timer.new.id, replacement).await? {
                TimerUpdate::Stale => {}
                // A watch under judgement ends by itself.
                TimerUpdate::Done | TimerUpdate::Running { .. } | TimerUpdate::Gone => {
                    return Ok(());
                }
            }
        }
        Err(contended())
    }

    /// Notes that a run of a schedule with this definition has succeeded at `now`: the watch was as
    /// it is in `found`.
    ///
    /// # Errors
    ///
    /// A [conflict](StoreErrorKind::Conflict) if the watch has changed since.
    pub(crate) async fn note_success(
        &self,
        (app, key): (&str, &str),
        definition: &Definition,
        found: Option<&Watch>,
        now: Time,
    ) -> std::result::Result<(), StoreError> {
        let mut state = WatchState::new(app, key, now);
        let within = self.alerts(app, definition).success_within;
        let is_done = match found {
            None if within.is_none() => true,
            None => matches!(self.make_watch(&state, within).await?, Created::Created(_)),
            // A later success is noted already.
            Some(watch) if watch.has_nothing_to_note(within, now) => true,
            Some(watch) => {
                state.since_us = state.since_us.max(watch.state.since_us);
                self.write_watch(watch, &state, due(&state, within)).await?
            }
        };
        if is_done { Ok(()) } else { Err(contended()) }
    }

    /// Notes that a run is dead. Returns the number of runs in a row that are, up to `most`.
    ///
    /// # Errors
    ///
    /// A [conflict](StoreErrorKind::Conflict) if the watch changes meanwhile.
    pub(crate) async fn note_death(
        &self,
        (app, key): (&str, &str),
        definition: &Definition,
        run: TimerId,
        most: u32,
        now: Time,
    ) -> std::result::Result<u32, StoreError> {
        let (run, within) = (run.to_string(), self.alerts(app, definition).success_within);
        let found = self.watch(app, key).await?;
        let mut state = found
            .as_ref()
            .map_or_else(|| WatchState::new(app, key, now), |watch| watch.state.clone());
        let counted = |state: &WatchState| u32::try_from(state.dead.len()).unwrap_or(u32::MAX);
        if state.dead.contains(&run) || counted(&state) >= most {
            return Ok(counted(&state));
        }
        state.dead.push(run);
        let is_done = match &found {
            None => matches!(self.make_watch(&state, within).await?, Created::Created(_)),
            Some(watch) => self.write_watch(watch, &state, watch.timer.new.due).await?,
        };
        if is_done { Ok(counted(&state)) } else { Err(contended()) }
    }

    /// Finds the schedule of this key and identity, if it is enabled, and is to be disabled after
    /// dead runs of this callback. Returns its row, and their number.
    pub(crate) async fn disabled_by_dead(
        &self,
        (app, key): (&str, &str),
        id: Option<ScheduleId>,
        callback: &Callback,
    ) -> std::result::Result<Option<(ScheduleRow, u32)>, StoreError> {
        let present = self.present((app, key), id).await?;
        let of_it =
            present.filter(|(row, definition)| row.enabled && definition.callback == *callback);
        let most = |definition: &Definition| self.alerts(app, definition).disable_after;
        Ok(of_it.and_then(|(row, definition)| Some((row, most(&definition)?))))
    }

    /// Finds the schedule of this key and identity, in its present state.
    pub(crate) async fn present(
        &self,
        (app, key): (&str, &str),
        id: Option<ScheduleId>,
    ) -> std::result::Result<Option<(ScheduleRow, Definition)>, StoreError> {
        let by_name = ScheduleQuery::new().name(model::name(app, key));
        let row = self.client.schedules(by_name).await?.pop();
        let row = row.filter(|row| Some(row.id) == id);
        let stored =
            row.as_ref().and_then(|row| serde_json::from_slice::<Stored>(&row.payload).ok());
        Ok(row.zip(stored.map(|stored| stored.definition)))
    }

    /// Disables the schedule of a key, if it still has this row, and stores the reason.
    ///
    /// # Errors
    ///
    /// A [conflict](StoreErrorKind::Conflict) if the schedule has changed since.
    pub(crate) async fn give_up_on(
        &self,
        row: &ScheduleRow,
        why: DisabledBy,
    ) -> std::result::Result<(), StoreError> {
        let Ok(stored) = serde_json::from_slice::<Stored>(&row.payload) else { return Ok(()) };
        if row.rule.is_err() {
            // Only a node that can read it can write it back with the reason.
            self.client.disable(&row.name).await?;
            return Ok(());
        }
        let stored = Stored { disabled_by: Some(why), ..stored };
        match self.rewrite(row, &stored, false).await? {
            Upsert::Stale => Err(contended()),
            _ => Ok(()),
        }
    }

    /// Writes another payload into a schedule, and switches it.
    pub(super) async fn rewrite(
        &self,
        row: &ScheduleRow,
        stored: &Stored,
        enabled: bool,
    ) -> std::result::Result<Upsert, StoreError> {
        let rule = row.rule()?;
        let payload = serde_json::to_vec(stored).expect("a definition is JSON");
        let every = self.client.every(&row.name, rule.schedule.clone()).kind(&row.kind);
        let mut every = every
            .payload(payload)
            .missed(rule.policies.missed)
            .on_time_within(rule.policies.on_time_within)
            .overlap(rule.policies.overlap)
            .jitter(rule.policies.jitter)
            .retry(rule.policies.retry);
        if let Some(lane) = &row.lane {
            every = every.lane(lane);
        }
        every.expect(Some(row.version)).enabled(enabled).upsert().await
    }

    async fn make_watch(
        &self,
        state: &WatchState,
        within: Option<Duration>,
    ) -> std::result::Result<Created, StoreError> {
        let payload = serde_json::to_vec(state).expect("a state is JSON");
        let once = self.client.once(WATCH, due(state, within)).name(name(&state.app, &state.key));
        once.payload(payload).create().await
    }

    /// Writes a watch, if it is as it was found and no node judges it.
    async fn write_watch(
        &self,
        watch: &Watch,
        state: &WatchState,
        due: Time,
    ) -> std::result::Result<bool, StoreError> {
        // An attempt does not change the version. One that ran at the look or began after it may
        // have made a notice since, and this would take back that it did.
        let found = &watch.timer;
        if found.running.is_some() {
            return Ok(false);
        }
        let payload = serde_json::to_vec(state).expect("a state is JSON");
        let replacement = Replacement::at(due).payload(payload).expect(found.version);
        let done = self.client.replace(found.new.id, replacement.attempt(found.attempt)).await?;
        Ok(done == TimerUpdate::Done)
    }
}

impl WatchState {
    fn new(app: &str, key: &str, since: Time) -> Self {
        let (app, key) = (app.to_owned(), key.to_owned());
        Self { app, key, since_us: since.as_micros(), dead: Vec::new(), was_silent: false }
    }
}

/// Returns when a watch is due: never, if there is no time within which to succeed.
fn due(state: &WatchState, within: Option<Duration>) -> Time {
    within.map_or(Time::NEVER, |within| state.since() + within)
}

fn contended() -> StoreError {
    StoreError::new(StoreErrorKind::Conflict, "the watch or its schedule has changed meanwhile")
}

#[cfg(test)]
mod tests {
    use tourbillon_durable::store::{End, How, Memory};
    use tourbillon_durable::{Lease, NodeId, Store as _};

    use super::*;
    use crate::config::Config;
    use crate::service::Service;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn at(hours: u32) -> Time {
        Time::from_micros(0) + hours * HOUR
    }

    #[tokio::test]
    async fn a_success_is_not_noted_by_a_look_before_the_end_of_a_judgement() {
        let timer = tourbillon::Timer::global();
        let mut store = Memory::new(&timer);
        // Nothing but this test claims.
        let service = Service::start(Box::new(store.clone()), Config::default(), &timer).unwrap();
        let catalog = &service.catalog;
        let definition = r#"{"when": {"every": "1s"}, "success_within": "1h",
            "callback": {"url": "https://example.com/"}}"#;
        let definition: Definition = serde_json::from_str(definition).unwrap();
        let now = service.client.now().await.unwrap();
        let state = WatchState::new("a", "k", Time::from_micros(now.as_micros() - 7_200_000_000));
        catalog.make_watch(&state, Some(HOUR)).await.unwrap();
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        store.join(lease, HOUR).unwrap();
        let due = catalog.watch("a", "k").await.unwrap().unwrap();
        let id = due.timer.new.id;
        assert_eq!(store.claim(lease, &[id]).unwrap().timers.len(), 1);
        let judged = catalog.watch("a", "k").await.unwrap().unwrap();
        // The notice is made, and the watch postponed for good, right after these looks.
        let end = End { timer: id, attempt: 1, how: How::Postpone(Duration::MAX, None) };
        store.finish(lease, &[end]).unwrap();
        let of = ("a", "k");
        for look in [due, judged] {
            let error = catalog.note_success(of, &definition, Some(&look), now).await.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Conflict);
        }
        let notified = catalog.watch("a", "k").await.unwrap().unwrap();
        assert!(notified.is_notified(now));
        catalog.note_success(of, &definition, Some(&notified), now).await.unwrap();
        assert!(!catalog.watch("a", "k").await.unwrap().unwrap().is_notified(now));
        service.stop().await;
    }

    #[test]
    fn a_schedule_is_silent_once_it_could_have_succeeded_in_time_and_did_not() {
        let daily = Schedule::every(24 * HOUR);
        let judged = |schedule: &Schedule, paused, since: u32, now: u32| {
            judge(schedule, paused, Some(25 * HOUR), at(since), at(now))
        };
        assert_eq!(judged(&daily, None, 24, 48), Judged::Later(HOUR));
        assert_eq!(judged(&daily, None, 24, 49), Judged::Silent);
        // During a pause, a window and before the start, there is nothing to succeed.
        assert_eq!(judged(&daily, Some(at(100)), 24, 49), Judged::Later(76 * HOUR));
        assert_eq!(judged(&daily, Some(at(100)), 24, 125), Judged::Silent);
        let window = daily.clone().excluding(at(30)..at(100), tourbillon_durable::Excluded::Skip);
        assert_eq!(judged(&window, None, 24, 49), Judged::Later(96 * HOUR));
        assert_eq!(judged(&window, None, 24, 145), Judged::Silent);
        let later = daily.clone().starting_at(at(1_000));
        assert_eq!(judged(&later, None, 24, 49), Judged::Later((1_008 + 25 - 49) * HOUR));
        // After the end there is none to come.
        assert_eq!(judged(&daily.clone().ending_at(at(47)), None, 30, 60), Judged::Over);
        assert_eq!(judged(&daily.ending_at(at(48)), None, 30, 60), Judged::Silent);
        // A rare schedule is awaited from its next time.
        let weekly = Schedule::every(7 * 24 * HOUR);
        assert_eq!(judged(&weekly, None, 1, 49), Judged::Later((168 + 25 - 49) * HOUR));
        assert_eq!(judge(&weekly, None, None, at(1), at(49)), Judged::Later(LONGEST));
    }
}
