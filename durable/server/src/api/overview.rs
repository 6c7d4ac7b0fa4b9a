//! Routes of the overview: once, and live.

use std::collections::VecDeque;
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
use tokio::sync::{OwnedSemaphorePermit, broadcast};
use utoipa::IntoParams;

use super::access::Access;
use super::problem::Problem;
use super::request::Params;
use crate::config::Scope;
use crate::model::{Overview, Run};
use crate::service::{LIVE, Service};

/// Period at which a live client gets an overview.
const PERIOD: Duration = Duration::from_secs(1);

/// Query of an overview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Asked {
    /// App to count; by default all that the token may see.
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
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<Asked>,
) -> Result<axum::Json<Overview>, Problem> {
    let apps = access.asked(asked.app)?;
    let overview = service.catalog.overview(&apps).await?;
    Ok(axum::Json(Overview::clone(&overview)))
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
pub(crate) async fn live(
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
