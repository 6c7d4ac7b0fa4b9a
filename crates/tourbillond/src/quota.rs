//! [`Quota`]: how many schedules each app has, without counting them each time.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use tourbillon_durable::store::Filter;

use crate::api::Problem;
use crate::{Service, model};

/// Time for which a count is believed, with what this node makes itself added.
const FRESH: Duration = Duration::from_secs(30);

/// Rows that one call counts; each may have 64 KiB.
const PAGE: u32 = 64;

/// Number of schedules of each app, as counted a while ago.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    counts: Mutex<HashMap<String, (Instant, u32)>>,
    /// Held while an app is counted: others wait for that count, and make none of their own.
    counting: tokio::sync::Mutex<()>,
}

impl Quota {
    /// Fails if the app has as many as it may.
    ///
    /// Schedules that other nodes make are seen within half a minute, so several nodes may let in
    /// more.
    pub(crate) async fn check(
        &self,
        service: &Service,
        app: &str,
        limit: u32,
    ) -> Result<(), Problem> {
        let known = || {
            let (at, count) = *self.lock().get(app)?;
            (service.timer.now().duration_since(at) < FRESH).then_some(count)
        };
        let count = match known() {
            Some(count) => count,
            None => {
                let _counting = self.counting.lock().await;
                match known() {
                    Some(count) => count,
                    None => {
                        let now = service.timer.now();
                        let count = count(service, app, limit).await?;
                        self.lock().insert(app.to_owned(), (now, count));
                        count
                    }
                }
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
