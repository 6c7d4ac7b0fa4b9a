//! [`Quota`]: how many schedules each app has, without counting them each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tourbillon::Timer;
use tourbillon_durable::Client;
use tourbillon_durable::store::Search;

use super::Catalog;
use super::error::{Error, Result};
use crate::model;

/// Shortest trust in a count, with this node's own creations added.
const FRESH: Duration = Duration::from_secs(30);

/// Part of the time, one in so many, that an app is counted at most.
const PART: u32 = 20;

/// Most names that one call counts.
const PAGE: u32 = 4_096;

/// Number of schedules of each app, as counted a while ago.
#[derive(Debug, Default)]
pub(super) struct Quota {
    counts: Arc<Mutex<HashMap<String, Count>>>,
    /// Held while an app is counted that a request waits for: others wait for that count, and make
    /// none of their own.
    counting: tokio::sync::Mutex<()>,
}

/// Number of an app's schedules.
#[derive(Debug)]
struct Count {
    count: u32,
    /// End of the trust in it.
    until: Instant,
    /// Number of those made since the next count began; `None` while nobody counts.
    made: Option<u32>,
}

impl Quota {
    /// Fails if the app has as many as it may.
    ///
    /// A request waits for a count if there is none yet, or if by an old one the app is full.
    /// Otherwise requests are let in by the old count while another is made. Schedules that other
    /// nodes make are seen with the next count, so several nodes may let in more.
    pub(super) async fn check(&self, catalog: &Catalog, app: &str, limit: u32) -> Result<()> {
        let count = match self.known(app) {
            Some((count, until)) if catalog.timer.now() < until => count,
            Some((count, _)) if count < limit => {
                self.count_aside(catalog, app, limit);
                count
            }
            _ => self.count_now(catalog, app, limit).await?,
        };
        if count < limit {
            return Ok(());
        }
        Err(Error::Full(limit))
    }

    /// Returns the number of an app's schedules, and the end of the trust in it.
    fn known(&self, app: &str) -> Option<(u32, Instant)> {
        lock(&self.counts).get(app).map(|known| (known.count, known.until))
    }

    /// Counts an app, or waits for who counts it.
    async fn count_now(&self, catalog: &Catalog, app: &str, limit: u32) -> Result<u32> {
        let _counting = self.counting.lock().await;
        let begun = catalog.timer.now();
        if let Some((count, _)) = self.known(app).filter(|(_, until)| begun < *until) {
            return Ok(count);
        }
        let count = count(&catalog.reader, app, limit).await?;
        let until = until(begun, catalog.timer.now());
        lock(&self.counts).insert(app.to_owned(), Count { count, until, made: None });
        Ok(count)
    }

    /// Counts an app that has a count, unless that is being done. Does not wait.
    fn count_aside(&self, catalog: &Catalog, app: &str, limit: u32) {
        match lock(&self.counts).get_mut(app) {
            Some(known) if known.made.is_none() => known.made = Some(0),
            _ => return,
        }
        let (counts, app) = (Arc::clone(&self.counts), app.to_owned());
        let (reader, timer) = (catalog.reader.clone(), catalog.timer.clone());
        tokio::spawn(async move { replace(&counts, &reader, &timer, &app, limit).await });
    }

    /// One was made.
    pub(super) fn count(&self, app: &str) {
        if let Some(known) = lock(&self.counts).get_mut(app) {
            known.count += 1;
            known.made = known.made.map(|made| made + 1);
        }
    }

    /// One was removed.
    pub(super) fn forget(&self, app: &str) {
        if let Some(known) = lock(&self.counts).get_mut(app) {
            known.count = known.count.saturating_sub(1);
        }
    }
}

fn lock(counts: &Mutex<HashMap<String, Count>>) -> MutexGuard<'_, HashMap<String, Count>> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the end of the trust in a count: the longer it took, the longer it is trusted.
fn until(begun: Instant, ended: Instant) -> Instant {
    ended + FRESH.max(ended.duration_since(begun) * PART)
}

/// Counts, and replaces the count that there is. After an error, that one is believed again.
async fn replace(
    counts: &Mutex<HashMap<String, Count>>,
    reader: &Client,
    timer: &Timer,
    app: &str,
    limit: u32,
) {
    let begun = timer.now();
    let counted = count(reader, app, limit).await;
    let mut counts = lock(counts);
    let Some(known) = counts.get_mut(app) else { return };
    known.until = until(begun, timer.now());
    let made = known.made.take().unwrap_or(0);
    match counted {
        // Schedules made meanwhile may be counted twice: too many, and never too few.
        Ok(count) => known.count = count.saturating_add(made),
        Err(error) => tracing::warn!(%error, app, "the schedules of an app were not counted"),
    }
}

/// Counts the names of an app's schedules and one-shots, up to the limit.
async fn count(reader: &Client, app: &str, limit: u32) -> Result<u32> {
    let mut search = Search::new(model::name(app, "")).most(PAGE).limit(PAGE);
    let mut count = 0;
    while count < limit {
        let hits = reader.search(search.clone()).await?;
        count += hits.names.len() as u32;
        let Some(rest) = hits.rest else { break };
        search = search.after(rest);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::json;
    use tourbillon::Timer;
    use tourbillon_durable::store::calls::Change;
    use tourbillon_durable::store::{Memory, NewTimer, ScheduleRow};
    use tourbillon_durable::{
        Lease, NodeId, Policies, Rule, Schedule, ScheduleId, Store, Time, TimerId,
    };

    use super::{FRESH, PAGE, count, lock};
    use crate::catalog::{Error, Written};
    use crate::config::{App, Config};
    use crate::model;
    use crate::service::Service;
    use crate::watched::Watched;

    #[tokio::test]
    async fn an_old_count_is_replaced_while_requests_go_on_by_it() {
        let (clock, timer) = crate::watched::clocked();
        let (global, lists) = (Timer::global(), Arc::new(tokio::sync::Mutex::new(())));
        let mut limited = App::default();
        limited.limits.schedules = 3;
        let mut config = Config::default();
        config.apps.insert("a".to_owned(), limited);
        let list = Arc::clone(&lists);
        let store = Watched::before(Memory::new(&global), move |name| {
            if name == "timers" {
                drop(list.blocking_lock());
            }
        });
        let service = Service::start(store, config, &timer).unwrap();
        let definition = json!({
            "when": { "at": "2199-01-01T00:00:00Z" }, "callback": { "url": "https://example.com/" },
        });
        let put = async |key| {
            let put = service.catalog.put("a", key, definition.clone(), None).await;
            put.map(|(written, _)| written)
        };
        let quota = &service.catalog.quota;
        assert!(matches!(put("1").await, Ok(Written::Created)));
        assert_eq!(quota.known("a").unwrap().0, 1);
        clock.advance(FRESH);
        let held = lists.lock().await;
        assert!(matches!(put("2").await, Ok(Written::Created)));
        drop(held);
        while lock(&quota.counts)["a"].made.is_some() {
            tokio::task::yield_now().await;
        }
        // The second was made after the count began, and was there when it was read.
        assert_eq!(quota.known("a").unwrap().0, 3);
        assert!(matches!(put("3").await, Err(Error::Full(3))));
        // No request is refused by an old count.
        clock.advance(FRESH);
        assert!(matches!(put("3").await, Ok(Written::Created)));
        assert!(matches!(put("4").await, Err(Error::Full(3))));
        service.stop().await;
    }

    const DAY: Duration = Duration::from_secs(86_400);

    /// Makes a schedule with this key.
    fn make_schedule(store: &mut Memory, app: &str, key: &str, enabled: bool, now: Time) {
        let rule = Ok(Rule::new(Schedule::every(DAY), Policies::default()));
        let (name, id) = (model::name(app, key), ScheduleId::new(now));
        let mut row = ScheduleRow::new(id, &*name, model::kind(app), rule, Some(now + DAY));
        row.enabled = enabled;
        let name = &*name;
        let change = Change { name, expect: None, row: Some(&row), withdraw: None, skipped: &[] };
        store.change(&change).unwrap();
    }

    /// Returns a one-shot with this key.
    fn one_shot(app: &str, key: &str, due: Time, now: Time) -> NewTimer {
        let mut timer = NewTimer::new(TimerId::new(now), model::kind(app), due);
        timer.name = Some(model::name(app, key));
        timer
    }

    #[tokio::test]
    async fn all_that_an_app_has_is_counted_once_whatever_its_state() {
        const NUMBERS: u32 = PAGE + 1;
        let timer = Timer::global();
        let mut store = Memory::new(&timer);
        let now = store.now().unwrap();
        let mut once = Vec::new();
        for number in 0..NUMBERS {
            make_schedule(&mut store, "a", &format!("{number}-daily"), number % 2 == 0, now);
            let due = [now, now + DAY, Time::NEVER][number as usize % 3];
            once.push(one_shot("a", &format!("{number}-once"), due, now));
        }
        // Names before and after the app's.
        for app in ["a-", "a0"] {
            make_schedule(&mut store, app, "daily", true, now);
            once.push(one_shot(app, "once", now, now));
        }
        store.insert(&once).unwrap();
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        let lease = store.join(lease, DAY).unwrap().unwrap().lease;
        assert_eq!(store.claim(lease, &[once[0].id]).unwrap().timers.len(), 1);
        let service = Service::start(Box::new(store), Config::default(), &timer).unwrap();
        let reader = &service.catalog.reader;
        // A count that begins again and again would end by the limit.
        assert_eq!(count(reader, "a", 4 * NUMBERS).await.unwrap(), 2 * NUMBERS);
        assert_eq!(count(reader, "a0", 10).await.unwrap(), 2);
        assert_eq!(count(reader, "b", 10).await.unwrap(), 0);
        let some = count(reader, "a", 10).await.unwrap();
        assert!((10..=PAGE).contains(&some), "{some}");
        service.stop().await;
    }
}
