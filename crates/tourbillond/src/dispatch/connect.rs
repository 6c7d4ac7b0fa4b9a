//! Connections to receivers: to an address that was judged, and by TLS.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::ops::ControlFlow::{Break, Continue};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use rustls::CertificateError;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_rustls::TlsConnector;
use tourbillon::Timer;
use url::Url;

use super::proxy::{ProxyFault, tunnel};
use super::reach::{Missed, Reach};
use super::shortage::Shortage;
use crate::callback::{Guard, Refused};
use crate::config::{App, Proxies, Proxy, Trust};
use crate::descriptors;
use crate::model::Timing;
use crate::pem::NO_AUTHORITY;

/// Longest time to connect: a name's resolution, every address tried, and TLS.
const CONNECT: Duration = Duration::from_secs(10);

/// Error for a receiver whose certificate is that of an authority.
const AUTHORITY: &str = "the receiver has the certificate of an authority (CA:TRUE) where it needs \
    one of its own (CA:FALSE)";

/// Time of the steps of a connection, as far as it came, and what it has read.
#[derive(Debug, Default)]
pub(super) struct Steps {
    resolve: OnceLock<Duration>,
    connect: OnceLock<Duration>,
    tls: OnceLock<Duration>,
    /// Time of the connection.
    made: OnceLock<Instant>,
    /// True until there is a connection to the proxy, if one is needed.
    is_before_proxy: AtomicBool,
    /// Bytes that the receiver has sent.
    read: AtomicU64,
}

impl Steps {
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

    /// Notes whether a proxy is still to be reached.
    pub(super) fn set_before_proxy(&self, is: bool) {
        // ORDERING: Relaxed; no other memory is read by it.
        self.is_before_proxy.store(is, Ordering::Relaxed);
    }

    /// Returns how many bytes the receiver has sent so far.
    pub(super) fn read(&self) -> u64 {
        // ORDERING: Relaxed; the channel by which a request ends orders the reads before it.
        self.read.load(Ordering::Relaxed)
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

/// Connects to hosts by addresses that the guard lets pass.
#[derive(Debug)]
pub(super) struct Connector {
    guard: Guard,
    trust: Trust,
    proxies: Proxies,
    reach: Reach,
    timer: Timer,
}

impl Connector {
    pub(super) fn new(app: &App, timer: &Timer) -> Self {
        let (guard, trust, proxies) = (Guard::new(app), app.trust.clone(), app.proxies.clone());
        Self { guard, trust, proxies, reach: Reach::new(timer), timer: timer.clone() }
    }

    /// Connects, and notes in `steps` how long each step took that came to its end.
    ///
    /// # Errors
    ///
    /// A failure before the proxy is reached, a timeout included, is a [`ProxyFault`].
    pub(super) async fn connect(&self, url: &Url, steps: &Arc<Steps>) -> io::Result<Stream> {
        let late = |_| match self.proxies.of(url) {
            Some(proxy) if steps.are_before_proxy() => {
                Err(ProxyFault::error(proxy, io::Error::from(io::ErrorKind::TimedOut)))
            }
            _ => Err(io::ErrorKind::TimedOut.into()),
        };
        self.timer.timeout(CONNECT, self.reached(url, steps)).await.unwrap_or_else(late)
    }

    async fn reached(&self, url: &Url, steps: &Arc<Steps>) -> io::Result<Stream> {
        let is_tls = url.scheme() == "https";
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(80);
        let mut since = self.timer.now();
        let mut ends = |step: &OnceLock<Duration>| {
            let now = self.timer.now();
            // An earlier connection of the same attempt may have ended before its request.
            let _ = step.set(now.duration_since(since));
            since = now;
        };
        let mut place = descriptors::for_callback().ok_or(Shortage::DESCRIPTORS)?;
        let proxy = self.proxies.of(url);
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
        let tcp = match proxy {
            None => self.reach.connect(host, addresses).await?,
            Some(proxy) => {
                steps.set_before_proxy(true);
                let (near, own) = near(proxy, place).await?;
                place = own;
                let way = Way { reach: &self.reach, proxy, near: &near, steps };
                self.by_proxy(url, &way, (host, port), addresses).await?
            }
        };
        ends(&steps.connect);
        let socket: Box<dyn Socket> = if is_tls {
            let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
            let config = self.trust.config(url).ok_or(Shortage(NO_AUTHORITY))?;
            let tls = TlsConnector::from(config).connect(name, tcp).await.map_err(explained)?;
            ends(&steps.tls);
            Box::new(tls)
        } else {
            Box::new(tcp)
        };
        let _ = steps.made.set(since);
        Ok(Stream { socket, steps: steps.clone(), _place: place })
    }

    /// Connects by a proxy: by a tunnel to an address that was judged, unless the proxy is trusted.
    async fn by_proxy(
        &self,
        url: &Url,
        way: &Way<'_>,
        (host, port): (&str, u16),
        addresses: Vec<SocketAddr>,
    ) -> io::Result<TcpStream> {
        if self.proxies.forwards(url).is_some() {
            way.connect().await
        } else if self.proxies.are_trusted() {
            let target = format!("{}:{port}", url.host_str().unwrap_or_default());
            way.tunnel(target).await.map_err(|(Break(error) | Continue(error))| error)
        } else {
            let tunnel = |address: SocketAddr| way.tunnel(address.to_string());
            self.reach.first(host, addresses, tunnel).await
        }
    }
}

/// Returns the error in words where that of the library is a name of its own.
fn explained(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(why)))
            if why.to_string() == "CaUsedAsEndEntity" =>
        {
            io::Error::other(AUTHORITY)
        }
        _ => error,
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

/// Way to receivers through a proxy.
pub(super) struct Way<'a> {
    pub(super) reach: &'a Reach,
    pub(super) proxy: &'a Proxy,
    /// Addresses of the proxy.
    pub(super) near: &'a [SocketAddr],
    pub(super) steps: &'a Steps,
}

impl Way<'_> {
    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = self.reach.connect(&self.proxy.host, self.near.to_vec()).await;
        let stream = stream.map_err(|why| ProxyFault::error(self.proxy, why))?;
        self.steps.set_before_proxy(false);
        Ok(stream)
    }

    /// Connects to `target`, a host and a port. Without the proxy no other target is reached.
    pub(super) async fn tunnel(&self, target: String) -> Result<TcpStream, Missed> {
        let mut stream = self.connect().await.map_err(Break)?;
        tunnel(&mut stream, self.proxy, &target).await.map_err(Continue)?;
        Ok(stream)
    }
}

/// Bytes to a receiver, by TLS or without.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection, and its place among callbacks' connections.
pub(super) struct Stream {
    socket: Box<dyn Socket>,
    /// Steps that made it.
    steps: Arc<Steps>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let count = (buffer.filled().len() - before) as u64;
        // ORDERING: Relaxed; the channel by which a request ends orders it before `Steps::read`.
        self.steps.read.fetch_add(count, Ordering::Relaxed);
        polled
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
