//! Service of one connection, and its pages.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;
use std::time::Duration;

use futures::stream;
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use smol::net::TcpStream;
use smol_hyper::rt::FuturesIo;
use tourbillon::Timer;
use tourbillon_http_limits::{Socket, Watch};

use super::limits::Limit;

/// The largest request body that is taken.
const BODY_MAX: usize = 64 * 1024;
/// The large page is this many pieces of this many bytes.
const PIECES: usize = 64;
const PIECE: usize = 64 * 1024;
pub(crate) const LARGE: usize = PIECES * PIECE;

/// Counts of the server's work so far.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) served: AtomicU64,
    cuts: [AtomicU64; Limit::ALL.len()],
}

impl Counters {
    pub(crate) fn cuts(&self, limit: Limit) -> u64 {
        self.cuts[limit as usize].load(Relaxed)
    }

    fn cut(&self, limit: Limit) {
        self.cuts[limit as usize].fetch_add(1, Relaxed);
    }
}

/// Serves one client to the end. Returns the limit it was cut for without an answer, if it was.
pub(crate) async fn connection(
    stream: TcpStream,
    timer: &Timer,
    counters: &Counters,
) -> Option<Limit> {
    let watch = Arc::new(Watch::new(timer, Limit::of_connection()));
    let service = service_fn(|request: Request<Incoming>| {
        // At once, and not when the future is first polled: bytes read in between belong to the
        // next head.
        watch.request_begins(request.body().size_hint().exact());
        answer(request, timer, &watch, counters)
    });
    let socket = Socket::new(FuturesIo::new(stream), Arc::clone(&watch));
    let mut builder = http1::Builder::new();
    // hyper's own limit counts from the end of the response before; the watch's does not.
    builder.header_read_timeout(None);
    let mut connection = pin!(builder.serve_connection(socket, service));
    // The connection first: a request that has come is served, however late this task gets to run.
    let end = poll_fn(|cx| match connection.as_mut().poll(cx) {
        // The client closed the connection, orderly or not, or we did after a response.
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => watch.poll_limit(cx).map(Limit::of),
    });
    let cut = end.await;
    if let Some(limit) = cut {
        counters.cut(limit);
    }
    cut
}

type Answer = Response<BoxBody<Bytes, Infallible>>;

async fn answer(
    request: Request<Incoming>,
    timer: &Timer,
    watch: &Watch,
    counters: &Counters,
) -> Result<Answer, Infallible> {
    // Only hyper knows where a body in chunks ends, and so where the next head begins.
    let mut is_last = request.body().size_hint().exact().is_none();
    let limit = Limit::Request;
    let mut answer = match timer.timeout(limit.span(), handle(request, timer)).await {
        Ok(answer) => {
            counters.served.fetch_add(1, Relaxed);
            answer
        }
        Err(_) => {
            counters.cut(limit);
            is_last = true;
            text(StatusCode::SERVICE_UNAVAILABLE, "that took too long\n")
        }
    };
    if is_last {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    watch.response_begins(answer.status().is_success());
    Ok(answer)
}

async fn handle(request: Request<Incoming>, timer: &Timer) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => text(StatusCode::OK, "hello\n"),
        (&Method::GET, "/large") => large(),
        (&Method::GET, "/slow") => {
            timer.sleep(Duration::from_secs(60)).await;
            text(StatusCode::OK, "at last\n")
        }
        (&Method::POST, "/echo") => match Limited::new(request, BODY_MAX).collect().await {
            Ok(body) => text(StatusCode::OK, body.to_bytes()),
            Err(_) => text(StatusCode::BAD_REQUEST, "the body is too long or broken\n"),
        },
        _ => text(StatusCode::NOT_FOUND, "try GET /, /large or /slow, or POST /echo\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed());
    *answer.status_mut() = status;
    answer
}

/// A page that no buffer holds. Its pieces are made as the client takes them.
fn large() -> Answer {
    let pieces = (0..PIECES).map(|_| Ok(Frame::data(Bytes::from_static(&[b'.'; PIECE]))));
    let mut answer = Response::new(BodyExt::boxed(StreamBody::new(stream::iter(pieces))));
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(LARGE));
    answer
}
