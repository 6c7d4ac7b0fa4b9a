//! Numbers of runs by time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tourbillon_durable::store::{Tally, TallyOf};
use tourbillon_durable::{Outcome, Time};

use super::Catalog;
use super::error::{Error, Result};
use super::overview::FRESH;
use crate::model::{self, History, HistoryBucket};

/// Most runs that are counted.
const COUNTED: u32 = 200_000;

/// Time span that is counted by default.
const DAY: Duration = Duration::from_secs(86_400);

/// Part of the time that counting one history again and again may take.
const SHARE: u32 = 10;

/// Query of a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HistoryQuery {
    /// Key of the schedule; `None` for all of the app.
    pub(crate) key: Option<String>,
    /// Start of the first part; a day before the end by default.
    pub(crate) since: Option<Time>,
    /// End of the last part; now by default.
    pub(crate) until: Option<Time>,
    /// Number of parts.
    pub(crate) buckets: u32,
}

/// The latest histories of each app, so that many viewers cost the database as much as one.
#[derive(Debug, Default)]
pub(super) struct Histories(Mutex<HashMap<String, Arc<HistoryCache>>>);

/// Histories of an app by their queries, each with the end of its reuse.
type HistoryCache = tokio::sync::Mutex<HashMap<HistoryQuery, (Instant, Arc<History>)>>;

impl Histories {
    fn of(&self, app: &str) -> Arc<HistoryCache> {
        let mut apps = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(apps.entry(app.to_owned()).or_default())
    }
}

impl Catalog {
    /// Counts the runs of an app by time, or returns a recent count. A history that takes long to
    /// count is served for longer.
    pub(crate) async fn history(&self, app: &str, query: HistoryQuery) -> Result<Arc<History>> {
        // One history of an app is counted at a time; viewers of other apps do not wait for it.
        let known = self.histories.of(app);
        let mut known = known.lock().await;
        let start = self.timer.now();
        known.retain(|_, (until, _)| start < *until);
        if let Some((_, history)) = known.get(&query) {
            return Ok(Arc::clone(history));
        }
        let history = Arc::new(self.count_history(app, &query).await?);
        let now = self.timer.now();
        let until = now + FRESH.max(now.duration_since(start) * SHARE);
        known.insert(query, (until, Arc::clone(&history)));
        Ok(history)
    }

    async fn count_history(&self, app: &str, query: &HistoryQuery) -> Result<History> {
        let until = match query.until {
            Some(until) => until,
            None => self.reader.now().await?,
        };
        let since = query.since.unwrap_or(until - DAY);
        if since >= until {
            return Err(Error::field("since", "it is not before `until`"));
        }
        let mut of = TallyOf::new(model::kind(app), since, until);
        of = of.parts(query.buckets).most(COUNTED);
        of.name = query.key.as_deref().map(|key| model::name(app, key));
        let Tally { parts, cut, .. } = self.reader.tally(&of).await?;
        Ok(History {
            since: model::rfc3339(since),
            until: model::rfc3339(until),
            // Parts have whole microseconds: the last ones of a short span have no time left.
            buckets: parts
                .into_iter()
                .map(|(start, outcomes)| bucket(start.min(until), &outcomes))
                .collect(),
            counted_since: cut.map(model::rfc3339),
        })
    }
}

fn bucket(start: Time, outcomes: &[(Outcome, u64)]) -> HistoryBucket {
    let mut bucket = HistoryBucket { start: model::rfc3339(start), ..HistoryBucket::default() };
    for (outcome, count) in outcomes {
        *match outcome {
            Outcome::Succeeded => &mut bucket.succeeded,
            Outcome::Dead => &mut bucket.dead,
            Outcome::Skipped => &mut bucket.skipped,
            _ => &mut bucket.cancelled,
        } += count;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};

    use tourbillon_durable::store::Memory;

    use super::HistoryQuery;
    use crate::config::Config;
    use crate::service::Service;
    use crate::watched::Watched;

    #[tokio::test]
    async fn a_history_is_counted_once_for_many_and_other_apps_do_not_wait_for_it() {
        // A count is served again until the clock moves, and it stands still.
        let (_clock, timer) = crate::watched::clocked();
        let (memory, count) =
            (Memory::new(&tourbillon::Timer::global()), Arc::<AtomicUsize>::default());
        let tallies = Arc::clone(&count);
        let store = Watched::before(memory, move |name| {
            tallies.fetch_add((name == "tally").into(), Ordering::SeqCst);
        });
        let service = Service::start(store, Config::default(), &timer).unwrap();
        let query = HistoryQuery { key: None, since: None, until: None, buckets: 1 };
        let history = |app| service.catalog.history(app, query.clone());
        let all = futures_util::future::join_all((0..20).map(|_| history("a"))).await;
        assert!(all.iter().all(|history| history.is_ok()));
        assert_eq!(count.load(Ordering::SeqCst), 1);
        history("b").await.unwrap();
        // While a history of `a` is counted.
        let known = service.catalog.histories.of("a");
        let counts = known.lock().await;
        let (mut own, mut other) = (pin!(history("a")), pin!(history("b")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(own.as_mut().poll(&mut context).is_pending());
        assert!(other.as_mut().poll(&mut context).is_ready());
        drop(counts);
        assert!(own.as_mut().poll(&mut context).is_ready());
    }
}
