//! The attempts of one app: from the worker, through the gate, to the receiver.

mod completion;
mod trial;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};
use tourbillon::Timer;
use tourbillon_durable::{Ended, Fire, Retry, Time, Worker};
use tracing::{debug, error, info, warn};

use super::client::{Client, Lack};
use super::connect::millis;
use super::gate::{Full, Gate, GateLimits, Offered};
use super::notice::Notice;
use super::token::Tokens;
use crate::callback::{
    self, Answer, Attempt, Redact, Trace, Verdict, judge, random, read_attempts, retry, share,
};
use crate::config::App;
use crate::metrics::Meters;
use crate::model::{
    self, Callback, EndedAttempt, Header, Run, RunState, SentRequest, Stored, Timing, XTimer,
};
use crate::service::{Service, Trial, Untried};

/// Attempts that wait for each that may run.
const WAITING: usize = 4;

/// Attempts that a worker holds beyond the running and waiting ones: on their way to the gate, or
/// back to the database.
const IN_PASSING: usize = 256;

/// The shortest pause after a shortage of this host's own; the longest is twice as long.
const SHORTAGE: Duration = Duration::from_millis(500);

/// The shortest pause after a fault of a proxy; the longest is twice as long.
const PROXY: Duration = Duration::from_secs(2);

/// State that the attempts of an app share.
struct Shared {
    service: Arc<Service>,
    app: String,
    config: App,
    client: Client,
    tokens: Tokens,
    meters: Meters,
}

/// An attempt, with the contents of its payload.
struct Job {
    fire: Fire,
    key: String,
    /// Its host, for counting.
    host: Arc<str>,
    stored: Stored,
    retry: Retry,
    /// When it came from the worker.
    since: Instant,
}

impl Job {
    /// Returns the present time by the clock of the database.
    fn now(&self, timer: &Timer) -> Time {
        self.fire.claimed() + timer.now().duration_since(self.since)
    }

    /// Returns its call, for this app.
    fn outgoing<'a>(&'a self, app: &'a str) -> Outgoing<'a> {
        let Self { fire, key, stored, .. } = self;
        Outgoing {
            callback: &stored.definition.callback,
            xtimer: stored.xtimer.as_ref(),
            attempt: Attempt {
                app,
                schedule: key,
                key: fire.key().to_string(),
                scheduled_for: fire.scheduled_for(),
                number: fire.attempt(),
                run: Some((fire.id(), stored.made())),
                trace: stored.traceparent.as_deref().and_then(Trace::parse),
            },
            is_test: false,
        }
    }
}

/// Call that the gate decides on.
enum Call {
    /// An attempt that is due.
    Attempt(Box<Job>),
    /// A test, and the host that it calls.
    Trial(Box<Trial>, Arc<str>),
}

impl Call {
    /// Returns the called host, for counting.
    fn host(&self) -> Arc<str> {
        match self {
            Self::Attempt(job) => job.host.clone(),
            Self::Trial(_, host) => host.clone(),
        }
    }
}

/// The attempts of one app, until it is [retired](Self::retire) or the engine stops.
pub(super) struct Dispatcher {
    stop: oneshot::Sender<()>,
    released: oneshot::Receiver<()>,
}

impl Dispatcher {
    /// Starts a worker; `None` once the service is stopped.
    pub(super) fn start(
        service: &Arc<Service>,
        name: &str,
        app: &App,
        client: Client,
    ) -> Option<Self> {
        let count = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
        let running = count(app.limits.concurrent);
        let waiting = running.saturating_mul(WAITING);
        let limits = GateLimits {
            running,
            per_host: count(app.limits.per_host),
            waiting,
            per_second: app.limits.due_per_second,
        };
        let prefetch = running.saturating_add(waiting).saturating_add(IN_PASSING);
        let fires = service.worker(&model::kind(name), prefetch)?;
        let shared = Shared {
            service: service.clone(),
            app: name.to_owned(),
            config: app.clone(),
            tokens: Tokens::new(app, &client, &service.timer),
            client,
            meters: Meters::new(name),
        };
        let (stop, stopped) = oneshot::channel();
        let (release, released) = oneshot::channel();
        let sources = (fires, service.trials.open(name));
        tokio::spawn(run(Arc::new(shared), limits, sources, stopped, release));
        Some(Self { stop, released })
    }

    /// Takes no further attempt, and waits until it has given back the worker and the waiting
    /// attempts. Running attempts continue.
    pub(super) async fn retire(self) {
        drop(self.stop);
        // Never sent to, but dropped.
        let _ = self.released.await;
    }
}

/// Takes attempts until the worker ends or `stopped`, then waits for the running ones.
async fn run(
    shared: Arc<Shared>,
    limits: GateLimits,
    (mut fires, mut trials): (Worker, mpsc::Receiver<Trial>),
    mut stopped: oneshot::Receiver<()>,
    release: oneshot::Sender<()>,
) {
    let timer = shared.service.timer.clone();
    let mut gate = Gate::new(limits, timer.now());
    let mut calls =
        Calls { shared: shared.clone(), running: JoinSet::new(), hosts: HashMap::new() };
    loop {
        tokio::select! {
            Some(ended) = calls.running.join_next_with_id() => {
                let (host, since) = calls.ended(ended);
                let now = timer.now();
                gate.ended(&host, now.duration_since(since), now);
                while let Some((_, call)) = gate.next(now) {
                    calls.start(call, now);
                }
            }
            fire = fires.next() => {
                let Some(fire) = fire else { break };
                let now = timer.now();
                let Some(job) = understood(&shared, fire, now) else { continue };
                let Some(job) = completion::settled(&shared, job) else { continue };
                calls.offer(&mut gate, Call::Attempt(Box::new(job)), now);
            }
            Some(trial) = trials.recv() => {
                if let Some(call) = trial::understood(trial) {
                    calls.offer(&mut gate, call, timer.now());
                }
            }
            _ = &mut stopped => break,
        }
    }
    drop((fires, trials, gate, release));
    while let Some(ended) = calls.running.join_next_with_id().await {
        calls.ended(ended);
    }
}

/// Parts of a payload that say whose it is, whatever else is in it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Origin {
    key: String,
    is_notice: bool,
}

/// Returns the job of a timer's payload. Ends the attempt if the payload is invalid.
fn understood(shared: &Arc<Shared>, fire: Fire, now: Instant) -> Option<Job> {
    let read = || {
        let stored: Stored =
            serde_json::from_slice(fire.payload()).map_err(|error| error.to_string())?;
        // A revived timer may have no name.
        let key = fire.name().and_then(model::app_and_key).map_or(&*stored.key, |(_, key)| key);
        let key = key.to_owned();
        let url = callback::target(&stored.definition.callback.url)?;
        let host = url.host_str().unwrap_or_default().into();
        let retry = retry(stored.definition.retry.as_ref()).map_err(|_| "invalid retry policy")?;
        Ok::<_, String>((key, host, stored, retry))
    };
    match read() {
        Ok((key, host, stored, retry)) => Some(Job { fire, key, host, stored, retry, since: now }),
        // Another node may be of a later version, and understand it.
        Err(why) => {
            let (app, timer) = (&shared.app, fire.id());
            error!(app, %timer, why, "a payload is not understood");
            let ended = EndedAttempt {
                attempt: fire.attempt(),
                started: model::rfc3339(fire.claimed()),
                error: Some(format!("this node cannot read the definition: {why}")),
                ..EndedAttempt::default()
            };
            // By itself: the notice may wait for the database.
            tokio::spawn(end_unread(shared.clone(), fire, ended));
            None
        }
    }
}

/// Ends an attempt whose payload is not understood.
async fn end_unread(shared: Arc<Shared>, fire: Fire, ended: EndedAttempt) {
    let origin: Origin = serde_json::from_slice(fire.payload()).unwrap_or_default();
    let key = fire.name().and_then(model::app_and_key).map_or(&*origin.key, |(_, key)| key);
    let Shared { service, app, config, .. } = &*shared;
    let notice = Notice { service, app, key, fire: &fire, notify: config.notify.as_ref() };
    if !origin.is_notice && !notice.dead_if_last(&ended).await {
        // Another node has the attempt. Dropped, it is handed back.
        return;
    }
    let detail = callback::append(fire.detail(), &ended);
    fire.fail(detail);
}

fn postpone(shared: &Shared, job: Job, pause: Duration, full: Full) {
    match full {
        Full::Host => shared.meters.postponed_by_host.increment(1),
        Full::Rate => shared.meters.postponed_by_rate.increment(1),
    }
    let (app, key, attempt) = (&shared.app, &job.key, job.fire.attempt());
    debug!(app, key, attempt, host = &*job.host, ?pause, limit = ?full, "postponed");
    // Attempts postponed together do not return together.
    job.fire.postpone(pause + share(pause / 4, random()));
}

/// The calls that run.
struct Calls {
    shared: Arc<Shared>,
    running: JoinSet<()>,
    hosts: HashMap<Id, (Arc<str>, Instant)>,
}

impl Calls {
    /// Starts a call, makes it wait, or sends it back, by the gate's decision.
    fn offer(&mut self, gate: &mut Gate<Call>, call: Call, now: Instant) {
        let host = call.host();
        match gate.offer(&host, call, now) {
            Offered::Starts(call) => self.start(call, now),
            Offered::Waits => {}
            Offered::Refused(Call::Attempt(job), full) => {
                postpone(&self.shared, *job, gate.pause(&host, full, now), full);
            }
            // It does not come back, so it puts nothing off.
            Offered::Refused(Call::Trial(trial, _), _) => trial.end(Err(Untried::Limited)),
        }
    }

    fn start(&mut self, call: Call, now: Instant) {
        let host = call.host();
        let shared = self.shared.clone();
        let task = match call {
            Call::Attempt(job) => self.running.spawn(attempt(shared, *job)),
            Call::Trial(trial, _) => self.running.spawn(trial::carry_out(shared, *trial)),
        };
        self.hosts.insert(task.id(), (host, now));
        self.shared.meters.running.increment(1);
    }

    /// The host of a call that is over, and when it started.
    fn ended(&mut self, ended: Result<(Id, ()), tokio::task::JoinError>) -> (Arc<str>, Instant) {
        self.shared.meters.running.decrement(1);
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                error!(app = &self.shared.app, %error, "a callback was not finished");
                error.id()
            }
        };
        self.hosts.remove(&id).expect("each call that runs has a host")
    }
}

/// One attempt, from its start to its end.
async fn attempt(shared: Arc<Shared>, job: Job) {
    let timer = &shared.service.timer;
    // After a wait the node may have lost it. Dropped, it is handed back.
    if !job.fire.is_current() {
        return;
    }
    let (start, started) = (timer.now(), job.now(timer));
    let late = job.fire.claimed().since(job.fire.due()) + start.duration_since(job.since);
    shared.meters.starts(late);
    let outgoing = job.outgoing(&shared.app);
    let exchange = async {
        let exchange = outgoing.exchange(&shared, model::timestamp(started)).await;
        (exchange, timer.now().duration_since(start))
    };
    // The notice delays no call.
    let ((exchange, took), is_told) = tokio::join!(exchange, is_start_told(&shared, &job, started));
    shared.meters.took(took);
    if !is_told {
        // Another node has the attempt. Dropped, it is handed back.
        return;
    }

    match &exchange.answer {
        // Nobody's failure: the receiver was not called, or its answer was not read.
        Err(Lack::Shortage(why)) => {
            shared.meters.postponed_by_shortage.increment(1);
            let why = (exchange.redact.text(why), "this host is short of something");
            return hindered(&shared, job, why, SHORTAGE);
        }
        Err(Lack::Proxy(why)) => {
            shared.meters.postponed_by_proxy.increment(1);
            let why = (exchange.redact.text(why), "the proxy does not work");
            return hindered(&shared, job, why, PROXY);
        }
        Ok(_) | Err(Lack::Failure(_)) => {}
    }
    let callback = &job.stored.definition.callback;
    let number = job.fire.attempt();
    let of = (callback, &job.retry, job.fire.failures());
    let (verdict, mut ended) = exchange.judged(of, (number, started, took));
    if let Verdict::Waits(within) = &verdict {
        ended.completion = Some(completion::waiting(&shared, &job, *within));
    }
    let before = completion::superseded(job.fire.detail());
    let detail = callback::append(&before, &ended);
    conclude(shared, job, ended, verdict, detail).await;
}

/// Postpones an attempt that was hindered, and logs the reason.
fn hindered(shared: &Shared, job: Job, (why, by): (String, &str), pause: Duration) {
    let (app, key, attempt) = (&shared.app, &job.key, job.fire.attempt());
    info!(app, key, attempt, why, "postponed: {by}");
    job.fire.postpone(pause + share(pause, random()));
}

/// Ends an attempt by its verdict: makes its notices, counts it, and writes the end.
async fn conclude(
    shared: Arc<Shared>,
    job: Job,
    ended: EndedAttempt,
    verdict: Verdict,
    detail: String,
) {
    let now = job.now(&shared.service.timer);
    let Job { fire, key, stored, retry, .. } = job;
    let trace = stored.traceparent.as_deref().and_then(Trace::parse);
    let is_last = fire.failures() + 1 >= retry.attempts;
    let (state, reason) = match &verdict {
        Verdict::Succeeded => (RunState::Succeeded, None),
        Verdict::Waits(_) => (RunState::Waiting, None),
        Verdict::Failed(..) if !is_last => (RunState::Pending, None),
        Verdict::Failed(..) => (RunState::Dead, Some(tourbillon_durable::Reason::Failed)),
        Verdict::GivenUp(_) => (RunState::Dead, Some(tourbillon_durable::Reason::GivenUp)),
    };
    report(&shared, &key, &ended, state, trace.as_ref());
    if !stored.is_notice && !is_told(&shared, &fire, &key, &stored, state, &ended).await {
        // Another node has the attempt. Dropped, it is handed back.
        return;
    }
    let run = watched(&shared, &fire, key, (state, reason, now), &detail);
    let answer = end(&shared, fire, &stored, verdict, (&ended, &detail), is_last);
    if let Some(run) = run {
        // By itself: another attempt can start meanwhile.
        tokio::spawn(publish(shared, run, answer));
    }
}

/// Counts an attempt, and writes its end.
fn end(
    shared: &Shared,
    fire: Fire,
    stored: &Stored,
    verdict: Verdict,
    (ended, detail): (&EndedAttempt, &str),
    is_last: bool,
) -> Ended {
    let meters = &shared.meters;
    match verdict {
        Verdict::Succeeded => {
            meters.succeeded.increment(1);
            // A notice that arrives says nothing about the app's callbacks.
            let started = ended.started.parse::<Timestamp>().ok();
            if let Some(started) = started.filter(|_| !stored.is_notice) {
                meters.succeeds(&shared.app, started.as_millisecond());
            }
            match fire.schedule() {
                Some(_) => fire.complete_with(detail),
                None => fire.complete_with(callback::ended(detail, &stored.definition)),
            }
        }
        Verdict::Waits(within) => {
            let open = callback::opened(detail, &stored.definition, fire.version());
            fire.postpone_with(open, within + callback::MARGIN)
        }
        Verdict::Failed(_, pause) => {
            let counter = if is_last { &meters.dead } else { &meters.retried };
            counter.increment(1);
            fire.fail_after(detail, pause)
        }
        Verdict::GivenUp(_) => {
            meters.given_up.increment(1);
            fire.give_up(detail)
        }
    }
}

/// Makes the notices of an attempt's end, and counts it. Returns `false` if the node has lost the
/// attempt meanwhile.
async fn is_told(
    shared: &Shared,
    fire: &Fire,
    key: &str,
    stored: &Stored,
    state: RunState,
    ended: &EndedAttempt,
) -> bool {
    let Shared { service, app, config, .. } = shared;
    let definition = &stored.definition;
    let notify = definition.notify.as_ref().or(config.notify.as_ref());
    let notice = Notice { service, app, key, fire, notify };
    match state {
        RunState::Dead => notice.dead(ended).await && notice.counted(definition, ended).await,
        RunState::Succeeded => notice.recovered(definition, ended).await,
        _ => true,
    }
}

/// Makes the notice of a run's first attempt, if it has `started` late. Returns as [`is_told`]
/// does.
async fn is_start_told(shared: &Shared, job: &Job, started: Time) -> bool {
    let Shared { service, app, config, .. } = shared;
    let Job { fire, key, stored, .. } = job;
    let definition = &stored.definition;
    let is_first = fire.detail().is_empty();
    if !is_first || started <= fire.scheduled_for() + definition.starts_within() {
        return true;
    }
    let notify = definition.notify.as_ref().or(config.notify.as_ref());
    Notice { service, app, key, fire, notify }.late(started).await
}

/// Exchange with a receiver.
struct Exchange {
    /// `None` if none could be made.
    request: Option<SentRequest>,
    answer: Result<Answer, Lack>,
    timing: Timing,
    /// Values that are not to be shown.
    redact: Redact,
}

impl Exchange {
    /// One without a request, and why.
    fn none(redact: Redact, why: Lack) -> Self {
        Self { request: None, answer: Err(why), timing: Timing::default(), redact }
    }

    /// Judges the answer to a callback that may be tried again so and has failed so often. Returns
    /// the verdict, and the kept part of the attempt with its number, start and duration.
    fn judged(
        self,
        (callback, retry, failures): (&Callback, &Retry, u32),
        (attempt, started, took): (u32, Time, Duration),
    ) -> (Verdict, EndedAttempt) {
        let Self { request, answer, timing, redact } = self;
        let answer = answer.map_err(Lack::into_text);
        let within = callback::complete_within(callback).ok().flatten();
        let (means, now) = ((&*callback.success, within), model::timestamp(started + took));
        let verdict = judge(&answer, means, retry, failures, random(), now);
        let error = match &verdict {
            Verdict::Succeeded | Verdict::Waits(_) => None,
            Verdict::Failed(why, _) | Verdict::GivenUp(why) => Some(redact.text(why)),
        };
        let answer = answer.as_ref().ok();
        let headers = answer.map(|answer| callback::answered(&answer.headers, &redact));
        let body = answer.map(|answer| callback::shown(&answer.body, &redact));
        let ended = EndedAttempt {
            attempt,
            started: model::rfc3339(started),
            ms: millis(took),
            status: answer.map(|answer| answer.status.as_u16()),
            error,
            headers: headers.unwrap_or_default(),
            answer: body.unwrap_or_default(),
            request,
            timing,
            completion: None,
        };
        (verdict, ended)
    }
}

/// Header that says that a call is a test. No definition can have it.
const TEST: HeaderName = HeaderName::from_static("tourbillon-test");

/// Longest time that a test takes, so that it is answered within the time of a request.
const TEST_MAX: Duration = Duration::from_secs(20);

/// Call of an attempt or a test, before it has a request.
struct Outgoing<'a> {
    callback: &'a Callback,
    xtimer: Option<&'a XTimer>,
    attempt: Attempt<'a>,
    is_test: bool,
}

impl Outgoing<'_> {
    /// Sends the request, and reads the answer. If the token is refused, the request is sent again
    /// with another, once.
    async fn exchange(&self, shared: &Shared, now: Timestamp) -> Exchange {
        let limit = match callback::limit(self.callback) {
            Ok(limit) if self.is_test => limit.min(TEST_MAX),
            Ok(limit) => limit,
            Err(why) => {
                let redact = Redact::new(&shared.config, self.callback);
                return Exchange::none(redact, format!("the timeout {why}").into());
            }
        };
        let named = self.tokens(shared);
        if named.is_empty() {
            return self.send(shared, &shared.config, now, limit).await;
        }
        let timer = &shared.service.timer;
        let end = timer.now() + limit;
        let mut stale = BTreeMap::<&str, String>::new();
        let mut first = None::<Exchange>;
        loop {
            let (mut config, mut tokens) = (shared.config.clone(), BTreeMap::new());
            for name in &named {
                let stale = stale.get(name).map(String::as_str);
                match token(shared, name, stale, (end, limit)).await {
                    Ok(token) => {
                        tokens.insert(*name, token.clone());
                        config = config.with_token(name, token);
                    }
                    // Without another token, the answer to this one counts.
                    Err(lack) => {
                        let redact = Redact::new(&config, self.callback);
                        return first.unwrap_or_else(|| Exchange::none(redact, lack));
                    }
                }
            }
            let left = end.saturating_duration_since(timer.now());
            if let Some(first) = first {
                if left.is_zero() || tokens == stale {
                    return first;
                }
                let mut second = self.send(shared, &config, now, left).await;
                second.redact = second.redact.and(first.redact);
                return second;
            }
            let exchange = self.send(shared, &config, now, left).await;
            if !self.is_refused(&exchange) {
                return exchange;
            }
            (stale, first) = (tokens, Some(exchange));
        }
    }

    /// Returns whether the receiver asks for another token.
    fn is_refused(&self, exchange: &Exchange) -> bool {
        let status = exchange.answer.as_ref().map(|answer| answer.status);
        status.is_ok_and(|status| {
            status == StatusCode::UNAUTHORIZED && !self.callback.success.contains(&status.as_u16())
        })
    }

    /// Returns the secrets of the headers that are tokens.
    fn tokens(&self, shared: &Shared) -> BTreeSet<&str> {
        let named = self.callback.headers.values().filter_map(|header| match header {
            Header::Secret { secret } if shared.tokens.has(secret) => Some(&**secret),
            _ => None,
        });
        named.collect()
    }

    /// Sends the request by a configuration that has the values of all secrets.
    async fn send(
        &self,
        shared: &Shared,
        config: &App,
        now: Timestamp,
        limit: Duration,
    ) -> Exchange {
        let redact = Redact::new(config, self.callback);
        let mut request =
            match callback::build(self.callback, self.xtimer, &self.attempt, config, now) {
                Ok(request) => request,
                Err(why) => return Exchange::none(redact, why.into()),
            };
        if self.is_test {
            request.headers_mut().insert(TEST, HeaderValue::from_static("true"));
        }
        let redact = match request.headers().get(callback::COMPLETION_TOKEN) {
            Some(token) => redact.with(&String::from_utf8_lossy(token.as_bytes())),
            None => redact,
        };
        let sent = callback::sent(&request, self.callback);
        let (answer, timing) = shared.client.send(request, limit).await;
        Exchange { request: Some(sent), answer, timing, redact }
    }
}

/// Returns a token that is not the stale one, if it is there before the end of a limit.
async fn token(
    shared: &Shared,
    name: &str,
    stale: Option<&str>,
    (end, limit): (Instant, Duration),
) -> Result<String, Lack> {
    let timer = &shared.service.timer;
    let left = end.saturating_duration_since(timer.now());
    let late = || Err(format!("the token of `{name}` is not there within {limit:?}").into());
    timer.timeout(left, shared.tokens.get(name, stale)).await.unwrap_or_else(|_| late())
}

/// Writes a line into the log.
fn report(
    shared: &Shared,
    key: &str,
    ended: &EndedAttempt,
    state: RunState,
    trace: Option<&Trace>,
) {
    let (app, trace) = (&shared.app, trace.map(Trace::id));
    let EndedAttempt { attempt, ms, status, error, .. } = ended;
    let error = error.as_deref();
    match state {
        RunState::Succeeded => debug!(app, key, attempt, ms, status, trace, "called back"),
        RunState::Waiting => debug!(app, key, attempt, ms, status, trace, "waits for completion"),
        RunState::Dead => warn!(app, key, attempt, ms, status, error, trace, "dead"),
        _ => info!(app, key, attempt, ms, status, error, trace, "failed, and will be tried again"),
    }
}

/// The event of an attempt's end, for `/v1/live`; `None` if it has no client.
fn watched(
    shared: &Shared,
    fire: &Fire,
    key: String,
    (state, reason, now): (RunState, Option<tourbillon_durable::Reason>, Time),
    detail: &str,
) -> Option<Run> {
    let is_over = !matches!(state, RunState::Pending | RunState::Waiting);
    let has_failed = !matches!(state, RunState::Succeeded | RunState::Waiting);
    (shared.service.runs.receiver_count() > 0).then(|| Run {
        id: fire.id().to_string(),
        app: shared.app.clone(),
        key,
        scheduled_for: model::rfc3339(fire.scheduled_for()),
        state,
        reason: reason.map(|reason| reason.to_string()),
        due: None,
        recorded: is_over.then(|| model::rfc3339(now)),
        attempts: fire.attempt(),
        failures: fire.failures() + u32::from(has_failed),
        node: Some(shared.service.node().to_string()),
        ended_attempts: read_attempts(detail),
        can_retry: state == RunState::Dead,
    })
}

/// Notifies observers, once the store has accepted the end.
async fn publish(shared: Arc<Shared>, run: Run, answer: Ended) {
    if answer.await.is_ok() {
        // Nobody may listen any more.
        let _ = shared.service.runs.send(Arc::new(run));
    }
}

#[cfg(test)]
mod tests;
