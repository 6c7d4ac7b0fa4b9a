//! Tunnels through a proxy, by `CONNECT`.

use std::error::Error;
use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::config::Proxy;

/// Most bytes of the head of an answer to `CONNECT`.
const HEAD_MAX: usize = 8 * 1024;

/// Fault of a proxy, or of how it is configured. The receiver has no part in it.
#[derive(Debug, thiserror::Error)]
#[error("the proxy {proxy}: {source}")]
pub(super) struct ProxyFault {
    proxy: String,
    source: io::Error,
}

impl ProxyFault {
    /// Returns the error that a proxy is at fault.
    pub(super) fn error(proxy: &Proxy, why: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
        io::Error::other(Self { proxy: proxy.to_string(), source: io::Error::other(why) })
    }

    /// The proxy has answered with 407.
    pub(super) fn refused(proxy: &Proxy) -> io::Error {
        Self::error(proxy, "answered 407: it needs another user or password")
    }
}

/// Asks the proxy at the other end of `stream` to connect to `target`, a host and a port.
///
/// # Errors
///
/// A [`ProxyFault`] if the proxy does not answer in HTTP, or refuses the client. If it cannot or
/// may not reach the target, that is an error like any other of a connection; so is an end of the
/// connection without an answer, by which some proxies refuse a target.
pub(super) async fn tunnel(stream: &mut TcpStream, proxy: &Proxy, target: &str) -> io::Result<()> {
    let agent = concat!("tourbillond/", env!("CARGO_PKG_VERSION"));
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: {agent}");
    if let Some(authorization) = &proxy.authorization {
        request += &format!("\r\nProxy-Authorization: {authorization}");
    }
    request += "\r\n\r\n";
    let written = stream.write_all(request.as_bytes()).await;
    written.map_err(|why| ProxyFault::error(proxy, why))?;
    let mut head = Vec::new();
    let end = loop {
        if let Some(end) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if head.len() >= HEAD_MAX {
            let why = format!("the answer to CONNECT is longer than {HEAD_MAX} bytes");
            return Err(ProxyFault::error(proxy, why));
        }
        if stream.read_buf(&mut head).await? == 0 {
            return Err(io::Error::other(format!(
                "the proxy {proxy} hung up before its answer to CONNECT {target} was whole"
            )));
        }
    };
    match status(&head) {
        Some(200..=299) if head.len() == end => Ok(()),
        // Neither TLS nor HTTP begins with the other side. It may be the receiver that does.
        Some(200..=299) => Err(io::Error::other(format!(
            "the proxy {proxy} sent more than an answer to CONNECT {target}"
        ))),
        Some(407) => Err(ProxyFault::refused(proxy)),
        Some(status) => Err(io::Error::other(format!(
            "the proxy {proxy} answered {status} to CONNECT {target}"
        ))),
        None => Err(ProxyFault::error(proxy, "answered CONNECT with something else than HTTP")),
    }
}

/// The status of an answer; `None` if it is none.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next().filter(|status| status.len() == 3)?.parse().ok()
}

#[cfg(test)]
mod tests;
