//! The routes.
//!
//! `/v1` is the service's own API, `/api` XTimer's. What they are is described by
//! [`document`], which a test holds against what is routed.

mod access;
mod definition;
mod overview;
mod preview;
mod problem;
mod request;
mod runs;
mod schedules;
mod xtimer;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use overview::{LIVE, Overviews};
pub use problem::{FieldError, Problem};

use crate::config::Scope;
use crate::model::{AppView, Run};
use crate::{Service, callback, page};
use access::Access;

#[derive(OpenApi)]
#[openapi(
    info(title = "tourbillond", description = "Calls back over HTTP, at a time or by cron."),
    security(("token" = [])),
    components(schemas(Run, Problem)),
    modifiers(&Token),
)]
struct Document;

struct Token;

impl utoipa::Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

fn routed() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(apps))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(schedules::enable))
        .routes(routes!(schedules::disable))
        .routes(routes!(schedules::fire))
        .routes(routes!(preview::kept))
        .routes(routes!(preview::free))
        .routes(routes!(runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::retry))
        .routes(routes!(overview::get))
        .routes(routes!(overview::live))
        .routes(routes!(described))
        .routes(routes!(metrics))
        .routes(routes!(healthz))
        .routes(routes!(readyz))
        .routes(routes!(xtimer::create, xtimer::get, xtimer::update, xtimer::delete))
        .routes(routes!(xtimer::list))
        .routes(routes!(xtimer::enable))
        .routes(routes!(xtimer::unable))
        .routes(routes!(xtimer::records))
}

/// Everything that is served.
pub fn router(service: Arc<Service>) -> Router {
    let (router, _) = routed().split_for_parts();
    router
        .merge(page::routes())
        .fallback(async |uri: Uri| Problem::not_found(&format!("route: {}", uri.path())))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the route has no such method")
        })
        .with_state(service)
}

/// What is served, as OpenAPI has it; but for the page.
pub fn document() -> utoipa::openapi::OpenApi {
    routed().into_openapi()
}

/// Lists the apps that the token may see.
#[utoipa::path(
    get, path = "/v1/apps", tag = "apps",
    responses(
        (status = 200, body = Vec<AppView>, description = "They"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
async fn apps(access: Access) -> axum::Json<Vec<AppView>> {
    let view = |(name, app): (&String, &crate::config::App)| AppView {
        name: name.clone(),
        limits: app.limits,
        write: access.to(name, Scope::Write).is_ok(),
    };
    axum::Json(access.seen().map(view).collect())
}

/// Shows this document. It needs no token.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "about", security(()),
    responses((status = 200, description = "The document", content_type = "application/json")),
)]
async fn described() -> impl IntoResponse {
    axum::Json(document())
}

/// Whether the process lives. It needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "about", security(()),
    responses((status = 200, body = String, description = "It does")),
)]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the database answers. It needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "about", security(()),
    responses(
        (status = 200, body = String, description = "It does"),
        (status = 503, body = String, description = "It does not"),
    ),
)]
async fn readyz(State(service): State<Arc<Service>>) -> (StatusCode, &'static str) {
    match service.reader.now().await {
        Ok(_) => (StatusCode::OK, "ready\n"),
        Err(error) => {
            tracing::warn!(%error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
        }
    }
}

/// Shows what was measured, as Prometheus reads it. It needs a token for all apps.
#[utoipa::path(
    get, path = "/metrics", tag = "about",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
async fn metrics(
    State(service): State<Arc<Service>>,
    access: Access,
) -> Result<impl IntoResponse, Problem> {
    access.to_all()?;
    let apps = service.config().apps.keys().cloned().collect::<Vec<_>>();
    // Without the database there is the more to see of the rest.
    if let Ok(found) = overview::overview(&service, &apps).await {
        crate::metrics::found(found.enabled, found.disabled, found.overdue);
    }
    let text = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, text)], callback::metrics(&service)))
}
