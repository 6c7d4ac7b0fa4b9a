//! Sends one request, within limits, to an address that was judged.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::{Request, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tourbillon::{Timer, timeout};
use tower::Service;

use super::guard::{Guard, Refused};

/// How long connecting may take: a name's resolution, every address tried, and TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one address may take, so that another has its turn.
const CONNECT_ONE: Duration = Duration::from_secs(3);

/// How much of an answer's head is read.
const HEAD_MAX: usize = 64 * 1024;

/// How much of an answer's body is read.
const BODY_MAX: usize = 64 * 1024;

/// How much of an answer's body is kept.
const BODY_KEPT: usize = 512;

/// How long a connection waits for the next request.
const IDLE: Duration = Duration::from_secs(30);

/// What was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// For how long the receiver asks to be left alone.
    pub(super) retry_after: Option<Duration>,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
}

/// A client with connections of its own, which are kept for the next request.
///
/// Apps do not share one: what one may call, another may not. It follows no redirect.
#[derive(Clone)]
pub(super) struct Client {
    inner: legacy::Client<Limited<HttpsConnector<Connector>>, Full<Bytes>>,
}

impl Client {
    pub(super) fn new(guard: Guard, timer: &Timer) -> Result<Self, rustls::Error> {
        let provider = rustls::crypto::ring::default_provider();
        let https = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)?
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector { guard: Arc::new(guard) });
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(timer.clone())
            .http1_max_buf_size(HEAD_MAX)
            .build(Limited { inner: https });
        Ok(Self { inner })
    }

    /// Sends the request and reads the answer, all within `limit`.
    ///
    /// A body is read up to 64 KiB; the connection of one that is longer is closed.
    ///
    /// # Errors
    ///
    /// Why there is no whole answer, for people to read.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connection. The receiver may have the request.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Answer, String> {
        let answer = async {
            let answer = self.inner.request(request).await.map_err(|error| chain(&error))?;
            let (head, mut rest) = answer.into_parts();
            let (mut body, mut read) = (Vec::new(), 0);
            while let Some(frame) = rest.frame().await {
                let frame = frame.map_err(|error| chain(&error))?;
                let Ok(data) = frame.into_data() else { continue };
                let kept = data.len().min(BODY_KEPT - body.len());
                body.extend_from_slice(&data[..kept]);
                read += data.len();
                if read > BODY_MAX {
                    break;
                }
            }
            Ok(Answer { status: head.status, retry_after: retry_after(&head.headers), body })
        };
        let late = |_| Err(format!("no whole answer within {limit:?}"));
        timeout(limit, answer).await.unwrap_or_else(late)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The header `Retry-After`: seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(jiff::Timestamp::now())).unwrap_or_default())
}

/// What went wrong, with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        // Many wrap a cause and repeat it.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

/// Connects to a host by an address that the guard lets pass.
#[derive(Clone, Debug)]
struct Connector {
    guard: Arc<Guard>,
}

impl Connector {
    async fn connect(guard: Arc<Guard>, uri: Uri) -> io::Result<TokioIo<TcpStream>> {
        let host = uri.host().unwrap_or("");
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addresses = match literal {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => tokio::net::lookup_host((host, port)).await?.collect(),
        };
        connect_any(&permitted(&guard, &addresses)?).await
    }
}

/// Those of the addresses that may be called.
fn permitted(guard: &Guard, found: &[SocketAddr]) -> io::Result<Vec<SocketAddr>> {
    let mut refused = None::<Refused>;
    let mut passed = Vec::with_capacity(found.len());
    for address in found {
        match guard.judge(address.ip()) {
            Ok(()) => passed.push(*address),
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if passed.is_empty() => {
            Err(io::Error::new(io::ErrorKind::PermissionDenied, error))
        }
        _ => Ok(passed),
    }
}

/// Connects to the first of the addresses that answers.
async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TokioIo<TcpStream>> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for &address in addresses {
        match timeout(CONNECT_ONE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(TokioIo::new(stream));
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TcpStream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(Self::connect(self.guard.clone(), uri))
    }
}

/// A connector that gives up in the end, also when nobody waits for it: a client lets a connection
/// that it no longer needs be made, for its pool.
#[derive(Clone)]
struct Limited<C> {
    inner: C,
}

impl<C> Service<Uri> for Limited<C>
where
    C: Service<Uri>,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connection = self.inner.call(uri);
        Box::pin(async {
            match timeout(CONNECT, connection).await {
                Ok(connection) => connection.map_err(Into::into),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
