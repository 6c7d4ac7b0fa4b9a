//! [`Quota`]: how many schedules each app has, without counting them each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tourbillon_durable::store::Filter;

use crate::api::Problem;
use crate::{Service, model};

/// How long a count is believed, with what this node makes itself added.
const FRESH: Duration = Duration::from_secs(30);

/// How many rows one call counts.
const PAGE: u32 = 1_000;

/// How many schedules each app has, as counted a while ago.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    counts: Mutex<HashMap<String, (Instant, u32)>>,
}

impl Quota {
    /// Fails if the app has as many as it may.
    ///
    /// What other nodes make is seen within half a minute, so several nodes may let in more.
    pub(crate) async fn check(
        &self,
        service: &Service,
        app: &str,
        limit: u32,
    ) -> Result<(), Problem> {
        let now = service.timer.now();
        let known = self.lock().get(app).copied();
        let count = match known {
            Some((at, count)) if now.duration_since(at) < FRESH => count,
            _ => {
                let count = count(service, app, limit).await?;
                self.lock().insert(app.to_owned(), (now, count));
                count
            }
        };
        if count < limit {
            return Ok(());
        }
        let why = format!("the app has {limit} schedules, which is its limit");
        Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, why))
    }

    /// One was made.
    pub(crate) fn count(&self, app: &str) {
        if let Some((_, count)) = self.lock().get_mut(app) {
            *count += 1;
        }
    }

    /// One was removed.
    pub(crate) fn forget(&self, app: &str) {
        if let Some((_, count)) = self.lock().get_mut(app) {
            *count = count.saturating_sub(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Instant, u32)>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts, up to the limit.
async fn count(service: &Service, app: &str, limit: u32) -> Result<u32, Problem> {
    let mut all = Filter { prefix: Some(model::name(app, "")), limit: PAGE, ..Filter::default() };
    let mut count = 0;
    while count < limit {
        let rows = service.reader.schedules(all.clone()).await?;
        count += rows.len() as u32;
        match rows.last() {
            Some(last) if rows.len() == PAGE as usize => all.after_name = Some(last.name.clone()),
            _ => break,
        }
    }
    all.after_name = None;
    while count < limit {
        let timers = service.reader.timers(all.clone()).await?;
        count += timers.len() as u32;
        match timers.last() {
            Some(last) if timers.len() == PAGE as usize => all.after_name = last.new.name.clone(),
            _ => break,
        }
    }
    Ok(count)
}
