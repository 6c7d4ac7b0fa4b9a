//! tower: a limit on the time that a service takes for a request.
//!
//! ```
//! use std::time::Duration;
//!
//! use tourbillon_tower::TimeoutLayer;
//!
//! // For `tower::ServiceBuilder::layer`, on any executor.
//! let layer = TimeoutLayer::new(Duration::from_secs(5));
//! # drop(layer);
//! ```
//!
//! The traits come from tower-service and tower-layer 0.3, shared by tower 0.4 and 0.5.
//!
//! tower's own `timeout` needs tokio's timer. These types have its names and its behaviour, so only
//! an import changes. The boxed error is tourbillon's [`Elapsed`](tourbillon::Elapsed).
//!
//! [`TimeoutOrElse`] answers with a response of yours instead, and adds no error. Its limit may
//! differ from request to request.
//!
//! With the feature `http`, `DeadlineLayer` hands the deadline of a request to its handler. With
//! `tonic-0_14`, `DeadlineInterceptor` passes the rest of it on to the next server.

#![forbid(unsafe_code)]

#[cfg(feature = "http")]
mod deadline;
#[cfg(feature = "tonic-0_14")]
mod interceptor;
mod or_else;

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

#[cfg(feature = "http")]
pub use deadline::{DeadlineLayer, HeaderLimit, WithDeadline, deadline_of};
#[cfg(feature = "tonic-0_14")]
pub use interceptor::DeadlineInterceptor;
pub use or_else::{Limit, ResponseOrElse, TimeoutOrElse, TimeoutOrElseLayer};

use tourbillon::deadline::Deadline;
use tourbillon::{Timeout as TimeoutFuture, Timer};

type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that wraps services in a [`Timeout`], which limits every request.
///
/// # Examples
///
/// ```
/// # extern crate tower_layer as tower;
/// use std::time::Duration;
///
/// use tourbillon_tower::TimeoutLayer;
/// use tower::Layer;
///
/// // `tower::ServiceBuilder` and axum's `Router` call this in `.layer(..)`.
/// let layer = TimeoutLayer::new(Duration::from_secs(5));
/// let service = layer.layer("any service");
/// assert_eq!(service.get_ref(), &"any service");
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    limit: Duration,
    timer: Timer,
}

impl TimeoutLayer {
    /// A layer with this limit, on the [current timer](Timer::current).
    pub fn new(limit: Duration) -> Self {
        Self::with_timer(limit, &Timer::current())
    }

    /// A layer with this limit, on `timer`.
    pub fn with_timer(limit: Duration, timer: &Timer) -> Self {
        Self { limit, timer: timer.clone() }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, service: S) -> Timeout<S> {
        Timeout::with_timer(service, self.limit, &self.timer)
    }
}

/// A service that limits the time of a request.
///
/// The time counts from the call, not from the first poll of the response, and does not include the
/// wait until the service is ready. As in a [`Timeout`](tourbillon::Timeout), the response is
/// polled first: if it is ready it is returned, even if it is late.
///
/// # Errors
///
/// The inner service's, boxed; and [`Elapsed`](tourbillon::Elapsed), boxed.
///
/// # Examples
///
/// ```
/// # extern crate tower_service as tower;
/// use std::convert::Infallible;
/// use std::future::{Pending, pending};
/// use std::task::{Context, Poll};
/// use std::time::Duration;
///
/// use tourbillon::Elapsed;
/// use tourbillon_tower::Timeout;
/// use tower::Service;
///
/// struct Silence;
///
/// impl Service<()> for Silence {
///     type Response = ();
///     type Error = Infallible;
///     type Future = Pending<Result<(), Infallible>>;
///
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn call(&mut self, (): ()) -> Self::Future {
///         pending()
///     }
/// }
///
/// let mut service = Timeout::new(Silence, Duration::from_millis(1));
/// let error = pollster::block_on(service.call(())).unwrap_err();
/// assert!(error.is::<Elapsed>());
/// ```
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    service: S,
    limit: Duration,
    timer: Timer,
}

impl<S> Timeout<S> {
    /// Puts a limit on the requests of `service`, on the [current timer](Timer::current).
    pub fn new(service: S, limit: Duration) -> Self {
        Self::with_timer(service, limit, &Timer::current())
    }

    /// Puts a limit on the requests of `service`, on `timer`.
    pub fn with_timer(service: S, limit: Duration, timer: &Timer) -> Self {
        Self { service, limit, timer: timer.clone() }
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.service
    }

    /// The inner service, to be changed.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.service
    }

    /// Gives the inner service back.
    pub fn into_inner(self) -> S {
        self.service
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.service.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The deadline first, so that the time that the call itself takes counts.
        let deadline = Deadline::after(self.timer.now(), self.limit);
        let response = self.service.call(request);
        ResponseFuture { response: self.timer.timeout_at(deadline, response) }
    }
}

pin_project! {
    /// The response of a [`Timeout`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner service's response and cancels the deadline.
    ///
    /// # Panics
    ///
    /// Panics as a [`Timeout`](tourbillon::Timeout) does.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: TimeoutFuture<F>,
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(self.project().response.poll(cx)) {
            Ok(response) => Poll::Ready(response.map_err(Into::into)),
            Err(elapsed) => Poll::Ready(Err(elapsed.into())),
        }
    }
}
