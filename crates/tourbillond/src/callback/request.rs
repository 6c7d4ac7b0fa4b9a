//! The request of one attempt: headers, a body from a template, a signature.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use sha2::Sha256;
use tourbillon_durable::{Time, TimerId};
use url::Url;

use super::completion::{COMPLETION_PATH, COMPLETION_TOKEN, Ticket};
use super::exchange::IDEMPOTENCY_KEY;
use super::guard::Guard;
use crate::config::{App, HeaderSecret, Secret};
use crate::model::{self, Callback, Header, MASK, XTimer};

/// Least `complete_within`.
const COMPLETE_MIN: Duration = Duration::from_secs(1);

/// The longest such time, and the longest that a receiver may have with all extensions.
pub(crate) const COMPLETE_MAX: Duration = Duration::from_secs(30 * 86_400);

/// The longest that an attempt may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// Most bytes of a URL, and of a header's value.
const TEXT_MAX: usize = 8 * 1024;

/// Most headers.
const HEADERS_MAX: usize = 64;

/// Most bytes of a body before its names are replaced.
const BODY_MAX: usize = 64 * 1024;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that belong to the connection, or that the service sets.
const REFUSED: [&str; 17] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "traceparent",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
];

/// Prefix of the service's own headers.
const OURS: &str = "tourbillon-";

/// Names that a callback's template may have.
const NAMES: [&str; 5] = ["app", "attempt", "key", "schedule", "scheduled_for"];

/// Most statuses that a callback lists.
const STATUSES_MAX: usize = 50;

/// Statuses that can be listed.
const STATUSES: RangeInclusive<u16> = 200..=599;

/// Fault of a definition: the field, and why.
pub type Fault = (String, String);

/// Checks whether an app can call this.
///
/// # Errors
///
/// Every field that is wrong, with the reason.
pub fn check(app: &App, callback: &Callback) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    let mut fault = |field: &str, why: String| faults.push((format!("callback.{field}"), why));
    if !METHODS.contains(&callback.method.as_str()) {
        fault("method", format!("must be one of {}", METHODS.join(", ")));
    }
    let url = target(&callback.url);
    let judged = url.as_ref().map_err(Clone::clone);
    if let Err(why) = judged.and_then(|url| Guard::new(app).judge_url(url)) {
        fault("url", why);
    }
    if callback.headers.len() > HEADERS_MAX {
        fault("headers", format!("are more than {HEADERS_MAX}"));
    }
    let mut names = BTreeSet::new();
    for (name, value) in &callback.headers {
        let field = format!("headers.{name}");
        match check_header(app, url.as_ref().ok(), name, value) {
            Ok(name) if names.insert(name.as_str().to_owned()) => {}
            Ok(_) => fault(&field, "is there twice, in large and small letters".into()),
            Err(why) => fault(&field, why),
        }
    }
    if callback.body.len() > BODY_MAX {
        fault("body", format!("is longer than {BODY_MAX} bytes"));
    }
    if let Err(why) = render(&callback.body, &NAMES, |_| String::new()) {
        fault("body", why);
    }
    if let Err(why) = limit(callback) {
        fault("timeout", why);
    }
    match complete_within(callback) {
        Ok(Some(_)) if app.secrets.is_empty() => {
            let why = "needs a secret, by which the receiver completes the run; the app has no \
                       `secrets`";
            fault("complete_within", why.to_owned());
        }
        Ok(_) => {}
        Err(why) => fault("complete_within", why),
    }
    if callback.success.len() > STATUSES_MAX {
        fault("success", format!("has more than {STATUSES_MAX} statuses"));
    }
    if let Some(wrong) = callback.success.iter().find(|status| !STATUSES.contains(status)) {
        let (least, most) = (STATUSES.start(), STATUSES.end());
        fault("success", format!("has {wrong}, which is not within {least} to {most}"));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Returns how long an attempt may take.
pub(crate) fn limit(callback: &Callback) -> Result<Duration, String> {
    let span = model::span(callback.timeout.as_deref().unwrap_or(model::TIMEOUT))?;
    if span.is_zero() || span > TIMEOUT_MAX {
        return Err(format!("is not between 0 and {} s", TIMEOUT_MAX.as_secs()));
    }
    Ok(span)
}

/// Returns how long a receiver that answered 202 has to complete an attempt by a call; `None` if
/// that answer decides.
pub(crate) fn complete_within(callback: &Callback) -> Result<Option<Duration>, String> {
    let Some(text) = &callback.complete_within else { return Ok(None) };
    let span = model::span(text)?;
    match (COMPLETE_MIN..=COMPLETE_MAX).contains(&span) {
        true => Ok(Some(span)),
        false => Err("is not between `1s` and 30 days".to_owned()),
    }
}

/// Returns the target of a URL, in the one spelling that is judged and sent.
pub(crate) fn target(url: &str) -> Result<Url, String> {
    let mut url = match Url::parse(url) {
        Ok(url) if url.as_str().len() <= TEXT_MAX => url,
        Ok(_) => return Err(format!("is longer than {TEXT_MAX} bytes")),
        Err(error) => return Err(format!("is no URL: {error}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err("begins with neither http:// nor https://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("has a user or a password: put them into a header".into());
    }
    url.set_fragment(None);
    url.as_str().parse::<Uri>().map_err(|error| format!("cannot be sent: {error}"))?;
    Ok(url)
}

fn header_name(name: &str) -> Result<HeaderName, String> {
    let name: HeaderName = name.parse().map_err(|_| "has a name that no header can have")?;
    if REFUSED.contains(&name.as_str()) || name.as_str().starts_with(OURS) {
        return Err("is set by the service, or belongs to the connection".into());
    }
    Ok(name)
}

/// Checks a header of a callback to `url`, if that is valid, and returns its name as it is sent.
fn check_header(
    app: &App,
    url: Option<&Url>,
    name: &str,
    value: &Header,
) -> Result<HeaderName, String> {
    let name = header_name(name)?;
    match (value, url) {
        // The mask replaces an existing, checked value.
        (Header::Value(value), _) if value == MASK => {}
        (Header::Value(value), _) => drop(header_value(value)?),
        // A token is fetched when a request is to be sent.
        (Header::Secret { secret }, Some(url)) => _ = header_secret(app, url, secret)?,
        (_, None) => {}
    }
    Ok(name)
}

/// The secret of an app with this name, if it is for the host of `url`.
fn header_secret<'a>(app: &'a App, url: &Url, name: &str) -> Result<&'a HeaderSecret, String> {
    let known = app.header_secrets.get(name);
    let secret = known.ok_or("names a secret that the app does not have")?;
    let is_proxied = app.proxies.of(url).is_some();
    secret.judge(url, is_proxied).map_err(|why| format!("names a secret that {why}"))?;
    Ok(secret)
}

/// The value of a header: that of a secret only if the app has it, for the host of `url`.
fn header_text<'a>(app: &'a App, url: &Url, value: &'a Header) -> Result<&'a str, String> {
    match value {
        Header::Value(value) => Ok(value),
        Header::Secret { secret } => {
            let value = header_secret(app, url, secret)?.value.as_ref();
            let Secret(value) = value.ok_or("names a secret that has no token")?;
            Ok(value)
        }
    }
}

fn header_value(value: &str) -> Result<HeaderValue, String> {
    if value.len() > TEXT_MAX {
        return Err(format!("is longer than {TEXT_MAX} bytes"));
    }
    match HeaderValue::from_str(value) {
        Ok(header) if value.is_ascii() => Ok(header),
        _ => Err("has a line break, or another sign that is not visible ASCII".into()),
    }
}

/// The template with each `{{name}}` of `names` replaced; `{{{{` stands for `{{`.
pub(super) fn render(
    template: &str,
    names: &[&str],
    value: impl Fn(&str) -> String,
) -> Result<String, String> {
    let mut text = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        if let Some(after) = after.strip_prefix("{{") {
            text.push_str("{{");
            rest = after;
            continue;
        }
        let Some((name, after)) = after.split_once("}}") else {
            let error = "has {{ without }}; write {{{{ where {{ is meant";
            return Err(error.into());
        };
        let name = name.trim();
        if !names.contains(&name) {
            let known = names.join(", ");
            let error =
                format!("names `{name}`; it must be one of {known}; {{{{{{{{ stands for {{{{");
            return Err(error);
        }
        text.push_str(&value(name));
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Attempt that a request is for.
#[derive(Clone, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) app: &'a str,
    /// The key of the schedule or one-shot.
    pub(crate) schedule: &'a str,
    /// Identity of the occurrence, the same for each attempt.
    pub(crate) key: String,
    pub(crate) scheduled_for: Time,
    /// Number of the attempt, from 1.
    pub(crate) number: u32,
    /// The run, which its receiver may complete, and when its definition was made; `None` for a
    /// test.
    pub(crate) run: Option<(TimerId, Time)>,
    pub(crate) trace: Option<Trace>,
}

/// The request of an attempt. It is signed with each of the app's secrets, at `now`. By `xtimer`, a
/// header may have several lines, and none is added for the body.
///
/// # Errors
///
/// Fails if the callback is wrong, though it was checked: another version may have checked it.
pub(crate) fn build(
    callback: &Callback,
    xtimer: Option<&XTimer>,
    attempt: &Attempt<'_>,
    app: &App,
    now: Timestamp,
) -> Result<Request<Full<Bytes>>, String> {
    let body = render(&callback.body, &NAMES, |name| match name {
        "app" => attempt.app.to_owned(),
        "attempt" => attempt.number.to_string(),
        "key" => attempt.key.clone(),
        "schedule" => attempt.schedule.to_owned(),
        _ => model::rfc3339(attempt.scheduled_for),
    });
    let body = body.map_err(|error| format!("the body {error}"))?;
    let url = target(&callback.url).map_err(|why| format!("the URL {why}"))?;
    // The configuration may have changed since the definition was checked.
    Guard::new(app).judge_url(&url).map_err(|why| format!("the URL {why}"))?;
    let mut headers = HeaderMap::new();
    let agent = concat!("tourbillond/", env!("CARGO_PKG_VERSION"));
    headers.insert(USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in &callback.headers {
        let wrong = |why: String| format!("header {name} {why}");
        let header = header_name(name).map_err(wrong)?;
        let text = header_text(app, &url, value).map_err(wrong)?;
        let lines = xtimer.map_or_else(|| vec![text], |xtimer| xtimer.lines(name, text));
        headers.remove(&header);
        for line in lines {
            headers.append(&header, header_value(line).map_err(wrong)?);
        }
    }
    if xtimer.is_none() && !body.is_empty() && !headers.contains_key(CONTENT_TYPE) {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type(&body)));
    }
    for (name, value) in own_headers(callback, attempt, app, now, body.as_bytes())? {
        let value = HeaderValue::try_from(value);
        headers.insert(name, value.map_err(|_| format!("header {name} cannot be sent"))?);
    }
    let method = Method::from_bytes(callback.method.as_bytes());
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = method.map_err(|_| "invalid method")?;
    *request.uri_mut() = url.as_str().parse().map_err(|_| "the URL cannot be sent")?;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Returns the headers that the service sets: the attempt's, its completion's, and the signatures.
fn own_headers(
    callback: &Callback,
    attempt: &Attempt<'_>,
    app: &App,
    now: Timestamp,
    body: &[u8],
) -> Result<Vec<(&'static str, String)>, String> {
    let mut headers = vec![
        (IDEMPOTENCY_KEY, attempt.key.clone()),
        ("tourbillon-scheduled-for", model::rfc3339(attempt.scheduled_for)),
        ("tourbillon-attempt", attempt.number.to_string()),
    ];
    if let (Some((run, made)), Some(_)) = (attempt.run, &callback.complete_within) {
        let secret = app.secrets.first().ok_or("the app has no secret for `complete_within`")?;
        let of = Ticket { app: attempt.app, run, made, attempt: attempt.number };
        headers.extend([(COMPLETION_PATH, of.path()), (COMPLETION_TOKEN, of.token(secret))]);
    }
    headers.extend(attempt.trace.as_ref().map(|trace| ("traceparent", trace.child())));
    if !app.secrets.is_empty() {
        headers.extend([
            ("tourbillon-signature", signature(&app.secrets, now, body)),
            ("webhook-id", attempt.key.clone()),
            ("webhook-timestamp", now.as_second().to_string()),
            ("webhook-signature", standard_signature(&app.secrets, &attempt.key, now, body)?),
        ]);
    }
    Ok(headers)
}

/// Returns the `Content-Type` of a body whose callback gives none.
fn content_type(body: &str) -> &'static str {
    match serde_json::from_str::<IgnoredAny>(body) {
        Ok(_) => "application/json",
        Err(_) => "text/plain; charset=utf-8",
    }
}

/// `t=SECONDS,v1=HEX`, with a further `v1` for each further secret. The signed text is the time, a
/// dot, and the body.
fn signature(secrets: &[Secret], now: Timestamp, body: &[u8]) -> String {
    let seconds = now.as_second().to_string();
    let mut text = format!("t={seconds}");
    for secret in secrets {
        let mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes());
        let mac = mac.expect("a secret of any length is a key");
        let mac = mac.chain_update(&seconds).chain_update(".").chain_update(body);
        text += ",v1=";
        text += &hex::encode(mac.finalize().into_bytes());
    }
    text
}

/// Returns `v1,BASE64`, with a further one after a space for each further secret, by Standard
/// Webhooks. The text that is signed is the id, a dot, the time, a dot, and the body.
fn standard_signature(
    secrets: &[Secret],
    id: &str,
    now: Timestamp,
    body: &[u8],
) -> Result<String, String> {
    let head = format!("{id}.{}.", now.as_second());
    let sign = |secret: &Secret| {
        let mac = Hmac::<Sha256>::new_from_slice(&secret.standard_key()?);
        let mac = mac.expect("a secret of any length is a key");
        let mac = mac.chain_update(&head).chain_update(body).finalize();
        Ok(format!("v1,{}", BASE64_STANDARD.encode(mac.into_bytes())))
    };
    Ok(secrets.iter().map(sign).collect::<Result<Vec<_>, String>>()?.join(" "))
}

/// The context that a client gave with its request, by W3C Trace Context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// 32 hexadecimal digits.
    id: String,
    /// Two of them.
    flags: String,
}

impl Trace {
    /// Reads a header `traceparent`; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, id, span) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
        };
        let is_some = |text: &str| text.bytes().any(|byte| byte != b'0');
        let is_known = is_hex(version, 2) && version != "ff";
        let is_whole = version != "00" || parts.next().is_none();
        let is_trace = is_hex(id, 32) && is_hex(span, 16) && is_hex(flags, 2);
        (is_known && is_whole && is_trace && is_some(id) && is_some(span))
            .then(|| Self { id: id.to_owned(), flags: flags.to_owned() })
    }

    /// The trace's identity.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A header `traceparent` for a new span of the trace.
    fn child(&self) -> String {
        // Zero would be no span.
        let span = super::random().max(1);
        format!("00-{}-{span:016x}-{}", self.id, self.flags)
    }
}

#[cfg(test)]
mod tests;
