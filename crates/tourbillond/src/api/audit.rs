//! Route of the audit log.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

use super::access::Access;
use super::problem::{Failure, Problem};
use super::request::{Params, limit};
use crate::audit::AuditQuery;
use crate::config::Scope;
use crate::model::{AuditEntry, Page};
use crate::service::Service;

/// Filter of the audit log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Audited {
    /// Only changes of this app; by default of all apps that the token may read. One of
    /// `admin.tokens` also reads those of apps that are not configured any more.
    app: Option<String>,
    /// Only changes of this key.
    key: Option<String>,
    /// Only changes by the token with this name.
    token: Option<String>,
    /// Maximum number of items: 100 by default, 1000 at most.
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists the changes that this node has answered, newest first.
///
/// Each node has a log of its own. A page may have fewer items than `limit`, or none, although more
/// follow: continue as long as there is a `next`.
#[utoipa::path(
    get, path = "/v1/audit", tag = "about", operation_id = "list_changes",
    params(Audited),
    responses(
        (status = 200, body = Page<AuditEntry>, description = "One page of changes."),
        (status = 404, body = Problem, content_type = super::problem::PROBLEM,
            description = "The node keeps no audit log."),
        Failure,
    ),
)]
pub(crate) async fn list(
    State(service): State<Arc<Service>>,
    access: Access,
    Params(asked): Params<Audited>,
) -> Result<Response, Problem> {
    let apps = match asked.app {
        Some(app) if access.to_all().is_ok() => Some(vec![app]),
        Some(app) => access.to(&app, Scope::Read).map(|_| Some(vec![app]))?,
        None if access.to_all().is_ok() => None,
        None => Some(access.seen().map(|(name, _)| name.clone()).collect()),
    };
    let limit = limit(asked.limit)? as usize;
    let Audited { key, token, cursor, .. } = asked;
    let query = AuditQuery { apps, key, token, limit, cursor };
    if service.audit().is_none() {
        let why = "the node keeps no audit log; its operator sets `audit`";
        return Err(Problem::new(StatusCode::NOT_FOUND, why));
    }
    let draft = service.answers.draft().await;
    let reads = tokio::task::spawn_blocking(move || service.audit().map(|log| log.read(&query)));
    let failed = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "the audit log cannot be read");
        let why = "the audit log cannot be read; the log of the node says why";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    };
    match reads.await.map_err(|error| failed(&error))? {
        Some(Ok(Some(page))) => Ok(draft.answer(&page)),
        Some(Err(error)) => Err(failed(&error)),
        _ => {
            let why = "it is of no page of this log, which may have been rotated; begin without it";
            Err(Problem::field("cursor", why))
        }
    }
}
