//! Changes, and their entries in the audit log.
//!
//! A request leaves an entry if its token permits the change, and the answer is not a refusal: 2xx,
//! or an error of the service, since the change may have been made. The entry is on the disk before
//! the answer is sent. The entry of a dropped request has no status.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use axum::RequestExt as _;
use axum::extract::{MatchedPath, RawPathParams, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tourbillon_durable::Time;
use utoipa::openapi::OpenApi;

use super::site::{is_xtimer, refuse};
use crate::api::{Problem, Refused, Trail};
use crate::audit::Audit;
use crate::model::{AuditEntry, rfc3339};
use crate::service::Service;

/// The operations of the API, by route and method.
type Operations = HashMap<(String, Method), String>;

/// State of [`audit`].
#[derive(Clone)]
pub(super) struct Audited {
    service: Arc<Service>,
    operations: Arc<Operations>,
}

impl Audited {
    pub(super) fn new(service: &Arc<Service>, document: &OpenApi) -> Self {
        let mut operations = Operations::new();
        for (path, item) in &document.paths.paths {
            for (method, operation) in [
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::PATCH, &item.patch),
                (Method::DELETE, &item.delete),
            ] {
                let id = operation.as_ref().and_then(|operation| operation.operation_id.clone());
                operations.extend(id.map(|id| ((path.clone(), method), id)));
            }
        }
        Self { service: Arc::clone(service), operations: Arc::new(operations) }
    }

    /// Returns the name of a request's action.
    fn action(&self, request: &Request) -> Option<&str> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let of = (path.to_owned(), request.method().clone());
        self.operations.get(&of).map(String::as_str)
    }
}

/// Answers a request, and appends its change to the audit log, if there is one.
pub(super) async fn audit(
    State(audited): State<Audited>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(audit) = audited.service.audit() else { return next.run(request).await };
    let Some(action) = audited.action(&request) else { return next.run(request).await };
    let is_xtimer = is_xtimer(&request);
    let mut entry = Entry {
        service: &audited.service,
        audit,
        trail: Trail::new(audit),
        action: action.to_owned(),
        key: None,
        run: None,
        is_answered: false,
    };
    if let Ok(parameters) = request.extract_parts::<RawPathParams>().await {
        for (name, value) in &parameters {
            match name {
                "key" => entry.key = Some(value.to_owned()),
                "id" => entry.run = Some(value.to_owned()),
                _ => {}
            }
        }
    }
    request.extensions_mut().insert(entry.trail.clone());
    let answer = next.run(request).await;
    entry.is_answered = true;
    let is_refused = answer.extensions().get::<Refused>().is_some();
    if is_refused || answer.status().is_client_error() {
        return answer;
    }
    let Some(entry) = entry.with(Some(answer.status())) else { return answer };
    match audit.append(&entry).await {
        Ok(()) => answer,
        Err(error) => {
            let why = format!(
                "{error}; the change may have been made (the answer was {}): read before you \
                 repeat it",
                answer.status()
            );
            refuse(is_xtimer, Problem::new(StatusCode::INTERNAL_SERVER_ERROR, why))
        }
    }
}

/// An entry to be. Dropped before there is an answer, it is appended without a status.
struct Entry<'a> {
    service: &'a Service,
    audit: &'a Audit,
    trail: Trail,
    action: String,
    key: Option<String>,
    run: Option<String>,
    is_answered: bool,
}

impl Entry<'_> {
    /// The entry; `None` if the token did not permit a change.
    fn with(&self, status: Option<StatusCode>) -> Option<AuditEntry> {
        let change = self.trail.change();
        Some(AuditEntry {
            at: rfc3339(Time::from(SystemTime::now())),
            node: self.service.node().to_string(),
            token: change.token,
            app: change.app?,
            key: self.key.clone().or(change.key),
            run: self.run.clone(),
            action: self.action.clone(),
            status: status.map(|status| status.as_u16()),
        })
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let entry = if self.is_answered { None } else { self.with(None) };
        if let Some(entry) = entry {
            drop(self.audit.append_later(&entry));
        }
    }
}
