//! Requests to the API, counted by route, method and status.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::Method;
use metrics::{counter, histogram};
use tourbillon::Timer;

use super::{REQUEST_SECONDS, REQUESTS};

/// Answers a request, and counts it. Routes that are not known, and methods of a client's own, have
/// one label each, so that no client makes series.
pub(crate) async fn count(State(timer): State<Timer>, request: Request, next: Next) -> Response {
    let route = match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => "none".to_owned(),
    };
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let start = timer.now();
    let mut counted = Counted { timer, route, method, start, status: None };
    let answer = next.run(request).await;
    counted.status = Some(answer.status().as_u16());
    answer
}

/// A request, counted once it is dropped: one whose client went, or whose time was over, too.
struct Counted {
    timer: Timer,
    route: String,
    method: &'static str,
    start: Instant,
    status: Option<u16>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let took = self.timer.now().duration_since(self.start);
        let (route, method) = (std::mem::take(&mut self.route), self.method);
        let status = self.status.map_or_else(|| "none".to_owned(), |status| status.to_string());
        let name = route.clone();
        counter!(REQUESTS, "route" => name, "method" => method, "status" => status).increment(1);
        histogram!(REQUEST_SECONDS, "route" => route, "method" => method).record(took);
    }
}
