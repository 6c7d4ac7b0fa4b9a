//! Routes that pause a schedule, and that make its occurrences of the past.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Access;
use super::problem::{Failure, PROBLEM, Problem};
use super::request::{Json, OfSchedule, Path};
use crate::config::Scope;
use crate::model::{self, Backfilled, Stopped};
use crate::service::Service;

/// Runs that one backfill makes by default.
const RUNS: u32 = 100;

/// Most runs that one backfill makes.
const RUNS_MAX: u32 = 1_000;

/// Pause of a schedule.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pause {
    /// End of the pause, RFC 3339.
    until: String,
}

/// Range to backfill.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Backfill {
    /// Start of the range, RFC 3339. An occurrence at that time is in it.
    since: String,
    /// End of the range, RFC 3339. An occurrence at that time is not in it.
    until: String,
    /// Maximum number of runs to create: 100 by default, 1000 at most.
    limit: Option<u32>,
}

/// Pauses a schedule until a time.
///
/// Pending runs are cancelled, and the schedule continues with its first occurrence at that time
/// or later. The answer names attempts that are still running. Enabling the schedule, or replacing
/// its times, ends the pause. During the pause, the schedule can still be run and backfilled.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/pause", tag = "schedules",
    operation_id = "pause_schedule",
    params(OfSchedule),
    request_body = Pause,
    responses(
        (status = 200, body = Stopped, description = "The schedule is paused."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "The schedule is disabled, or is a one-shot."),
        Failure,
    ),
)]
pub(crate) async fn pause(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
    Json(Pause { until }): Json<Pause>,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    let until = model::time(&until).map_err(|why| Problem::field("until", why))?;
    Ok(axum::Json(service.catalog.pause(&app, &key, until).await?))
}

/// Creates the runs of a range in the past that are missing, oldest first.
///
/// Creates missing runs at the schedule's present times: from before it was created, or while it
/// was disabled or paused, and skipped runs. Excluded times stay excluded. The runs are due at
/// once, within the limits of the app, and one after another unless `overlap` is `allow`. A request
/// can be repeated: no run is created twice, as long as the records of the runs are kept. A run
/// that was cancelled because its schedule was paused or disabled is not created again.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/backfill", tag = "schedules",
    operation_id = "backfill_schedule",
    params(OfSchedule),
    request_body = Backfill,
    responses(
        (status = 200, body = Backfilled, description = "The runs were created, up to `rest`."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "The schedule is disabled, or is a one-shot."),
        Failure,
    ),
)]
pub(crate) async fn backfill(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
    Json(Backfill { since, until, limit }): Json<Backfill>,
) -> Result<axum::Json<Backfilled>, Problem> {
    access.to(&app, Scope::Write)?;
    let time = |field: &str, text: &str| model::time(text).map_err(|why| (field.to_owned(), why));
    let mut faults = Vec::new();
    let limit = limit.unwrap_or(RUNS);
    if !(1..=RUNS_MAX).contains(&limit) {
        faults.push(("limit".to_owned(), format!("it is not within 1 to {RUNS_MAX}")));
    }
    match (time("since", &since), time("until", &until)) {
        (Ok(since), Ok(until)) if since >= until => {
            faults.push(("until".to_owned(), "it is not after `since`".to_owned()));
        }
        (Ok(since), Ok(until)) if faults.is_empty() => {
            let done = service.catalog.backfill(&app, &key, since..until, limit).await?;
            return Ok(axum::Json(done));
        }
        (since, until) => faults.extend([since.err(), until.err()].into_iter().flatten()),
    }
    Err(Problem::fields(faults))
}
