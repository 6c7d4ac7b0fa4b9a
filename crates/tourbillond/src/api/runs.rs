//! Routes of runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::{Failure, PROBLEM, Problem};
use super::request::{OfApp, OfRun, Params, Path, limit, searched, time};
use crate::catalog::RunQuery;
use crate::config::Scope;
use crate::model::{Made, Page, Run, RunState};
use crate::service::Service;

/// Filter of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only runs of this schedule or one-shot.
    key: Option<String>,
    /// Only runs with a key that contains this text, in small or large letters; 1 to 100
    /// characters.
    search: Option<String>,
    /// Only runs in this state; by default only runs that are over.
    state: Option<RunState>,
    /// Only runs that were recorded, or are due, at this time or later; RFC 3339.
    since: Option<String>,
    /// Only runs that were recorded, or are due, before this time; RFC 3339.
    until: Option<String>,
    /// Order of finished runs: `newest` first, the default, or `oldest` first. Other runs come in
    /// the order of their due times.
    #[param(inline)]
    order: Option<Order>,
    /// Maximum number of items: 100 by default, 1000 at most.
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Order of a list of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Newest,
    Oldest,
}

/// Lists the runs of an app.
///
/// A page may end before its `limit`: continue as long as there is a `next`. With a `search`, or
/// for runs that are `pending` or `waiting`, it looks at 16,384 runs at most.
#[utoipa::path(
    get, path = "/v1/apps/{app}/runs", tag = "runs",
    operation_id = "list_runs",
    params(OfApp, Listed),
    responses((status = 200, body = Page<Run>, description = "One page of runs."), Failure),
)]
pub(crate) async fn list(
    State(service): State<Arc<Service>>,
    Path(OfApp { app }): Path<OfApp>,
    access: Access,
    Params(listed): Params<Listed>,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    let limit = limit(listed.limit)?;
    let permit = service.answers.list_permit().await;
    let query = RunQuery {
        key: listed.key,
        search: searched(listed.search)?,
        state: listed.state,
        since: time("since", listed.since)?,
        until: time("until", listed.until)?,
        newest_first: listed.order.unwrap_or_default() == Order::Newest,
        limit,
        cursor: listed.cursor,
    };
    Ok(permit.answer(&service.catalog.runs(&app, query).await?))
}

/// Returns a run with its attempts.
#[utoipa::path(
    get, path = "/v1/apps/{app}/runs/{id}", tag = "runs",
    operation_id = "get_run",
    params(OfRun),
    responses((status = 200, body = Run, description = "The run with its attempts."), Failure),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    Path(OfRun { app, id }): Path<OfRun>,
    access: Access,
) -> Result<axum::Json<Run>, Problem> {
    access.to(&app, Scope::Read)?;
    Ok(axum::Json(service.catalog.run(&app, &id).await?))
}

/// Retries a dead run, as a new run.
///
/// A second request creates nothing, and returns the same run.
#[utoipa::path(
    post, path = "/v1/apps/{app}/runs/{id}/retry", tag = "runs",
    operation_id = "retry_run",
    params(OfRun),
    responses(
        (status = 200, body = Made, description = "The run that was created."),
        (status = 409, body = Problem, content_type = PROBLEM, description = "The \
            run is not dead, its schedule is disabled or deleted, another run of it is unfinished \
            and `overlap` allows no second, or the run that retried it was cancelled."),
        Failure,
    ),
)]
pub(crate) async fn retry(
    State(service): State<Arc<Service>>,
    Path(OfRun { app, id }): Path<OfRun>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let id = service.catalog.retry(&app, &id).await?;
    Ok(axum::Json(Made { id: id.to_string() }))
}
