//! Routes of runs.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::Problem;
use super::request::{Params, Path, limit};
use crate::catalog::RunQuery;
use crate::config::Scope;
use crate::model::{self, Made, Page, Run, RunState};
use crate::service::Service;

/// Filter of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only runs of this schedule or one-shot.
    key: Option<String>,
    /// Only runs in this state; by default those that are over.
    state: Option<RunState>,
    /// Only runs that were recorded, or are due, at this time or later; RFC 3339.
    since: Option<String>,
    /// Only runs that were recorded, or are due, before this time; RFC 3339.
    until: Option<String>,
    /// `newest` first, the default, or `oldest`. What is not over comes as it is due.
    #[param(inline)]
    order: Option<Order>,
    /// Number of items; 100 by default, 1000 at most.
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// In which order runs are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Order {
    #[default]
    Newest,
    Oldest,
}

/// Lists runs.
///
/// A page may have fewer items than its `limit` although there are more: it has a `next` as long as
/// there are.
#[utoipa::path(
    get, path = "/v1/apps/{app}/runs", tag = "runs",
    operation_id = "list_runs",
    params(("app" = String, Path, description = "The app"), Listed),
    responses(
        (status = 200, body = Page<Run>, description = "A page"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn list(
    State(service): State<Arc<Service>>,
    Path(app): Path<String>,
    access: Access,
    Params(listed): Params<Listed>,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    let limit = limit(listed.limit)?;
    let time = |field: &str, text: Option<String>| {
        let time = text.map(|text| model::time(&text)).transpose();
        time.map_err(|why| Problem::field(field, why))
    };
    let draft = service.answers.draft().await;
    let query = RunQuery {
        key: listed.key,
        state: listed.state,
        since: time("since", listed.since)?,
        until: time("until", listed.until)?,
        newest_first: listed.order.unwrap_or_default() == Order::Newest,
        limit,
        cursor: listed.cursor,
    };
    Ok(draft.answer(&service.catalog.runs(&app, query).await?))
}

/// Shows a run.
#[utoipa::path(
    get, path = "/v1/apps/{app}/runs/{id}", tag = "runs",
    operation_id = "get_run",
    params(
        ("app" = String, Path, description = "The app"),
        ("id" = String, Path, description = "The run"),
    ),
    responses(
        (status = 200, body = Run, description = "It"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    Path((app, id)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Run>, Problem> {
    access.to(&app, Scope::Read)?;
    Ok(axum::Json(service.catalog.run(&app, &id).await?))
}

/// Makes a new run of one that is dead, once.
///
/// A repeat makes nothing, and names the same run.
#[utoipa::path(
    post, path = "/v1/apps/{app}/runs/{id}/retry", tag = "runs",
    operation_id = "retry_run",
    params(
        ("app" = String, Path, description = "The app"),
        ("id" = String, Path, description = "The run"),
    ),
    responses(
        (status = 200, body = Made, description = "The new run"),
        (status = 409, body = Problem, description = "It is not dead, or its schedule is disabled \
            or deleted, or the run that was made of it before was taken back"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn retry(
    State(service): State<Arc<Service>>,
    Path((app, id)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let id = service.catalog.retry(&app, &id).await?;
    Ok(axum::Json(Made { id: id.to_string() }))
}
