//! The state of the service: once, and live.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::{Either, select};
use futures_util::stream;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, OwnedSemaphorePermit, broadcast};
use tourbillon_durable::store::{Filter, NodeInfo, OverviewOf};
use tourbillon_durable::{Outcome, Schedule, Time};
use utoipa::IntoParams;

use super::access::Access;
use super::pages::ROWS;
use super::problem::Problem;
use super::request::Params;
use super::runs;
use crate::config::Scope;
use crate::model::{self, Figure, Node, Outcomes, Overview, Run};
use crate::{Service, callback};

/// Age up to which an overview is served again.
const FRESH: Duration = Duration::from_millis(900);

/// Age up to which the count of occurrences within the hour is used again.
const PLANNED_FRESH: Duration = Duration::from_secs(10);

/// Most rows that each count reads.
const COUNTED: u32 = 20_000;

/// Most schedules of an app whose occurrences are counted.
const PLANNED: usize = 1_000;

/// Number of occurrences of an app's schedules that are counted at most.
const OCCURRENCES: u64 = 100_000;

/// Number of dead runs that are shown.
const FAILING: usize = 10;

/// The next hour, and the last.
const HOUR: Duration = Duration::from_secs(3_600);

/// Period at which a live client gets an overview.
const PERIOD: Duration = Duration::from_secs(1);

/// Most live clients of one node.
pub(crate) const LIVE: usize = 256;

/// Query of an overview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// App to count; by default all that the token may see.
    app: Option<String>,
}

/// The latest overviews, by their apps, so that many viewers cost the database as much as one.
#[derive(Debug, Default)]
pub(crate) struct Overviews {
    whole: Mutex<Known<Vec<String>, Overview>>,
    planned: Mutex<Known<String, Planned>>,
}

/// Counts, with the time at which they were made.
type Known<K, V> = HashMap<K, (Instant, Arc<V>)>;

/// Occurrences of an app's schedules within the hour.
#[derive(Debug)]
struct Planned {
    /// In each minute of the next hour.
    minutes: Vec<u64>,
    /// True if there are more.
    cut: bool,
}

impl Access {
    /// The apps that are asked for, if the token lets see them.
    fn asked(&self, app: Option<String>) -> Result<Vec<String>, Problem> {
        match app {
            Some(app) => self.to(&app, Scope::Read).map(|_| vec![app]),
            None => Ok(self.seen().map(|(name, _)| name.clone()).collect()),
        }
    }
}

/// Shows how the service stands. Figures that `at_least` names are the least there is.
#[utoipa::path(
    get, path = "/v1/overview", tag = "overview",
    operation_id = "get_overview",
    params(Asked),
    responses(
        (status = 200, body = Overview, description = "It"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<Asked>,
) -> Result<axum::Json<Overview>, Problem> {
    let apps = access.asked(asked.app)?;
    let overview = overview(&service, &apps).await?;
    Ok(axum::Json(Overview::clone(&overview)))
}

pub(super) async fn overview(service: &Service, apps: &[String]) -> Result<Arc<Overview>, Problem> {
    // Who comes meanwhile waits for what is being counted.
    let mut known = service.overviews.whole.lock().await;
    let now = service.timer.now();
    known.retain(|_, (at, _)| now.duration_since(*at) < FRESH);
    if let Some((_, overview)) = known.get(apps) {
        return Ok(Arc::clone(overview));
    }
    let overview = Arc::new(count(service, apps).await?);
    known.insert(apps.to_vec(), (service.timer.now(), Arc::clone(&overview)));
    Ok(overview)
}

async fn count(service: &Service, apps: &[String]) -> Result<Overview, Problem> {
    let kinds = apps.iter().map(|app| model::kind(app)).collect();
    let found = service.reader.overview(&OverviewOf { kinds, most: COUNTED }).await?;
    let now = found.now;
    let mut is_hour_cut = found.next_hour_until < now + HOUR;
    let mut minutes = found.next_hour;
    let mut failing = Vec::new();
    for app in apps {
        // What is not a timer yet.
        let planned = planned(service, app, now).await?;
        minutes.iter_mut().zip(&planned.minutes).for_each(|(sum, minute)| *sum += minute);
        is_hour_cut |= planned.cut;
        let dead = Filter {
            kind: Some(model::kind(app)),
            outcome: Some(Outcome::Dead),
            since: Some(now - HOUR),
            newest_first: true,
            // One more says whether there are more.
            limit: FAILING as u32 + 1,
            ..Filter::default()
        };
        failing.extend(service.reader.records(dead).await?);
    }
    failing.sort_by_key(|record| std::cmp::Reverse(record.recorded));
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
        (Figure::Failing, failing.len() > FAILING),
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
        failing: failing.iter().take(FAILING).map(runs::of_record).collect(),
        outcomes: Outcomes {
            succeeded: ended(Outcome::Succeeded),
            dead: ended(Outcome::Dead),
            skipped: ended(Outcome::Skipped),
            cancelled: ended(Outcome::Cancelled),
        },
        lateness: callback::lateness(service),
        nodes: nodes(service, now).await?,
    })
}

/// Returns the occurrences of an app's schedules that come within the hour, and are not timers yet.
async fn planned(service: &Service, app: &str, now: Time) -> Result<Arc<Planned>, Problem> {
    let mut known = service.overviews.planned.lock().await;
    let at = service.timer.now();
    known.retain(|_, (counted, _)| at.duration_since(*counted) < PLANNED_FRESH);
    if let Some((_, planned)) = known.get(app) {
        return Ok(Arc::clone(planned));
    }
    let mut enabled = Filter {
        kind: Some(model::kind(app)),
        enabled: Some(true),
        limit: ROWS,
        ..Filter::default()
    };
    let (mut found, mut is_last) = (Vec::new(), false);
    while !is_last && found.len() <= PLANNED {
        let rows = service.reader.schedules(enabled.clone()).await?;
        is_last = rows.len() < ROWS as usize;
        enabled.after_name = rows.last().map(|row| row.name.clone());
        // Without their payloads, which can be large.
        found.extend(rows.into_iter().map(|row| (row.spec, row.next)));
    }
    // Not on a thread of the runtime: a schedule can have 3,600 occurrences in the hour.
    let planned = tokio::task::spawn_blocking(move || plan(&found, now)).await;
    let planned = planned.map_err(|error| {
        tracing::error!(%error, "an overview was not computed");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the overview was not computed")
    })?;
    let planned = Arc::new(planned);
    known.insert(app.to_owned(), (at, Arc::clone(&planned)));
    Ok(planned)
}

/// Counts occurrences within the hour, up to [`OCCURRENCES`], of up to [`PLANNED`] schedules and
/// their next times.
fn plan(schedules: &[(String, Option<Time>)], now: Time) -> Planned {
    let mut planned = Planned { minutes: vec![0; 60], cut: schedules.len() > PLANNED };
    let mut left = OCCURRENCES;
    for (spec, next) in schedules.iter().take(PLANNED) {
        let Ok(schedule) = spec.parse::<Schedule>() else { continue };
        let times = std::iter::successors(*next, |last| schedule.next_after(*last));
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

async fn nodes(service: &Service, now: Time) -> Result<Vec<Node>, Problem> {
    let own = Time::from(service.timer.wall_now()).as_micros() - now.as_micros();
    let nodes = service.reader.nodes().await?.into_iter();
    let node = |node: NodeInfo| {
        let this = node.id == service.node();
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

/// Follows how the service stands, by server-sent events: `overview` each second, and `run` for
/// each attempt that ends on this node. Who reads too slowly misses runs, and is cut in the end.
#[utoipa::path(
    get, path = "/v1/live", tag = "overview",
    operation_id = "follow",
    params(Asked),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Events"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn live(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<Asked>,
) -> Result<Response, Problem> {
    let apps = access.asked(asked.app)?;
    let Ok(permit) = Arc::clone(&service.live).try_acquire_owned() else {
        let why = format!("{LIVE} clients follow this node already");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let live = Live {
        runs: service.runs.subscribe(),
        due: service.timer.now(),
        apps,
        waiting: VecDeque::new(),
        service,
        _permit: permit,
    };
    let events = stream::unfold(live, async |mut live| {
        let event = live.next().await?;
        Some((Ok::<_, Infallible>(event), live))
    });
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// One client that follows.
struct Live {
    service: Arc<Service>,
    apps: Vec<String>,
    runs: broadcast::Receiver<Arc<Run>>,
    /// When the next overview is due.
    due: Instant,
    waiting: VecDeque<Bytes>,
    /// One of [`LIVE`].
    _permit: OwnedSemaphorePermit,
}

impl Live {
    /// The next event; `None` once the service stops.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let timer = &self.service.timer;
            let pause = std::pin::pin!(timer.sleep_until(self.due));
            let run = std::pin::pin!(self.runs.recv());
            let stop = std::pin::pin!(self.service.stopping());
            match select(stop, select(run, pause)).await {
                Either::Left(_) => return None,
                Either::Right((Either::Left((Ok(run), _)), _)) => {
                    if self.apps.contains(&run.app) {
                        self.waiting.push_back(event("run", &*run));
                    }
                }
                Either::Right((Either::Left((Err(RecvError::Lagged(missed)), _)), _)) => {
                    self.waiting.push_back(event("missed", &missed));
                }
                Either::Right((Either::Left((Err(RecvError::Closed), _)), _)) => return None,
                Either::Right((Either::Right(_), _)) => {
                    self.due = timer.now() + PERIOD;
                    let event = match overview(&self.service, &self.apps).await {
                        Ok(overview) => event("overview", &*overview),
                        Err(problem) => event("problem", &problem),
                    };
                    self.waiting.push_back(event);
                }
            }
        }
    }
}

fn event(name: &str, data: &impl Serialize) -> Bytes {
    let data = serde_json::to_string(data).expect("it is JSON");
    format!("event: {name}\ndata: {data}\n\n").into()
}
