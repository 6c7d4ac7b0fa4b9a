//! [`DeadlineLayer`]: hands a request's deadline to its handler, and to the calls that it makes.

use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderName, Request};
use tower_layer::Layer;
use tower_service::Service;

use tourbillon::Timer;
use tourbillon::deadline::Deadline;
use tourbillon::time::Instant;

use crate::or_else::Limit;

/// A layer that puts the [`Deadline`] of each request into its extensions, where the handler finds
/// it.
///
/// It cuts nothing short: add a [`TimeoutOrElseLayer`](crate::TimeoutOrElseLayer) inside, with
/// [`deadline_of`] as its limit. If there is a deadline in the extensions already, as of a router
/// around this one, the earlier counts.
///
/// # Examples
///
/// ```
/// # extern crate tower_layer as tower;
/// use std::time::Duration;
///
/// use tourbillon_tower::{DeadlineLayer, HeaderLimit};
/// # use tower::Layer;
///
/// // The caller's `grpc-timeout`, and at most 30 seconds. In axum the handler takes
/// // `Extension(deadline): Extension<Deadline>`.
/// let layer = DeadlineLayer::new(HeaderLimit::grpc_timeout(Duration::from_secs(30)));
/// # drop(layer.layer("any service"));
/// ```
#[derive(Clone, Debug)]
pub struct DeadlineLayer<L = Duration> {
    limit: L,
    timer: Timer,
}

impl<L> DeadlineLayer<L> {
    /// A layer with this [`Limit`], by the clock of the [current timer](Timer::current).
    pub fn new(limit: L) -> Self {
        Self::with_timer(limit, &Timer::current())
    }

    /// A layer with this [`Limit`], by the clock of `timer`.
    pub fn with_timer(limit: L, timer: &Timer) -> Self {
        Self { limit, timer: timer.clone() }
    }
}

impl<S, L: Clone> Layer<S> for DeadlineLayer<L> {
    type Service = WithDeadline<S, L>;

    fn layer(&self, service: S) -> WithDeadline<S, L> {
        WithDeadline { service, limit: self.limit.clone(), timer: self.timer.clone() }
    }
}

/// The service of a [`DeadlineLayer`].
///
/// # Errors
///
/// The inner service's.
#[derive(Clone, Debug)]
pub struct WithDeadline<S, L = Duration> {
    service: S,
    limit: L,
    timer: Timer,
}

impl<S, L, B> Service<Request<B>> for WithDeadline<S, L>
where
    S: Service<Request<B>>,
    L: Limit<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let now = self.timer.now();
        let deadline = self.limit.deadline(&request, now).min(deadline_of(&request, now));
        request.extensions_mut().insert(deadline);
        self.service.call(request)
    }
}

/// The [`Deadline`] that a [`DeadlineLayer`] put into a request, [`Deadline::NEVER`] without one: a
/// [`Limit`] for a [`TimeoutOrElseLayer`](crate::TimeoutOrElseLayer).
///
/// # Examples
///
/// ```
/// # extern crate tower_layer as tower;
/// use std::time::Duration;
///
/// use tourbillon_tower::{DeadlineLayer, TimeoutOrElseLayer, deadline_of};
/// # use tower::Layer;
///
/// # type Body = ();
/// let outer = DeadlineLayer::new(Duration::from_secs(30));
/// let inner = TimeoutOrElseLayer::new(deadline_of::<Body>, || "504 Gateway Timeout");
/// # drop(outer.layer(inner.layer("any service")));
/// ```
pub fn deadline_of<B>(request: &Request<B>, _now: Instant) -> Deadline {
    request.extensions().get().copied().unwrap_or_default()
}

/// A [`Limit`] that the caller sets by a header, up to a limit of the server's own.
///
/// A request without the header, or with a value that cannot be read, has the server's. With more
/// than one, the first counts.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use http::{HeaderName, Request};
/// use tourbillon_tower::{HeaderLimit, Limit};
///
/// let name = HeaderName::from_static("x-envoy-expected-rq-timeout-ms");
/// let limit = HeaderLimit::millis(name, Duration::from_secs(30));
///
/// let now = Instant::now();
/// let request = Request::builder().header("x-envoy-expected-rq-timeout-ms", "250").body(())?;
/// let deadline = limit.deadline(&request, now);
/// assert_eq!(deadline.remaining(now), Some(Duration::from_millis(250)));
/// # http::Result::Ok(())
/// ```
#[derive(Clone, Debug)]
pub struct HeaderLimit {
    name: HeaderName,
    is_grpc: bool,
    most: Duration,
}

impl HeaderLimit {
    /// gRPC's [`grpc-timeout`](Deadline::parse_grpc_timeout), and `most` at most.
    pub fn grpc_timeout(most: Duration) -> Self {
        Self { name: HeaderName::from_static(GRPC_TIMEOUT), is_grpc: true, most }
    }

    /// A header of this name with a number of [milliseconds](Deadline::parse_millis), and `most` at
    /// most.
    pub fn millis(name: HeaderName, most: Duration) -> Self {
        Self { name, is_grpc: false, most }
    }
}

impl<B> Limit<Request<B>> for HeaderLimit {
    fn deadline(&self, request: &Request<B>, now: Instant) -> Deadline {
        let value = request.headers().get(&self.name);
        let read = if self.is_grpc { Deadline::parse_grpc_timeout } else { Deadline::parse_millis };
        let own = value.and_then(|value| read(value.as_bytes(), now).ok());
        own.unwrap_or_default().min(Deadline::after(now, self.most))
    }
}

pub(crate) const GRPC_TIMEOUT: &str = "grpc-timeout";
