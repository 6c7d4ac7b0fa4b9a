//! The state of the service: counts of the cluster, failures, and the nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tourbillon_durable::store::{NodeInfo, OverviewOf, RecordQuery, ScheduleQuery};
use tourbillon_durable::{Outcome, Rule, Time, Unreadable};

use super::Catalog;
use super::error::{Error, Result};
use super::pages::ROWS;
use super::runs::of_record;
use crate::metrics;
use crate::model::{self, Failing, Figure, Node, Outcomes, Overview};

/// Greatest age of a reused overview.
pub(super) const FRESH: Duration = Duration::from_millis(900);

/// Greatest age of a reused count of occurrences within the hour.
const PLANNED_FRESH: Duration = Duration::from_secs(10);

/// Most rows that each count reads.
const COUNTED: u32 = 20_000;

/// Most schedules of an app whose occurrences are counted.
const PLANNED: usize = 1_000;

/// Number of occurrences of an app's schedules that are counted at most.
const OCCURRENCES: u64 = 100_000;

/// Number of failing schedules that are shown.
const FAILING: usize = 10;

/// Most dead runs of an app that are read for them, and most bytes.
const DEAD: (usize, usize) = (1_000, 1 << 20);

/// The next hour, and the last.
const HOUR: Duration = Duration::from_secs(3_600);

/// The latest overviews, by their apps, so that many viewers cost the database as much as one.
#[derive(Debug, Default)]
pub(super) struct Overviews {
    whole: Mutex<Cached<Vec<String>, Overview>>,
    planned: Mutex<Cached<String, Planned>>,
}

/// Counts, with the times of counting.
type Cached<K, V> = HashMap<K, (Instant, Arc<V>)>;

/// Occurrences of an app's schedules within the hour.
#[derive(Debug)]
struct Planned {
    /// In each minute of the next hour.
    minutes: Vec<u64>,
    /// True if there are more.
    cut: bool,
}

impl Catalog {
    /// Returns how the service stands: the overview of the last second, if there is one.
    pub(crate) async fn overview(&self, apps: &[String]) -> Result<Arc<Overview>> {
        // Later requests wait for the count under way.
        let mut known = self.overviews.whole.lock().await;
        let now = self.timer.now();
        known.retain(|_, (at, _)| now.duration_since(*at) < FRESH);
        if let Some((_, overview)) = known.get(apps) {
            return Ok(Arc::clone(overview));
        }
        let overview = Arc::new(self.count(apps).await?);
        known.insert(apps.to_vec(), (self.timer.now(), Arc::clone(&overview)));
        Ok(overview)
    }

    async fn count(&self, apps: &[String]) -> Result<Overview> {
        let kinds = apps.iter().map(|app| model::kind(app)).collect();
        let found = self.reader.overview(&OverviewOf::new(kinds, COUNTED)).await?;
        let now = found.now;
        let mut is_hour_cut = found.next_hour_until < now + HOUR;
        let mut minutes = found.next_hour;
        let (mut failing, mut is_failing_cut) = (Vec::new(), false);
        for app in apps {
            // Occurrences that are not timers yet.
            let planned = self.planned(app, now).await?;
            minutes.iter_mut().zip(&planned.minutes).for_each(|(sum, minute)| *sum += minute);
            is_hour_cut |= planned.cut;
            let (of_app, is_cut) = self.failing(app, now - HOUR).await?;
            failing.extend(of_app);
            is_failing_cut |= is_cut;
        }
        failing.sort_by(|(one, _), (other, _)| other.cmp(one));
        let ended = |wanted| {
            let ended = found.outcomes.iter().filter(|(outcome, _)| *outcome == wanted);
            ended.map(|(_, count)| count).sum()
        };
        let at_least = [
            (Figure::Overdue, found.overdue.is_cut),
            (Figure::Running, found.running.is_cut),
            (Figure::PendingNextHour, is_hour_cut),
            (Figure::Enabled, found.enabled.is_cut),
            (Figure::Disabled, found.disabled.is_cut),
            (Figure::Failing, is_failing_cut || failing.len() > FAILING),
            (Figure::Outcomes, found.outcomes_since > now - HOUR),
        ];
        let at_least = at_least.into_iter().filter(|(_, is_cut)| *is_cut);
        Ok(Overview {
            now: model::rfc3339(now),
            overdue: found.overdue.count,
            running: found.running.count,
            pending_next_hour: minutes,
            enabled: found.enabled.count,
            disabled: found.disabled.count,
            at_least: at_least.map(|(figure, _)| figure).collect(),
            failing: failing.into_iter().take(FAILING).map(|(_, failing)| failing).collect(),
            outcomes: Outcomes {
                succeeded: ended(Outcome::Succeeded),
                dead: ended(Outcome::Dead),
                skipped: ended(Outcome::Skipped),
                cancelled: ended(Outcome::Cancelled),
            },
            lateness: metrics::lateness(),
            nodes: self.nodes(now).await?,
        })
    }

    /// Returns the schedules of an app with dead runs since a time, each with when the newest of
    /// them ended, and whether there may be more.
    async fn failing(&self, app: &str, since: Time) -> Result<(Vec<(Time, Failing)>, bool)> {
        let dead = RecordQuery::new().kind(model::kind(app)).outcome(Outcome::Dead);
        let mut newest = dead.since(since).newest_first().limit(FAILING as u32 + 1);
        let (mut all, mut read, mut bytes) = (Vec::<(Time, Failing)>::new(), 0, 0);
        loop {
            let records = self.reader.records(newest.clone()).await?;
            for record in &records {
                let run = of_record(record);
                match all.iter_mut().find(|(_, known)| known.run.key == run.key) {
                    Some((_, known)) => known.dead_runs += 1,
                    None => all.push((record.recorded, Failing { run, dead_runs: 1 })),
                }
                bytes += record.payload.as_ref().map_or(0, Vec::len) + record.detail.len();
            }
            read += records.len();
            if records.len() < newest.limit as usize {
                return Ok((all, false));
            }
            if all.len() > FAILING || read >= DEAD.0 || bytes >= DEAD.1 {
                return Ok((all, true));
            }
            newest.after = records.last().map(|record| (record.recorded, record.timer));
            newest.limit = ROWS;
        }
    }

    /// Returns the occurrences of an app's schedules that come within the hour, and are not timers
    /// yet.
    async fn planned(&self, app: &str, now: Time) -> Result<Arc<Planned>> {
        let mut known = self.overviews.planned.lock().await;
        let at = self.timer.now();
        known.retain(|_, (counted, _)| at.duration_since(*counted) < PLANNED_FRESH);
        if let Some((_, planned)) = known.get(app) {
            return Ok(Arc::clone(planned));
        }
        let mut enabled = ScheduleQuery::new().kind(model::kind(app)).enabled(true).limit(ROWS);
        let (mut found, mut is_last) = (Vec::new(), false);
        while !is_last && found.len() <= PLANNED {
            let rows = self.reader.schedules(enabled.clone()).await?;
            is_last = rows.len() < ROWS as usize;
            enabled.after = rows.last().map(|row| row.name.clone());
            // Without their payloads: these can be large.
            found.extend(rows.into_iter().map(|row| (row.rule, row.next)));
        }
        // Not on a thread of the runtime: a schedule can have 3,600 occurrences in the hour.
        let planned = tokio::task::spawn_blocking(move || plan(&found, now)).await;
        let planned = planned.map_err(|error| {
            tracing::error!(%error, "an overview was not computed");
            Error::Broken("overview")
        })?;
        let planned = Arc::new(planned);
        known.insert(app.to_owned(), (at, Arc::clone(&planned)));
        Ok(planned)
    }

    async fn nodes(&self, now: Time) -> Result<Vec<Node>> {
        let own = Time::from(self.timer.wall_now()).as_micros() - now.as_micros();
        let nodes = self.reader.nodes().await?.into_iter();
        let node = |node: NodeInfo| {
            let this = node.id == self.node;
            Node {
                id: node.id.to_string(),
                this,
                epoch: node.epoch,
                beat: model::rfc3339(node.beat),
                expires: model::rfc3339(node.expires),
                clock_offset_ms: this.then_some(own / 1_000),
            }
        };
        Ok(nodes.map(node).collect())
    }
}

/// Rule of a schedule, and its next time.
type Planning = (std::result::Result<Rule, Unreadable>, Option<Time>);

/// Counts occurrences within the hour, up to [`OCCURRENCES`], of up to [`PLANNED`] schedules and
/// their next times.
fn plan(schedules: &[Planning], now: Time) -> Planned {
    let mut planned = Planned { minutes: vec![0; 60], cut: schedules.len() > PLANNED };
    let mut left = OCCURRENCES;
    for (rule, next) in schedules.iter().take(PLANNED) {
        let Ok(rule) = rule else { continue };
        let times = next.iter().flat_map(|next| rule.schedule.occurrences_from(*next));
        for time in times.take_while(|time| *time < now + HOUR) {
            if left == 0 {
                planned.cut = true;
                return planned;
            }
            left -= 1;
            let minute = time.since(now).as_secs() / 60;
            if let Some(count) = planned.minutes.get_mut(minute as usize) {
                *count += 1;
            }
        }
    }
    planned
}
