//! tower's middleware around and inside our request timeout, and axum's router around a timeout
//! that answers, on smol: no tokio runtime runs.
#![cfg(test)]

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use tourbillon::deadline::Deadline;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Elapsed, Timer};
use tourbillon_tower::{TimeoutLayer, TimeoutOrElseLayer};
use tower::retry::Policy;
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

const LIMIT: Duration = Duration::from_secs(30);

fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

/// Tries again, so many times.
#[derive(Clone)]
struct Again(usize);

impl Policy<(), (), BoxError> for Again {
    type Future = Ready<()>;

    fn retry(&mut self, (): &mut (), result: &mut Result<(), BoxError>) -> Option<Ready<()>> {
        let elapsed = result.as_ref().is_err_and(|error| error.is::<Elapsed>());
        (elapsed && self.0 > 0).then(|| {
            self.0 -= 1;
            ready(())
        })
    }

    fn clone_request(&mut self, (): &()) -> Option<()> {
        Some(())
    }
}

#[test]
fn a_retry_sees_our_timeout_of_each_attempt() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let service = ServiceBuilder::new()
        .retry(Again(2))
        .layer(TimeoutLayer::with_timer(LIMIT, &timer))
        .concurrency_limit(1)
        .service(service_fn(|()| pending::<Result<(), Infallible>>()));
    let error = clock.block_on(service.oneshot(())).expect_err("nobody answers");
    assert!(error.is::<Elapsed>());
    assert_eq!(clock.now() - start, LIMIT * 3);
    assert_eq!(timer.stats().fired, 3);
}

#[test]
fn requests_that_wait_for_each_other_time_out_one_by_one() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let service = ServiceBuilder::new()
        .concurrency_limit(1)
        .layer(TimeoutLayer::with_timer(LIMIT, &timer))
        .service(service_fn(|()| pending::<Result<(), Infallible>>()));
    let both = smol::future::zip(service.clone().oneshot(()), service.oneshot(()));
    let (first, second) = clock.block_on(both);
    assert!(first.is_err() && second.is_err());
    assert_eq!(clock.now() - start, LIMIT * 2);
    assert_eq!(timer.stats().fired, 2);
}

#[test]
fn axum_takes_a_limit_from_each_requests_header() {
    let (timer, clock) = virtual_timer();
    let answer = || StatusCode::GATEWAY_TIMEOUT.into_response();
    let limit = |request: &Request<axum::body::Body>, now: Instant| {
        let own = request.headers().get("grpc-timeout").map(|value| value.as_bytes());
        let own = own.map_or(Ok(Deadline::NEVER), |value| Deadline::parse_grpc_timeout(value, now));
        own.unwrap_or_default().min(Deadline::after(now, LIMIT))
    };
    let router: Router = Router::new()
        .route("/silence", get(pending::<()>))
        .layer(TimeoutOrElseLayer::with_timer(limit, answer, &timer));
    for (header, after) in [("1S", Duration::from_secs(1)), ("99H", LIMIT), ("soon", LIMIT)] {
        let start = clock.now();
        let request = Request::builder().uri("/silence").header("grpc-timeout", header);
        let request = request.body(axum::body::Body::empty()).expect("the path is valid");
        let response = clock.block_on(router.clone().oneshot(request)).expect("it does not fail");
        assert_eq!(response.status(), StatusCode::GATEWAY_TIMEOUT);
        assert_eq!(clock.now() - start, after, "{header}");
    }
}
