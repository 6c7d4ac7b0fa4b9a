//! Requests: reads JSON, queries and paths, and says where they are wrong.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Bytes};
use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tourbillon_durable::Time;
use utoipa::IntoParams;

use super::problem::Problem;
use super::wording::fault;
use crate::model;

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

/// Fails unless the headers say that the body is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("").split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if kind == "application/json" || kind.starts_with("application/") && kind.ends_with("+json") {
        return Ok(());
    }
    let why = "the body is not declared as JSON; send `Content-Type: application/json`";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

/// The body, unless it is too large. If its length is announced, a large body is refused unread.
async fn body(request: Request) -> Result<Bytes, Problem> {
    let too_large = || {
        let why = format!("the body is larger than {BODY_MAX} bytes, which is the limit");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
    };
    let body = request.into_body();
    if body.size_hint().lower() > BODY_MAX as u64 {
        return Err(too_large());
    }
    match Limited::new(body, BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "the body ended before its length; send the request again",
        )),
    }
}

/// Reads JSON, and says where it is wrong.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    // First of all as JSON: a reader of a type of its own calls a wrong value bad syntax at times.
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader);
    let Once(value) = value.map_err(|error| wrong(&error))?;
    reader.end().map_err(|error| no_json(&error))?;
    convert(value)
}

/// Converts a value that was read as JSON into a type.
pub(crate) fn convert<T: DeserializeOwned>(value: Value) -> Result<T, Problem> {
    serde_path_to_error::deserialize(value).map_err(|error| wrong(&error))
}

fn wrong(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if !inner.is_data() {
        return no_json(inner);
    }
    let text = inner.to_string();
    let position = format!(" at line {} column {}", inner.line(), inner.column());
    let text = text.strip_suffix(&*position).unwrap_or(&text);
    match fault(&error.path().to_string(), text) {
        (field, why) if field == "." => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("the body: {why}"))
        }
        (field, why) => Problem::field(&field, why),
    }
}

fn no_json(error: &serde_json::Error) -> Problem {
    let (line, column) = (error.line(), error.column());
    let why = match error.is_eof() {
        true => "the body is not JSON: it ends too early".to_owned(),
        false => format!("the body is not JSON: see line {line}, column {column}"),
    };
    Problem::new(StatusCode::BAD_REQUEST, why)
}

/// Any JSON whose objects have each field once.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any).map(Self)
    }
}

/// Visitor of a [`Once`].
struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Once(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(de::Error::custom(format!("duplicate field `{name}`")));
            }
            let Once(value) = fields.next_value()?;
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

/// Returns the header `traceparent`, if it is text.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    headers.get("traceparent").and_then(|trace| trace.to_str().ok())
}

/// The query. Unknown fields are refused.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

/// Reads a query, and says which of its parameters is wrong.
pub(crate) fn query<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let pairs = url::form_urlencoded::parse(text.as_bytes());
    let reader = serde_urlencoded::Deserializer::new(pairs);
    serde_path_to_error::deserialize(reader).map_err(|error| {
        let (field, why) = fault(&error.path().to_string(), &error.inner().to_string());
        let problem = Problem::field(&field, why);
        Problem { errors: problem.errors, ..Problem::new(StatusCode::BAD_REQUEST, problem.detail) }
    })
}

/// Path of an app.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfApp {
    /// Name of the app.
    pub(super) app: String,
}

/// Path of a schedule.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfSchedule {
    /// Name of the app.
    pub(super) app: String,
    /// Key of the schedule.
    pub(super) key: String,
}

/// Path of a run.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfRun {
    /// Name of the app.
    pub(super) app: String,
    /// Identity of the run.
    pub(super) id: String,
}

/// Path of an attempt.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfAttempt {
    /// Name of the app.
    pub(super) app: String,
    /// Identity of the run.
    pub(super) id: String,
    /// Number of the attempt.
    pub(super) attempt: u32,
}

/// The segments of the path that a route names.
pub(crate) struct Path<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let segments = axum::extract::Path::from_request_parts(parts, state).await;
        let segments = segments.map_err(|_| {
            Problem::new(
                StatusCode::BAD_REQUEST,
                "the path is not UTF-8 after percent-decoding; encode it as UTF-8",
            )
        })?;
        Ok(Self(segments.0))
    }
}

/// Returns the text that keys have to contain.
pub(super) fn searched(text: Option<String>) -> Result<Option<String>, Problem> {
    const MAX: usize = 100;
    match text.as_ref().map_or(1, |text| text.chars().count()) {
        1..=MAX => Ok(text),
        _ => Err(Problem::field("search", format!("it does not have 1 to {MAX} characters"))),
    }
}

/// Returns how many items of a list are asked for.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    const MAX: u32 = 1_000;
    match asked.unwrap_or(100) {
        limit @ 1..=MAX => Ok(limit),
        _ => Err(Problem::field("limit", format!("it is not between 1 and {MAX}"))),
    }
}

/// Reads a time of the query or of the body.
pub(super) fn time(field: &str, text: Option<String>) -> Result<Option<Time>, Problem> {
    let time = text.map(|text| model::time(&text)).transpose();
    time.map_err(|why| Problem::field(field, why))
}
