//! [`DeadlineInterceptor`]: passes the rest of a deadline on to the next server.

use tonic_0_14::metadata::{Ascii, MetadataValue};
use tonic_0_14::service::Interceptor;
use tonic_0_14::{Request, Status};
use tourbillon::Timer;
use tourbillon::deadline::Deadline;

use crate::deadline::GRPC_TIMEOUT;

/// An interceptor for clients of tonic 0.14. It writes the time that a call's [`Deadline`] leaves
/// into its `grpc-timeout`.
///
/// A [`DeadlineLayer`](crate::DeadlineLayer) puts the deadline into the extensions of the request,
/// and the handler puts it into the extensions of each call. Without a deadline a call goes out
/// unchanged. If `Request::set_timeout` has set a shorter limit, that stays.
///
/// The time left is rounded down, and the time on the way is not counted: no callee believes that
/// it has longer than its caller. It cuts nothing short itself: await the call in a
/// [`timeout_at`](tourbillon::timeout_at) of the same deadline.
///
/// # Errors
///
/// A call whose deadline has passed is not made: `DEADLINE_EXCEEDED`.
///
/// # Examples
///
/// ```
/// # extern crate tonic_0_14 as tonic;
/// use std::time::{Duration, Instant};
///
/// use tonic::Request;
/// use tonic::service::Interceptor as _;
/// use tourbillon::deadline::Deadline;
/// use tourbillon_tower::DeadlineInterceptor;
///
/// // For a client: `GreeterClient::with_interceptor(channel, DeadlineInterceptor::new())`.
/// let mut interceptor = DeadlineInterceptor::new();
///
/// let mut request = Request::new(());
/// request.extensions_mut().insert(Deadline::after(Instant::now(), Duration::from_secs(1)));
/// let request = interceptor.call(request)?;
/// assert!(request.metadata().contains_key("grpc-timeout"));
/// # Ok::<_, tonic::Status>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeadlineInterceptor {
    timer: Timer,
}

impl DeadlineInterceptor {
    /// An interceptor by the clock of the [current timer](Timer::current).
    pub fn new() -> Self {
        Self::with_timer(&Timer::current())
    }

    /// An interceptor by the clock of `timer`.
    pub fn with_timer(timer: &Timer) -> Self {
        Self { timer: timer.clone() }
    }
}

impl Default for DeadlineInterceptor {
    fn default() -> Self {
        Self::new()
    }
}

impl Interceptor for DeadlineInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let now = self.timer.now();
        let deadline = request.extensions().get::<Deadline>().copied().unwrap_or_default();
        if deadline.remaining(now).is_some_and(|left| left.is_zero()) {
            return Err(Status::deadline_exceeded("the deadline has passed before the call"));
        }
        let set = request.metadata().get(GRPC_TIMEOUT);
        let set = set.and_then(|value| Deadline::parse_grpc_timeout(value.as_bytes(), now).ok());
        if set.is_none_or(|set| deadline < set) {
            // None for a call without a deadline.
            if let Some(value) = deadline.to_grpc_timeout(now) {
                let value = value.parse::<MetadataValue<Ascii>>().expect("digits and a letter");
                request.metadata_mut().insert(GRPC_TIMEOUT, value);
            }
        }
        Ok(request)
    }
}
