//! The route of an app's history.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Access;
use super::problem::{Failure, Problem};
use super::request::{OfApp, Params, Path, time};
use crate::catalog::HistoryQuery;
use crate::config::Scope;
use crate::model::History;
use crate::service::Service;

/// Most parts of a history: the hours of a week.
const BUCKETS_MAX: u32 = 168;

/// Parts of a history by default.
const BUCKETS: u32 = 24;

/// Time span of a history.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryParams {
    /// Start of the first part, RFC 3339; 24 hours before the end by default.
    since: Option<String>,
    /// End of the last part, RFC 3339; now by default.
    until: Option<String>,
    /// Only runs of this schedule or one-shot.
    key: Option<String>,
    /// Number of equal parts: 24 by default, 168 at most.
    buckets: Option<u32>,
}

/// Counts the runs of an app that ended, in equal parts of a time span.
///
/// The newest 200,000 runs of the span are counted at most. If there may be more, `counted_since`
/// is the time since which all are counted. The answer may be some seconds old.
#[utoipa::path(
    get, path = "/v1/apps/{app}/history", tag = "runs",
    operation_id = "get_history",
    params(OfApp, HistoryParams),
    responses((status = 200, body = History, description = "The numbers of runs."), Failure),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    Path(OfApp { app }): Path<OfApp>,
    access: Access,
    Params(asked): Params<HistoryParams>,
) -> Result<axum::Json<History>, Problem> {
    access.to(&app, Scope::Read)?;
    let buckets = asked.buckets.unwrap_or(BUCKETS);
    if !(1..=BUCKETS_MAX).contains(&buckets) {
        return Err(Problem::field("buckets", format!("it is not within 1 to {BUCKETS_MAX}")));
    }
    let (since, until) = (time("since", asked.since)?, time("until", asked.until)?);
    let query = HistoryQuery { key: asked.key, since, until, buckets };
    let history = service.catalog.history(&app, query).await?;
    Ok(axum::Json(History::clone(&history)))
}
