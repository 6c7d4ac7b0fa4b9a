//! Routes of schedules and one-shots.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::{Time, TimerId};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::Problem;
use super::request::{Json, Params, Path, convert, limit, traceparent};
use crate::catalog::{Query, Written};
use crate::config::Scope;
use crate::model::{Definition, Made, Page, Schedule, ScheduleKind, State as Stands, Stopped};
use crate::service::Service;

/// Returns the status of an answer to a write.
fn status_of(written: Written) -> StatusCode {
    match written {
        Written::Created => StatusCode::CREATED,
        Written::Replaced | Written::Unchanged => StatusCode::OK,
    }
}

/// The answer with what is there now, and its version.
async fn show(
    service: &Service,
    app: &str,
    key: &str,
    status: StatusCode,
) -> Result<Response, Problem> {
    let view = service.catalog.show(app, key).await?;
    let tag = format!("\"{}\"", view.version);
    Ok((status, [(header::ETAG, tag)], axum::Json(view)).into_response())
}

/// Body of a request for a new schedule or one-shot.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewSchedule {
    /// Drawn if it is missing.
    key: Option<String>,
    #[serde(flatten)]
    definition: Definition,
}

/// Makes a schedule or a one-shot.
///
/// Repeated, it makes nothing: with a key it can be sent again until it is answered.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "create_schedule",
    params(("app" = String, Path, description = "The app")),
    request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "It is made"),
        (status = 200, body = Schedule, description = "It is there already"),
        (status = 409, body = Problem, description = "The key is used for something else"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn create(
    State(service): State<Arc<Service>>,
    Path(app): Path<String>,
    access: Access,
    headers: HeaderMap,
    Json(mut body): Json<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let key = match body.remove("key") {
        None | Some(serde_json::Value::Null) => TimerId::new(Time::default()).to_string(),
        Some(serde_json::Value::String(key)) => key,
        Some(_) => return Err(Problem::field("key", "it is not a string")),
    };
    let definition = convert(serde_json::Value::Object(body))?;
    let trace = traceparent(&headers);
    let draft = service.catalog.draft((&app, limits), &key, definition, trace).await?;
    let written = draft.create(&service.catalog, limits).await?;
    show(&service, &app, &key, status_of(written)).await
}

/// Filter of a list of schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only keys with this prefix.
    prefix: Option<String>,
    /// Only schedules in this state: `enabled`, `disabled`, `pending` or `running`.
    state: Option<Stands>,
    /// `repeated` or `once`.
    #[param(inline)]
    kind: Option<ScheduleKind>,
    /// Number of items; 100 by default, 1000 at most.
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Lists schedules, and one-shots that are not over, by key.
///
/// A list leaves out the bodies of callbacks and says how long they are; showing one has its body.
/// A page may have fewer items than its `limit`, or none, although there are more: it has a `next`
/// as long as there are.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "list_schedules",
    params(("app" = String, Path, description = "The app"), Listed),
    responses(
        (status = 200, body = Page<Schedule>, description = "A page"),
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
    let draft = service.answers.draft().await;
    let query = Query {
        prefix: listed.prefix,
        state: listed.state,
        kind: listed.kind,
        limit,
        cursor: listed.cursor,
    };
    Ok(draft.answer(&service.catalog.list(&app, query).await?))
}

/// Shows a schedule or a one-shot.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "get_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Schedule, description = "It"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    show(&service, &app, &key, StatusCode::OK).await
}

/// Makes a schedule or a one-shot, or puts it in place of what is there.
///
/// With `If-Match`, only in place of that version.
#[utoipa::path(
    put, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "put_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
        ("If-Match" = Option<String>, Header, description = "The version that is replaced"),
    ),
    request_body = Definition,
    responses(
        (status = 200, body = Schedule, description = "It is replaced"),
        (status = 201, body = Schedule, description = "It is made"),
        (status = 412, body = Problem, description = "It has another version"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn put(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
    headers: HeaderMap,
    Json(definition): Json<Definition>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let expect = headers.get(header::IF_MATCH).map(|tag| {
        let tag = tag.to_str().unwrap_or("").trim().trim_matches('"');
        tag.parse().map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, "`If-Match` is not a version, as `ETag` has it")
        })
    });
    let trace = traceparent(&headers);
    let draft = service.catalog.draft((&app, limits), &key, definition, trace).await?;
    let written = draft.replace(&service.catalog, limits, expect.transpose()?).await?;
    show(&service, &app, &key, status_of(written)).await
}

/// Removes a schedule, or takes a one-shot back. What became of its runs stays.
///
/// Once this is answered, no callback starts, on any node. What runs still is named.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "delete_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is gone"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn delete(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    let stopped = service.catalog.remove(&app, &key).await?;
    Ok(axum::Json(stopped))
}

/// Enables a schedule from now, or a one-shot at its time; at once if that is past.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/enable", tag = "schedules",
    operation_id = "enable_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is enabled"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn enable(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    Ok(axum::Json(service.catalog.switch(&app, &key, true).await?))
}

/// Disables a schedule or a one-shot until it is enabled.
///
/// After the answer no callback starts, on any node. The answer names runs under way.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/disable", tag = "schedules",
    operation_id = "disable_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is disabled"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn disable(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    Ok(axum::Json(service.catalog.switch(&app, &key, false).await?))
}

/// Calls now: what repeats beside its times, and a one-shot instead of at its time.
///
/// Disabled or removed later, it is taken back, or named as running.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/fire", tag = "schedules",
    operation_id = "fire_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Made, description = "The run"),
        (status = 409, body = Problem, description = "It is disabled or over, or another run of it \
            is unfinished and its `overlap` allows no further one"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(crate) async fn fire(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let id = service.catalog.run_now(&app, &key).await?;
    Ok(axum::Json(Made { id: id.to_string() }))
}
