//! Connections, and their limits.
//!
//! A client is cut if it is slow to send a head or a body, slow to read its answer, or silent for
//! long; see [`ServerLimits`]. Where there is no room for another client, or no memory for an
//! answer, clients are cut sooner. All waits here use the service's own timers.

mod room;
#[cfg(test)]
mod tests;
mod tls;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use futures_util::future::select;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tourbillon::Timer;
use tourbillon_http_limits::{Socket, Watch};
use tower::ServiceExt as _;

use room::{Room, Seat};
pub use tls::Tls;

use crate::answers::{Answers, Counted};
use crate::api::Problem;
use crate::descriptors;
use crate::routes::Reached;

/// The longest head of a request, in bytes; hyper's least is 8 KiB.
const HEAD_MAX: usize = 64 * 1024;

/// Time for which answers are awaited once the service stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, as when there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The largest body whose memory is not counted.
const SMALL: u64 = 1024;

/// Limits of the service on its clients.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Limits of a connection.
    pub connection: tourbillon_http_limits::Limits,
    /// Time from the end of a request's head to the answer, the body included.
    pub request: Duration,
    /// Most connections that may be open at a time; for another, an idle one is cut.
    pub connections: usize,
}

impl Default for ServerLimits {
    /// Returns 30 s for a request, and 20,000 connections.
    fn default() -> Self {
        let connection = tourbillon_http_limits::Limits::default();
        Self { connection, request: Duration::from_secs(30), connections: 20_000 }
    }
}

/// State that the connections of a service share.
#[derive(Clone)]
struct Server {
    router: Router,
    timer: Timer,
    limits: ServerLimits,
    /// Memory for answers.
    answers: Arc<Answers>,
}

/// Serves until `stop` is ready, and then finishes requests under way; by TLS if there is `tls`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    timer: &Timer,
    limits: ServerLimits,
    answers: Arc<Answers>,
    tls: Option<Arc<Tls>>,
    stop: impl Future<Output = ()>,
) {
    let (stops, stopped) = watch::channel(false);
    let room = Room::new(limits.connections, Arc::clone(&answers));
    let server = Server { router, timer: timer.clone(), limits, answers };
    let accepts = async {
        let mut was_full = false;
        loop {
            let stream = accept(&listener, timer, &room).await;
            if room.is_full() && !std::mem::replace(&mut was_full, true) {
                let connections = limits.connections;
                tracing::warn!(connections, "no room for further clients: idle ones are cut");
            }
            let mut seat = room.seat().await;
            let (server, stopped, tls) = (server.clone(), stopped.clone(), tls.clone());
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                let reached = stream.local_addr().ok().map(|address| Reached(address.ip()));
                let Some(tls) = tls else {
                    return connection(stream, server, seat, reached, stopped).await;
                };
                let mut stops = stopped.clone();
                let stream = tls.accept(stream, &server.timer, &mut seat, &mut stops).await;
                let Some(stream) = stream else { return };
                connection(stream, server, seat, reached, stopped).await;
            });
        }
    };
    // It ends when `stop` is ready; the others never are.
    select(pin!(select(pin!(accepts), pin!(room.relieve()))), pin!(stop)).await;
    drop(listener);
    stops.send_replace(true);
    let _ = timer.timeout(PATIENCE, room.empty(limits.connections)).await;
}

/// Accepts a client, however often that fails first.
async fn accept(listener: &TcpListener, timer: &Timer, room: &Room) -> TcpStream {
    let mut is_told = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%error, "no connection can be accepted");
                }
                if descriptors::is_shortage(&error) {
                    room.make_room();
                }
                timer.sleep(PAUSE).await;
            }
        }
    }
}

/// Serves one client to the end.
async fn connection<S>(
    stream: S,
    server: Server,
    mut seat: Seat,
    reached: Option<Reached>,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let watch = Arc::new(Watch::new(&server.timer, server.limits.connection));
    let service = service_fn(|mut request: Request<Incoming>| {
        if let Some(reached) = reached {
            request.extensions_mut().insert(reached);
        }
        // At once, and not when the future is first polled: bytes read in between belong to the
        // next head.
        watch.request_begins(request.body().size_hint().exact());
        answer(request, &server, &watch)
    });
    let socket = Socket::new(TokioIo::new(stream), Arc::clone(&watch));
    let mut builder = http1::Builder::new();
    // hyper's own limit counts from the end of the response before; the watch's does not.
    builder.header_read_timeout(None).max_buf_size(HEAD_MAX);
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut stops = pin!(stopped.wait_for(|is| *is));
    let cut = seat.cut();
    let mut cut = pin!(cut.notified());
    let mut is_stopping = false;
    // The connection first: a request that has come is served, however late this task gets to run.
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        if !is_stopping && stops.as_mut().poll(cx).is_ready() {
            is_stopping = true;
            connection.as_mut().graceful_shutdown();
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        seat.stands(watch.standing(), watch.taken());
        if cut.as_mut().poll(cx).is_ready() {
            tracing::debug!("a client was cut to make room");
            return Poll::Ready(());
        }
        watch.poll_limit(cx).map(|limit| tracing::debug!(?limit, "a client was cut"))
    })
    .await;
}

async fn answer(
    request: Request<Incoming>,
    server: &Server,
    watch: &Watch,
) -> Result<Response<Body>, Infallible> {
    // Of a body in chunks only hyper knows where it ends, and so where the next head begins.
    let mut is_last = request.body().size_hint().exact().is_none();
    let answer = async {
        let Ok(answer) = server.router.clone().oneshot(request.map(Body::new)).await;
        counted(answer, &server.answers).await
    };
    let mut answer = match server.timer.timeout(server.limits.request, answer).await {
        Ok(answer) => answer,
        Err(_) => {
            is_last = true;
            let (status, why) = match watch.is_body_due() {
                true => (StatusCode::REQUEST_TIMEOUT, "the request's body did not come in time"),
                false => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "this node was too slow; a change may have been made all the same",
                ),
            };
            Problem::new(status, why).into_response()
        }
    };
    if is_last {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let status = answer.status();
    watch.response_begins(status.is_success() || status.is_redirection());
    Ok(answer)
}

/// The answer, once there is memory for it. One without a known size has no more than hyper takes
/// of it.
async fn counted(answer: Response<Body>, answers: &Arc<Answers>) -> Response<Body> {
    let size = answer.body().size_hint().exact().unwrap_or(0);
    if size <= SMALL || answer.extensions().get::<Counted>().is_some() {
        return answer;
    }
    let held = answers.hold(usize::try_from(size).unwrap_or(usize::MAX)).await;
    let (head, body) = answer.into_parts();
    let body = match body.collect().await {
        Ok(body) => Body::from(held.by(body.to_bytes())),
        Err(error) => {
            tracing::error!(%error, "an answer cannot be read");
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
    };
    Response::from_parts(head, body)
}
