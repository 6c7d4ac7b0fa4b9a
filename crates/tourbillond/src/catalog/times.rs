//! Pauses a schedule, and makes its occurrences of the past.

use std::ops::Range;

use tourbillon_durable::{Backfilled, ScheduleUpdate, Time};

use super::error::{Conflict, Error, Missing, Result};
use super::found::Found;
use super::switch::stopped;
use super::{Catalog, TRIES};
use crate::model::{self, Stopped};

impl Catalog {
    /// Pauses the repeating schedule of a key until an instant.
    pub(crate) async fn pause(&self, app: &str, key: &str, until: Time) -> Result<Stopped> {
        for _ in 0..TRIES {
            let Found::Repeated(row) = self.find(app, key).await?.ok_or(Missing::Schedule)? else {
                return Err(Conflict::Once.into());
            };
            if !row.enabled {
                return Err(Conflict::Disabled.into());
            }
            if until <= self.client.now().await? {
                return Err(Error::field("until", "it is past"));
            }
            match self.client.pause(&row.name, until).await? {
                ScheduleUpdate::Done { running } => return Ok(stopped(&running)),
                ScheduleUpdate::Unchanged if row.paused == Some(until) => return Ok(stopped(&[])),
                ScheduleUpdate::Gone => return Err(Missing::Schedule.into()),
                // It was disabled meanwhile, or paused as asked, or the time has come.
                ScheduleUpdate::Unchanged => {}
            }
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
            return Err(Error::field("until", "it is to come, and a backfill is of the past"));
        }
        match self.client.backfill(&row.name, range).limit(limit).create().await? {
            Backfilled::Done { made, existed, rest } => {
                Ok(model::Backfilled { made, existed, rest: rest.map(model::rfc3339) })
            }
            Backfilled::Disabled => Err(Conflict::Disabled.into()),
            Backfilled::Gone => Err(Missing::Schedule.into()),
        }
    }
}
