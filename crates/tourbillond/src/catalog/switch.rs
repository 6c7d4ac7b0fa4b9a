//! Enables, disables, removes and runs the schedule or one-shot of a key.

use tourbillon_durable::store::{ScheduleRow, TimerUpdate};
use tourbillon_durable::{
    Created, Replacement, RunNow, ScheduleUpdate, StoreError, StoreErrorKind, Time, TimerId, Upsert,
};

use super::error::{Conflict, Error, Missing, Result};
use super::found::{Found, Slot};
use super::{Catalog, TRIES};
use crate::model::{Alerts, RunningAttempt, ScheduleState, Stopped, Stored};

/// Kind of the timers that free the keys of one-shots that are over.
const FREED: &str = "freed";

impl Catalog {
    /// Enables or disables the schedule or one-shot of the key.
    pub(crate) async fn switch(&self, app: &str, key: &str, on: bool) -> Result<Stopped> {
        for _ in 0..TRIES {
            let (now, slot) = self.look(app, key).await?;
            let Slot::Taken(found) = slot else { return Err(Missing::Schedule.into()) };
            let timer = match &found {
                Found::Over(_) => return Err(Conflict::Over.into()),
                Found::Repeated(row) => {
                    let switched = match on {
                        true => self.enable((app, key), row, found.stored(), now).await?,
                        false => Some(self.client.disable(&row.name).await?),
                    };
                    return match switched {
                        None => continue,
                        Some(ScheduleUpdate::Done { running }) => Ok(stopped(&running)),
                        Some(ScheduleUpdate::Unchanged) => Ok(stopped(&[])),
                        Some(ScheduleUpdate::Gone) => Err(Missing::Schedule.into()),
                    };
                }
                Found::Once(timer) => timer,
            };
            let state = found.state();
            if on != (state == ScheduleState::Disabled) && (on || state != ScheduleState::Running) {
                return Ok(stopped(&[]));
            }
            let at = match found.stored().and_then(|stored| stored.at_us) {
                Some(at) if on => Time::from_micros(at),
                None if on => return Err(Error::Unreadable),
                _ => Time::NEVER,
            };
            let replacement = Replacement::at(at).expect(timer.version);
            if self.give(timer.new.id, replacement).await? {
                return Ok(stopped(&[]));
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Enables a schedule, ends its pause, and sees to its watch; `None` if it has changed since.
    async fn enable(
        &self,
        of: (&str, &str),
        row: &ScheduleRow,
        stored: Option<Stored>,
        now: Time,
    ) -> Result<Option<ScheduleUpdate>> {
        Found::check_readable(row)?;
        // The row keeps a pause that has ended.
        let is_paused = row.paused.is_some_and(|until| until > now);
        let stored = stored.filter(|_| !row.enabled || is_paused);
        if let Some(stored) = &stored {
            self.see_to_watch(of, &stored.definition, None, now).await?;
        }
        if let Some(mut stored) = stored.filter(|old| !row.enabled && old.disabled_by.is_some()) {
            stored.disabled_by = None;
            let is_stale = matches!(self.rewrite(row, &stored, true).await?, Upsert::Stale);
            return Ok((!is_stale).then_some(ScheduleUpdate::Unchanged));
        }
        let enabled = self.client.enable(&row.name).await?;
        if is_paused {
            // The request that paused it may have written the watch after this one.
            let followed = self.follow_pause(of, now).await;
            followed.map_err(|error| after_a_write(true, error))?;
        }
        Ok(Some(enabled))
    }

    /// Removes the schedule or one-shot of the key.
    pub(crate) async fn remove(&self, app: &str, key: &str) -> Result<Stopped> {
        let client = &self.client;
        for _ in 0..TRIES {
            let found = self.find(app, key).await?.ok_or(Missing::Schedule)?;
            match found {
                Found::Repeated(ref row) => {
                    if let ScheduleUpdate::Done { running } = client.remove(&row.name).await? {
                        self.quota.forget(app);
                        let old = found.stored().map(|old| self.alerts(app, &old.definition));
                        if old.is_some_and(Alerts::is_watched) {
                            self.end_watch(app, key).await;
                        }
                        return Ok(stopped(&running));
                    }
                }
                Found::Once(timer) => {
                    if is_done(client.cancel(timer.new.id).await?)? {
                        self.quota.forget(app);
                        return Ok(stopped(&[]));
                    }
                }
                Found::Over(record) => {
                    // The record stays. The one-shot that would follow is made, held, and taken
                    // back. It is no run: it has neither the app's kind nor a name, so no list has
                    // it. It is found by its identity.
                    let id = TimerId::of_revival(record.timer);
                    let made = client.once(FREED, Time::NEVER).id(id).create().await?;
                    let is_made = matches!(made, Created::Created(_));
                    let cancelled = client.cancel(id).await;
                    if is_done(cancelled.map_err(|error| after_a_write(is_made, error))?)? {
                        return Ok(stopped(&[]));
                    }
                }
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Makes a run for now: of a repeating schedule beside its times, of a one-shot in place of its
    /// time.
    pub(crate) async fn run_now(&self, app: &str, key: &str) -> Result<TimerId> {
        for _ in 0..TRIES {
            let found = self.find(app, key).await?;
            let found = found.ok_or(Missing::Schedule)?;
            let timer = match &found {
                Found::Over(_) => return Err(Conflict::Over.into()),
                Found::Repeated(row) => {
                    Found::check_readable(row)?;
                    return match self.client.run_now(&row.name).await? {
                        RunNow::Done(id) => Ok(id),
                        RunNow::Busy => Err(Conflict::Overlap.into()),
                        RunNow::Disabled => Err(Conflict::Disabled.into()),
                        RunNow::Gone => Err(Missing::Schedule.into()),
                    };
                }
                Found::Once(_) if found.state() == ScheduleState::Disabled => {
                    return Err(Conflict::Disabled.into());
                }
                Found::Once(timer) => timer,
            };
            let now = self.client.now().await?;
            let replacement = Replacement::at(now).expect(timer.version);
            if self.give(timer.new.id, replacement).await? {
                return Ok(timer.new.id);
            }
        }
        Err(Conflict::Contended.into())
    }
}

/// Returns the meaning of an error, for a call that has written before if `has_written`.
pub(super) fn after_a_write(has_written: bool, error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Unavailable | StoreErrorKind::Conflict if has_written => {
            StoreError::new(StoreErrorKind::Uncertain, error)
        }
        _ => error,
    }
}

/// Returns whether a one-shot was changed; `false` if it is not as it was found.
pub(super) fn is_done(update: TimerUpdate) -> Result<bool> {
    match update {
        TimerUpdate::Done => Ok(true),
        TimerUpdate::Running { attempt } => Err(Conflict::Running(attempt).into()),
        TimerUpdate::Stale | TimerUpdate::Gone => Ok(false),
    }
}

/// Returns the answer that names these attempts.
pub(super) fn stopped(running: &[(TimerId, u32)]) -> Stopped {
    Stopped { running: named(running) }
}

/// Names attempts as answers do.
pub(super) fn named(attempts: &[(TimerId, u32)]) -> Vec<RunningAttempt> {
    let attempt = |(run, attempt): &(TimerId, u32)| RunningAttempt {
        run: run.to_string(),
        attempt: *attempt,
    };
    attempts.iter().map(attempt).collect()
}
