//! Runs: what is to be called, is being called, and was.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use tourbillon_durable::store::{Filter, State as Stands, Timer};
use tourbillon_durable::{Outcome, Record, Revival, Time, TimerId};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::pages::Left;
use super::problem::Problem;
use super::request::{Params, Path, limit};
use crate::Service;
use crate::callback::read_tries;
use crate::config::Scope;
use crate::model::{self, Made, Page, Run, RunState, Stored};

/// Filter of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
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
pub(super) async fn list(
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
    let cursor = listed.cursor.as_deref().map(read_cursor).transpose()?;
    let unfinished = match listed.state {
        Some(RunState::Pending) => Some(Stands::Pending),
        Some(RunState::Running) => Some(Stands::Running),
        _ => None,
    };
    let mut filter = Filter {
        kind: Some(model::kind(&app)),
        name: listed.key.map(|key| model::name(&app, &key)),
        since: time("since", listed.since)?,
        until: time("until", listed.until)?,
        newest_first: listed.order.unwrap_or_default() == Order::Newest,
        state: unfinished,
        outcome: listed.state.and_then(outcome_of),
        ..Filter::default()
    };
    let mut left = Left::new(limit as usize);
    let (mut items, mut last) = (Vec::new(), cursor);
    loop {
        filter.limit = left.rows();
        // Where each run is in the list, how much is stored of it, and how it is shown.
        let rows: Vec<((Time, TimerId), usize, Run)> = if unfinished.is_some() {
            filter.after_timer = last;
            let row = |timer: &Timer| {
                let stored = timer.new.payload.len() + timer.detail.len();
                ((timer.new.due, timer.new.id), stored, of_timer(timer))
            };
            service.reader.timers(filter.clone()).await?.iter().map(row).collect()
        } else {
            filter.after_record = last;
            let row = |record: &Record| {
                let stored = record.payload.as_ref().map_or(0, Vec::len) + record.detail.len();
                ((record.recorded, record.timer), stored, of_record(record))
            };
            service.reader.records(filter.clone()).await?.iter().map(row).collect()
        };
        let is_last = rows.len() < filter.limit as usize;
        for (place, stored, run) in rows {
            if left.is_none() {
                let next = last.map(|(time, id)| format!("{}.{id}", time.as_micros()));
                return Ok(draft.answer(&Page { items, next }));
            }
            left.take(stored);
            last = Some(place);
            items.push(run);
        }
        if is_last {
            return Ok(draft.answer(&Page { items, next: None }));
        }
    }
}

fn read_cursor(text: &str) -> Result<(Time, TimerId), Problem> {
    let cursor = text
        .split_once('.')
        .and_then(|(time, id)| Some((Time::from_micros(time.parse().ok()?), id.parse().ok()?)));
    cursor.ok_or_else(|| Problem::field("cursor", "it is not one that a list gave"))
}

fn outcome_of(state: RunState) -> Option<Outcome> {
    match state {
        RunState::Succeeded => Some(Outcome::Succeeded),
        RunState::Dead => Some(Outcome::Dead),
        RunState::Skipped => Some(Outcome::Skipped),
        RunState::Cancelled => Some(Outcome::Cancelled),
        RunState::Pending | RunState::Running => None,
    }
}

/// Returns the app and the key of a run. A run that was made again may have no name.
fn app_and_key(kind: &str, name: Option<&str>, payload: Option<&[u8]>) -> (String, String) {
    if let Some((app, key)) = name.and_then(model::app_and_key) {
        return (app.to_owned(), key.to_owned());
    }
    let app = kind.strip_prefix("http.").unwrap_or_default();
    let stored = payload.and_then(|payload| serde_json::from_slice::<Stored>(payload).ok());
    (app.to_owned(), stored.map(|stored| stored.key).unwrap_or_default())
}

/// A run that is not over.
pub(crate) fn of_timer(timer: &Timer) -> Run {
    let new = &timer.new;
    let (app, key) = app_and_key(&new.kind, new.name.as_deref(), Some(&new.payload));
    let (scheduled_for, due) = (new.scheduled_for, new.due);
    Run {
        id: new.id.to_string(),
        app,
        key,
        scheduled_for: model::rfc3339(scheduled_for),
        state: if timer.running.is_some() { RunState::Running } else { RunState::Pending },
        reason: None,
        due: (due != Time::NEVER).then(|| model::rfc3339(due)),
        recorded: None,
        attempts: timer.attempt,
        failures: timer.failures,
        node: timer.running.map(|lease| lease.node.to_string()),
        tries: read_tries(&timer.detail),
        can_retry: false,
    }
}

/// A run that is over.
pub(crate) fn of_record(record: &Record) -> Run {
    let (app, key) = app_and_key(&record.kind, record.name.as_deref(), record.payload.as_deref());
    Run {
        id: record.timer.to_string(),
        app,
        key,
        // What was held until it was taken back has no time.
        scheduled_for: model::rfc3339(match record.scheduled_for {
            Time::NEVER => record.recorded,
            time => time,
        }),
        state: match record.outcome {
            Outcome::Succeeded => RunState::Succeeded,
            Outcome::Dead => RunState::Dead,
            Outcome::Skipped => RunState::Skipped,
            _ => RunState::Cancelled,
        },
        reason: record.reason.map(|reason| reason.to_string()),
        due: None,
        recorded: Some(model::rfc3339(record.recorded)),
        attempts: record.attempts,
        failures: record.failures,
        node: record.node.map(|node| node.to_string()),
        tries: read_tries(&record.detail),
        can_retry: record.outcome == Outcome::Dead && record.payload.is_some(),
    }
}

/// Finds a run of the app.
async fn find(service: &Service, app: &str, id: &str) -> Result<Run, Problem> {
    let not_found = || Problem::not_found("run");
    let timer = id.parse().map_err(|_| not_found())?;
    let filter = Filter { timer: Some(timer), limit: 1, ..Filter::default() };
    let run = match service.client.timers(filter.clone()).await?.first() {
        Some(timer) => Some(of_timer(timer)),
        None => service.client.records(filter).await?.first().map(of_record),
    };
    run.filter(|run| run.app == app).ok_or_else(not_found)
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
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path((app, id)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Run>, Problem> {
    access.to(&app, Scope::Read)?;
    find(&service, &app, &id).await.map(axum::Json)
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
pub(super) async fn retry(
    State(service): State<Arc<Service>>,
    Path((app, id)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let run = find(&service, &app, &id).await?;
    let timer = run.id.parse().map_err(|_| Problem::not_found("run"))?;
    let id = match service.client.revive(timer).await? {
        Revival::Done(id) => id,
        Revival::NotDead => return Err(Problem::conflict("it is not dead")),
        Revival::Disabled => return Err(Problem::conflict("its schedule is disabled")),
        Revival::Removed => return Err(Problem::conflict("its schedule was deleted")),
        Revival::Busy => {
            return Err(Problem::conflict("another run is not over, and two must not overlap"));
        }
        Revival::Gone => return Err(Problem::not_found("run")),
    };
    // It may have been made before, and be over; or a DELETE came first, which made it to free the
    // key.
    let by_id = Filter { timer: Some(id), limit: 1, ..Filter::default() };
    let record = service.client.records(by_id).await?.pop();
    if record.is_some_and(|record| record.outcome == Outcome::Cancelled) {
        let why = format!("run {id} was made of it and taken back, or its key was deleted");
        return Err(Problem::conflict(why));
    }
    Ok(axum::Json(Made { id: id.to_string() }))
}
