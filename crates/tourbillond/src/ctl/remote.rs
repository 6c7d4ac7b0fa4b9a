//! Requests, and errors in their answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use url::Url;

use super::Failure;
use super::show::visible;
use crate::pem::{self, NO_AUTHORITY};

/// Longest time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Most bytes of an answer.
const ANSWER_MAX: usize = 64 << 20;

/// Items that one request asks for.
const PAGE: usize = 1_000;

/// The service.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: Url,
    token: Option<String>,
}

impl Remote {
    /// Makes a client. It trusts the authorities of the system, and of the file `ca`.
    pub(super) fn new(url: &str, token: Option<&str>, ca: Option<&Path>) -> Result<Self, Failure> {
        let base = Url::parse(url).map_err(|error| Failure::Usage(format!("`{url}`: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(Failure::Usage(format!("`{url}` is neither http:// nor https://")));
        }
        let config = trusting(base.scheme() == "https", ca)?;
        let builder = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = builder.https_or_http().enable_http1().build();
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { client, base, token: token.map(str::to_owned) })
    }

    /// The address of a resource. Segments may have any characters.
    pub(super) fn url<'a>(
        &self,
        path: impl IntoIterator<Item = &'a str>,
        query: &[(&str, Option<&str>)],
    ) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        url
    }

    pub(super) async fn get(&self, url: Url) -> Result<Value, Failure> {
        self.send("GET", url, None).await
    }

    /// Returns a resource; `None` if there is none.
    pub(super) async fn find(&self, url: Url) -> Result<Option<Value>, Failure> {
        match self.get(url).await {
            Err(Failure::Answered(404, _)) => Ok(None),
            found => found.map(Some),
        }
    }

    /// Sends a request. The answer of a success is its body; that of a refusal, the problem.
    pub(super) async fn send(
        &self,
        method: &str,
        url: Url,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        self.send_for(method, url, body, None).await
    }

    /// Sends a request that is refused unless the resource has this version.
    pub(super) async fn send_for(
        &self,
        method: &str,
        url: Url,
        body: Option<&Value>,
        version: Option<u64>,
    ) -> Result<Value, Failure> {
        let mut request = Request::builder().method(method).uri(url.as_str());
        if let Some(version) = version {
            request = request.header(IF_MATCH, format!("\"{version}\""));
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                serde_json::to_vec(body)?
            }
            None => Vec::new(),
        };
        let request = request.body(Full::from(body))?;
        let exchange = async {
            let unreached = |error: &dyn std::error::Error| {
                Failure::Refused(format!("{} was not reached: {}", self.base, causes(error)))
            };
            let answer = self.client.request(request).await.map_err(|error| unreached(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
            let body = body.map_err(|error| unreached(&*error))?.to_bytes();
            if status.is_success() && body.is_empty() {
                return Ok(json!({}));
            }
            let document = serde_json::from_slice(&body);
            match document {
                Ok(value) if status.is_success() => Ok(value),
                Ok(problem) => {
                    let why = refusal(status.as_u16(), &problem);
                    Err(Failure::Answered(status.as_u16(), why))
                }
                Err(_) => {
                    let text = visible(&String::from_utf8_lossy(&body));
                    Err(Failure::Answered(status.as_u16(), format!("{status}: {text}")))
                }
            }
        };
        tourbillon::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| {
            Err(Failure::Refused(format!("{} gave no answer in {PATIENCE:?}", self.base)))
        })
    }

    /// The first `limit` items of a list.
    pub(super) async fn list(
        &self,
        path: &[&str],
        query: &[(&str, Option<&str>)],
        limit: usize,
    ) -> Result<Value, Failure> {
        let mut items = Vec::new();
        let mut cursor: Option<String> = None;
        while items.len() < limit {
            let size = (limit - items.len()).min(PAGE).to_string();
            let page = [("limit", Some(&*size)), ("cursor", cursor.as_deref())];
            let query: Vec<_> = query.iter().copied().chain(page).collect();
            let mut answer = self.get(self.url(path.iter().copied(), &query)).await?;
            match answer["items"].take() {
                Value::Array(more) => items.extend(more),
                _ => return Err(Failure::Refused("the answer is not a list".to_owned())),
            }
            cursor = answer["next"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok(items.into())
    }
}

/// The configuration of a client that trusts the authorities of a file, too. The system's are not
/// read for a client that needs none.
fn trusting(is_tls: bool, file: Option<&Path>) -> Result<ClientConfig, Failure> {
    let mut roots = if is_tls { pem::system() } else { RootCertStore::empty() };
    if let Some(file) = file {
        pem::add_authorities(&mut roots, file).map_err(Failure::Usage)?;
    }
    if is_tls && roots.is_empty() {
        return Err(Failure::Usage(format!("{NO_AUTHORITY}, or in `--ca`")));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Returns an error with its causes.
fn causes(error: &dyn std::error::Error) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// A problem document of RFC 9457 as text, a line for each field that is wrong.
pub(super) fn refusal(status: u16, problem: &Value) -> String {
    let title = problem["title"].as_str().unwrap_or("refused");
    let mut text = format!("{status} {title}");
    if let Some(detail) = problem["detail"].as_str().filter(|detail| *detail != title) {
        text += &format!(": {detail}");
    }
    for error in problem["errors"].as_array().into_iter().flatten() {
        let [field, detail] = ["field", "detail"].map(|name| error[name].as_str().unwrap_or(""));
        text += &format!("\n  {field}: {detail}");
    }
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}
