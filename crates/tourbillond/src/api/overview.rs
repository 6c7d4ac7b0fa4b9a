//! Routes of the overview: once, and live.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};
use utoipa::IntoParams;

use super::access::Access;
use super::problem::{Failure, Problem};
use super::request::Params;
use crate::config::{Config, Scope};
use crate::model::{Overview, Run};
use crate::service::{LIVE, Service};

/// Period of a live client's overviews.
const PERIOD: Duration = Duration::from_secs(1);

/// Query of an overview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OverviewParams {
    /// App to count; by default all apps that the token may read.
    app: Option<String>,
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

/// Returns the state of the service.
///
/// Figures that `at_least` names are lower bounds: counting stopped at a limit.
#[utoipa::path(
    get, path = "/v1/overview", tag = "overview",
    operation_id = "get_overview",
    params(OverviewParams),
    responses(
        (status = 200, body = Overview, description = "The overview of this moment."),
        Failure,
    ),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<OverviewParams>,
) -> Result<axum::Json<Overview>, Problem> {
    let apps = access.asked(asked.app)?;
    let overview = service.catalog.overview(&apps).await?;
    Ok(axum::Json(Overview::clone(&overview)))
}

/// Streams the state of the service, as server-sent events.
///
/// Events are `overview` each second, and `run` for each attempt that ends on this node. A client
/// that reads too slowly gets `missed` with the number of runs that it missed, and is disconnected
/// in the end. The stream ends whenever the configuration is read again, because the token may no
/// longer be valid: follow anew.
#[utoipa::path(
    get, path = "/v1/live", tag = "overview",
    operation_id = "follow",
    params(OverviewParams),
    responses(
        (status = 200, body = String, content_type = "text/event-stream",
            description = "The events, until the service stops or reads its
                configuration again."),
        Failure,
    ),
)]
pub(crate) async fn live(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<OverviewParams>,
) -> Result<Response, Problem> {
    let apps = access.asked(asked.app)?;
    let Ok(permit) = Arc::clone(&service.live).try_acquire_owned() else {
        let why =
            format!("{LIVE} clients follow this node, which is its limit; follow another node");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    let live = Live {
        judged_by: access.into_config(),
        configs: service.follow(),
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
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // nginx would hold events back until its buffer is full.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// One client that follows.
struct Live {
    service: Arc<Service>,
    apps: Vec<String>,
    /// The configuration that the token was judged by. The stream ends when another is in force.
    judged_by: Arc<Config>,
    configs: watch::Receiver<Arc<Config>>,
    runs: broadcast::Receiver<Arc<Run>>,
    /// Due time of the next overview.
    due: Instant,
    waiting: VecDeque<Bytes>,
    /// A permit of [`LIVE`].
    _permit: OwnedSemaphorePermit,
}

impl Live {
    /// The next event; `None` once the service stops, or has another configuration.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            let timer = &self.service.timer;
            let (configs, judged_by) = (&mut self.configs, &self.judged_by);
            let other = async move {
                let _ = configs.wait_for(|config| !Arc::ptr_eq(config, judged_by)).await;
            };
            tokio::select! {
                biased;
                () = self.service.stopping() => return None,
                () = other => return None,
                run = self.runs.recv() => match run {
                    Ok(run) if self.apps.contains(&run.app) => {
                        self.waiting.push_back(event("run", &*run));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(missed)) => {
                        self.waiting.push_back(event("missed", &missed));
                    }
                    Err(RecvError::Closed) => return None,
                },
                _ = timer.sleep_until(self.due) => {
                    self.due = timer.now() + PERIOD;
                    let event = match self.service.catalog.overview(&self.apps).await {
                        Ok(overview) => event("overview", &*overview),
                        Err(error) => event("problem", &Problem::from(error)),
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
