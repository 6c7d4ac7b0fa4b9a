//! Sends one request, within limits, to an address that was judged.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, PROXY_AUTHORIZATION};
use hyper::{Method, Request, Response, Uri};
use tourbillon::Timer;
use tracing::debug;
use url::Url;

use super::connect::{Connector, Steps, millis};
use super::pool::{Connection, Pool, Unanswered};
use super::proxy::ProxyFault;
use super::reach::CONNECT_ONE;
use super::shortage::Shortage;
use crate::callback::{Answer, IDEMPOTENCY_KEY};
use crate::config::{App, Proxies};
use crate::descriptors;
use crate::model::Timing;

/// Most bytes of an answer's body that are read.
pub(super) const BODY_MAX: usize = 64 * 1024;

/// Most bytes of an answer's body that are kept.
///
/// A secret of a header has 8 KiB at most. If one begins within the shown part, it is here whole.
const BODY_KEPT: usize = 10 * 1024;

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
    connector: Arc<Connector>,
    pool: Arc<Pool>,
    proxies: Proxies,
    timer: Timer,
}

impl Client {
    pub(super) fn new(app: &App, timer: &Timer) -> Self {
        let (connector, pool) = (Arc::new(Connector::new(app, timer)), Pool::new(timer));
        Self { connector, pool, proxies: app.proxies.clone(), timer: timer.clone() }
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

    /// [Sends](Self::send) the request, and keeps so many bytes of the answer's body.
    pub(super) async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        limit: Duration,
        kept: usize,
    ) -> (Result<Answer, Lack>, Timing) {
        let mut timing = None;
        // Steps of the connection that is made for it.
        let (start, steps) = (self.timer.now(), Arc::<Steps>::default());
        let answer = async {
            let (url, request) = self.addressed(request)?;
            let (answer, connection) = self.answered(&url, request, &steps).await?;
            let own = Some(connection.steps()).filter(|used| Arc::ptr_eq(used, &steps));
            let since = own.and_then(|own| own.made()).unwrap_or(start);
            let first_byte = millis(self.timer.now().duration_since(since));
            let made = own.map(|own| own.timing()).unwrap_or_default();
            timing = Some(Timing { first_byte_ms: Some(first_byte), ..made });
            let (head, rest) = answer.into_parts();
            let (body, is_whole) = beginning(rest, kept).await?;
            if is_whole {
                self.pool.keep(origin(&url), connection);
            }
            Ok(Answer { status: head.status, headers: head.headers, body })
        };
        let answer = self.timer.timeout(limit, answer).await;
        // In less time than an address has, a proxy that works may not be reached either.
        let late = |_| match steps.are_before_proxy() && limit >= CONNECT_ONE {
            true => Err(Lack::Proxy(format!("no connection to the proxy within {limit:?}"))),
            false => Err(Lack::Failure(format!("no whole answer within {limit:?}"))),
        };
        (answer.unwrap_or_else(late), timing.unwrap_or_else(|| steps.timing()))
    }

    /// Returns the request as it is written on a connection: with a target for the other side, the
    /// receiver or a proxy, and with the headers of the connection.
    fn addressed(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Url, Request<Full<Bytes>>), Lack> {
        let uri = request.uri().clone();
        let url = Url::parse(&uri.to_string()).map_err(|error| error.to_string())?;
        let host = match (uri.host(), uri.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        let host = HeaderValue::try_from(host).map_err(|error| error.to_string())?;
        let has_meaning = [Method::POST, Method::PUT, Method::PATCH].contains(request.method());
        let is_empty = request.body().is_end_stream();
        let headers = request.headers_mut();
        headers.insert(HOST, host);
        if is_empty && has_meaning {
            // RFC 9110, 8.6. With a body, it is written with that.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        if descriptors::are_scarce() {
            // Connections that are kept for the next request leave none for other hosts.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let forwards = self.proxies.forwards(&url);
        if let Some(text) = forwards.and_then(|proxy| proxy.authorization.as_ref()) {
            let mut value = HeaderValue::from_str(text).expect("it is base64");
            value.set_sensitive(true);
            headers.insert(PROXY_AUTHORIZATION, value);
        }
        if forwards.is_none() {
            let path = uri.into_parts().path_and_query;
            *request.uri_mut() = path.map(Uri::from).unwrap_or_default();
        }
        Ok((url, request))
    }

    /// Sends the request on a kept connection, or else on a new one. Returns the answer with the
    /// connection.
    ///
    /// The receiver may close a connection at the moment of the send. Then the request is sent once
    /// more, on a new connection: if none of it was sent; or if the connection was a kept one, has
    /// read nothing since, and an `Idempotency-Key` tells the receiver that both are one (RFC 9110,
    /// 9.2.2).
    async fn answered(
        &self,
        url: &Url,
        request: Request<Full<Bytes>>,
        steps: &Arc<Steps>,
    ) -> Result<(Response<Incoming>, Connection), Lack> {
        let mut connection = match self.pool.take(&origin(url)) {
            Some(connection) => connection,
            None => self.connected(url, steps).await?,
        };
        let is_kept = !Arc::ptr_eq(connection.steps(), steps);
        let has_key = request.headers().contains_key(IDEMPOTENCY_KEY);
        let again = (is_kept && has_key).then(|| request.clone());
        let request = match connection.send(request).await {
            Ok(answer) => return Ok((answer, connection)),
            Err(Unanswered { unsent, why, is_silent }) => {
                let again = unsent.map(|unsent| *unsent).or(again.filter(|_| is_silent));
                let again = again.ok_or_else(|| Lack::of(&why))?;
                debug!(host = url.host_str(), error = chain(&why), "sent again");
                again
            }
        };
        let mut connection = self.connected(url, steps).await?;
        match connection.send(request).await {
            Ok(answer) => Ok((answer, connection)),
            Err(unanswered) => Err(Lack::of(&unanswered.why)),
        }
    }

    async fn connected(&self, url: &Url, steps: &Arc<Steps>) -> Result<Connection, Lack> {
        let stream = self.connector.connect(url, steps).await.map_err(|error| Lack::of(&error))?;
        Connection::open(stream, steps.clone()).await.map_err(|error| Lack::of(&error))
    }
}

/// Returns the place of a URL's connections.
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Reads a body, and returns the beginning of `most` bytes, and whether its end was reached.
async fn beginning(mut rest: Incoming, most: usize) -> Result<(Vec<u8>, bool), Lack> {
    let (mut body, mut read) = (Vec::new(), 0);
    while let Some(frame) = rest.frame().await {
        let frame = frame.map_err(|error| Lack::of(&error))?;
        let Ok(data) = frame.into_data() else { continue };
        let kept = data.len().min(most - body.len());
        body.extend_from_slice(&data[..kept]);
        read += data.len();
        if read > BODY_MAX {
            return Ok((body, false));
        }
    }
    Ok((body, true))
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
