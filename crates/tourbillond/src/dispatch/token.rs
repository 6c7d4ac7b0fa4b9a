//! Tokens of OAuth 2: each is fetched once for all callbacks of an app, and kept until shortly
//! before its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{self, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tourbillon::Timer;

use super::client::{BODY_MAX, Client, Lack};
use crate::callback::{Answer, cut};
use crate::config::{App, OAuth};

/// Life of a token whose answer has none.
const LIFE: Duration = Duration::from_secs(300);

/// Shortest and longest life of a token, whatever its answer has.
const LIFE_MIN: Duration = Duration::from_secs(1);
const LIFE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// Remaining life of a token that is fetched anew; for a life shorter than twice this, half of that
/// life.
const EARLY: Duration = Duration::from_secs(60);

/// Time after a failed fetch without another.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest time of a fetch.
const LIMIT: Duration = Duration::from_secs(10);

/// Most characters of an endpoint's error that are kept.
const ERROR_MAX: usize = 60;

/// A token, as a header's value.
#[derive(Clone)]
struct FetchedToken {
    value: String,
    /// Time of the next fetch.
    renew: Instant,
    /// End of its validity.
    end: Instant,
}

/// State of a token.
#[derive(Default)]
struct TokenState {
    token: Option<FetchedToken>,
    /// Error of the last fetch, if it failed.
    error: Option<Lack>,
    /// Time until which nothing is fetched: after an error, and after a token that was refused.
    pause: Option<Instant>,
}

impl TokenState {
    /// Returns the token if it is good now and is not `stale`.
    fn fresh(&self, now: Instant, stale: Option<&str>) -> Option<String> {
        let token = self.token.as_ref().filter(|token| now < token.end);
        token.filter(|token| Some(&*token.value) != stale).map(|token| token.value.clone())
    }

    /// Returns the valid token that is not `stale`; else the error of the last fetch; else the
    /// `stale` one.
    fn get(&self, now: Instant, stale: Option<&str>) -> Option<Result<String, Lack>> {
        let value = || self.fresh(now, None).map(Ok);
        let fresh = self.fresh(now, stale).map(Ok);
        fresh.or_else(|| self.error.clone().map(Err)).or_else(value)
    }

    /// Returns the result that counts now, unless another token is to be fetched.
    fn settled(&self, now: Instant, stale: Option<&str>) -> Option<Result<String, Lack>> {
        let is_paused = self.pause.is_some_and(|pause| now < pause);
        let is_good = self
            .token
            .as_ref()
            .is_some_and(|token| now < token.renew && Some(&*token.value) != stale);
        self.get(now, stale).filter(|_| is_good || is_paused)
    }
}

/// Tokens of one app, by the names of their secrets.
pub(super) struct Tokens {
    known: BTreeMap<String, Arc<Slot>>,
    timer: Timer,
}

/// A token of OAuth 2, and how it is fetched.
struct Slot {
    oauth: OAuth,
    client: Client,
    known: Mutex<TokenState>,
    /// Locked during a fetch. Callers without a valid token wait for it.
    fetching: Arc<sync::Mutex<()>>,
}

impl Tokens {
    pub(super) fn new(app: &App, client: &Client, timer: &Timer) -> Self {
        let known = app.header_secrets.iter().filter_map(|(name, secret)| {
            let (oauth, client) = (secret.oauth.clone()?, client.clone());
            let (known, fetching) = (Mutex::default(), Arc::default());
            Some((name.clone(), Arc::new(Slot { oauth, client, known, fetching })))
        });
        Self { known: known.collect(), timer: timer.clone() }
    }

    /// Returns whether a secret is a token.
    pub(super) fn has(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns the header's value with a token. A `stale` token is fetched anew, at most once a
    /// second; until then it is returned again. A token that has to be renewed but is still valid
    /// is returned at once.
    ///
    /// # Errors
    ///
    /// The reason for which there is no token, which names the secret.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends no fetch: the next call has its result.
    pub(super) async fn get(&self, name: &str, stale: Option<&str>) -> Result<String, Lack> {
        let Some(slot) = self.known.get(name) else {
            return Err(format!("the secret `{name}` is no token").into());
        };
        let settled = || slot.known().settled(self.timer.now(), stale);
        if let Some(result) = settled() {
            return result;
        }
        let fresh = slot.known().fresh(self.timer.now(), stale);
        if let Some(fresh) = fresh {
            // Nobody waits for this fetch: an endpoint that hangs holds up no attempt.
            if let Ok(place) = slot.fetching.clone().try_lock_owned() {
                if settled().is_none() {
                    self.fetch(name, slot, stale, place);
                }
            }
            return Ok(fresh);
        }
        let place = slot.fetching.clone().lock_owned().await;
        if let Some(result) = settled() {
            return result;
        }
        let fetch = self.fetch(name, slot, stale, place);
        let none = || Err(Lack::Failure("the fetch of a token was not finished".to_owned()));
        fetch.await.ok().flatten().unwrap_or_else(none)
    }

    /// Fetches a token on a separate task, and returns the result in force then.
    fn fetch(
        &self,
        name: &str,
        slot: &Arc<Slot>,
        stale: Option<&str>,
        place: OwnedMutexGuard<()>,
    ) -> JoinHandle<Option<Result<String, Lack>>> {
        let (timer, slot) = (self.timer.clone(), slot.clone());
        let (name, stale) = (name.to_owned(), stale.map(str::to_owned));
        tokio::spawn(async move {
            let fetched = slot.fetch().await;
            let now = timer.now();
            let pause = Some(now + PAUSE);
            let mut known = slot.known();
            match fetched {
                Ok((value, life)) => {
                    let (renew, end) = (now + (life - EARLY.min(life / 2)), now + life);
                    let was_refused = stale.is_some();
                    known.token = Some(FetchedToken { value, renew, end });
                    (known.error, known.pause) = (None, pause.filter(|_| was_refused));
                }
                Err(lack) => {
                    let lack = match lack {
                        Lack::Failure(why) => {
                            Lack::Failure(format!("the token of `{name}`: {why}"))
                        }
                        lack => lack,
                    };
                    (known.error, known.pause) = (Some(lack), pause);
                }
            }
            let result = known.get(now, stale.as_deref());
            drop((known, place));
            result
        })
    }
}

impl Slot {
    fn known(&self) -> MutexGuard<'_, TokenState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fetches a token. Returns the value of its header, and its life.
    async fn fetch(&self) -> Result<(String, Duration), Lack> {
        let oauth = &self.oauth;
        let mut request = Request::post(oauth.token_url.as_str())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        if let Some(value) = oauth.authorization() {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Full::from(Bytes::from(oauth.body())));
        let request = request.map_err(|error| error.to_string())?;
        let answer = self.client.exchange(request, LIMIT, BODY_MAX).await.0?;
        Ok(read(&answer)?)
    }
}

/// Answer of a token endpoint.
#[derive(Deserialize)]
struct Granted {
    access_token: String,
    token_type: String,
    /// Seconds, which some write as a text.
    #[serde(default)]
    expires_in: Value,
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
    // The error could contain the token.
    let granted: Granted = serde_json::from_slice(&answer.body)
        .map_err(|_| "answered without `access_token` and `token_type`")?;
    if !granted.token_type.eq_ignore_ascii_case("bearer") {
        return Err("answered with a token that is no bearer token".to_owned());
    }
    let token = granted.access_token;
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("answered with a token that no header can have".to_owned());
    }
    let seconds = match &granted.expires_in {
        Value::String(text) => text.trim().parse().ok(),
        number => number.as_f64(),
    };
    let seconds = seconds.filter(|seconds| seconds.is_finite());
    let life = seconds.map_or(LIFE, |seconds| {
        Duration::from_secs_f64(seconds.clamp(LIFE_MIN.as_secs_f64(), LIFE_MAX.as_secs_f64()))
    });
    Ok((format!("Bearer {token}"), life))
}

#[cfg(test)]
mod tests;
