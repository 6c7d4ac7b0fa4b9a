//! Pauses a schedule, and makes its occurrences of the past.

use std::ops::Range;

use tourbillon_durable::{Backfilled, ScheduleUpdate, Time};

use super::error::{Conflict, Error, Missing, Result};
use super::found::{Found, Slot};
use super::switch::{after_a_write, stopped};
use super::{Catalog, TRIES};
use crate::model::{self, Stopped};

impl Catalog {
    /// Pauses the repeating schedule of a key until an instant. A success is awaited from then on.
    ///
    /// # Errors
    ///
    /// That of the store is [uncertain](tourbillon_durable::StoreErrorKind::Uncertain) if the
    /// schedule is paused, and its watch could not be written: a repeat writes it.
    pub(crate) async fn pause(&self, app: &str, key: &str, until: Time) -> Result<Stopped> {
        for _ in 0..TRIES {
            let (now, slot) = self.look(app, key).await?;
            let Slot::Taken(found) = slot else { return Err(Missing::Schedule.into()) };
            let Found::Repeated(row) = found else { return Err(Conflict::Once.into()) };
            if !row.enabled {
                return Err(Conflict::Disabled.into());
            }
            if until <= now {
                return Err(Error::field("until", "it must be in the future"));
            }
            let running = match self.client.pause(&row.name, until).await? {
                ScheduleUpdate::Done { running } => running,
                ScheduleUpdate::Unchanged if row.paused == Some(until) => Vec::new(),
                ScheduleUpdate::Gone => return Err(Missing::Schedule.into()),
                // It was disabled meanwhile, or paused as asked, or the time has come.
                ScheduleUpdate::Unchanged => continue,
            };
            let followed = self.follow_pause((app, key), now).await;
            followed.map_err(|error| after_a_write(true, error))?;
            return Ok(stopped(&running));
        }
        Err(Conflict::Contended.into())
    }

    /// Makes the occurrences of a key's schedule in a range of the past, `limit` at most.
    pub(crate) async fn backfill(
        &self,
        app: &str,
        key: &str,
        range: Range<Time>,
        limit: u32,
    ) -> Result<model::Backfilled> {
        let Found::Repeated(row) = self.find(app, key).await?.ok_or(Missing::Schedule)? else {
            return Err(Conflict::Once.into());
        };
        if range.end > self.client.now().await? {
            return Err(Error::field("until", "it must be in the past"));
        }
        Found::check_readable(&row)?;
        match self.client.backfill(&row.name, range).limit(limit).create().await? {
            Backfilled::Done { made, existed, rest } => {
                Ok(model::Backfilled { made, existed, rest: rest.map(model::rfc3339) })
            }
            Backfilled::Disabled => Err(Conflict::Disabled.into()),
            Backfilled::Gone => Err(Missing::Schedule.into()),
        }
    }
}
