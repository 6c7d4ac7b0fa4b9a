//! All routes: `/v1` is the service's own [API](crate::api), `/api` [XTimer](crate::xtimer)'s.
//!
//! [`document`] describes them, and a test holds it against them.

mod audited;
mod site;

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub use site::Reached;

use crate::api::{
    Problem, about, completion, history, overview, preview, runs, schedules, times, trial,
};
use crate::model::Run;
use crate::service::Service;
use crate::{metrics, page, xtimer};

#[derive(OpenApi)]
#[openapi(
    info(title = "tourbillond", description = "Calls back over HTTP, at a time or by cron."),
    servers((url = "/", description = "The service that this document comes from.")),
    security(("token" = [])),
    components(schemas(Run, Problem)),
    modifiers(&TokenScheme),
)]
struct Document;

struct TokenScheme;

impl utoipa::Modify for TokenScheme {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

fn routed() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(about::apps))
        .routes(routes!(schedules::create, schedules::list))
        .routes(routes!(schedules::get, schedules::put, schedules::delete))
        .routes(routes!(schedules::enable))
        .routes(routes!(schedules::disable))
        .routes(routes!(schedules::run_now))
        .routes(routes!(times::pause))
        .routes(routes!(times::backfill))
        .routes(routes!(preview::kept))
        .routes(routes!(preview::free))
        .routes(routes!(trial::send))
        .routes(routes!(runs::list))
        .routes(routes!(runs::get))
        .routes(routes!(runs::retry))
        .routes(routes!(completion::complete))
        .routes(routes!(history::get))
        .routes(routes!(overview::get))
        .routes(routes!(overview::live))
        .routes(routes!(described))
        .routes(routes!(about::read_metrics))
        .routes(routes!(about::healthz))
        .routes(routes!(about::readyz))
        .routes(routes!(xtimer::create, xtimer::get, xtimer::update, xtimer::delete))
        .routes(routes!(xtimer::list))
        .routes(routes!(xtimer::enable))
        .routes(routes!(xtimer::unable))
        .routes(routes!(xtimer::records))
}

/// Everything that is served, to requests that name this service and come from no foreign page.
pub fn router(service: Arc<Service>) -> Router {
    let (router, document) = routed().split_for_parts();
    let audited = audited::Audited::new(&service, &document);
    router
        .merge(page::routes())
        .fallback(async |uri: Uri| Problem::not_found(&format!("route: {}", uri.path())))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the route has no such method")
        })
        .layer(from_fn_with_state(audited, audited::audit))
        .layer(from_fn_with_state(Arc::clone(&service), site::admit))
        // Outermost: refusals are counted too.
        .layer(from_fn_with_state(service.timer.clone(), metrics::count))
        .with_state(service)
}

/// Returns the OpenAPI document of the API, without the page.
pub fn document() -> utoipa::openapi::OpenApi {
    routed().into_openapi()
}

/// Returns this document. Needs no token.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "about", operation_id = "describe",
    security(()),
    responses(
        (status = 200, content_type = "application/json", description = "The OpenAPI document."),
    ),
)]
async fn described() -> impl IntoResponse {
    axum::Json(document())
}
