//! Routes of previews.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::{Failure, Problem};
use super::request::{Json, OfSchedule, Params, Path, time};
use crate::config::Scope;
use crate::model::{Occurrences, When};
use crate::service::Service;

/// Most occurrences that are shown.
const COUNT_MAX: u32 = 1_000;

/// Number that is shown by default.
const COUNT: u32 = 10;

/// Schedule to preview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PreviewParams {
    /// Number of occurrences: 10 by default, 1000 at most.
    count: Option<u32>,
    /// Time after which occurrences are listed, RFC 3339; now by default.
    from: Option<String>,
}

/// Times to preview, without a schedule.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Preview {
    /// Times to preview, as in a definition.
    when: When,
    /// Number of occurrences: 10 by default, 1000 at most.
    count: Option<u32>,
    /// Start of the preview, RFC 3339; now by default.
    from: Option<String>,
}

/// Returns the next occurrences of a schedule, whether or not it is enabled.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}/preview", tag = "schedules",
    operation_id = "preview_schedule",
    params(
        OfSchedule,
        PreviewParams,
    ),
    responses(
        (status = 200, body = Occurrences, description = "The occurrences, in order."),
        Failure,
    ),
)]
pub(crate) async fn kept(
    State(service): State<Arc<Service>>,
    Path(OfSchedule { app, key }): Path<OfSchedule>,
    access: Access,
    Params(asked): Params<PreviewParams>,
) -> Result<axum::Json<Occurrences>, Problem> {
    access.to(&app, Scope::Read)?;
    let (count, from) = (number(asked.count)?, time("from", asked.from)?);
    Ok(axum::Json(service.catalog.preview(&app, &key, count, from).await?))
}

/// Returns the next occurrences of times that belong to no schedule.
#[utoipa::path(
    post, path = "/v1/preview", tag = "schedules",
    operation_id = "preview",
    request_body = Preview,
    responses(
        (status = 200, body = Occurrences, description = "The occurrences, in order."),
        Failure,
    ),
)]
pub(crate) async fn free(
    State(service): State<Arc<Service>>,
    _: Access,
    Json(Preview { when, count, from }): Json<Preview>,
) -> Result<axum::Json<Occurrences>, Problem> {
    let (count, from) = (number(count)?, time("from", from)?);
    Ok(axum::Json(service.catalog.preview_of(when, count, from).await?))
}

/// Returns the number of occurrences to show.
fn number(asked: Option<u32>) -> Result<usize, Problem> {
    match asked.unwrap_or(COUNT) {
        count @ 1..=COUNT_MAX => Ok(count as usize),
        _ => Err(Problem::field("count", format!("it is not within 1 to {COUNT_MAX}"))),
    }
}
