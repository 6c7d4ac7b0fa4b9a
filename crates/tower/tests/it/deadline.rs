//! Deadlines of requests, from a header to the next server's.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderName, Request};
use tonic::service::Interceptor as _;
use tonic_0_14 as tonic;
use tourbillon::Timer;
use tourbillon::deadline::Deadline;
use tourbillon_tower::{DeadlineInterceptor, DeadlineLayer, HeaderLimit, Limit, deadline_of};
use tower_layer::Layer;
use tower_service::Service;

use super::{SECOND, virtual_timer};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Answers with the deadline that it finds.
#[derive(Clone)]
struct Told(Timer);

impl Service<Request<()>> for Told {
    type Response = Option<Duration>;
    type Error = Infallible;
    type Future = Ready<Result<Option<Duration>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let now = self.0.now();
        ready(Ok(deadline_of(&request, now).remaining(now)))
    }
}

/// The time left in a handler of a request with this header, behind a layer with this limit.
fn left<L: Limit<Request<()>> + Clone>(limit: L, header: Option<(&str, &str)>) -> Option<Duration> {
    let (timer, clock) = virtual_timer();
    let mut service = DeadlineLayer::with_timer(limit, &timer).layer(Told(timer));
    let mut request = Request::new(());
    if let Some((name, value)) = header {
        let name = name.parse::<HeaderName>().expect("it is valid");
        request.headers_mut().insert(name, value.parse().expect("it is valid"));
    }
    clock.block_on(service.call(request)).expect("it does not fail")
}

#[test]
fn a_handler_finds_what_the_caller_left_and_no_more_than_the_servers_own() {
    let grpc = || HeaderLimit::grpc_timeout(30 * SECOND);
    for (value, found) in [
        ("250m", ms(250)),
        ("0n", Duration::ZERO),
        ("99999999H", 30 * SECOND),
        // Nine digits: one more than gRPC allows.
        ("123456789n", 30 * SECOND),
        ("-1S", 30 * SECOND),
    ] {
        assert_eq!(left(grpc(), Some(("grpc-timeout", value))), Some(found), "{value}");
    }
    assert_eq!(left(grpc(), None), Some(30 * SECOND));

    let name = || HeaderName::from_static("connect-timeout-ms");
    let connect = HeaderLimit::millis(name(), SECOND);
    assert_eq!(left(connect.clone(), Some(("connect-timeout-ms", "20"))), Some(ms(20)));
    assert_eq!(left(connect, Some(("grpc-timeout", "20m"))), Some(SECOND));

    let without = |_: &Request<()>, _: Instant| Deadline::NEVER;
    assert_eq!(left(without, None), None);
}

#[test]
fn of_two_layers_the_earlier_deadline_counts() {
    for (outer, inner) in [(1, 2), (2, 1)] {
        let (timer, clock) = virtual_timer();
        let layer = |seconds| DeadlineLayer::with_timer(seconds * SECOND, &timer);
        let mut service = layer(outer).layer(layer(inner).layer(Told(timer.clone())));
        let told = clock.block_on(service.call(Request::new(())));
        assert_eq!(told, Ok(Some(SECOND)), "{outer}, {inner}");
    }
}

#[test]
fn a_layer_made_in_the_scope_of_a_timer_goes_by_its_clock() {
    let (timer, clock) = virtual_timer();
    clock.advance(3600 * SECOND);
    let told = clock.block_on(timer.scope(async {
        let mut service = DeadlineLayer::new(SECOND).layer(Told(timer.clone()));
        service.call(Request::new(())).await
    }));
    assert_eq!(told, Ok(Some(SECOND)));
    let headers = clock.block_on(timer.scope(async {
        let mut request = tonic::Request::new(());
        request.extensions_mut().insert(Deadline::after(timer.now(), SECOND));
        DeadlineInterceptor::new().call(request)
    }));
    let headers = headers.expect("there is time left").into_parts().0.into_headers();
    assert_eq!(headers["grpc-timeout"], "1000000u");
}

/// The headers of a call with this deadline.
fn sent(timer: &Timer, deadline: Option<Deadline>, set: &str) -> Result<HeaderMap, tonic::Status> {
    let mut request = tonic::Request::new(());
    if let Some(deadline) = deadline {
        request.extensions_mut().insert(deadline);
    }
    if !set.is_empty() {
        request.metadata_mut().insert("grpc-timeout", set.parse().expect("it is ASCII"));
    }
    let request = DeadlineInterceptor::with_timer(timer).call(request)?;
    Ok(request.into_parts().0.into_headers())
}

#[test]
fn a_chain_of_calls_loses_what_each_took_and_the_last_is_not_made() {
    let (timer, clock) = virtual_timer();
    let limit = HeaderLimit::grpc_timeout(30 * SECOND);
    let mut headers = HeaderMap::new();
    headers.insert("grpc-timeout", "300m".parse().expect("it is valid"));
    for after in ["200000u", "100000u"] {
        let mut request = Request::new(());
        *request.headers_mut() = headers;
        let deadline = limit.deadline(&request, timer.now());
        clock.block_on(timer.sleep(ms(100)));
        headers = sent(&timer, Some(deadline), "").expect("there is time left");
        assert_eq!(headers["grpc-timeout"], after);
    }
    let mut request = Request::new(());
    *request.headers_mut() = headers;
    let deadline = limit.deadline(&request, timer.now());
    clock.block_on(timer.sleep(ms(100)));
    let status = sent(&timer, Some(deadline), "").expect_err("nothing is left");
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
}

#[test]
fn a_call_has_the_shorter_of_its_own_limit_and_its_deadline() {
    let (timer, _clock) = virtual_timer();
    let deadline = |span| Some(Deadline::after(timer.now(), span));
    for (deadline, set, written) in [
        (None, "", None),
        (None, "7S", Some("7S")),
        (Some(Deadline::NEVER), "", None),
        (deadline(SECOND), "7S", Some("1000000u")),
        (deadline(9 * SECOND), "7S", Some("7S")),
        (deadline(9 * SECOND), "of another kind", Some("9000000u")),
    ] {
        let headers = sent(&timer, deadline, set).expect("there is time left");
        let value = headers.get("grpc-timeout").map(|value| value.to_str().expect("it is ASCII"));
        assert_eq!(value, written, "{deadline:?}, {set}");
    }
}
