//! Configuration of tokens by the client credentials of OAuth 2.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use url::{Url, form_urlencoded};

use super::Secret;
use super::app::is_local;

/// Client credentials of OAuth 2 to fetch a token.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// URL of the token endpoint.
    #[serde(deserialize_with = "url")]
    pub(crate) token_url: Url,
    /// Identity of the client.
    client_id: String,
    /// Secret of the client.
    client_secret: Secret,
    /// Scopes of the token, with spaces between them.
    #[serde(default)]
    scope: Option<String>,
    /// True if identity and secret are sent in the body, not as `Authorization`.
    #[serde(default)]
    in_body: bool,
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Url, D::Error> {
    let text = String::deserialize(deserializer)?;
    Url::parse(&text).map_err(|error| D::Error::custom(format_args!("it is no URL: {error}")))
}

impl OAuth {
    /// Returns the body of a request for a token.
    pub(crate) fn body(&self) -> String {
        let mut body = form_urlencoded::Serializer::new(String::new());
        body.append_pair("grant_type", "client_credentials");
        if let Some(scope) = &self.scope {
            body.append_pair("scope", scope);
        }
        if self.in_body {
            let Secret(secret) = &self.client_secret;
            body.append_pair("client_id", &self.client_id).append_pair("client_secret", secret);
        }
        body.finish()
    }

    /// Returns the `Authorization` of such a request, if it has one.
    pub(crate) fn authorization(&self) -> Option<String> {
        let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let Secret(secret) = &self.client_secret;
        let [id, secret]: [String; 2] = [encoded(&self.client_id), encoded(secret)];
        let pair = BASE64_STANDARD.encode(format!("{id}:{secret}"));
        (!self.in_body).then(|| format!("Basic {pair}"))
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        let Secret(secret) = &self.client_secret;
        match self.token_url.host() {
            None => Err("`token_url` has no host"),
            Some(_) if !self.token_url.username().is_empty() => Err("`token_url` has a user"),
            Some(_) if self.token_url.password().is_some() => Err("`token_url` has a password"),
            Some(host) if self.token_url.scheme() == "http" && !is_local(&host) => {
                Err("`token_url` is not `https://`: the secret is sent by it")
            }
            _ if !matches!(self.token_url.scheme(), "http" | "https") => {
                Err("`token_url` is not `https://`")
            }
            _ if self.client_id.is_empty() || secret.is_empty() => {
                Err("`client_id` or `client_secret` is empty")
            }
            _ => Ok(()),
        }
    }
}
