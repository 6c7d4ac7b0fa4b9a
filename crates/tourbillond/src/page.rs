//! The operator's page, embedded: `page/` as it is, without a build step.
//!
//! Like any other client, the page asks the API for everything, and no other host. Its policy
//! ([`POLICY`]) lets it run no script but its own, and make no markup from texts.

use std::io::Write as _;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use sha2::{Digest, Sha256};

/// The Content-Security-Policy of all that is served here, one directive a line.
const POLICY: &str = include_str!("../page/policy.txt");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
#[derive(Debug)]
struct Asset {
    name: &'static str,
    content_type: &'static str,
    body: &'static str,
    /// The body, compressed.
    gzip: Bytes,
    /// Tag of the body, quoted as in the header. A weak one: the compressed body has it too.
    etag: String,
}

macro_rules! assets {
    ($($name:literal: $content_type:expr,)*) => {
        vec![$(Asset::new($name, $content_type, include_str!(concat!("../page/", $name))),)*]
    };
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    assets! {
        "index.html": HTML,
        "style.css": CSS,
        "icon.svg": SVG,
        "app.js": SCRIPT,
        "api.js": SCRIPT,
        "bulk.js": SCRIPT,
        "chart.js": SCRIPT,
        "cron.js": SCRIPT,
        "dialogs.js": SCRIPT,
        "dom.js": SCRIPT,
        "edit.js": SCRIPT,
        "form.js": SCRIPT,
        "history.js": SCRIPT,
        "now.js": SCRIPT,
        "preview.js": SCRIPT,
        "runs.js": SCRIPT,
        "schedule.js": SCRIPT,
        "schedules.js": SCRIPT,
        "time.js": SCRIPT,
        "words.js": SCRIPT,
    }
});

impl Asset {
    fn new(name: &'static str, content_type: &'static str, body: &'static str) -> Self {
        let etag = format!("W/\"{}\"", hex::encode(&Sha256::digest(body)[..16]));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(body.as_bytes()).expect("memory takes it");
        let gzip = gzip.finish().expect("memory takes it").into();
        Self { name, content_type, body, gzip, etag }
    }

    fn find(name: &str) -> Option<&'static Self> {
        ASSETS.iter().find(|asset| asset.name == name)
    }

    /// The file, or that it has not changed. Browsers keep it, and ask each time: it is small, and
    /// after an upgrade no old script meets a new API.
    fn answer(&self, headers: &HeaderMap) -> Response {
        static POLICY_LINE: LazyLock<String> =
            LazyLock::new(|| POLICY.lines().collect::<Vec<_>>().join(" "));
        let common = [
            (ETAG, self.etag.as_str()),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY_LINE.as_str()),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (VARY, "accept-encoding"),
            (REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
            (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        ];
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let is_known = known
            .flat_map(|value| value.split(','))
            .map(|tag| tag.trim().trim_start_matches("W/"))
            .any(|tag| tag == self.etag.trim_start_matches("W/") || tag == "*");
        if is_known {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        let content_type = (CONTENT_TYPE, self.content_type);
        if takes_gzip(headers) {
            let headers = [content_type, (CONTENT_ENCODING, "gzip")];
            return (common, headers, self.gzip.clone()).into_response();
        }
        (common, [content_type], self.body).into_response()
    }
}

/// Returns whether a client takes compressed bodies.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let taken = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    taken.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().trim_start_matches("q=");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse() != Ok(0.0)
    })
}

/// The routes of the page: `/` and `/assets/{name}`. They need no token.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let serve = |name: &str, headers: &HeaderMap| match Asset::find(name) {
        Some(asset) => asset.answer(headers),
        None => StatusCode::NOT_FOUND.into_response(),
    };
    let index = async move |headers: HeaderMap| serve("index.html", &headers);
    let asset = async move |Path(name): Path<String>, headers: HeaderMap| serve(&name, &headers);
    Router::new().route("/", get(index)).route("/assets/{name}", get(asset))
}

#[cfg(test)]
mod tests;
