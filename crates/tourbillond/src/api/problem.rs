//! [`Problem`]: an error, as RFC 9457 has it.

use std::collections::BTreeMap;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::{StoreError, StoreErrorKind};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

use crate::catalog::Error;

/// The content type of a problem.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// After how many seconds a request may be repeated that found the database away.
pub(super) const RETRY_S: u32 = 2;

/// Error of a request, as application/problem+json.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Kind of problem; `about:blank` if the status says all.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status, in words.
    pub title: String,
    /// The HTTP status code.
    pub status: u16,
    /// Explanation of this error: the fault, and the remedy.
    pub detail: String,
    /// Errors of single fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// Error of a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Path of the field, such as `when.cron`.
    pub field: String,
    /// Explanation of the error.
    pub detail: String,
}

/// Errors of an operation, in the OpenAPI document.
pub(crate) struct Failure;

impl IntoResponses for Failure {
    fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let response = ResponseBuilder::new()
            .description("Any error, as a problem of RFC 9457.")
            .content(PROBLEM, problem);
        BTreeMap::from([("default".to_owned(), response.build().into())])
    }
}

impl Problem {
    /// A problem that the status names.
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or("Error").to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
        }
    }

    /// Fields that are wrong.
    pub(crate) fn fields(errors: Vec<(String, String)>) -> Self {
        let errors = errors.into_iter().map(|(field, detail)| FieldError { field, detail });
        let errors: Vec<_> = errors.collect();
        let detail = match &errors[..] {
            [one] => format!("`{}`: {}", one.field, one.detail),
            more => format!("{} fields are wrong; `errors` lists them", more.len()),
        };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// One field that is wrong.
    pub(crate) fn field(field: &str, detail: impl Into<String>) -> Self {
        Self::fields(vec![(field.to_owned(), detail.into())])
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("there is no such {what}"))
    }

    pub(crate) fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }
}

impl From<Error> for Problem {
    /// Gives each error of the catalog its status.
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Missing(_) => StatusCode::NOT_FOUND,
            Error::Conflict(_) => StatusCode::CONFLICT,
            Error::Stale => StatusCode::PRECONDITION_FAILED,
            Error::Late => StatusCode::GONE,
            Error::Full(_) => StatusCode::TOO_MANY_REQUESTS,
            Error::Crowded(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::Broken(_) | Error::Unreadable => StatusCode::INTERNAL_SERVER_ERROR,
            Error::Invalid(_) | Error::Store(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        match error {
            Error::Invalid(faults) => Self::fields(faults),
            Error::Store(error) => error.into(),
            error => Self::new(status, error.to_string()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        tracing::warn!(%error, "the store did not answer a request");
        let detail = match error.kind() {
            StoreErrorKind::Uncertain => {
                "the answer of the database was lost, and the request may have been carried out; \
                 read before you repeat it"
            }
            StoreErrorKind::Invalid => {
                let why = "the database refused the request; the log of the node says why";
                return Self::new(StatusCode::UNPROCESSABLE_ENTITY, why);
            }
            StoreErrorKind::Schema => {
                "the tables of the database have another version; upgrade this node"
            }
            _ => "the database is not available, and nothing was changed; try again",
        };
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).expect("it was made of a status");
        let body = serde_json::to_vec(&self).expect("a problem is JSON");
        let mut answer = (status, body).into_response();
        let headers = answer.headers_mut();
        let kind = HeaderValue::from_static(PROBLEM);
        headers.insert(header::CONTENT_TYPE, kind);
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, RETRY_S.into());
            }
            StatusCode::UNAUTHORIZED => {
                let scheme = HeaderValue::from_static("Bearer");
                headers.insert(header::WWW_AUTHENTICATE, scheme);
            }
            // The rest of the body is not read.
            StatusCode::PAYLOAD_TOO_LARGE => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        answer
    }
}
