//! What is read of requests: JSON, queries, and where they are wrong.

use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The largest body of a request, in bytes.
pub(crate) const BODY_MAX: usize = 64 * 1024;

/// A body that is JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        is_json(request.headers())?;
        let body = body(request).await?;
        read(&body).map(Self)
    }
}

fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json") {
        return Ok(());
    }
    let why = "the body has to be JSON: `Content-Type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

/// The body, unless it is too large. One that says so is refused before any of it is read.
async fn body(request: Request) -> Result<Bytes, Problem> {
    let too_large = || {
        let why = format!("a body has {BODY_MAX} bytes at most");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let body = request.into_body();
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body is not complete")),
    }
}

/// Reads JSON, and says where it is wrong.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader);
    let value = value.map_err(|error| {
        let field = error.path().to_string();
        wrong(&field, error.inner())
    })?;
    reader.end().map_err(|error| wrong(".", &error))?;
    Ok(value)
}

/// Turns a value that was read as JSON into what it is to be.
pub(crate) fn convert<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = error.path().to_string();
        wrong(&field, error.inner())
    })
}

fn wrong(field: &str, error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"));
    }
    // An unknown field has itself as the last part of the path; a missing one has not.
    let why: String = error.to_string().chars().take(300).collect();
    match field {
        "." => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why),
        field => Problem::field(field, why),
    }
}

/// The query, which has nothing that is not known.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(params)) => Ok(Self(params)),
            Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, error.body_text())),
        }
    }
}

/// How many items of a list are asked for.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    const MAX: u32 = 1_000;
    match asked.unwrap_or(100) {
        limit @ 1..=MAX => Ok(limit),
        _ => Err(Problem::field("limit", format!("it is not within 1 to {MAX}"))),
    }
}
