//! Bodies and queries of requests, read as Go and gin read them.

use std::collections::BTreeSet;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use url::form_urlencoded::{Serializer, parse};

use super::{ById, Failure, TimerDef};
use crate::api::{BODY_MAX, Problem, convert, query};

/// The most that a page has, whatever is asked for.
const PAGE_MAX: i64 = 100;

/// Type that a body of JSON is read as.
pub(crate) trait Named: DeserializeOwned {
    /// Names of the fields; a nested field has its object's name before a dot.
    const NAMES: &'static [&'static str];
}

impl Named for TimerDef {
    const NAMES: &'static [&'static str] = &[
        "id",
        "app",
        "name",
        "creator",
        "status",
        "cron",
        "notifyHTTPParam",
        "notifyHTTPParam.method",
        "notifyHTTPParam.url",
        "notifyHTTPParam.header",
        "notifyHTTPParam.body",
    ];
}

impl Named for ById {
    const NAMES: &'static [&'static str] = &["id"];
}

/// A body that is read as JSON, whatever it says that it is, and as Go's `encoding/json` reads it:
/// names in any case, `null` for nothing, and nothing after the first value.
pub(crate) struct Lax<T>(pub(crate) T);

impl<S: Send + Sync, T: Named> FromRequest<S> for Lax<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let body = Limited::new(request.into_body(), BODY_MAX).collect().await.map_err(|_| {
            let why = format!("a body has {BODY_MAX} bytes at most");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
        let body = body.to_bytes();
        let mut values = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
        let Some(Ok(value)) = values.next() else {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "the body is not JSON").into());
        };
        Ok(Self(convert(named(value, T::NAMES, ""))?))
    }
}

/// Returns the value with its fields under the names that they are known by, and without others;
/// unchanged if no name is known within it.
fn named(value: Value, names: &[&str], within: &str) -> Value {
    let Value::Object(fields) = value else { return value };
    if !names.iter().any(|name| name.starts_with(within)) {
        return Value::Object(fields);
    }
    let mut found = Map::new();
    for name in names.iter().filter_map(|name| name.strip_prefix(within)) {
        let is_it = |field: &&String| field.eq_ignore_ascii_case(name);
        let field = fields.get_key_value(name).or_else(|| {
            let field = fields.keys().find(is_it)?;
            fields.get_key_value(field)
        });
        if let Some((_, value)) = field.filter(|(_, value)| !value.is_null()) {
            let value = named(value.clone(), names, &format!("{within}{name}."));
            found.insert(name.to_owned(), value);
        }
    }
    Value::Object(found)
}

/// Query: of several values of a name, the first counts, and an empty one as none.
pub(crate) struct Search<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Search<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let mut known = BTreeSet::new();
        let pairs = parse(parts.uri.query().unwrap_or_default().as_bytes());
        let pairs = pairs.filter(|(name, value)| known.insert(name.clone()) && !value.is_empty());
        let first = Serializer::new(String::new()).extend_pairs(pairs).finish();
        Ok(Self(query(&first)?))
    }
}

/// Returns the offset and the length of a page: an index that is not positive counts as the first,
/// and such a size as ten.
pub(super) fn page(index: i64, size: i64) -> (usize, usize) {
    let size = if size <= 0 { 10 } else { size.min(PAGE_MAX) };
    let offset = (index.max(1) - 1).saturating_mul(size);
    (usize::try_from(offset).unwrap_or(usize::MAX), size.unsigned_abs() as usize)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Named, TimerDef, named, page};

    #[test]
    fn names_are_known_in_any_case_and_nothing_is_null() {
        let sent = json!({
            "APP": "a", "Name": "n", "name": "own", "creator": null, "other": 1,
            "NotifyHttpParam": { "URL": "u", "HEADER": { "X-a": ["1"] }, "method": "GET" }
        });
        let read = json!({
            "app": "a", "name": "own",
            "notifyHTTPParam": { "url": "u", "header": { "X-a": ["1"] }, "method": "GET" }
        });
        assert_eq!(named(sent, TimerDef::NAMES, ""), read);
    }

    #[test]
    fn pages_are_from_one_and_of_ten_unless_a_size_is_given() {
        assert_eq!(page(0, 0), (0, 10));
        assert_eq!(page(-3, -1), (0, 10));
        assert_eq!(page(3, 20), (40, 20));
        assert_eq!(page(2, 100_000), (100, 100));
        assert_eq!(page(i64::MAX, 100).1, 100);
    }
}
