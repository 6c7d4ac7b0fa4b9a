//! Connections to receivers: to an address that was judged, and by TLS.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use hyper::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_rustls::TlsConnector;
use tourbillon::{Timer, timeout};
use tower::Service;
use url::Url;

use super::proxy::{ProxyFault, tunnel};
use crate::callback::{Guard, Refused};
use crate::config::{App, Proxies, Proxy, Trust};
use crate::descriptors;
use crate::model::Timing;
use crate::pem::NO_AUTHORITY;

/// Longest time to connect: a name's resolution, every address tried, and TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest time for one address, so that another has its turn.
pub(super) const CONNECT_ONE: Duration = Duration::from_secs(3);

/// Error for a name without an address.
const NO_ADDRESS: &str = "the host has no address";

/// Shortage of this host that no error of the system's says.
#[derive(Debug)]
pub(super) struct Shortage(pub(super) &'static str);

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

tokio::task_local! {
    /// Steps of the attempt whose task this is. A client gives its connector a URL and nothing
    /// else.
    static STEPS: Arc<Steps>;
}

/// Time of the steps of a connection, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Steps {
    resolve: OnceLock<Duration>,
    connect: OnceLock<Duration>,
    tls: OnceLock<Duration>,
    /// Time of the connection.
    made: OnceLock<Instant>,
    /// True while a connection to a proxy is being made.
    is_before_proxy: AtomicBool,
}

impl Steps {
    /// Polls a request so that a new connection notes its steps here.
    pub(super) async fn note<F: Future>(self: &Arc<Self>, request: F) -> F::Output {
        STEPS.scope(self.clone(), request).await
    }

    /// Returns the time of the connection, if it was made.
    pub(super) fn made(&self) -> Option<Instant> {
        self.made.get().copied()
    }

    /// Returns whether it ends before there is a connection to the proxy: no receiver has a part in
    /// that time.
    pub(super) fn are_before_proxy(&self) -> bool {
        // ORDERING: Relaxed, it is a flag alone.
        self.is_before_proxy.load(Ordering::Relaxed)
    }

    /// Notes whether the connection to a proxy is being made.
    pub(super) fn set_before_proxy(&self, is: bool) {
        // ORDERING: Relaxed; no other memory is read by it.
        self.is_before_proxy.store(is, Ordering::Relaxed);
    }

    pub(super) fn timing(&self) -> Timing {
        let of = |step: &OnceLock<Duration>| step.get().copied().map(millis);
        Timing {
            resolve_ms: of(&self.resolve),
            connect_ms: of(&self.connect),
            tls_ms: of(&self.tls),
            first_byte_ms: None,
        }
    }
}

/// Whole milliseconds of a span.
pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Connects to a host by an address that the guard lets pass.
#[derive(Clone, Debug)]
pub(super) struct Connector(Arc<Rules>);

/// Rules of an app for its connections.
#[derive(Debug)]
struct Rules {
    guard: Guard,
    trust: Trust,
    proxies: Proxies,
    timer: Timer,
}

impl Connector {
    pub(super) fn new(app: &App, timer: &Timer) -> Self {
        let (guard, trust, proxies) = (Guard::new(app), app.trust.clone(), app.proxies.clone());
        Self(Arc::new(Rules { guard, trust, proxies, timer: timer.clone() }))
    }
}

impl Rules {
    /// The proxy of a URL.
    fn proxy(&self, uri: &Uri) -> Option<&Proxy> {
        self.proxies.of(&Url::parse(&uri.to_string()).ok()?)
    }

    /// Connects, and notes in `steps` how long each step took that came to its end.
    ///
    /// # Errors
    ///
    /// A failure before the proxy is reached, a timeout included, is a [`ProxyFault`].
    async fn connect(&self, uri: &Uri, steps: Arc<Steps>) -> io::Result<Stream> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let url = Url::parse(&uri.to_string()).map_err(invalid)?;
        let is_tls = url.scheme() == "https";
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(80);
        let mut since = self.timer.now();
        let mut ends = |step: &OnceLock<Duration>| {
            let now = self.timer.now();
            // Another connection of the same attempt may have been there before.
            let _ = step.set(now.duration_since(since));
            since = now;
        };
        let all = "all descriptors for callbacks are in use";
        let mut place = descriptors::for_callback().ok_or(Shortage(all))?;
        let proxy = self.proxies.of(&url);
        let is_blind = proxy.is_some() && self.proxies.are_trusted();
        let addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            // The proxy judges the addresses of the name.
            Err(_) if is_blind => Vec::new(),
            Err(_) => {
                let (found, own) = resolve(host.to_owned(), port, place).await?;
                place = own;
                ends(&steps.resolve);
                found
            }
        };
        let addresses = permitted(&self.guard, &addresses)?;
        let forwards = self.proxies.forwards(&url).is_some();
        let tcp = match proxy {
            None => connect_any(&addresses).await?,
            Some(proxy) => {
                steps.set_before_proxy(true);
                let (near, own) = near(proxy, place).await?;
                place = own;
                let targets = match is_blind {
                    true => vec![format!("{}:{port}", url.host_str().unwrap_or_default())],
                    // The address that was judged, so that the proxy connects to no other.
                    false => addresses.iter().map(ToString::to_string).collect(),
                };
                match forwards {
                    true => connect_proxy(proxy, &near, &steps).await?,
                    false => connect_through(proxy, &near, &targets, &steps).await?,
                }
            }
        };
        ends(&steps.connect);
        let socket: Box<dyn Socket> = if is_tls {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let config = self.trust.config(&url).ok_or(Shortage(NO_AUTHORITY))?;
            let tls = TlsConnector::from(config).connect(name, tcp).await?;
            ends(&steps.tls);
            Box::new(tls)
        } else {
            Box::new(tcp)
        };
        let _ = steps.made.set(since);
        Ok(Stream { io: TokioIo::new(socket), steps, forwards, _place: place })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    /// Gives up in the end, also when nobody waits for it: a client lets a connection that it no
    /// longer needs be made, for its pool.
    fn call(&mut self, uri: Uri) -> Self::Future {
        let rules = self.0.clone();
        let steps = STEPS.try_with(Arc::clone).unwrap_or_default();
        Box::pin(async move {
            let connected = timeout(CONNECT, rules.connect(&uri, steps.clone())).await;
            connected.unwrap_or_else(|_| match rules.proxy(&uri) {
                Some(proxy) if steps.are_before_proxy() => {
                    Err(ProxyFault::error(proxy, io::Error::from(io::ErrorKind::TimedOut)))
                }
                _ => Err(io::ErrorKind::TimedOut.into()),
            })
        })
    }
}

/// Resolves a name, on a separate thread: a refused name is an error, and a hanging one does not
/// hold up others. It keeps `place` until it is done, and then gives it back.
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

/// Returns the permitted addresses.
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
async fn connect_any(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, NO_ADDRESS);
    for &address in addresses {
        match timeout(CONNECT_ONE, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) if !descriptors::is_shortage(&error) => last = error,
            // All ports to it are in use; or this host has no address of its kind. The latter is no
            // shortage.
            Ok(Err(error)) if has_source(address) => return Err(error),
            Ok(Err(error)) => last = io::Error::new(error.kind(), error.to_string()),
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// The addresses of a proxy. An operator has named it, so no guard judges it.
async fn near(
    proxy: &Proxy,
    place: OwnedSemaphorePermit,
) -> io::Result<(Vec<SocketAddr>, OwnedSemaphorePermit)> {
    match proxy.host.parse::<IpAddr>() {
        Ok(address) => Ok((vec![SocketAddr::new(address, proxy.port)], place)),
        Err(_) => {
            let found = resolve(proxy.host.clone(), proxy.port, place).await;
            found.map_err(|why| ProxyFault::error(proxy, why))
        }
    }
}

async fn connect_proxy(proxy: &Proxy, near: &[SocketAddr], steps: &Steps) -> io::Result<TcpStream> {
    steps.set_before_proxy(true);
    let stream = connect_any(near).await.map_err(|why| ProxyFault::error(proxy, why));
    steps.set_before_proxy(false);
    stream
}

/// Connects through a proxy to the first of the targets that it reaches. Each but the last has so
/// long as one address has without a proxy.
pub(super) async fn connect_through(
    proxy: &Proxy,
    near: &[SocketAddr],
    targets: &[String],
    steps: &Steps,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, NO_ADDRESS);
    for (index, target) in targets.iter().enumerate() {
        let mut stream = connect_proxy(proxy, near, steps).await?;
        let limit = if index + 1 < targets.len() { CONNECT_ONE } else { CONNECT };
        match timeout(limit, tunnel(&mut stream, proxy, target)).await {
            Ok(Ok(())) => return Ok(stream),
            Ok(Err(error)) => last = error,
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

/// Bytes to a receiver, by TLS or without.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection, and its place among callbacks' connections.
pub(super) struct Stream {
    io: TokioIo<Box<dyn Socket>>,
    /// True if it leads to a proxy that forwards whole URLs.
    forwards: bool,
    /// Steps that made it.
    steps: Arc<Steps>,
    _place: OwnedSemaphorePermit,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.forwards).extra(self.steps.clone())
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

#[cfg(test)]
mod tests;
