//! Requests that are not meant for this service, or come from another site's page.
//!
//! A browser sends requests for every page that it shows, from within the network that it is in.
//! So a service that trusts its network, or this host, must not trust every request from there:
//!
//! - A page whose name resolves to this service's address (DNS rebinding) has the service's own
//!   origin to the browser. The request's host gives it away: so the host has to be loopback, the
//!   address that the request came to, or one of the configured
//!   [hosts](crate::config::Config::hosts). Its port is ignored: a tunnel or a container has
//!   another, and a page cannot make a browser name a host other than the request's.
//! - A page of another origin may send whatever a form can, without asking. The browser reports
//!   this, by `Origin` or `Sec-Fetch-Site`. Another port of the same host is another origin.
//! - A form cannot send JSON, and a script only after asking. So a body has to say that it is JSON,
//!   also where an older browser says nothing of a request's origin. On XTimer's routes it may say
//!   nothing, as XTimer's client does: a form always names a type, and a script that names none is
//!   known by its `Origin`.
//!
//! A client that is no browser sends neither of those headers.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Body as _;
use url::{Host, Url};

use crate::api::{Problem, is_json};
use crate::model::shown;
use crate::net::Destination;
use crate::service::Service;
use crate::xtimer::Failure;

/// The address that a client has connected to; an extension of each of its requests.
#[derive(Clone, Copy, Debug)]
pub struct Reached(pub IpAddr);

/// Answers a request, if it is meant for this service and comes from no foreign page.
pub(super) async fn admit(
    State(service): State<Arc<Service>>,
    request: Request,
    next: Next,
) -> Response {
    let Err(problem) = judge(&request, &service.config().hosts) else {
        return next.run(request).await;
    };
    tracing::debug!(status = problem.status, why = problem.detail, "a request is refused");
    refuse(is_xtimer(&request), problem)
}

/// Returns the answer of a problem, in the JSON of the routes that were asked.
pub(super) fn refuse(is_xtimer: bool, problem: Problem) -> Response {
    match is_xtimer {
        true => Failure::from(problem).into_response(),
        false => problem.into_response(),
    }
}

fn judge(request: &Request, hosts: &[Destination]) -> Result<(), Problem> {
    let headers = request.headers();
    let reached = request.extensions().get::<Reached>().map(|reached| reached.0.to_canonical());
    let host = only_host(headers)?;
    let target = request.uri().authority().map(|target| target.as_str());
    for named in [Some(host), target].into_iter().flatten() {
        if !read(named).is_some_and(|host| is_own(&host, reached, hosts)) {
            let why = format!(
                "`{}` is not a host of this service; to serve it, add it to `hosts`",
                shown(named)
            );
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, why));
        }
    }
    if !is_public(request) {
        comes_from_here(headers, host, hosts)?;
    }
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let has_type = headers.contains_key(header::CONTENT_TYPE);
    let needs_type = !request.body().is_end_stream() && !is_xtimer(request);
    if !is_read && (has_type || needs_type) {
        is_json(headers)?;
    }
    Ok(())
}

/// Returns whether it is for a route of XTimer's.
pub(super) fn is_xtimer(request: &Request) -> bool {
    request.uri().path().starts_with("/api/")
}

/// The request's only header `Host`.
fn only_host(headers: &HeaderMap) -> Result<&str, Problem> {
    let mut all = headers.get_all(header::HOST).iter();
    let wrong = |why: &str| Problem::new(StatusCode::BAD_REQUEST, why);
    match (all.next(), all.next()) {
        (Some(host), None) => host.to_str().map_err(|_| wrong("`Host` is not text")),
        (None, _) => Err(wrong("a request needs a header `Host`")),
        (Some(_), Some(_)) => Err(wrong("a request has one header `Host`, and not several")),
    }
}

/// A host, with a port or without, in the one spelling that is compared; `None` if it is none.
fn read(authority: &str) -> Option<Url> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"/\\?#@".contains(&byte);
    let is_plain = !authority.is_empty() && authority.bytes().all(is_plain);
    is_plain.then(|| Url::parse(&format!("http://{authority}")).ok()).flatten()
}

/// Returns whether a host is this service: loopback, the reached address, or in `hosts`.
fn is_own(url: &Url, reached: Option<IpAddr>, hosts: &[Destination]) -> bool {
    let Some(host) = url.host() else { return false };
    let address = match host {
        Host::Domain("localhost" | "localhost.") => return true,
        Host::Domain(_) => None,
        Host::Ipv4(address) => Some(IpAddr::V4(address)),
        Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
    };
    // An unspecified address leads to this host. A service may be configured to listen on it.
    let is_here = |address: IpAddr| {
        address.is_loopback() || address.is_unspecified() || Some(address) == reached
    };
    address.is_some_and(is_here)
        || hosts.iter().any(|own| own.has(&host, url.port_or_known_default()))
}

/// Returns whether any page may ask for it: the page's own files, and the description of the API.
fn is_public(request: &Request) -> bool {
    let path = request.uri().path();
    matches!(*request.method(), Method::GET | Method::HEAD)
        && (matches!(path, "/" | "/v1/openapi.json") || path.starts_with("/assets/"))
}

/// Fails if a page of another origin has sent the request to `host`.
fn comes_from_here(headers: &HeaderMap, host: &str, hosts: &[Destination]) -> Result<(), Problem> {
    let foreign = |from: &str| {
        let why = format!("a page of another site ({}) may not ask for this", shown(from));
        Err(Problem::new(StatusCode::FORBIDDEN, why))
    };
    for site in headers.get_all("sec-fetch-site") {
        // `none`: the user has asked, and no page.
        if !matches!(site.as_bytes(), b"same-origin" | b"none") {
            return foreign(&String::from_utf8_lossy(site.as_bytes()));
        }
    }
    for origin in headers.get_all(header::ORIGIN) {
        let text = String::from_utf8_lossy(origin.as_bytes());
        // `null` is that of a page without an origin, such as one in a sandbox.
        let is_own = Url::parse(&text).is_ok_and(|origin| is_own_origin(&origin, host, hosts));
        if !is_own {
            return foreign(&text);
        }
    }
    Ok(())
}

/// Returns whether pages of an origin are this service's: its host and port are the request's, or
/// are in `hosts`, whose port defaults to the scheme's.
fn is_own_origin(origin: &Url, host: &str, hosts: &[Destination]) -> bool {
    let (Some(name), port) = (origin.host(), origin.port_or_known_default()) else { return false };
    let is_same = read(host).is_some_and(|host| {
        let is_port = match host.port() {
            Some(own) => port == Some(own),
            None => origin.port().is_none(),
        };
        host.host() == origin.host() && is_port
    });
    let is_named = |own: &Destination| {
        own.has(&name, port) && (own.port().is_some() || origin.port().is_none())
    };
    is_same || hosts.iter().any(is_named)
}
