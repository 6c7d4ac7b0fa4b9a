//! Tokens of OAuth 2: each is fetched once for all callbacks of an app, and kept until shortly
//! before its end.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use tokio::sync::Mutex;
use tourbillon::Timer;

use super::client::{Client, Lack};
use crate::callback::{Answer, cut};
use crate::config::{App, OAuth};

/// Life of a token whose answer has none.
const LIFE: Duration = Duration::from_secs(300);

/// Time before its end from which a token is fetched anew; half of a life that is shorter than
/// twice this.
const EARLY: Duration = Duration::from_secs(60);

/// Time for which a fetch that failed is not repeated.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time of a fetch.
const LIMIT: Duration = Duration::from_secs(10);

/// Most characters of an endpoint's error that are kept.
const ERROR_MAX: usize = 60;

/// Result of the last fetch, and the time until which it counts.
type Fetched = Option<(Result<String, Lack>, Instant)>;

/// Tokens of one app, by the names of their secrets.
pub(super) struct Tokens {
    /// Locked during a fetch, so that others wait for it.
    known: BTreeMap<String, (OAuth, Mutex<Fetched>)>,
    client: Client,
    timer: Timer,
}

impl Tokens {
    pub(super) fn new(app: &App, client: &Client, timer: &Timer) -> Self {
        let known = app.header_secrets.iter().filter_map(|(name, secret)| {
            Some((name.clone(), (secret.oauth.clone()?, Mutex::new(None))))
        });
        Self { known: known.collect(), client: client.clone(), timer: timer.clone() }
    }

    /// Returns whether a secret is a token.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns the value of the header that has a token. One that is `stale` is fetched anew.
    ///
    /// # Errors
    ///
    /// The reason for which there is no token, which names the secret.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends its fetch; another that waits begins anew.
    pub(super) async fn get(&self, name: &str, stale: Option<&str>) -> Result<String, Lack> {
        let Some((oauth, fetched)) = self.known.get(name) else {
            return Err(format!("the secret `{name}` is no token").into());
        };
        let mut fetched = fetched.lock().await;
        if let Some((result, until)) = &*fetched {
            let is_stale = result.as_deref().is_ok_and(|value| Some(value) == stale);
            if self.timer.now() < *until && !is_stale {
                return result.clone();
            }
        }
        let (result, life) = match self.fetch(oauth).await {
            Ok((value, life)) => (Ok(value), life - EARLY.min(life / 2)),
            Err(Lack::Failure(why)) => {
                (Err(Lack::Failure(format!("the token of `{name}`: {why}"))), PAUSE)
            }
            Err(lack) => (Err(lack), PAUSE),
        };
        *fetched = Some((result.clone(), self.timer.now() + life));
        result
    }

    /// Fetches a token. Returns the value of its header, and its life.
    async fn fetch(&self, oauth: &OAuth) -> Result<(String, Duration), Lack> {
        let mut request = Request::post(oauth.token_url.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        if let Some(value) = oauth.authorization() {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(Bytes::from(oauth.body())));
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.client.send_whole(request, LIMIT).await?;
        Ok(read(&answer)?)
    }
}

/// Answer of a token endpoint.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    #[serde(default)]
    expires_in: Option<u32>,
}

/// Error of a token endpoint.
#[derive(Deserialize)]
struct Denied {
    error: String,
}

/// Reads an answer: the value of a header, and for how long it is good.
fn read(answer: &Answer) -> Result<(String, Duration), String> {
    if !answer.status.is_success() {
        let denied = serde_json::from_slice::<Denied>(&answer.body);
        let error = denied.map(|denied| format!(": {}", cut(&denied.error, ERROR_MAX)));
        return Err(format!("answered {}{}", answer.status, error.unwrap_or_default()));
    }
    // What is wrong with it could have the token in it.
    let granted: Granted = serde_json::from_slice(&answer.body)
        .map_err(|_| "answered without `access_token` and `token_type`")?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err("answered with a token that is no bearer token".to_owned());
    }
    let token = granted.access_token;
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("answered with a token that no header can have".to_owned());
    }
    let life = granted.expires_in.map_or(LIFE, |seconds| Duration::from_secs(seconds.into()));
    Ok((format!("Bearer {token}"), life))
}

#[cfg(test)]
mod tests;
