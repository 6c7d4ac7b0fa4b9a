//! [`TimeoutOrElse`]: an answer of the user's when the time is up.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;
use tower_layer_0_3::Layer;
use tower_service_0_3::Service;

use crate::timeout::Timeout as TimeoutFuture;
use crate::timer::Timer;

/// A layer that wraps services in a [`TimeoutOrElse`], which limits every request.
///
/// # Examples
///
/// In axum, where a layer must not fail:
///
/// ```
/// # extern crate tower_layer_0_3 as tower;
/// use std::time::Duration;
///
/// use tourbillon::tower_service_0_3::TimeoutOrElseLayer;
/// use tower::Layer;
///
/// // There: `|| StatusCode::GATEWAY_TIMEOUT.into_response()`, and `Router::layer(layer)`.
/// let layer = TimeoutOrElseLayer::new(Duration::from_secs(5), || "504 Gateway Timeout");
/// let service = layer.layer("any service");
/// assert_eq!(service.get_ref(), &"any service");
/// ```
#[derive(Clone, Debug)]
pub struct TimeoutOrElseLayer<A> {
    limit: Duration,
    timer: Timer,
    answer: A,
}

impl<A> TimeoutOrElseLayer<A> {
    /// A layer with this limit, on the process-wide timer. `answer` makes the response to a request
    /// whose time is up.
    pub fn new(limit: Duration, answer: A) -> Self {
        Self::with_timer(limit, answer, Timer::global())
    }

    /// A layer with this limit, on `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::Timer;
    /// use tourbillon::tower_service_0_3::TimeoutOrElseLayer;
    ///
    /// let timer = Timer::builder().build()?;
    /// let layer = TimeoutOrElseLayer::with_timer(Duration::from_secs(5), || 504, timer);
    /// # drop(layer);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn with_timer(limit: Duration, answer: A, timer: Timer) -> Self {
        Self { limit, timer, answer }
    }
}

impl<S, A: Clone> Layer<S> for TimeoutOrElseLayer<A> {
    type Service = TimeoutOrElse<S, A>;

    fn layer(&self, service: S) -> TimeoutOrElse<S, A> {
        let (limit, timer) = (self.limit, self.timer.clone());
        TimeoutOrElse::with_timer(service, limit, self.answer.clone(), timer)
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
/// The inner service's, as they are.
///
/// # Examples
///
/// ```
/// # extern crate tower_service_0_3 as tower;
/// use std::convert::Infallible;
/// use std::future::{Pending, pending};
/// use std::task::{Context, Poll};
/// use std::time::Duration;
///
/// use tourbillon::tower_service_0_3::TimeoutOrElse;
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
pub struct TimeoutOrElse<S, A> {
    service: S,
    limit: Duration,
    timer: Timer,
    answer: A,
}

impl<S, A> TimeoutOrElse<S, A> {
    /// Puts a limit on the requests of `service`, on the process-wide timer. `answer` makes the
    /// response to those that it cuts short.
    pub fn new(service: S, limit: Duration, answer: A) -> Self {
        Self::with_timer(service, limit, answer, Timer::global())
    }

    /// Puts a limit on the requests of `service`, on `timer`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::tower_service_0_3::TimeoutOrElse;
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
    ///
    /// let timer = Timer::builder().virtual_clock(&VirtualClock::new()).build()?;
    /// let limit = Duration::from_secs(5);
    /// let mut service = TimeoutOrElse::with_timer(1, limit, || "too late", timer);
    /// *service.get_mut() += 1;
    /// assert_eq!(service.into_inner(), 2);
    /// # std::io::Result::Ok(())
    /// ```
    pub fn with_timer(service: S, limit: Duration, answer: A, timer: Timer) -> Self {
        Self { service, limit, timer, answer }
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

impl<S, A, Request> Service<Request> for TimeoutOrElse<S, A>
where
    S: Service<Request>,
    A: Fn() -> S::Response + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = ResponseOrElse<S::Future, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // The sleep first, so that what the service does in the call itself counts.
        let sleep = self.timer.sleep(self.limit);
        let answer = self.answer.clone();
        ResponseOrElse { response: TimeoutFuture::new(self.service.call(request), sleep), answer }
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
    /// Panics as a [`Timeout`](crate::Timeout) does, and if the function that answers panics.
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
