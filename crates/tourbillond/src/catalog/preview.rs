//! The next occurrences, and the effects of daylight saving, excluded windows and a pause on them.

use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio::sync::Semaphore;
use tourbillon_durable::{Schedule, Time};

use super::Catalog;
use super::definition::{Times, read_times, without_bounds};
use super::error::{Conflict, Error, Missing, Result};
use super::found::Found;
use crate::model::{self, CronWhen, Dialect, Note, Occurrence, Occurrences, When};

/// Number of previews that wait for their turn or are computed; more are refused.
const ROOM: usize = 16;

/// Previews in hand. One is computed at a time, on a thread of its own, so that callbacks and other
/// requests have the other processors, and all of the runtime's threads.
#[derive(Debug)]
pub(super) struct Previews {
    room: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

impl Default for Previews {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM)), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Previews {
    /// Computes when it is the turn of `compute`.
    ///
    /// # Errors
    ///
    /// If too many wait.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its turn, it computes nothing.
    async fn compute<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(Error::Crowded(ROOM));
        };
        let turn = Arc::clone(&self.turn).acquire_owned().await.expect("it is never closed");
        let computed = tokio::task::spawn_blocking(move || {
            let _held = (room, turn);
            compute()
        });
        computed.await.map_err(|error| {
            tracing::error!(%error, "a preview was not computed");
            Error::Broken("preview")
        })
    }
}

impl Catalog {
    /// Computes the next `count` occurrences of a key's schedule after `from`, or after now.
    pub(crate) async fn preview(
        &self,
        app: &str,
        key: &str,
        count: usize,
        from: Option<Time>,
    ) -> Result<Occurrences> {
        let found = self.find(app, key).await?.ok_or(Missing::Schedule)?;
        let stored = found.stored().ok_or(Conflict::Over)?;
        let times = match stored.at_us {
            Some(at) => Times::At(Time::from_micros(at)),
            None => read_times(&stored.definition.when)?,
        };
        let paused = match &found {
            Found::Repeated(row) if row.enabled => row.paused,
            _ => None,
        };
        self.occurrences(stored.definition.when, times, paused, count, from).await
    }

    /// Computes the next `count` occurrences of a `when` that is not kept.
    pub(crate) async fn preview_of(
        &self,
        when: When,
        count: usize,
        from: Option<Time>,
    ) -> Result<Occurrences> {
        let times = read_times(&when)?;
        self.occurrences(when, times, None, count, from).await
    }

    async fn occurrences(
        &self,
        when: When,
        times: Times,
        paused: Option<Time>,
        count: usize,
        from: Option<Time>,
    ) -> Result<Occurrences> {
        let from = match from {
            Some(from) => from,
            None => self.reader.now().await?,
        };
        let notes = match &when {
            When::Cron(when) => Dialect::of(&when.cron),
            _ => Vec::new(),
        };
        let compute = move || {
            let schedule = match times {
                Times::Repeated(schedule) => schedule,
                Times::At(at) => return occurrences(&when, &[at], |_| None),
                Times::After(after) => return occurrences(&when, &[from + after], |_| None),
            };
            let next = |last: &Time| schedule.next_of_all(*last);
            let times = successors(next(&from), next).take(count).collect::<Vec<_>>();
            let plain = without_bounds(&when);
            let is_plain = |at: Time| {
                let before = at - Duration::from_micros(1);
                plain.as_ref().is_none_or(|plain| plain.next_after(before) == Some(at))
            };
            occurrences(&when, &times, |at| match () {
                () if schedule.excludes(at) => Some(Note::Excluded),
                () if paused.is_some_and(|until| at < until) => Some(Note::Paused),
                () if !is_plain(at) => Some(Note::RunAtEnd),
                () => None,
            })
        };
        Ok(Occurrences { items: self.previews.compute(compute).await??, notes })
    }
}

/// The occurrences as the API shows them, by the clock on the wall of their zone. A note of
/// `noted` precedes that of daylight saving.
fn occurrences(
    when: &When,
    times: &[Time],
    noted: impl Fn(Time) -> Option<Note>,
) -> Result<Vec<Occurrence>> {
    let cron = match when {
        When::Cron(cron) => Some(cron),
        _ => None,
    };
    let zone = zone(cron)?;
    // The same times on a clock that is never changed.
    let plain = cron.and_then(|CronWhen { cron, .. }| Schedule::cron(cron, "UTC").ok());
    // At fixed times the second of two equal times is no occurrence.
    let own = cron.and_then(|CronWhen { cron, zone, .. }| Schedule::cron(cron, zone).ok());
    let is_occurrence = |at: Timestamp| {
        let at = Time::from_micros(at.as_microsecond());
        own.as_ref().is_some_and(|own| own.next_after(at - Duration::from_micros(1)) == Some(at))
    };
    let show = |time: &Time| {
        let at = Timestamp::from_microsecond(time.as_micros()).ok()?;
        let local = zone.to_datetime(at);
        let is_own = plain.as_ref().is_none_or(|plain| {
            let wall = local.to_zoned(TimeZone::UTC).map(|wall| wall.timestamp().as_microsecond());
            wall.is_ok_and(|wall| {
                plain.next_after(Time::from_micros(wall - 1)) == Some(Time::from_micros(wall))
            })
        });
        let dst = match () {
            () if cron.is_none() => None,
            () if !is_own => Some(Note::Gap),
            () if zone.to_ambiguous_timestamp(local).is_ambiguous() => {
                let second = zone.to_ambiguous_timestamp(local).later();
                Some(if second.is_ok_and(is_occurrence) { Note::FoldTwice } else { Note::Fold })
            }
            () => None,
        };
        Some(Occurrence {
            at: model::rfc3339(*time),
            local: local.to_string(),
            offset: zone.to_offset(at).to_string(),
            note: noted(*time).or(dst),
        })
    };
    Ok(times.iter().filter_map(show).collect())
}

/// The zone of an expression, by default UTC. That is there without a copy of the database, too.
fn zone(cron: Option<&CronWhen>) -> Result<TimeZone> {
    let named = cron.map(|cron| &*cron.zone).filter(|zone| !zone.eq_ignore_ascii_case("UTC"));
    let zone = named.map_or(Ok(TimeZone::UTC), TimeZone::get);
    zone.map_err(|error| Error::field("when.zone", error.to_string()))
}

#[cfg(test)]
mod tests {
    use tourbillon::Timer;
    use tourbillon_durable::store::Memory;

    use super::*;
    use crate::config::Config;
    use crate::model::Bounds;
    use crate::service::Service;

    fn of(cron: &str, zone: &str, from: &str, count: usize) -> Vec<Occurrence> {
        let times = Schedule::cron(cron, zone).unwrap();
        let times: Vec<_> = times.occurrences(model::time(from).unwrap()).take(count).collect();
        occurrences(&When::Cron(plain(cron, zone)), &times, |_| None).unwrap()
    }

    fn plain(cron: &str, zone: &str) -> CronWhen {
        CronWhen { cron: cron.into(), zone: zone.into(), bounds: Bounds::default() }
    }

    #[test]
    fn daylight_saving_is_noted() {
        let notes = |found: Vec<Occurrence>| -> Vec<_> {
            found.into_iter().map(|found| (found.local, found.note)).collect()
        };
        let winter_ends = of("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
        assert_eq!(winter_ends[0].offset, "-04");
        assert_eq!(
            notes(winter_ends),
            [
                ("2026-03-08T03:00:00".to_owned(), Some(Note::Gap)),
                ("2026-03-09T02:30:00".to_owned(), None)
            ]
        );
        let summer_ends = of("*/30 1 * * *", "America/New_York", "2026-11-01T04:59:00Z", 4);
        assert_eq!(
            notes(summer_ends),
            ["01:00", "01:30", "01:00", "01:30"]
                .map(|time| (format!("2026-11-01T{time}:00"), Some(Note::FoldTwice)))
        );
        let nightly = of("30 1 * * *", "America/New_York", "2026-11-01T04:59:00Z", 2);
        assert_eq!(
            notes(nightly),
            [
                ("2026-11-01T01:30:00".to_owned(), Some(Note::Fold)),
                ("2026-11-02T01:30:00".to_owned(), None)
            ]
        );
    }

    #[tokio::test]
    async fn previews_wait_for_their_turn_and_too_many_are_refused() {
        let timer = Timer::global();
        let store = Box::new(Memory::new(&timer));
        let service = Service::start(store, Config::default(), &timer).unwrap();
        let ask = || {
            let service = Arc::clone(&service);
            async move {
                let cron = When::Cron(plain("* * * * *", "UTC"));
                service.catalog.preview_of(cron, 1_000, None).await
            }
        };
        let previews = &service.catalog.previews;
        // One is being computed, and takes long. There is no turn for a second.
        let turn = Arc::clone(&previews.turn).try_acquire_owned().unwrap();
        assert_eq!(previews.turn.available_permits(), 0);
        let waiting: Vec<_> = (0..ROOM).map(|_| tokio::spawn(ask())).collect();
        while previews.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(matches!(ask().await, Err(Error::Crowded(ROOM))));
        // Everything else is answered meanwhile.
        assert!(service.catalog.find("default", "a").await.unwrap().is_none());
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        drop(turn);
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap().items.len(), 1_000);
        }
        assert_eq!(ask().await.unwrap().items.len(), 1_000);
    }
}
