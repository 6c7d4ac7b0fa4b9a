//! Limits on HTTP/1 clients that are slow, for servers on hyper.
//!
//! A [`Watch`] sees the bytes of one connection go by, through the [`Socket`] that hyper reads and
//! writes. So it knows at each moment which [`Limit`] counts, and since when. One sleep, moved to
//! the end of that limit, keeps all of them.
//!
//! The limit on a request itself, from the end of its head to its answer, is not here: a timeout
//! around the handler keeps it, and can still answer.
//!
//! # Examples
//!
//! ```no_run
//! use std::convert::Infallible;
//! use std::future::poll_fn;
//! use std::pin::pin;
//! use std::sync::Arc;
//! use std::task::Poll;
//!
//! use http_body_util::Full;
//! use hyper::body::{Body as _, Bytes, Incoming};
//! use hyper::server::conn::http1;
//! use hyper::service::service_fn;
//! use hyper::{Request, Response, rt};
//! use tourbillon::Timer;
//! use tourbillon_http_limits::{Limit, Limits, Socket, Watch};
//!
//! /// Serves one client. Returns the limit that it was closed for, if it was.
//! async fn connection<S>(stream: S, timer: &Timer) -> Option<Limit>
//! where
//!     S: rt::Read + rt::Write + Unpin,
//! {
//!     let watch = Arc::new(Watch::new(timer, Limits::default()));
//!     let service = service_fn(|request: Request<Incoming>| {
//!         // When hyper calls, and not when the future is first polled.
//!         watch.request_begins(request.body().size_hint().exact());
//!         let watch = Arc::clone(&watch);
//!         async move {
//!             let answer = Response::new(Full::new(Bytes::from("hello\n")));
//!             watch.response_begins(answer.status().is_success());
//!             Ok::<_, Infallible>(answer)
//!         }
//!     });
//!     let mut builder = http1::Builder::new();
//!     // Counts from the end of the response before, which `Limit::Header` does not.
//!     builder.header_read_timeout(None);
//!     let socket = Socket::new(stream, watch.clone());
//!     let mut connection = pin!(builder.serve_connection(socket, service));
//!     // The connection first: a request that has come is served.
//!     poll_fn(|cx| match connection.as_mut().poll(cx) {
//!         Poll::Ready(_) => Poll::Ready(None),
//!         Poll::Pending => watch.poll_limit(cx).map(Some),
//!     })
//!     .await
//! }
//! ```

mod limits;
mod socket;
mod watch;

pub use limits::{Limit, Limits, Standing};
pub use socket::Socket;
pub use watch::Watch;
