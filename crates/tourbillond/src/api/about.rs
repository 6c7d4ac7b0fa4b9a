//! Routes of the service itself: its apps, its health, its metrics.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::access::Access;
use super::problem::{Failure, Problem, RETRY_S};
use crate::config::{App, Token};
use crate::metrics;
use crate::model::{AppView, Defaults};
use crate::service::Service;

/// Lists the apps that the token may read.
#[utoipa::path(
    get, path = "/v1/apps", tag = "apps", operation_id = "list_apps",
    responses((status = 200, body = Vec<AppView>, description = "The apps, by name."), Failure),
)]
pub(crate) async fn apps(access: Access) -> axum::Json<Vec<AppView>> {
    let view = |(name, app): (&String, &App)| {
        let alerts = app.alerts();
        AppView {
            name: name.clone(),
            limits: app.limits,
            defaults: Defaults {
                success_within: app
                    .success_within
                    .clone()
                    .filter(|_| alerts.success_within.is_some()),
                disable_after: alerts.disable_after,
                ..Defaults::default()
            },
            header_secrets: app.header_secrets.keys().cloned().collect(),
            write: access.may_change(name),
        }
    };
    axum::Json(access.seen().map(view).collect())
}

/// Reports that the process is alive. Needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "about", operation_id = "is_alive",
    security(()),
    responses((status = 200, body = String, description = "The process is alive.")),
)]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Reports whether the node is ready: the database answers, and took a write within the last
/// seconds. Needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "about", operation_id = "is_ready",
    security(()),
    responses(
        (status = 200, body = String, description = "The node is ready."),
        (status = 503, body = String,
            description = "The node is not ready; the body has the reason."),
    ),
)]
pub(crate) async fn readyz(State(service): State<Arc<Service>>) -> Response {
    match service.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(why) => {
            let later = [(header::RETRY_AFTER, RETRY_S.to_string())];
            (StatusCode::SERVICE_UNAVAILABLE, later, format!("{why}\n")).into_response()
        }
    }
}

/// Returns metrics in the text format of Prometheus. Needs a token for all apps.
#[utoipa::path(
    get, path = "/metrics", tag = "about", operation_id = "read_metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain",
            description = "The metrics of this node."),
        Failure,
    ),
)]
pub(crate) async fn read_metrics(
    State(service): State<Arc<Service>>,
    access: Access,
) -> Result<impl IntoResponse, Problem> {
    access.to_all()?;
    let apps = service.config().apps.keys().cloned().collect::<Vec<_>>();
    // Without the database there is the more to see of the rest.
    if let Ok(found) = service.catalog.overview(&apps).await {
        metrics::found(found.enabled, found.disabled, found.overdue);
    }
    if let Some(stats) = service.stats() {
        metrics::node(&stats);
    }
    metrics::show_uses(service.config().tokens().map(Token::name));
    let text = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, text)], metrics::text()))
}
