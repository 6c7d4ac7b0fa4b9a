//! Sends one request, within limits, to an address that was judged.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, RETRY_AFTER};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tourbillon::{Timer, timeout};
use tower::Service;

use crate::callback::{Answer, Guard, Refused};
use crate::descriptors;

/// Longest time to connect: a name's resolution, every address tried, and TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest time for one address, so that another has its turn.
const CONNECT_ONE: Duration = Duration::from_secs(3);

/// Most bytes of an answer's head that are read.
const HEAD_MAX: usize = 64 * 1024;

/// Most bytes of an answer's body that are read.
const BODY_MAX: usize = 64 * 1024;

/// Most bytes of an answer's body that are kept.
const BODY_KEPT: usize = 512;

/// Time for which a connection waits for the next request.
const IDLE: Duration = Duration::from_secs(30);

/// Reason for which there is no whole answer, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// This host is short of descriptors, memory, ports or threads. The receiver has no part in it.
    Shortage(String),
    /// Anything else.
    Failure(String),
}

impl From<String> for Lack {
    fn from(why: String) -> Self {
        Self::Failure(why)
    }
}

impl Lack {
    fn of(error: &(dyn Error + 'static)) -> Self {
        match is_short(error) {
            true => Self::Shortage(chain(error)),
            false => Self::Failure(chain(error)),
        }
    }
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
    /// Fails with the reason for which there is no whole answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes the connection. The receiver may have the request.
    pub(super) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Answer, Lack> {
        if descriptors::are_scarce() {
            // Connections that are kept for the next request leave none for other hosts.
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let answer = async {
            let answer = self.inner.request(request).await.map_err(|error| Lack::of(&error))?;
            let (head, mut rest) = answer.into_parts();
            let (mut body, mut read) = (Vec::new(), 0);
            while let Some(frame) = rest.frame().await {
                let frame = frame.map_err(|error| Lack::of(&error))?;
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
        let late = |_| Err(Lack::Failure(format!("no whole answer within {limit:?}")));
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

/// Returns the text of an error, with its causes.
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

/// Shortage of this host that no error of the system's says.
#[derive(Debug)]
struct Shortage(&'static str);

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Shortage {}

impl From<Shortage> for io::Error {
    fn from(shortage: Shortage) -> Self {
        Self::other(shortage)
    }
}

/// Returns whether an error, or one of its causes, says that this host is short of something.
fn is_short(error: &(dyn Error + 'static)) -> bool {
    let is_own = error.is::<Shortage>()
        || error.downcast_ref::<io::Error>().is_some_and(|error| {
            // What an `io::Error` wraps is not its source.
            let within = error.get_ref().map(|within| within as &(dyn Error + 'static));
            descriptors::is_shortage(error) || within.is_some_and(is_short)
        });
    is_own || error.source().is_some_and(is_short)
}

/// Connects to a host by an address that the guard lets pass.
#[derive(Clone, Debug)]
struct Connector {
    guard: Arc<Guard>,
}

impl Connector {
    async fn connect(guard: Arc<Guard>, uri: Uri) -> io::Result<Stream> {
        let all = "all descriptors for callbacks are in use";
        let mut place = descriptors::for_callback().ok_or(Shortage(all))?;
        let host = uri.host().unwrap_or("");
        let port =
            uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        let addresses = match literal {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let (found, own) = resolve(host.to_owned(), port, place).await?;
                place = own;
                found
            }
        };
        let io = connect_any(&permitted(&guard, &addresses)?).await?;
        Ok(Stream { io, _place: place })
    }
}

/// Resolves a name, on a thread of its own: a refused one is an error, and one that hangs keeps no
/// other name waiting. It keeps `place` until it is done, and then gives it back.
async fn resolve(
    host: String,
    port: u16,
    place: OwnedSemaphorePermit,
) -> io::Result<(Vec<SocketAddr>, OwnedSemaphorePermit)> {
    let (found, answer) = oneshot::channel();
    let resolve = move || {
        let addresses = (&*host, port).to_socket_addrs().map(Iterator::collect);
        let addresses = match addresses {
            // The resolver does not say why it could not read its files, or ask.
            Err(_) if descriptors::are_used_up() => {
                Err(Shortage("no descriptor is left to resolve a name with").into())
            }
            addresses => addresses,
        };
        // Nobody may wait any more.
        let _ = found.send(addresses.map(|addresses| (addresses, place)));
    };
    let started = thread::Builder::new().name("resolver".to_owned()).spawn(resolve);
    started.map_err(|_| Shortage("no thread can be had to resolve a name on"))?;
    answer.await.unwrap_or_else(|_| Err(io::Error::other("the resolver panicked")))
}

/// Returns those of the addresses that may be called.
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
            Ok(Err(error)) if !descriptors::is_shortage(&error) => last = error,
            // All ports to it are in use; or this host has no address of its kind, which is no
            // shortage.
            Ok(Err(error)) if has_source(address) => return Err(error),
            Ok(Err(error)) => last = io::Error::new(error.kind(), error.to_string()),
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Returns whether this host has an address to call that one from, as far as it can tell.
fn has_source(address: SocketAddr) -> bool {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent. Where there is no socket for it, that is the shortage.
    match UdpSocket::bind((any, 0)) {
        Ok(socket) => socket.connect(address).is_ok(),
        Err(error) => descriptors::is_shortage(&error),
    }
}

/// A connection, and its place among those of callbacks.
#[derive(Debug)]
struct Stream {
    io: TokioIo<TcpStream>,
    _place: OwnedSemaphorePermit,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.io.inner().connected()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

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
