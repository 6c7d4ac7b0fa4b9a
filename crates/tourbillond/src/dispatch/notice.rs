//! Notices: the callback of an app or schedule when a run is dead, when its schedule is disabled
//! for that, when it does not succeed in time, when it succeeds again, and when a run starts late.
//!
//! A notice is a one-shot of the app, so it is durable, signed, tried again and listed as any run
//! is. It is made before the end that it tells of is recorded: an end whose notice could not be
//! made is not recorded, and its attempt is another node's. Its identity follows from the run, so
//! that a repeat makes no second; that of a late start from the schedule and the hour, so that a
//! load that makes many runs late is not doubled by their notices.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use tourbillon_durable::{Fire, StoreError, StoreErrorKind, Time, TimerId};

use crate::callback::{Guard, NOTICE_TEXT_MAX, Told, check_notify, cut, random, retry, share};
use crate::catalog::{Watch, WatchState, lapse};
use crate::config::Config;
use crate::model::{
    self, AtWhen, Definition, DisabledBy, EndedAttempt, Notify, RetryPolicy, Stored, When,
};
use crate::service::Service;

/// Pause before a notice is tried again that the database did not take.
const PAUSE: Duration = Duration::from_secs(1);

/// Shortest pause after a conflict with another node or run; the longest is twice as long.
const MOMENT: Duration = Duration::from_millis(5);

/// Time in which a schedule has one notice of late starts, in microseconds.
const HOUR: i64 = 3_600_000_000;

/// Event that a notice tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// A run is dead: its last attempt failed, or its receiver is gone.
    Dead,
    /// A run succeeded after a dead run of the same schedule, or after a
    /// [`NoSuccess`](Self::NoSuccess).
    Recovered,
    /// The schedule is disabled, as so many of its runs in a row were dead.
    Disabled,
    /// No run of the schedule has succeeded in time.
    NoSuccess,
    /// A run of the schedule has started late.
    Late,
}

/// Body of a notice.
#[derive(Serialize)]
struct Body<'a> {
    event: Event,
    app: &'a str,
    key: &'a str,
    text: String,
    #[serde(flatten)]
    of: Of,
}

/// Occasion of a notice.
#[derive(Serialize)]
#[serde(untagged)]
enum Of {
    /// The end of a run.
    Run {
        run: String,
        scheduled_for: String,
        attempts: u32,
        status: Option<u16>,
        error: Option<String>,
    },
    /// The start of a run.
    Start { run: String, scheduled_for: String, started: String },
    /// A time without a success: its beginning.
    Silence { since: String },
}

impl<'a> Body<'a> {
    fn new(event: Event, (app, key): (&'a str, &'a str), of: Of) -> Self {
        let text = match (&of, event) {
            (Of::Silence { since }, _) => format!("no run has succeeded since {since}"),
            (Of::Start { scheduled_for, started, .. }, _) => {
                format!("the run of {scheduled_for} started late, at {started}")
            }
            (Of::Run { scheduled_for, .. }, Event::Recovered) => {
                format!("the run of {scheduled_for} succeeded")
            }
            (Of::Run { scheduled_for, error, .. }, _) => {
                let disabled = if event == Event::Disabled { "disabled, as " } else { "" };
                let why = error.as_deref().unwrap_or("its last attempt failed");
                format!("{disabled}the run of {scheduled_for} is dead: {why}")
            }
        };
        let text = cut(&format!("{app}/{key}: {text}"), NOTICE_TEXT_MAX);
        Self { event, app, key, text, of }
    }

    /// Returns it as its receiver has it.
    fn by(&self, notify: &Notify) -> String {
        let told = |template: &String| {
            let event = serde_json::to_value(self.event).ok()?;
            let Self { app, key, text, .. } = self;
            Told { event: event.as_str()?, app, key, text }.by(template).ok()
        };
        let body = notify.body.as_ref().and_then(told);
        body.unwrap_or_else(|| serde_json::to_string(self).expect("a notice is written as JSON"))
    }
}

/// Checks the notices and the token endpoints of all apps.
///
/// # Errors
///
/// The first app whose notices could not be sent, or that may not call its endpoint, with the
/// reason.
pub fn check_all(config: &Config) -> Result<(), String> {
    for (name, app) in &config.apps {
        let guard = Guard::new(app);
        for (secret, own) in &app.header_secrets {
            let Some(url) = own.oauth.as_ref().map(|oauth| &oauth.token_url) else { continue };
            // Plain HTTP is to the loopback alone, and leaves this host by a proxy.
            let judged = match url.scheme() == "http" && app.proxies.of(url).is_some() {
                true => Err("is not `https://`, and goes through a proxy".to_owned()),
                false => guard.judge_url(url),
            };
            judged.map_err(|why| {
                format!("app `{name}`: `header_secrets.{secret}`: `token_url` {why}")
            })?;
        }
        let Some(notify) = &app.notify else { continue };
        let faults = check_notify(app, notify);
        if !faults.is_empty() {
            let faults = faults.iter().map(|(field, why)| format!("`{field}` {why}"));
            return Err(format!("app `{name}`: {}", faults.collect::<Vec<_>>().join("; ")));
        }
    }
    Ok(())
}

/// Attempts of a notice: for about half a day.
fn policy() -> RetryPolicy {
    RetryPolicy { attempts: 20, first: "10s".to_owned(), longest: "1h".to_owned() }
}

/// The node has lost the attempt.
struct Lost;

/// Notice of one attempt's end, and its other consequences.
pub(super) struct Notice<'a> {
    pub(super) service: &'a Service,
    pub(super) app: &'a str,
    pub(super) key: &'a str,
    pub(super) fire: &'a Fire,
    /// Receiver of notices, if there is one.
    pub(super) notify: Option<&'a Notify>,
}

impl Notice<'_> {
    /// Makes the notice of a run that is dead. Returns `false` if it could not be made before the
    /// node lost the attempt.
    pub(super) async fn dead(&self, ended: &EndedAttempt) -> bool {
        self.make(Event::Dead, &self.fire.id().to_string(), ended).await
    }

    /// Counts a dead run under its schedule's present definition. If so many in a row are dead, it
    /// disables the schedule and makes the notice. Returns as [`dead`](Self::dead) does.
    pub(super) async fn counted(&self, definition: &Definition, ended: &EndedAttempt) -> bool {
        let schedule = self.fire.schedule();
        let (catalog, run) = (&self.service.catalog, self.fire.id());
        if catalog.alerts(self.app, definition).disable_after.is_none() || schedule.is_none() {
            return true;
        }
        let (of, now) = ((self.app, self.key), self.fire.claimed());
        let look = || catalog.disabled_by_dead(of, schedule, &definition.callback);
        let count = || async {
            let Some((_, most)) = look().await? else { return Ok(None) };
            let count = catalog.note_death(of, definition, run, most, now).await?;
            Ok(Some(count).filter(|count| *count >= most))
        };
        let dead_runs = match self.repeat("a dead run was not counted", count).await {
            Ok(Some(Some(dead_runs))) => dead_runs,
            Ok(_) => return true,
            Err(Lost) => return false,
        };
        if !self.make(Event::Disabled, &run.to_string(), ended).await {
            return false;
        }
        let (run, at) = (run.to_string(), model::rfc3339(now));
        let why = DisabledBy { run, dead_runs, at };
        let disable = || async {
            match look().await? {
                Some((row, _)) => catalog.give_up_on(&row, why.clone()).await,
                None => Ok(()),
            }
        };
        self.repeat("a schedule was not disabled", disable).await.is_ok()
    }

    /// Notes a success under its schedule's present definition. Makes a notice, if the schedule's
    /// run before it was dead or the schedule had not succeeded in time. Returns as
    /// [`dead`](Self::dead) does.
    pub(super) async fn recovered(&self, definition: &Definition, ended: &EndedAttempt) -> bool {
        let (catalog, now) = (&self.service.catalog, self.fire.claimed());
        let was_watched = catalog.alerts(self.app, definition).is_watched();
        if self.fire.schedule().is_none() || self.notify.is_none() && !was_watched {
            return true;
        }
        let of = (self.app, self.key);
        let look = || self.before_success(was_watched);
        let mut is_made = false;
        loop {
            let (dead, present, watch) =
                match self.repeat("not known whether a dead run came before", look).await {
                    Ok(found) => found.unwrap_or_default(),
                    Err(Lost) => return false,
                };
            let told = watch.as_ref().filter(|watch| watch.is_notified(now));
            let from = dead.map(|dead| dead.to_string()).or(told.map(|watch| watch.id()));
            // One success has one notice, though another has written the watch anew since.
            if let Some(from) = from.filter(|_| !is_made) {
                if !self.make(Event::Recovered, &from, ended).await {
                    return false;
                }
                is_made = true;
            }
            let Some(present) = present else { return true };
            match catalog.note_success(of, &present, watch.as_ref(), now).await {
                Ok(()) => return true,
                // Another run of the schedule has ended at the same time.
                Err(error) if error.kind() == StoreErrorKind::Conflict => {
                    self.service.timer.sleep(MOMENT + share(MOMENT, random())).await;
                }
                Err(error) => {
                    let (app, key) = of;
                    tracing::warn!(app, key, %error, "a success was not noted");
                    if error.kind() == StoreErrorKind::Invalid {
                        return true;
                    }
                    self.service.timer.sleep(PAUSE).await;
                }
            }
            if !self.fire.is_current() {
                return false;
            }
        }
    }

    /// Looks up a dead run before a success and, if it is watched, the schedule's definition and
    /// watch.
    async fn before_success(
        &self,
        is_watched: bool,
    ) -> Result<(Option<TimerId>, Option<Definition>, Option<Watch>), StoreError> {
        let catalog = &self.service.catalog;
        let dead = catalog.dead_before(self.app, self.key).await?;
        if !is_watched {
            return Ok((dead, None, None));
        }
        let is_watched = |of: &Definition| catalog.alerts(self.app, of).is_watched();
        let present = catalog.present((self.app, self.key), self.fire.schedule()).await?;
        let present = present.map(|(_, definition)| definition).filter(is_watched);
        let watch = match present {
            Some(_) => catalog.watch(self.app, self.key).await?,
            None => None,
        };
        Ok((dead, present, watch))
    }

    /// Makes the notice of a run that `started` late; one an hour of its schedule, because one
    /// cause often makes many runs late. Returns as [`dead`](Self::dead) does.
    pub(super) async fn late(&self, started: Time) -> bool {
        let (Some(notify), Some(schedule)) = (self.notify, self.fire.schedule()) else {
            return true;
        };
        let of = Of::Start {
            run: self.fire.id().to_string(),
            scheduled_for: model::rfc3339(self.fire.scheduled_for()),
            started: model::rfc3339(started),
        };
        let body = Body::new(Event::Late, (self.app, self.key), of);
        let of = format!("{schedule}/{}", started.as_micros().div_euclid(HOUR));
        make(self.service, self.fire, notify, &of, &body).await
    }

    /// Makes the notice of a run whose payload is not understood, if this attempt is the last.
    /// Returns as [`dead`](Self::dead) does.
    pub(super) async fn dead_if_last(&self, ended: &EndedAttempt) -> bool {
        if self.notify.is_none() {
            return true;
        }
        let look = || self.service.catalog.most_attempts(self.fire.id());
        match self.repeat("not known whether an attempt is the last", look).await {
            Ok(Some(Some(most))) if self.fire.failures() + 1 >= most => self.dead(ended).await,
            Ok(_) => true,
            Err(Lost) => false,
        }
    }

    async fn repeat<T, F>(&self, what: &str, call: impl Fn() -> F) -> Result<Option<T>, Lost>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        repeat(self.service, self.fire, (self.app, self.key), what, call).await
    }

    async fn make(&self, event: Event, of: &str, ended: &EndedAttempt) -> bool {
        let Some(notify) = self.notify else { return true };
        let run = Of::Run {
            run: self.fire.id().to_string(),
            scheduled_for: model::rfc3339(self.fire.scheduled_for()),
            attempts: self.fire.attempt(),
            status: ended.status,
            error: ended.error.as_deref().map(|error| cut(error, NOTICE_TEXT_MAX)),
        };
        let body = Body::new(event, (self.app, self.key), run);
        make(self.service, self.fire, notify, of, &body).await
    }
}

/// Notice that a schedule has not succeeded in time.
pub(super) struct Silence<'a> {
    pub(super) service: &'a Service,
    pub(super) state: &'a WatchState,
    /// Attempt of the schedule's watch.
    pub(super) fire: &'a Fire,
}

impl Silence<'_> {
    /// Makes the notice, once for each time without a success. Returns as [`Notice::dead`] does.
    pub(super) async fn tell(&self, notify: &Notify) -> bool {
        let WatchState { app, key, .. } = self.state;
        let since = model::rfc3339(self.state.since());
        let body = Body::new(Event::NoSuccess, (app, key), Of::Silence { since });
        let of = lapse(self.fire.id(), self.state);
        make(self.service, self.fire, notify, &of, &body).await
    }
}

/// Makes a call again until it succeeds. Returns `None` if no repeat can.
///
/// # Errors
///
/// [`Lost`] once the node has lost the attempt.
async fn repeat<T, F>(
    service: &Service,
    fire: &Fire,
    (app, key): (&str, &str),
    what: &str,
    call: impl Fn() -> F,
) -> Result<Option<T>, Lost>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        let error = match call().await {
            Ok(done) => return Ok(Some(done)),
            Err(error) => error,
        };
        tracing::warn!(app, key, %error, "{what}");
        if error.kind() == StoreErrorKind::Invalid {
            return Ok(None);
        }
        let pause = match error.kind() {
            StoreErrorKind::Conflict => MOMENT + share(MOMENT, random()),
            _ => PAUSE,
        };
        service.timer.sleep(pause).await;
        if !fire.is_current() {
            return Err(Lost);
        }
    }
}

/// Makes the notice whose identity follows from its event and `of`. Returns as [`Notice::dead`]
/// does.
async fn make(service: &Service, fire: &Fire, notify: &Notify, of: &str, body: &Body<'_>) -> bool {
    let Body { event, app, key, .. } = body;
    let now = fire.claimed();
    let stored = Stored {
        key: format!("notice:{key}"),
        definition: Definition {
            retry: Some(policy()),
            ..Definition::new(
                When::At(AtWhen { at: model::rfc3339(now) }),
                // A body is a template.
                notify.callback(body.by(notify).replace("{{", "{{{{")),
            )
        },
        created: model::rfc3339(now),
        at_us: Some(now.as_micros()),
        traceparent: None,
        xtimer: None,
        disabled_by: None,
        is_notice: true,
    };
    let payload = serde_json::to_vec(&stored).expect("a definition is JSON");
    // No key has such a name.
    let id = model::once_id(&format!("{app}/{event:?}/{of}"));
    let policy = retry(Some(&policy())).expect("the policy of notices is one");
    let create = || {
        let once = service.client.once(&model::kind(app), now).id(id);
        once.payload(payload.clone()).retry(policy).create()
    };
    repeat(service, fire, (app, key), "a notice was not made", create).await.is_ok()
}
