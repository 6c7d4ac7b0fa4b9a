//! [`TimeoutOrElse`]: an answer of the user's when the time is up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use tourbillon::deadline::Deadline;
use tourbillon::time::Instant;
use tourbillon::{Timeout as TimeoutFuture, Timer};

/// Limit of a request's time, for a [`TimeoutOrElse`]: a [`Duration`] for all requests, or a
/// function that finds the [`Deadline`] of each.
///
/// Implement it for a type of your own if that has to be named, as in the field of a struct.
pub trait Limit<Request> {
    /// Returns the time by which `request` has to be answered; [`Deadline::NEVER`] if there is no
    /// limit. `now` is the time of its receipt, by the timer's clock.
    ///
    /// If the deadline has passed already, the service is called all the same, and its response is
    /// polled once.
    fn deadline(&self, request: &Request, now: Instant) -> Deadline;
}

impl<Request> Limit<Request> for Duration {
    fn deadline(&self, _request: &Request, now: Instant) -> Deadline {
        Deadline::after(now, *self)
    }
}

impl<Request, F: Fn(&Request, Instant) -> Deadline> Limit<Request> for F {
    fn deadline(&self, request: &Request, now: Instant) -> Deadline {
        self(request, now)
    }
}

/// A layer that wraps services in a [`TimeoutOrElse`], which limits every request.
///
/// # Examples
///
/// In axum, where a layer must not fail:
///
/// ```
/// # extern crate tower_layer as tower;
/// use std::time::Duration;
///
/// use tourbillon_tower::TimeoutOrElseLayer;
/// use tower::Layer;
///
/// // There: `|| StatusCode::GATEWAY_TIMEOUT.into_response()`, and `Router::layer(layer)`.
/// let layer = TimeoutOrElseLayer::new(Duration::from_secs(5), || "504 Gateway Timeout");
/// let service = layer.layer("any service");
/// assert_eq!(service.get_ref(), &"any service");
/// ```
///
/// A limit for each request, set by its caller, and at most 30 seconds:
///
/// ```
/// # extern crate tower_layer as tower;
/// use std::time::{Duration, Instant};
///
/// use tourbillon::deadline::Deadline;
/// use tourbillon_tower::TimeoutOrElseLayer;
/// # use tower::Layer;
///
/// struct Request {
///     grpc_timeout: Option<String>, // in http: `request.headers().get("grpc-timeout")`
/// }
///
/// let limit = |request: &Request, now: Instant| {
///     let deadline = match &request.grpc_timeout {
///         Some(value) => Deadline::parse_grpc_timeout(value, now).unwrap_or_default(),
///         None => Deadline::NEVER,
///     };
///     deadline.min(Deadline::after(now, Duration::from_secs(30)))
/// };
/// let layer = TimeoutOrElseLayer::new(limit, || "504 Gateway Timeout");
/// # drop(layer.layer("any service"));
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutOrElseLayer<A, L = Duration> {
    limit: L,
    timer: Timer,
    answer: A,
}

impl<A, L> TimeoutOrElseLayer<A, L> {
    /// A layer with this [`Limit`], on the [current timer](Timer::current). `answer` makes the
    /// response to a request whose time is up.
    pub fn new(limit: L, answer: A) -> Self {
        Self::with_timer(limit, answer, &Timer::current())
    }

    /// A layer with this [`Limit`], on `timer`.
    pub fn with_timer(limit: L, answer: A, timer: &Timer) -> Self {
        Self { limit, timer: timer.clone(), answer }
    }
}

impl<S, A: Clone, L: Clone> Layer<S> for TimeoutOrElseLayer<A, L> {
    type Service = TimeoutOrElse<S, A, L>;

    fn layer(&self, service: S) -> TimeoutOrElse<S, A, L> {
        let (limit, answer) = (self.limit.clone(), self.answer.clone());
        TimeoutOrElse::with_timer(service, limit, answer, &self.timer)
    }
}

/// A service that limits the time of a request, and answers itself when that is up.
///
/// Unlike [`Timeout`](super::Timeout), it adds no error: a request whose time is up gets the
/// response that a function makes. So it is infallible if the inner service is, as axum asks of its
/// layers, and needs no `HandleErrorLayer`.
///
/// The inner service's response is dropped with the future of the call, not as the time is up.
///
/// # Errors
///
/// The inner service's, unchanged.
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
/// use tourbillon_tower::TimeoutOrElse;
/// use tower::Service;
///
/// struct Silence;
///
/// impl Service<()> for Silence {
///     type Response = u16;
///     type Error = Infallible;
///     type Future = Pending<Result<u16, Infallible>>;
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
/// let mut service = TimeoutOrElse::new(Silence, Duration::from_millis(1), || 504);
/// assert_eq!(pollster::block_on(service.call(())), Ok(504));
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutOrElse<S, A, L = Duration> {
    service: S,
    limit: L,
    timer: Timer,
    answer: A,
}

impl<S, A, L> TimeoutOrElse<S, A, L> {
    /// Puts a [`Limit`] on the requests of `service`, on the [current timer](Timer::current).
    /// `answer` makes the response to a request that is cut short.
    pub fn new(service: S, limit: L, answer: A) -> Self {
        Self::with_timer(service, limit, answer, &Timer::current())
    }

    /// Puts a [`Limit`] on the requests of `service`, on `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon_tower::TimeoutOrElse;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let timer = Timer::builder().virtual_clock(&VirtualClock::new()).build()?;
    /// let limit = Duration::from_secs(5);
    /// let mut service = TimeoutOrElse::with_timer(1, limit, || "too late", &timer);
    /// *service.get_mut() += 1;
    /// assert_eq!(service.into_inner(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn with_timer(service: S, limit: L, answer: A, timer: &Timer) -> Self {
        Self { service, limit, timer: timer.clone(), answer }
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

impl<S, A, L, Request> Service<Request> for TimeoutOrElse<S, A, L>
where
    S: Service<Request>,
    A: Fn() -> S::Response + Clone,
    L: Limit<Request>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseOrElse<S::Future, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The deadline first, so that the time that the call itself takes counts.
        let deadline = self.limit.deadline(&request, self.timer.now());
        let answer = self.answer.clone();
        let response = self.service.call(request);
        ResponseOrElse { response: self.timer.timeout_at(deadline, response), answer }
    }
}

pin_project! {
    /// The response of a [`TimeoutOrElse`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the inner service's response and cancels the deadline.
    ///
    /// # Panics
    ///
    /// Panics as a [`Timeout`](tourbillon::Timeout) does, and if the function that answers panics.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled or awaited"]
    pub struct ResponseOrElse<F, A> {
        #[pin]
        response: TimeoutFuture<F>,
        answer: A,
    }
}

impl<F, A, T, E> Future for ResponseOrElse<F, A>
where
    F: Future<Output = Result<T, E>>,
    A: Fn() -> T,
{
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        Poll::Ready(ready!(this.response.poll(cx)).unwrap_or_else(|_| Ok((this.answer)())))
    }
}
