//! Watches by the `success_within` of an app, for schedules that were there before it.

use std::time::Duration;

use tourbillon_durable::store::ScheduleRow;
use tourbillon_durable::{Created, Time};

use super::{Judged, MARGIN, PAUSE, WatchState, judge};
use crate::catalog::error::{Conflict, Result};
use crate::catalog::{Catalog, Found, ROWS, TRIES};
use crate::model;

impl Catalog {
    /// Makes the watches of an app's enabled schedules that have to succeed within the app's time.
    /// If that time `is_new`, successes were not noted before, and the first is awaited from now
    /// on.
    ///
    /// Each call looks through all schedules of the app. A schedule that is made, put or enabled
    /// meanwhile has its watch by that.
    pub(crate) async fn see_to_watches(&self, app: &str, is_new: bool) -> Result<()> {
        let now = self.reader.now().await?;
        let mut live = self.repeating(app, "");
        while let Some((name, found)) = live.next(ROWS).await? {
            let stored = found.stored();
            let (Found::Repeated(row), Some(stored), Some((_, key))) =
                (&found, stored, model::app_and_key(&name))
            else {
                continue;
            };
            let within = self.alerts(app, &stored.definition).success_within;
            // One with a time of its own has had its watch from the beginning.
            let within = within.filter(|_| stored.definition.success_within.is_none());
            if let Some(within) = within.filter(|_| row.enabled) {
                self.see_to_watch_of_app((app, key), row, (within, is_new), now).await?;
            }
        }
        Ok(())
    }

    /// Makes the watch of a schedule, if there is none; moves it if it is due too late.
    ///
    /// The watch is read again if another changes it meanwhile: a success or a death that is noted,
    /// a judgement by the configuration before, or another node that does the same.
    async fn see_to_watch_of_app(
        &self,
        (app, key): (&str, &str),
        row: &ScheduleRow,
        (within, is_new): (Duration, bool),
        now: Time,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let Some(watch) = self.watch(app, key).await? else {
                match self.make_watch(&WatchState::new(app, key, now), Some(within)).await? {
                    Created::Created(_) => return Ok(()),
                    Created::Exists(_) => continue,
                }
            };
            let due = watch.timer.new.due;
            // A watch that is never due has only counted dead runs.
            let begins = (is_new || due == Time::NEVER).then(|| {
                // A success that was noted meanwhile is later, and so is the end of a pause.
                let since = now.max(watch.state.since());
                let (since_us, was_silent) = (since.as_micros(), watch.is_notified(now));
                (WatchState { since_us, was_silent, ..watch.state.clone() }, since + within)
            });
            let (state, at) = match begins {
                Some(begins) => begins,
                None if watch.is_postponed(now) => return Ok(()),
                None => {
                    let Ok(rule) = &row.rule else { return Ok(()) };
                    let (late, since) = (within + rule.policies.jitter, watch.state.since());
                    let at = match judge(&rule.schedule, row.paused, Some(late), since, now) {
                        Judged::Over => return Ok(()),
                        Judged::Later(left) => now + left,
                        Judged::Silent => now,
                    };
                    // By less it is as it was judged last.
                    if at + MARGIN >= due {
                        return Ok(());
                    }
                    (watch.state.clone(), at)
                }
            };
            if self.write_watch(&watch, &state, at).await? {
                return Ok(());
            }
            self.timer.sleep(PAUSE).await;
        }
        Err(Conflict::Contended.into())
    }
}
