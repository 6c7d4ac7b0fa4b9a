//! Connections, and their limits.
//!
//! A client is cut that is slow to send a head or a body, slow to read its answer, or silent for
//! long; see [`Limits`]. What waits here waits by the service's own timers.

mod limits;
mod socket;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::future::{Either, select};
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tourbillon::Timer;
use tower::ServiceExt as _;

pub use limits::Limits;
use limits::Watch;
use socket::Socket;

use crate::api::Problem;

/// The longest head of a request, in bytes; hyper's least is 8 KiB.
const HEAD_MAX: usize = 64 * 1024;

/// For how long answers are waited for once the service stops.
const PATIENCE: Duration = Duration::from_secs(10);

/// The pause after a connection could not be accepted, as when there are no file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves until `stop` is ready, and then what is being answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    timer: &Timer,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let (stops, stopped) = watch::channel(false);
    let room = Arc::new(Semaphore::new(limits.connections));
    let accept = async |timer: &Timer| -> (_, OwnedSemaphorePermit) {
        loop {
            let permit = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
            match listener.accept().await {
                Ok((stream, _)) => return (stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    timer.sleep(PAUSE).await;
                }
            }
        }
    };
    loop {
        let Either::Left(((stream, permit), _)) = select(pin!(accept(timer)), stop.as_mut()).await
        else {
            break;
        };
        let (router, timer, stopped) = (router.clone(), timer.clone(), stopped.clone());
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            connection(stream, router, &timer, limits, stopped).await;
            drop(permit);
        });
    }
    drop(listener);
    stops.send_replace(true);
    let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
    let _ = timer.timeout(PATIENCE, room.acquire_many(all)).await;
}

/// Serves one client to the end.
async fn connection<S>(
    stream: S,
    router: Router,
    timer: &Timer,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let watch = Arc::new(Watch::new(timer, limits));
    let service = service_fn(|request: Request<Incoming>| {
        // At once, and not when the future is first polled: what is read in between is of the next
        // head.
        watch.answer_begins(request.body().size_hint().exact());
        answer(request, router.clone(), timer, limits.request, &watch)
    });
    let socket = Socket::new(stream, Arc::clone(&watch));
    let mut builder = http1::Builder::new();
    // hyper's own limit counts from the end of the response before. Ours is in `limits`.
    builder.header_read_timeout(None).max_buf_size(HEAD_MAX);
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut stops = pin!(async move {
        let _ = stopped.wait_for(|is| *is).await;
    });
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
        watch.poll_over(cx).map(|limit| tracing::debug!(?limit, "a client was cut"))
    })
    .await;
}

async fn answer(
    request: Request<Incoming>,
    router: Router,
    timer: &Timer,
    limit: Duration,
    watch: &Watch,
) -> Result<Response<Body>, Infallible> {
    // Of a body in chunks only hyper knows where it ends, and so where the next head begins.
    let mut is_last = request.body().size_hint().exact().is_none();
    let answer = timer.timeout(limit, router.oneshot(request.map(Body::new))).await;
    let mut answer = match answer {
        Ok(Ok(answer)) => answer,
        Err(_) => {
            is_last = true;
            let why = "the request took too long";
            axum::response::IntoResponse::into_response(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                why,
            ))
        }
    };
    if is_last {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    watch.answer_ends();
    Ok(answer)
}
