//! The routes.
//!
//! `/v1` is the service's own API, `/api` XTimer's. What they are is described by
//! [`document`], which a test holds against what is routed.

mod access;
mod definition;
mod overview;
mod pages;
mod preview;
mod problem;
mod request;
mod runs;
mod schedules;
mod site;
mod wording;
mod xtimer;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use overview::{LIVE, Overviews};
pub(crate) use preview::Previews;
use problem::PROBLEM;
pub use problem::{FieldError, Problem};
pub use site::Reached;

use crate::config::Scope;
use crate::model::{AppView, Defaults, Run};
use crate::{Service, callback, page};
use access::Access;

#[derive(OpenApi)]
#[openapi(
    info(title = "tourbillond", description = "Calls back over HTTP, at a time or by cron."),
    servers((url = "/", description = "The service that this document comes from")),
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

/// Everything that is served, to requests that name this service and come from no foreign page.
pub fn router(service: Arc<Service>) -> Router {
    let (router, _) = routed().split_for_parts();
    router
        .merge(page::routes())
        .fallback(async |uri: Uri| Problem::not_found(&format!("route: {}", uri.path())))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "the route has no such method")
        })
        .layer(from_fn_with_state(Arc::clone(&service), site::admit))
        // Outermost: what is refused is counted too.
        .layer(from_fn_with_state(Arc::clone(&service), crate::metrics::count))
        .with_state(service)
}

/// Returns the OpenAPI document of the API, without the page.
pub fn document() -> utoipa::openapi::OpenApi {
    let mut document = routed().into_openapi();
    let operations = document.paths.paths.values_mut().flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete]
    });
    let responses = operations.flatten().flat_map(|one| one.responses.responses.values_mut());
    for response in responses {
        let utoipa::openapi::RefOr::T(response) = response else { continue };
        let is_problem = |content: &utoipa::openapi::Content| match &content.schema {
            Some(utoipa::openapi::RefOr::Ref(schema)) => schema.ref_location.ends_with("/Problem"),
            _ => false,
        };
        // As it is answered.
        let problem = response.content.get("application/json").is_some_and(is_problem);
        if let Some(content) = problem.then(|| response.content.swap_remove("application/json")) {
            response.content.extend(content.map(|content| (PROBLEM.to_owned(), content)));
        }
    }
    document
}

/// Lists the apps that the token may see.
#[utoipa::path(
    get, path = "/v1/apps", tag = "apps", operation_id = "list_apps",
    responses(
        (status = 200, body = Vec<AppView>, description = "They"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
async fn apps(access: Access) -> axum::Json<Vec<AppView>> {
    let view = |(name, app): (&String, &crate::config::App)| AppView {
        name: name.clone(),
        limits: app.limits,
        defaults: Defaults::default(),
        header_secrets: app.header_secrets.keys().cloned().collect(),
        write: access.to(name, Scope::Write).is_ok(),
    };
    axum::Json(access.seen().map(view).collect())
}

/// Shows this document. It needs no token.
#[utoipa::path(
    get, path = "/v1/openapi.json", tag = "about", operation_id = "describe",
    security(()),
    responses((status = 200, description = "The document", content_type = "application/json")),
)]
async fn described() -> impl IntoResponse {
    axum::Json(document())
}

/// Says that the process lives. It needs no token.
#[utoipa::path(
    get, path = "/healthz", tag = "about", operation_id = "is_alive",
    security(()),
    responses((status = 200, body = String, description = "It does")),
)]
async fn healthz() -> &'static str {
    "ok\n"
}

/// Says whether the node can work: the database answers, and has taken a write within the last
/// seconds. It needs no token.
#[utoipa::path(
    get, path = "/readyz", tag = "about", operation_id = "is_ready",
    security(()),
    responses(
        (status = 200, body = String, description = "It can"),
        (status = 503, body = String, description = "It cannot, and why"),
    ),
)]
async fn readyz(State(service): State<Arc<Service>>) -> Response {
    match service.ready().await {
        Ok(()) => "ready\n".into_response(),
        Err(why) => {
            let later = [(header::RETRY_AFTER, problem::RETRY_S.to_string())];
            (StatusCode::SERVICE_UNAVAILABLE, later, format!("{why}\n")).into_response()
        }
    }
}

/// Shows what was measured, as Prometheus reads it. It needs a token for all apps.
#[utoipa::path(
    get, path = "/metrics", tag = "about", operation_id = "read_metrics",
    responses(
        (status = 200, body = String, content_type = "text/plain", description = "It"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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
