//! How the service stands: once, and live.

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
use tourbillon_durable::store::{Filter, State as Stands};
use tourbillon_durable::{Outcome, Schedule, Time};
use utoipa::IntoParams;

use super::access::Access;
use super::problem::Problem;
use super::request::Params;
use super::runs;
use crate::config::Scope;
use crate::model::{self, Outcomes, Overview, Run};
use crate::{Service, callback};

/// How old an overview may be.
const FRESH: Duration = Duration::from_millis(900);

/// How old the counts may be that take long.
const SLOW_FRESH: Duration = Duration::from_secs(10);

/// How many rows of one kind are counted in an app.
const COUNTED: u32 = 1_000;

/// How many runs that died are shown.
const FAILING: usize = 10;

/// The next hour, and the last.
const HOUR: Duration = Duration::from_secs(3_600);

/// How often a live client gets an overview.
const PERIOD: Duration = Duration::from_secs(1);

/// How many live clients one node has at most.
pub(crate) const LIVE: usize = 256;

/// Of which apps.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Of this app; of all that the token may see by default.
    app: Option<String>,
}

/// The latest overviews, by their apps, so that many viewers cost the database as much as one.
#[derive(Debug, Default)]
pub(crate) struct Overviews {
    fast: Mutex<Known<Vec<String>, Overview>>,
    slow: Mutex<Known<String, Slow>>,
}

/// What was counted, and when.
type Known<K, V> = HashMap<K, (Instant, Arc<V>)>;

/// Counts of an app that take long.
#[derive(Debug)]
struct Slow {
    /// In each minute of the next hour.
    minutes: Vec<u64>,
    enabled: u64,
    disabled: u64,
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

/// Shows how the service stands. Counts are at least what is said; see `cut`.
#[utoipa::path(
    get, path = "/v1/overview", tag = "overview", params(Asked),
    responses(
        (status = 200, body = Overview, description = "It"),
        (status = "default", body = Problem, description = "Why not"),
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
    let mut known = service.overviews.fast.lock().await;
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
    let reader = &service.reader;
    let now = reader.now().await?;
    let mut all = Overview {
        now: model::rfc3339(now),
        overdue: 0,
        running: 0,
        pending_next_hour: vec![0; 60],
        enabled: 0,
        disabled: 0,
        cut: false,
        failing: Vec::new(),
        outcomes: Outcomes::default(),
        lateness: callback::lateness(service),
        nodes: Vec::new(),
    };
    let mut failing = Vec::new();
    for app in apps {
        let of = |state| Filter {
            kind: Some(model::kind(app)),
            state,
            limit: COUNTED,
            ..Filter::default()
        };
        let mut counted = |rows: usize| {
            all.cut |= rows == COUNTED as usize;
            rows as u64
        };
        let due = Filter { until: Some(now), ..of(Some(Stands::Pending)) };
        all.overdue += counted(reader.timers(due).await?.len());
        all.running += counted(reader.timers(of(Some(Stands::Running))).await?.len());
        let outcomes = &mut all.outcomes;
        for (outcome, count) in [
            (Outcome::Succeeded, &mut outcomes.succeeded),
            (Outcome::Dead, &mut outcomes.dead),
            (Outcome::Skipped, &mut outcomes.skipped),
            (Outcome::Cancelled, &mut outcomes.cancelled),
        ] {
            let ended = Filter {
                outcome: Some(outcome),
                since: Some(now - HOUR),
                newest_first: true,
                ..of(None)
            };
            let records = reader.records(ended).await?;
            *count += counted(records.len());
            if outcome == Outcome::Dead {
                failing.extend(records.into_iter().take(FAILING));
            }
        }
        let slow = slow(service, app, now).await?;
        for (sum, minute) in all.pending_next_hour.iter_mut().zip(&slow.minutes) {
            *sum += minute;
        }
        all.enabled += slow.enabled;
        all.disabled += slow.disabled;
        all.cut |= slow.cut;
    }
    failing.sort_by_key(|record| std::cmp::Reverse(record.recorded));
    all.failing = failing.iter().take(FAILING).map(runs::of_record).collect();
    Ok(all)
}

async fn slow(service: &Service, app: &str, now: Time) -> Result<Arc<Slow>, Problem> {
    let mut known = service.overviews.slow.lock().await;
    let at = service.timer.now();
    known.retain(|_, (counted, _)| at.duration_since(*counted) < SLOW_FRESH);
    if let Some((_, slow)) = known.get(app) {
        return Ok(Arc::clone(slow));
    }
    let of = Filter { kind: Some(model::kind(app)), limit: COUNTED, ..Filter::default() };
    let pending = Filter { since: Some(now), until: Some(now + HOUR), ..of.clone() };
    let timers = service.reader.timers(pending).await?;
    let enabled = Filter { enabled: Some(true), ..of.clone() };
    let enabled = service.reader.schedules(enabled).await?;
    let disabled = Filter { enabled: Some(false), ..of };
    let disabled = service.reader.schedules(disabled).await?.len() as u64;
    let is_cut = |rows: usize| rows == COUNTED as usize;
    let mut slow = Slow {
        minutes: vec![0; 60],
        enabled: enabled.len() as u64,
        disabled,
        cut: is_cut(timers.len()) || is_cut(enabled.len()) || is_cut(disabled as usize),
    };
    let mut add = |time: Time| {
        let minute = time.since(now).as_secs() / 60;
        if let Some(count) = slow.minutes.get_mut(minute as usize) {
            *count += 1;
        }
    };
    timers.iter().for_each(|timer| add(timer.new.due));
    // What is not a timer yet.
    for row in &enabled {
        let Ok(schedule) = row.spec.parse::<Schedule>() else { continue };
        let times = std::iter::successors(row.next, |last| schedule.next_after(*last));
        times.take_while(|time| *time < now + HOUR).for_each(&mut add);
    }
    let slow = Arc::new(slow);
    known.insert(app.to_owned(), (at, Arc::clone(&slow)));
    Ok(slow)
}

/// Follows how the service stands, by server-sent events: `overview` each second, and `run` for
/// each attempt that ends on this node. Who reads too slowly misses runs, and is cut in the end.
#[utoipa::path(
    get, path = "/v1/live", tag = "overview", params(Asked),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Events"),
        (status = "default", body = Problem, description = "Why not"),
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
