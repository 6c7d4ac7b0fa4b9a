//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::{Service, callback, page};

/// Everything that is served.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .merge(page::routes())
        .with_state(service)
}

/// Whether the database answers.
async fn readyz(State(service): State<Arc<Service>>) -> (StatusCode, String) {
    match service.reader.now().await {
        Ok(_) => (StatusCode::OK, "ready\n".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {error}\n")),
    }
}

async fn metrics(State(service): State<Arc<Service>>) -> impl IntoResponse {
    let text = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, text)], callback::metrics(&service))
}
