//! Routes of schedules and one-shots.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::{Time, TimerId};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::{Failure, PROBLEM, Problem};
use super::request::{
    Json, OfApp, OfSchedule, Params, Path, convert, limit, searched, traceparent,
};
use super::trail::Refused;
use crate::catalog::{Label, Query, Written};
use crate::config::Scope;
use crate::model::{Definition, Made, Page, Schedule, ScheduleKind, ScheduleState, Stopped};
use crate::service::Service;

/// Returns the status of an answer to a write.
fn status_of(written: Written) -> StatusCode {
    match written {
        Written::Created => StatusCode::CREATED,
        Written::Replaced | Written::Unchanged => StatusCode::OK,
    }
}

/// Returns the version that `If-Match` requires.
fn version(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let expect = headers.get(header::IF_MATCH).map(|tag| {
        let tag = tag.to_str().unwrap_or("").trim().trim_matches('"');
        tag.parse().map_err(|_| {
            let why = "`If-Match` is not a version; send the `ETag` of the schedule";
            Problem::new(StatusCode::BAD_REQUEST, why)
        })
    });
    expect.transpose()
}

/// Returns the answer with a schedule, and its version.
fn show(status: StatusCode, view: Schedule) -> Response {
    let tag = format!("\"{}\"", view.version);
    (status, [(header::ETAG, tag)], axum::Json(view)).into_response()
}

/// Body of a request for a new schedule or one-shot.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewSchedule {
    /// Key of the schedule; the service generates one if it is missing.
    key: Option<String>,
    #[serde(flatten)]
    definition: Definition,
}

/// Creates a schedule or one-shot.
///
/// A request with a key can be sent again until it is answered: it creates one schedule. With
/// `If-Match`, it creates none, and says whether the schedule is that version with that definition.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "create_schedule",
    params(
        OfApp, CheckOnly,
        ("If-Match" = Option<String>, Header,
            description = "Version that the schedule has to have, as `ETag` has it."),
    ),
    request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "The schedule was created."),
        (status = 200, body = Schedule, description = "The same schedule exists already."),
        (status = 204, description = "The definition is right; asked by `check`."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "The key has another definition."),
        (status = 412, body = Problem, content_type = PROBLEM,
            description = "The schedule has another version, or does not exist."),
        Failure,
    ),
)]
pub(crate) async fn create(
    State(service): State<Arc<Service>>,
    Path(OfApp { app }): Path<OfApp>,
    access: Access,
    Params(CheckOnly { check }): Params<CheckOnly>,
    headers: HeaderMap,
    Json(mut body): Json<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let key = match body.remove("key") {
        None | Some(serde_json::Value::Null) => TimerId::new(Time::default()).to_string(),
        Some(serde_json::Value::String(key)) => key,
        Some(_) => {
            return Err(Problem::field("key", "it is not a string; send a string, or no key"));
        }
    };
    access.concern(&key);
    let definition = convert(serde_json::Value::Object(body))?;
    let trace = traceparent(&headers);
    let draft = service.catalog.draft((&app, limits), &key, definition, trace)?;
    if check == Some(true) {
        return Ok(checked());
    }
    let left = draft.create(&service.catalog, version(&headers)?).await?;
    let mut answer = show(status_of(left.written), left.view(&app, &key)?);
    if left.written == Written::Unchanged {
        answer.extensions_mut().insert(Refused);
    }
    Ok(answer)
}

/// Purpose of a definition that is sent.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CheckOnly {
    /// True to check the definition alone: all fields that are wrong are named, and nothing is
    /// changed.
    check: Option<bool>,
}

/// Returns the answer to a definition that was to be checked.
fn checked() -> Response {
    let mut answer = StatusCode::NO_CONTENT.into_response();
    answer.extensions_mut().insert(Refused);
    answer
}

/// Filter of a list of schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Listed {
    /// Only schedules whose key has this prefix.
    prefix: Option<String>,
    /// Only schedules in this state: `enabled`, `disabled`, `pending` or `running`.
    state: Option<ScheduleState>,
    /// Only schedules of this kind: `repeated` or `once`.
    #[param(inline)]
    kind: Option<ScheduleKind>,
    /// Only schedules whose key contains this text of 1 to 100 characters, in small or large
    /// letters.
    search: Option<String>,
    /// Only schedules with this label: `name:value`, or `name` with any value.
    label: Option<String>,
    /// Number of runs to show of each schedule, 20 at most: the last to end. 0 by default.
    last_runs: Option<u32>,
    /// True to count the schedules of all pages.
    count: Option<bool>,
    /// Maximum number of items: 100 by default, 1000 at most.
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists schedules, and one-shots that are not over, by key.
///
/// A list has the length of each callback's body in place of the body; get a schedule to see it.
/// A page may have fewer items than `limit`, or none, although more follow: continue as long as
/// there is a `next`. So it is with a `search` that few keys fit: a page looks at 20,000 schedules
/// and as many one-shots at most. With a `label` it reads definitions: of 16,384 schedules and
/// one-shots at most, or fewer if they are large, and of 1,000 if there is a `search` too.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "list_schedules",
    params(OfApp, Listed),
    responses(
        (status = 200, body = Page<Schedule>, description = "One page of schedules."),
        Failure,
    ),
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
    let query = Query {
        prefix: listed.prefix,
        state: listed.state,
        kind: listed.kind,
        search: searched(listed.search)?,
        label: listed.label.map(labelled).transpose()?,
        last_runs: last_runs(listed.last_runs)?,
        count: listed.count.unwrap_or(false),
        limit,
        cursor: listed.cursor,
    };
    Ok(permit.answer(&service.catalog.list(&app, query).await?))
}

/// Returns the label that schedules have to have.
fn labelled(text: String) -> Result<Label, Problem> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text, None),
    };
    match name.is_empty() {
        true => Err(Problem::field("label", "it has no name; send `name` or `name:value`")),
        false => Ok(Label { name, value }),
    }
}

/// Returns the number of runs to show of each schedule.
fn last_runs(asked: Option<u32>) -> Result<u32, Problem> {
    const MAX: u32 = 20;
    match asked.unwrap_or(0) {
        runs @ 0..=MAX => Ok(runs),
        _ => Err(Problem::field("last_runs", format!("it is not within 0 to {MAX}"))),
    }
}

/// Returns a schedule or one-shot.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "get_schedule",
    params(OfSchedule),
    responses((status = 200, body = Schedule, description = "The schedule as it is now."), Failure),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    Ok(show(StatusCode::OK, service.catalog.show(&app, &key).await?))
}

/// Creates or replaces a schedule or one-shot.
///
/// With `If-Match`, it replaces that version only.
///
/// Of a replaced schedule, each run that starts after the answer has the new definition. Runs that
/// were claimed before keep the old one, through all their attempts; the answer names them.
#[utoipa::path(
    put, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "put_schedule",
    params(
        OfSchedule, CheckOnly,
        ("If-Match" = Option<String>, Header,
            description = "Version to replace, as `ETag` has it."),
    ),
    request_body = Definition,
    responses(
        (status = 200, body = Schedule, description = "The schedule was replaced."),
        (status = 201, body = Schedule, description = "The schedule was created."),
        (status = 204, description = "The definition is right; asked by `check`."),
        (status = 409, body = Problem, content_type = PROBLEM, description = "The key is of the \
            other kind, or was used by a one-shot that is over, or an attempt of the one-shot is \
            running; nothing was changed."),
        (status = 412, body = Problem, content_type = PROBLEM,
            description = "The schedule has another version, or does not exist."),
        Failure,
    ),
)]
pub(crate) async fn put(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
    Params(CheckOnly { check }): Params<CheckOnly>,
    headers: HeaderMap,
    Json(definition): Json<Definition>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let trace = traceparent(&headers);
    let draft = service.catalog.draft((&app, limits), &key, definition, trace)?;
    if check == Some(true) {
        return Ok(checked());
    }
    let left = draft.replace(&service.catalog, version(&headers)?).await?;
    Ok(show(status_of(left.written), left.view(&app, &key)?))
}

/// Deletes a schedule, or cancels a one-shot. Records of its runs are kept.
///
/// After the answer, no callback of it starts on any node. The answer names attempts that are
/// still running.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "delete_schedule",
    params(OfSchedule),
    responses(
        (status = 200, body = Stopped, description = "The schedule was deleted."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "An attempt of the one-shot is running; nothing was deleted."),
        Failure,
    ),
)]
pub(crate) async fn delete(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    let stopped = service.catalog.remove(&app, &key).await?;
    Ok(axum::Json(stopped))
}

/// Enables a schedule from now on, or a one-shot at its time; at once if that is past.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/enable", tag = "schedules",
    operation_id = "enable_schedule",
    params(OfSchedule),
    responses(
        (status = 200, body = Stopped, description = "The schedule is enabled."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "The one-shot is over."),
        Failure,
    ),
)]
pub(crate) async fn enable(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    Ok(axum::Json(service.catalog.switch(&app, &key, true).await?))
}

/// Disables a schedule or one-shot until it is enabled again.
///
/// No callback of it starts on any node once this is answered. Attempts that are still running are
/// in the answer.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/disable", tag = "schedules",
    operation_id = "disable_schedule",
    params(OfSchedule),
    responses(
        (status = 200, body = Stopped, description = "The schedule is disabled."),
        (status = 409, body = Problem, content_type = PROBLEM, description = "The one-shot is \
            over, or an attempt of it is running; nothing was changed."),
        Failure,
    ),
)]
pub(crate) async fn disable(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    Ok(axum::Json(service.catalog.switch(&app, &key, false).await?))
}

/// Calls back now: beside the times of a repeating schedule, in place of the time of a one-shot.
///
/// To disable or delete the schedule cancels the run, unless an attempt of it is running.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/run-now", tag = "schedules",
    operation_id = "run_schedule_now",
    params(OfSchedule),
    responses(
        (status = 200, body = Made, description = "The run that was created."),
        (status = 409, body = Problem, content_type = PROBLEM, description = "The \
            schedule is disabled or over, or another run is unfinished and `overlap` allows no \
            second."),
        Failure,
    ),
)]
pub(crate) async fn run_now(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let id = service.catalog.run_now(&app, &key).await?;
    Ok(axum::Json(Made { id: id.to_string() }))
}
