//! Schedules and one-shots: what is made, found, changed and stopped.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::store::{Filter, ScheduleRow, Timer, Withdrawn};
use tourbillon_durable::{Created, Outcome, Ran, Record, Switched, Time, TimerId, Upserted};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::definition::{Plan, Times, check_key, payload};
use super::problem::Problem;
use super::request::{Json, Params, convert, limit};
use crate::Service;
use crate::callback::Trace;
use crate::config::{App, Scope};
use crate::model::{
    self, AtWhen, Attempt, Definition, Made, Page, Schedule, State as Stands, Stopped, Stored, When,
};

/// How many of the next times are shown.
const NEXT: usize = 5;

/// How often a change is tried again that another came before.
const TRIES: usize = 5;

/// What is there under a key.
pub(crate) enum Found {
    /// What repeats.
    Repeated(ScheduleRow),
    /// What happens once.
    Once(Timer),
    /// What happened once.
    Over(Record),
}

/// Finds what is there under the key.
pub(crate) async fn find(
    service: &Service,
    app: &str,
    key: &str,
) -> Result<Option<Found>, Problem> {
    let name = model::name(app, key);
    let by_name = Filter { name: Some(name.clone()), limit: 1, ..Filter::default() };
    if let Some(row) = service.client.schedules(by_name).await?.pop() {
        return Ok(Some(Found::Repeated(row)));
    }
    // By its name: one that was made again has another id.
    if let Some(timer) = service.client.find(&name).await? {
        return Ok(Some(Found::Once(timer)));
    }
    let by_id = Filter { timer: Some(model::once_id(&name)), limit: 1, ..Filter::default() };
    Ok(service.client.records(by_id).await?.pop().map(Found::Over))
}

impl Found {
    /// What was asked for, unless it is over.
    pub(crate) fn stored(&self) -> Option<Stored> {
        let payload = match self {
            Self::Repeated(row) => &row.payload,
            Self::Once(timer) => &timer.new.payload,
            Self::Over(record) => record.payload.as_ref()?,
        };
        serde_json::from_slice(payload).ok()
    }

    fn version(&self) -> u64 {
        match self {
            Self::Repeated(row) => row.version,
            // A one-shot has no counter; what it is, tells what it was changed to.
            Self::Once(timer) => version_of(timer),
            Self::Over(_) => 0,
        }
    }

    pub(crate) fn state(&self) -> Stands {
        match self {
            Self::Repeated(row) if row.enabled => Stands::Enabled,
            Self::Repeated(_) => Stands::Disabled,
            Self::Once(timer) if timer.running.is_some() => Stands::Running,
            Self::Once(timer) if timer.new.due == Time::NEVER => Stands::Disabled,
            Self::Once(_) => Stands::Pending,
            Self::Over(record) => match record.outcome {
                Outcome::Succeeded => Stands::Succeeded,
                Outcome::Dead => Stands::Dead,
                Outcome::Skipped => Stands::Skipped,
                _ => Stands::Cancelled,
            },
        }
    }

    fn next(&self, now: Time) -> Vec<Time> {
        match self {
            Self::Repeated(row) if row.enabled => match row.spec.parse() {
                Ok(schedule) => {
                    let schedule: tourbillon_durable::Schedule = schedule;
                    schedule.occurrences(now).take(NEXT).collect()
                }
                Err(_) => Vec::new(),
            },
            Self::Once(timer) if timer.new.due != Time::NEVER => vec![timer.new.due],
            _ => Vec::new(),
        }
    }

    /// As the API shows it; `None` if a newer version has written it.
    pub(crate) fn view(&self, app: &str, key: &str, now: Time) -> Option<Schedule> {
        let stored = self.stored();
        let (id, at) = match self {
            Self::Repeated(row) => (row.id.to_string(), None),
            Self::Once(timer) => (timer.new.id.to_string(), Some(timer.new.scheduled_for)),
            Self::Over(record) => (record.timer.to_string(), Some(record.scheduled_for)),
        };
        let created = stored.as_ref().map(|stored| stored.created.clone());
        let state = self.state();
        let enabled = matches!(state, Stands::Enabled | Stands::Pending | Stands::Running);
        let (when, rest) = match stored {
            Some(Stored { definition, .. }) => (definition.when.clone(), Some(definition)),
            None => (When::At(AtWhen { at: model::rfc3339(at?) }), None),
        };
        let rest = rest.as_ref();
        Some(Schedule {
            app: app.to_owned(),
            key: key.to_owned(),
            id,
            version: self.version(),
            state,
            next: self.next(now).into_iter().map(model::rfc3339).collect(),
            created,
            when,
            callback: rest.map(|rest| rest.callback.clone()),
            missed: rest.and_then(|rest| rest.missed),
            on_time_within: rest.and_then(|rest| rest.on_time_within.clone()),
            overlap: rest.and_then(|rest| rest.overlap),
            jitter: rest.and_then(|rest| rest.jitter.clone()),
            retry: rest.and_then(|rest| rest.retry.clone()),
            enabled,
        })
    }
}

/// 52 bits, which JSON's numbers hold.
fn version_of(timer: &Timer) -> u64 {
    use sha2::Digest as _;
    let mut hash = sha2::Sha256::new();
    hash.update(timer.new.scheduled_for.as_micros().to_be_bytes());
    hash.update(timer.new.due.as_micros().to_be_bytes());
    hash.update(&timer.new.payload);
    let first = hash.finalize().iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    (first >> 12).max(1)
}

/// The answer with what is there now, and its version.
async fn show(
    service: &Service,
    app: &str,
    key: &str,
    status: StatusCode,
) -> Result<Response, Problem> {
    let found = find(service, app, key).await?.ok_or_else(|| Problem::not_found("schedule"))?;
    let now = service.client.now().await?;
    let view = found.view(app, key, now).ok_or_else(|| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "a newer version has written it")
    })?;
    let tag = format!("\"{}\"", view.version);
    Ok((status, [(header::ETAG, tag)], axum::Json(view)).into_response())
}

/// What a new schedule or one-shot is made of.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewSchedule {
    /// Drawn if it is missing.
    key: Option<String>,
    #[serde(flatten)]
    definition: Definition,
}

/// What is to be written under a key.
pub(crate) struct Wanted<'a> {
    pub(crate) app: &'a str,
    pub(crate) key: &'a str,
    pub(crate) plan: Plan,
    pub(crate) stored: Stored,
}

impl<'a> Wanted<'a> {
    /// # Errors
    ///
    /// Each field that is wrong.
    pub(crate) fn new(
        (app, limits): (&'a str, &App),
        key: &'a str,
        definition: Definition,
        headers: &HeaderMap,
        now: Time,
    ) -> Result<Self, Problem> {
        check_key(key)?;
        let plan = Plan::new(limits, &definition)?;
        let traceparent = headers.get("traceparent").and_then(|trace| trace.to_str().ok());
        let traceparent = traceparent.filter(|trace| Trace::parse(trace).is_some());
        let at = match plan.times {
            Times::Repeated(_) => None,
            Times::At(at) => Some(at),
            Times::After(after) => Some(now + after),
        };
        let stored = Stored {
            key: key.to_owned(),
            definition,
            created: model::rfc3339(now),
            at_us: at.map(Time::as_micros),
            traceparent: traceparent.map(str::to_owned),
            xtimer: None,
        };
        Ok(Self { app, key, plan, stored })
    }

    fn name(&self) -> String {
        model::name(self.app, self.key)
    }

    /// When a one-shot is due: never while it is disabled.
    fn due(&self) -> Time {
        match self.stored.at_us {
            Some(at) if self.stored.definition.enabled => Time::from_micros(at),
            _ => Time::NEVER,
        }
    }

    /// Makes it or, if it repeats, changes it: from the version `expect` if there is one, and only
    /// if there is none with `Some(None)`. Returns `None` if it is not as expected.
    pub(crate) async fn write(
        &self,
        service: &Service,
        expect: Option<Option<u64>>,
    ) -> Result<Option<StatusCode>, Problem> {
        let (name, payload) = (self.name(), payload(&self.stored)?);
        let kind = model::kind(self.app);
        let Times::Repeated(schedule) = &self.plan.times else {
            let once = service.client.once(&kind, self.due()).id(model::once_id(&name));
            let once = once.name(name).payload(payload).retry(self.plan.retry);
            return Ok(match once.create().await? {
                Created::Created(_) => Some(StatusCode::CREATED),
                Created::Exists(_) => None,
            });
        };
        let every = service.client.every(&name, schedule.clone()).kind(kind).payload(payload);
        let every = self.plan.policies(every).enabled(self.stored.definition.enabled);
        let every = match expect {
            Some(version) => every.expect(version),
            None => every,
        };
        Ok(match every.upsert().await? {
            Upserted::Created => Some(StatusCode::CREATED),
            Upserted::Unchanged | Upserted::Changed => Some(StatusCode::OK),
            Upserted::Stale => None,
        })
    }

    /// Makes it, unless it is there.
    pub(crate) async fn create(&self, service: &Service, app: &App) -> Result<StatusCode, Problem> {
        let repeats = matches!(self.plan.times, Times::Repeated(_));
        for _ in 0..TRIES {
            match find(service, self.app, self.key).await? {
                None => {}
                Some(Found::Over(_)) if !repeats => return Ok(StatusCode::OK),
                Some(Found::Over(_)) => {
                    return Err(Problem::conflict("the key was used for a one-shot that is over"));
                }
                Some(found) => {
                    let is_same = found.stored().is_some_and(|stored| {
                        stored.definition == self.stored.definition
                            && stored.xtimer == self.stored.xtimer
                    });
                    if is_same {
                        return Ok(StatusCode::OK);
                    }
                    let why = "the key is used for another definition; PUT replaces it";
                    return Err(Problem::conflict(why));
                }
            }
            service.quota.check(service, self.app, app.limits.schedules).await?;
            if let Some(made) = self.write(service, Some(None)).await? {
                service.quota.count(self.app);
                return Ok(made);
            }
        }
        Err(Problem::conflict("others change it all the time"))
    }

    /// Makes it, or puts it in place of what is there, which has to have the version `expect`.
    async fn replace(
        &self,
        service: &Service,
        app: &App,
        expect: Option<u64>,
    ) -> Result<StatusCode, Problem> {
        let stale = || {
            let why = "it was changed since, or is not there";
            Problem::new(StatusCode::PRECONDITION_FAILED, why)
        };
        let repeats = matches!(self.plan.times, Times::Repeated(_));
        for _ in 0..TRIES {
            let found = find(service, self.app, self.key).await?;
            let version = found.as_ref().map(Found::version);
            if expect.is_some() && expect != version {
                return Err(stale());
            }
            let done = match found {
                None => {
                    service.quota.check(service, self.app, app.limits.schedules).await?;
                    let made = self.write(service, Some(None)).await?;
                    made.inspect(|_| service.quota.count(self.app))
                }
                Some(Found::Repeated(_)) if repeats => self.write(service, Some(version)).await?,
                Some(Found::Once(timer)) if !repeats => self.change(service, &timer).await?,
                Some(Found::Over(_)) => {
                    return Err(Problem::conflict("the key was used for a one-shot that is over"));
                }
                Some(_) => {
                    let why = "what repeats and what happens once do not replace each other";
                    return Err(Problem::conflict(why));
                }
            };
            if let Some(status) = done {
                return Ok(status);
            }
        }
        Err(stale())
    }

    /// Changes a one-shot.
    async fn change(
        &self,
        service: &Service,
        timer: &Timer,
    ) -> Result<Option<StatusCode>, Problem> {
        if timer.new.retry.parse().ok() != Some(self.plan.retry) {
            let why = "a one-shot keeps the policy that it was made with";
            return Err(Problem::field("retry", why));
        }
        let payload = payload(&self.stored)?;
        match service.client.replace(timer.new.id, self.due(), payload).await? {
            Withdrawn::Done => Ok(Some(StatusCode::OK)),
            Withdrawn::Running { attempt } => Err(runs(attempt)),
            Withdrawn::Gone => Ok(None),
        }
    }
}

fn runs(attempt: u32) -> Problem {
    Problem::conflict(format!("attempt {attempt} runs, and nothing was changed: try again"))
}

/// Makes a schedule or a one-shot.
///
/// Repeated, it makes nothing: with a key it can be sent again until it is answered.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules", tag = "schedules",
    params(("app" = String, Path, description = "The app")),
    request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "It is made"),
        (status = 200, body = Schedule, description = "It is there already"),
        (status = 409, body = Problem, description = "The key is used for something else"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    Path(app): Path<String>,
    access: Access,
    headers: HeaderMap,
    Json(mut body): Json<serde_json::Map<String, serde_json::Value>>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let key = match body.remove("key") {
        None | Some(serde_json::Value::Null) => TimerId::new(Time::default()).to_string(),
        Some(serde_json::Value::String(key)) => key,
        Some(_) => return Err(Problem::field("key", "it is not a string")),
    };
    let definition = convert(serde_json::Value::Object(body))?;
    let now = service.client.now().await?;
    let wanted = Wanted::new((&app, limits), &key, definition, &headers, now)?;
    let status = wanted.create(&service, limits).await?;
    show(&service, &app, &key, status).await
}

/// Which schedules are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Those whose key starts so.
    prefix: Option<String>,
    /// Those that stand so: `enabled`, `disabled`, `pending` or `running`.
    state: Option<Stands>,
    /// `repeated` or `once`.
    #[param(inline)]
    kind: Option<ListedKind>,
    /// How many; 100 by default, 1000 at most.
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// What repeats, or what does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ListedKind {
    Repeated,
    Once,
}

/// Lists schedules, and one-shots that are not over, by key.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules", tag = "schedules",
    params(("app" = String, Path, description = "The app"), Listed),
    responses(
        (status = 200, body = Page<Schedule>, description = "A page"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Path(app): Path<String>,
    access: Access,
    Params(listed): Params<Listed>,
) -> Result<axum::Json<Page<Schedule>>, Problem> {
    access.to(&app, Scope::Read)?;
    let limit = limit(listed.limit)?;
    let (mut rows, mut timers) = (Vec::new(), Vec::new());
    let prefix = model::name(&app, listed.prefix.as_deref().unwrap_or(""));
    let after = listed.cursor.as_ref().map(|key| model::name(&app, key));
    let all = Filter {
        prefix: Some(prefix),
        after_name: after,
        // One more says whether there is a next page.
        limit: limit + 1,
        ..Filter::default()
    };
    let enabled = match listed.state {
        Some(Stands::Enabled) => Some(true),
        Some(Stands::Disabled) => Some(false),
        _ => None,
    };
    if listed.kind != Some(ListedKind::Once) && (listed.state.is_none() || enabled.is_some()) {
        rows = service.reader.schedules(Filter { enabled, ..all.clone() }).await?;
    }
    if listed.kind != Some(ListedKind::Repeated) && listed.state != Some(Stands::Enabled) {
        timers = once(&service, all, listed.state).await?;
    }
    let now = service.reader.now().await?;
    let rows = rows.into_iter().map(|row| (row.name.clone(), Found::Repeated(row)));
    let timers = timers
        .into_iter()
        .map(|timer| (timer.new.name.clone().unwrap_or_default(), Found::Once(timer)));
    let mut found: Vec<_> = rows.chain(timers).collect();
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let more = found.len() > limit as usize;
    found.truncate(limit as usize);
    let key = |name: &str| model::app_and_key(name).map(|(_, key)| key.to_owned());
    let next = found.last().filter(|_| more).and_then(|(name, _)| key(name));
    let items = found.iter().filter_map(|(name, found)| found.view(&app, &key(name)?, now));
    Ok(axum::Json(Page { items: items.collect(), next }))
}

/// One-shots that stand so, as many as the filter asks for.
async fn once(
    service: &Service,
    mut filter: Filter,
    state: Option<Stands>,
) -> Result<Vec<Timer>, Problem> {
    let limit = filter.limit as usize;
    let mut found = Vec::new();
    loop {
        let page = service.reader.timers(filter.clone()).await?;
        let is_last = page.len() < limit;
        filter.after_name = page.last().and_then(|timer| timer.new.name.clone());
        let fits =
            |timer: &Timer| state.is_none_or(|state| Found::Once(timer.clone()).state() == state);
        found.extend(page.into_iter().filter(fits));
        if is_last || found.len() >= limit {
            found.truncate(limit);
            return Ok(found);
        }
    }
}

/// Shows a schedule or a one-shot.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Schedule, description = "It"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    show(&service, &app, &key, StatusCode::OK).await
}

/// Makes a schedule or a one-shot, or puts it in place of what is there.
///
/// With `If-Match`, only in place of that version.
#[utoipa::path(
    put, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
        ("If-Match" = Option<String>, Header, description = "The version that is replaced"),
    ),
    request_body = Definition,
    responses(
        (status = 200, body = Schedule, description = "It is replaced"),
        (status = 201, body = Schedule, description = "It is made"),
        (status = 412, body = Problem, description = "It has another version"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn put(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
    headers: HeaderMap,
    Json(definition): Json<Definition>,
) -> Result<Response, Problem> {
    let limits = access.to(&app, Scope::Write)?;
    let expect = headers.get(header::IF_MATCH).map(|tag| {
        let tag = tag.to_str().unwrap_or("").trim().trim_matches('"');
        tag.parse().map_err(|_| {
            Problem::new(StatusCode::BAD_REQUEST, "`If-Match` is not a version, as `ETag` has it")
        })
    });
    let now = service.client.now().await?;
    let wanted = Wanted::new((&app, limits), &key, definition, &headers, now)?;
    let status = wanted.replace(&service, limits, expect.transpose()?).await?;
    show(&service, &app, &key, status).await
}

/// Removes a schedule, or takes a one-shot back. What became of its runs stays.
///
/// Once this is answered, no callback starts, on any node. What runs still is named.
#[utoipa::path(
    delete, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is gone"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    let stopped = remove(&service, &app, &key).await?;
    Ok(axum::Json(stopped))
}

/// Removes what is there under the key.
pub(crate) async fn remove(service: &Service, app: &str, key: &str) -> Result<Stopped, Problem> {
    let name = model::name(app, key);
    match service.client.remove(&name).await? {
        Switched::Done { running } => {
            service.quota.forget(app);
            return Ok(stopped(&running));
        }
        Switched::Unchanged | Switched::Gone => {}
    }
    let timer = service.client.find(&name).await?;
    let timer = timer.ok_or_else(|| Problem::not_found("schedule"))?;
    match service.client.cancel(timer.new.id).await? {
        Withdrawn::Done => {
            service.quota.forget(app);
            Ok(Stopped { running: Vec::new() })
        }
        Withdrawn::Running { attempt } => Err(runs(attempt)),
        Withdrawn::Gone => Err(Problem::not_found("schedule")),
    }
}

fn stopped(running: &[(TimerId, u32)]) -> Stopped {
    let attempt =
        |(run, attempt): &(TimerId, u32)| Attempt { run: run.to_string(), attempt: *attempt };
    Stopped { running: running.iter().map(attempt).collect() }
}

/// Has a schedule go on from now, or a one-shot happen at its time; at once if that is past.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/enable", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is enabled"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn enable(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    switch(&service, &app, &key, true).await.map(axum::Json)
}

/// Has a schedule or a one-shot stop until it is enabled.
///
/// Once this is answered, no callback starts, on any node. What runs still is named.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/disable", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is disabled"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn disable(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Stopped>, Problem> {
    access.to(&app, Scope::Write)?;
    switch(&service, &app, &key, false).await.map(axum::Json)
}

/// Enables or disables what is there under the key.
pub(crate) async fn switch(
    service: &Service,
    app: &str,
    key: &str,
    on: bool,
) -> Result<Stopped, Problem> {
    let timer = match find(service, app, key).await? {
        None => return Err(Problem::not_found("schedule")),
        Some(Found::Over(_)) => return Err(Problem::conflict("it is over")),
        Some(Found::Repeated(row)) => {
            let switched = match on {
                true => service.client.enable(&row.name).await?,
                false => service.client.disable(&row.name).await?,
            };
            return match switched {
                Switched::Done { running } => Ok(stopped(&running)),
                Switched::Unchanged => Ok(Stopped { running: Vec::new() }),
                Switched::Gone => Err(Problem::not_found("schedule")),
            };
        }
        Some(Found::Once(timer)) => timer,
    };
    let id = timer.new.id;
    let found = Found::Once(timer);
    if on != (found.state() == Stands::Disabled) {
        let is_running = found.state() == Stands::Running;
        if on || !is_running {
            return Ok(Stopped { running: Vec::new() });
        }
    }
    let at = found.stored().and_then(|stored| stored.at_us).map(Time::from_micros);
    let at = at.filter(|_| on).unwrap_or(Time::NEVER);
    match service.client.reschedule(id, at).await? {
        Withdrawn::Done => Ok(Stopped { running: Vec::new() }),
        Withdrawn::Running { attempt } => Err(runs(attempt)),
        Withdrawn::Gone => Err(Problem::conflict("it is over")),
    }
}

/// Calls now: what repeats beside its times, and a one-shot instead of at its time.
///
/// Disabled or removed later, it is taken back, or named as running.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/fire", tag = "schedules",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Made, description = "The run"),
        (status = 409, body = Problem, description = "It is disabled or over, or another run of it \
            is unfinished and its `overlap` allows no further one"),
        (status = "default", body = Problem, description = "Why not"),
    ),
)]
pub(super) async fn fire(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let is_disabled = || Err(Problem::conflict("it is disabled"));
    let id = match find(&service, &app, &key).await? {
        None => return Err(Problem::not_found("schedule")),
        Some(Found::Over(_)) => return Err(Problem::conflict("it is over")),
        Some(Found::Repeated(row)) => match service.client.run_now(&row.name).await? {
            Ran::Done(id) => id,
            Ran::Busy => {
                let why = "another run is not over, and its `overlap` allows no further one";
                return Err(Problem::conflict(why));
            }
            Ran::Disabled => return is_disabled(),
            Ran::Gone => return Err(Problem::not_found("schedule")),
        },
        Some(found) if found.state() == Stands::Disabled => return is_disabled(),
        Some(Found::Once(timer)) => {
            let now = service.client.now().await?;
            match service.client.reschedule(timer.new.id, now).await? {
                Withdrawn::Done => timer.new.id,
                Withdrawn::Running { attempt } => return Err(runs(attempt)),
                Withdrawn::Gone => return Err(Problem::conflict("it is over")),
            }
        }
    };
    Ok(axum::Json(Made { id: id.to_string() }))
}
