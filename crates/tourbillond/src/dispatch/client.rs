//! Sends one request, within limits, to an address that was judged.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, PROXY_AUTHORIZATION, RETRY_AFTER};
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use tourbillon::{Timer, timeout};
use url::Url;

use super::connect::{CONNECT_ONE, Connector, Shortage, Steps, millis};
use super::proxy::ProxyFault;
use crate::callback::Answer;
use crate::config::{App, Proxies};
use crate::descriptors;
use crate::model::Timing;

/// Most bytes of an answer's head that are read.
const HEAD_MAX: usize = 64 * 1024;

/// Most bytes of an answer's body that are read.
const BODY_MAX: usize = 64 * 1024;

/// Most bytes of an answer's body that are kept.
///
/// A secret of a header has 8 KiB at most. If one begins within the shown part, it is here whole.
const BODY_KEPT: usize = 10 * 1024;

/// Time that an idle connection is kept for the next request.
const IDLE: Duration = Duration::from_secs(30);

/// Reason for which there is no whole answer, for people to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// This host is short of descriptors, memory, ports or threads. The receiver has no part in it.
    Shortage(String),
    /// A proxy of this host does not work, or is not configured as it needs. The receiver has no
    /// part in it.
    Proxy(String),
    /// Anything else.
    Failure(String),
}

impl From<String> for Lack {
    fn from(why: String) -> Self {
        Self::Failure(why)
    }
}

impl Lack {
    /// Returns the reason.
    pub(super) fn into_text(self) -> String {
        let (Self::Shortage(why) | Self::Proxy(why) | Self::Failure(why)) = self;
        why
    }

    fn of(error: &(dyn Error + 'static)) -> Self {
        let why = chain(error);
        if is_short(error) {
            Self::Shortage(why)
        } else if has(error, &|error| error.is::<ProxyFault>()) {
            Self::Proxy(why)
        } else {
            Self::Failure(why)
        }
    }
}

/// A client with separate connections, kept for the next request.
///
/// Apps do not share a client: one may call hosts that another may not. A client keeps the app's
/// rules for its whole life, so that the address of each connection was judged by the rules of
/// every request on it. It follows no redirect.
#[derive(Clone)]
pub(super) struct Client {
    inner: legacy::Client<Connector, Full<Bytes>>,
    proxies: Proxies,
    timer: Timer,
}

impl Client {
    pub(super) fn new(app: &App, timer: &Timer) -> Self {
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(timer.clone())
            .timer(timer.clone())
            .http1_max_buf_size(HEAD_MAX)
            .build(Connector::new(app, timer));
        Self { inner, proxies: app.proxies.clone(), timer: timer.clone() }
    }

    /// Sends the request and reads the answer, whose body it keeps up to 64 KiB.
    ///
    /// # Errors
    ///
    /// Like [`send`](Self::send).
    pub(super) async fn send_whole(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<Answer, Lack> {
        self.exchange(request, limit, BODY_MAX).await.0
    }

    /// Sends the request and reads the answer, all within `limit`. Returns with it the time of the
    /// steps that came to their end.
    ///
    /// A body is read up to 64 KiB; if it is longer, its connection is closed.
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
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> (Result<Answer, Lack>, Timing) {
        self.exchange(request, limit, BODY_KEPT).await
    }

    async fn exchange(
        &self,
        mut request: Request<Full<Bytes>>,
        limit: Duration,
        kept: usize,
    ) -> (Result<Answer, Lack>, Timing) {
        if descriptors::are_scarce() {
            // Connections that are kept for the next request leave none for other hosts.
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let url = Url::parse(&request.uri().to_string()).ok();
        let forwards = url.as_ref().and_then(|url| self.proxies.forwards(url));
        if let Some(text) = forwards.and_then(|proxy| proxy.authorization.as_ref()) {
            let mut value = HeaderValue::from_str(text).expect("it is base64");
            value.set_sensitive(true);
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let mut timing = None;
        // Steps of the connection that is made for it.
        let (start, steps) = (self.timer.now(), Arc::<Steps>::default());
        let answer = async {
            let answer = steps.note(self.inner.request(request)).await;
            let (head, rest) = answer.map_err(|error| Lack::of(&error))?.into_parts();
            // The request may have got a connection other than the one made for it.
            let used = head.extensions.get::<Arc<Steps>>();
            let own = used.filter(|used| Arc::ptr_eq(used, &steps));
            let since = own.and_then(|own| own.made()).unwrap_or(start);
            let first_byte = millis(self.timer.now().duration_since(since));
            let made = own.map(|own| own.timing()).unwrap_or_default();
            timing = Some(Timing { first_byte_ms: Some(first_byte), ..made });
            let (status, retry_after) = (head.status, retry_after(&head.headers));
            let body = beginning(rest, kept).await?;
            Ok(Answer { status, retry_after, headers: head.headers, body })
        };
        let answer = timeout(limit, answer).await;
        // In less time than an address has, a proxy that works may not be reached either.
        let late = |_| match steps.are_before_proxy() && limit >= CONNECT_ONE {
            true => Err(Lack::Proxy(format!("no connection to the proxy within {limit:?}"))),
            false => Err(Lack::Failure(format!("no whole answer within {limit:?}"))),
        };
        (answer.unwrap_or_else(late), timing.unwrap_or_else(|| steps.timing()))
    }
}

/// Reads a body, and returns the beginning of `most` bytes.
async fn beginning(mut rest: Incoming, most: usize) -> Result<Vec<u8>, Lack> {
    let (mut body, mut read) = (Vec::new(), 0);
    while let Some(frame) = rest.frame().await {
        let frame = frame.map_err(|error| Lack::of(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let kept = data.len().min(most - body.len());
        body.extend_from_slice(&data[..kept]);
        read += data.len();
        if read > BODY_MAX {
            break;
        }
    }
    Ok(body)
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

/// Returns whether an error, or one among its causes, reports a shortage on this host.
fn is_short(error: &(dyn Error + 'static)) -> bool {
    has(error, &|error| {
        error.is::<Shortage>()
            || error.downcast_ref::<io::Error>().is_some_and(descriptors::is_shortage)
    })
}

/// Returns whether `is` holds for an error, or for any cause.
fn has(error: &(dyn Error + 'static), is: &dyn Fn(&(dyn Error + 'static)) -> bool) -> bool {
    // The error inside an `io::Error` is not its source.
    let within = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    let within = within.map(|within| within as &(dyn Error + 'static));
    is(error)
        || within.is_some_and(|within| has(within, is))
        || error.source().is_some_and(|source| has(source, is))
}

#[cfg(test)]
mod tests;
