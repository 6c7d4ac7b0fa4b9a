//! Notices: an app's own callback when a run is dead, and when its schedule succeeds again.
//!
//! A notice is a one-shot of the app, so it is durable, signed, tried again and listed as any run
//! is. It is made before the end that it tells of is recorded: an end whose notice could not be
//! made is not recorded, and its attempt is another node's. Its identity follows from the run, so
//! that one who does it again makes no second.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use tourbillon_durable::{Fire, StoreError, StoreErrorKind, TimerId};

use crate::callback::{Fault, check, cut, retry};
use crate::config::{App, Config, Notify};
use crate::model::{self, AtWhen, Callback, Definition, EndedAttempt, RetryPolicy, Stored, When};
use crate::service::Service;

/// Pause before a notice is tried again that the database did not take.
const PAUSE: Duration = Duration::from_secs(1);

/// Most bytes of a notice's callback without its body. With a body of the longest key and error it
/// fits into a payload, which has 64 KiB at most.
const CALLBACK_MAX: usize = 48 * 1024;

/// Most characters of the error in a notice.
const ERROR_MAX: usize = 1_000;

/// Event that a notice tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// A run is dead: its last attempt failed, or its receiver is gone.
    Dead,
    /// A run succeeded after one of the same schedule that was dead.
    Recovered,
}

/// Body of a notice.
#[derive(Serialize)]
struct Body<'a> {
    event: Event,
    app: &'a str,
    key: &'a str,
    run: String,
    scheduled_for: String,
    attempts: u32,
    status: Option<u16>,
    error: Option<String>,
}

/// Checks the notices of all apps.
///
/// # Errors
///
/// The first app whose notices could not be sent, with the reason.
pub fn check_all(config: &Config) -> Result<(), String> {
    for (name, app) in &config.apps {
        let Some(notify) = &app.notify else { continue };
        let callback = callback(notify, String::new());
        let mut faults = check(app, &callback).err().unwrap_or_default();
        let size = serde_json::to_vec(&callback).expect("a callback is JSON").len();
        if size > CALLBACK_MAX {
            let why = format!("have {size} bytes with the URL, and {CALLBACK_MAX} are the most");
            faults.push(("callback.headers".to_owned(), why));
        }
        if !faults.is_empty() {
            let faults = faults.into_iter().map(|(field, why): Fault| {
                format!("`notify.{}` {why}", field.trim_start_matches("callback."))
            });
            return Err(format!("app `{name}`: {}", faults.collect::<Vec<_>>().join("; ")));
        }
    }
    Ok(())
}

fn callback(notify: &Notify, body: String) -> Callback {
    let mut headers = notify.headers.clone();
    if !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
        headers.insert("Content-Type".to_owned(), "application/json".into());
    }
    Callback {
        method: "POST".to_owned(),
        url: notify.url.clone(),
        headers,
        body,
        body_bytes: None,
        timeout: None,
    }
}

/// Attempts of a notice: for about half a day.
fn policy() -> RetryPolicy {
    RetryPolicy { attempts: 20, first: "10s".to_owned(), longest: "1h".to_owned() }
}

/// The node has lost the attempt.
struct Lost;

/// Notice of one attempt's end, if its app has notices.
pub(super) struct Notice<'a> {
    pub(super) service: &'a Service,
    pub(super) app: &'a str,
    pub(super) config: &'a App,
    pub(super) key: &'a str,
    pub(super) fire: &'a Fire,
}

impl Notice<'_> {
    /// Makes the notice of a run that is dead. Returns `false` if it could not be made before the
    /// node lost the attempt.
    pub(super) async fn dead(&self, ended: &EndedAttempt) -> bool {
        let Some(notify) = &self.config.notify else { return true };
        self.make(notify, Event::Dead, self.fire.id(), ended).await
    }

    /// Makes the notice of a run that succeeded, if the one before it of the same schedule was
    /// dead. Returns as [`dead`](Self::dead) does.
    pub(super) async fn recovered(&self, ended: &EndedAttempt) -> bool {
        let Some(notify) = &self.config.notify else { return true };
        if self.fire.schedule().is_none() {
            return true;
        }
        let look = || self.service.catalog.dead_before(self.app, self.key);
        match self.repeat("not known whether a dead run came before", look).await {
            Ok(Some(Some(dead))) => self.make(notify, Event::Recovered, dead, ended).await,
            Ok(_) => true,
            Err(Lost) => false,
        }
    }

    /// Makes the notice of a run whose payload is not understood, if this attempt is the last.
    /// Returns as [`dead`](Self::dead) does.
    pub(super) async fn dead_if_last(&self, ended: &EndedAttempt) -> bool {
        if self.config.notify.is_none() {
            return true;
        }
        let look = || self.service.catalog.most_attempts(self.fire.id());
        match self.repeat("not known whether an attempt is the last", look).await {
            Ok(Some(Some(most))) if self.fire.failures() + 1 >= most => self.dead(ended).await,
            Ok(_) => true,
            Err(Lost) => false,
        }
    }

    /// Makes a call again until it succeeds. Returns `None` if no repeat can.
    ///
    /// # Errors
    ///
    /// [`Lost`] once the node has lost the attempt.
    async fn repeat<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<Option<T>, Lost>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        loop {
            let error = match call().await {
                Ok(done) => return Ok(Some(done)),
                Err(error) => error,
            };
            let (app, key) = (self.app, self.key);
            tracing::warn!(app, key, %error, "{what}");
            if error.kind() == StoreErrorKind::Invalid {
                return Ok(None);
            }
            self.service.timer.sleep(PAUSE).await;
            if !self.fire.is_current() {
                return Err(Lost);
            }
        }
    }

    async fn make(&self, notify: &Notify, event: Event, of: TimerId, ended: &EndedAttempt) -> bool {
        let body = Body {
            event,
            app: self.app,
            key: self.key,
            run: self.fire.id().to_string(),
            scheduled_for: model::rfc3339(self.fire.scheduled_for()),
            attempts: self.fire.attempt(),
            status: ended.status,
            error: ended.error.as_deref().map(|error| cut(error, ERROR_MAX)),
        };
        let body = serde_json::to_string(&body).expect("a notice is written as JSON");
        let now = self.fire.claimed();
        let stored = Stored {
            key: format!("notice:{}", self.key),
            definition: Definition {
                retry: Some(policy()),
                ..Definition::new(
                    When::At(AtWhen { at: model::rfc3339(now) }),
                    // A body is a template.
                    callback(notify, body.replace("{{", "{{{{")),
                )
            },
            created: model::rfc3339(now),
            at_us: Some(now.as_micros()),
            traceparent: None,
            xtimer: None,
            is_notice: true,
        };
        let payload = serde_json::to_vec(&stored).expect("a definition is JSON");
        // No key has such a name.
        let id = model::once_id(&format!("{}/{event:?}/{of}", self.app));
        let policy = retry(Some(&policy())).expect("the policy of notices is one");
        let create = || {
            let once = self.service.client.once(&model::kind(self.app), now).id(id);
            once.payload(payload.clone()).retry(policy).create()
        };
        self.repeat("a notice was not made", create).await.is_ok()
    }
}
