//! The route by which receivers complete attempts.

use std::sync::Arc;

use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::problem::{Failure, PROBLEM, Problem};
use super::request::{Json, OfAttempt, Path};
use crate::callback::Ticket;
use crate::config::App;
use crate::model::{Complete, Completed};
use crate::service::Service;

/// Token of a request, whatever it opens.
pub(crate) struct Presented(String);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for Presented {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let sent = parts.headers.get(header::AUTHORIZATION).and_then(|sent| sent.to_str().ok());
        let token = sent.and_then(|sent| sent.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = token.map(|(_, token)| Self(token.trim().to_owned()));
        token.ok_or_else(refused)
    }
}

/// Refuses all faults in the same words, so that a stranger learns nothing of apps and runs.
fn refused() -> Problem {
    let why = "the token is not the attempt's; send `Authorization: Bearer TOKEN` with the \
               `Tourbillon-Completion-Token` of its callback";
    Problem::new(StatusCode::UNAUTHORIZED, why)
}

/// Completes an attempt that was answered 202.
///
/// The receiver of a callback with `complete_within` sends it to the path of the header
/// `Tourbillon-Completion-Path`, with the token of `Tourbillon-Completion-Token` as a bearer token.
/// The token is of this attempt alone. After 200 the result is kept, whatever happens to the node.
/// A repeat changes nothing, and has the same answer.
#[utoipa::path(
    post, path = "/v1/apps/{app}/runs/{id}/attempts/{attempt}/completion", tag = "runs",
    operation_id = "complete_attempt",
    params(OfAttempt),
    request_body = Complete,
    responses(
        (status = 200, body = Completed, description = "The result that is kept."),
        (status = 401, body = Problem, content_type = PROBLEM,
            description = "The token is not the attempt's."),
        (status = 409, body = Problem, content_type = PROBLEM, description = "The \
            attempt has no answer yet, or was completed with another outcome."),
        (status = 410, body = Problem, content_type = PROBLEM, description = "The \
            attempt is over: its time has passed, another attempt has followed, or its run has \
            ended. Nothing was changed."),
        Failure,
    ),
)]
pub(crate) async fn complete(
    State(service): State<Arc<Service>>,
    Path(OfAttempt { app, id, attempt }): Path<OfAttempt>,
    Presented(token): Presented,
    Json(call): Json<Complete>,
) -> Result<axum::Json<Completed>, Problem> {
    let config = service.config();
    let none = App::default();
    let known = config.apps.get(&app).unwrap_or(&none);
    let run = id.parse().map_err(|_| refused())?;
    let ticket = Ticket::opened((&app, run, attempt), &token, known).ok_or_else(refused)?;
    Ok(axum::Json(service.catalog.complete(ticket, known, &call).await?))
}
