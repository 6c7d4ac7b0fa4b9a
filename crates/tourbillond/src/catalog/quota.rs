//! [`Quota`]: how many schedules each app has, without counting them each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tourbillon_durable::store::{ScheduleQuery, TimerQuery};

use super::Catalog;
use super::error::{Error, Result};
use crate::model;

/// Time for which a count is believed, with what this node makes itself added.
const FRESH: Duration = Duration::from_secs(30);

/// Rows that one call counts; each may have 64 KiB.
const PAGE: u32 = 64;

/// Number of schedules of each app, as counted a while ago.
#[derive(Debug, Default)]
pub(super) struct Quota {
    counts: Mutex<HashMap<String, (Instant, u32)>>,
    /// Held while an app is counted: others wait for that count, and make none of their own.
    counting: tokio::sync::Mutex<()>,
}

impl Quota {
    /// Fails if the app has as many as it may.
    ///
    /// Schedules that other nodes make are seen within half a minute, so several nodes may let in
    /// more.
    pub(super) async fn check(&self, catalog: &Catalog, app: &str, limit: u32) -> Result<()> {
        let known = || {
            let (at, count) = *self.lock().get(app)?;
            (catalog.timer.now().duration_since(at) < FRESH).then_some(count)
        };
        let count = match known() {
            Some(count) => count,
            None => {
                let _counting = self.counting.lock().await;
                match known() {
                    Some(count) => count,
                    None => {
                        let now = catalog.timer.now();
                        let count = count(catalog, app, limit).await?;
                        self.lock().insert(app.to_owned(), (now, count));
                        count
                    }
                }
            }
        };
        if count < limit {
            return Ok(());
        }
        Err(Error::Full(limit))
    }

    /// One was made.
    pub(super) fn count(&self, app: &str) {
        if let Some((_, count)) = self.lock().get_mut(app) {
            *count += 1;
        }
    }

    /// One was removed.
    pub(super) fn forget(&self, app: &str) {
        if let Some((_, count)) = self.lock().get_mut(app) {
            *count = count.saturating_sub(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, u32)>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts, up to the limit.
async fn count(catalog: &Catalog, app: &str, limit: u32) -> Result<u32> {
    let prefix = model::name(app, "");
    let mut schedules = ScheduleQuery::new().prefix(&*prefix).limit(PAGE);
    let mut count = 0;
    while count < limit {
        let rows = catalog.reader.schedules(schedules.clone()).await?;
        count += rows.len() as u32;
        match rows.last() {
            Some(last) if rows.len() == PAGE as usize => schedules.after = Some(last.name.clone()),
            _ => break,
        }
    }
    let mut after = None;
    while count < limit {
        let names = TimerQuery::new().by_name(&*prefix, after).limit(PAGE);
        let timers = catalog.reader.timers(names).await?;
        count += timers.len() as u32;
        match timers.last() {
            Some(last) if timers.len() == PAGE as usize => after = last.new.name.clone(),
            _ => break,
        }
    }
    Ok(count)
}
