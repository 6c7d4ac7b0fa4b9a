//! Schedules and one-shots: what is made, found, changed and stopped.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::store::{Filter, ScheduleRow, State as TimerState, Timer, TimerUpdate};
use tourbillon_durable::{
    Created, Outcome, Record, Replacement, RunNow, ScheduleUpdate, Time, TimerId, Upsert,
};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::definition::{Plan, Times, check_key, payload};
use super::pages::{Left, Live};
use super::problem::Problem;
use super::request::{Json, Params, Path, convert, limit};
use crate::Service;
use crate::callback::{Trace, was_of};
use crate::config::{App, Scope};
use crate::model::{
    self, AtWhen, Attempt, Definition, Made, Page, Schedule, State as Stands, Stopped, Stored, When,
};

/// Number of next times that are shown.
const NEXT: usize = 5;

/// Tries of a change that another came before.
pub(crate) const TRIES: usize = 5;

/// Number of a key's newest records that are searched for one of a one-shot. Runs of a schedule
/// that had the key before may have ended since.
const LOOKED: u32 = 1_000;

/// State of a key.
pub(crate) enum Found {
    /// Repeating schedule.
    Repeated(ScheduleRow),
    /// One-shot that is not over.
    Once(Timer),
    /// One-shot that is over.
    Over(Record),
}

/// State of a key.
#[expect(clippy::large_enum_variant, reason = "one is taken apart as soon as it is there")]
enum Slot {
    /// Something is there.
    Taken(Found),
    /// Nothing is; the identity of the one-shot that is made next.
    Free(TimerId),
}

/// Looks up a key.
///
/// The first one-shot of a key has an identity by its name, and each further one by that before it.
/// So of all that make it at the same time, one does, and a request that is carried out late makes
/// nothing that is over already.
async fn look(service: &Service, app: &str, key: &str) -> Result<Slot, Problem> {
    let name = model::name(app, key);
    let by_name = Filter { name: Some(name.clone()), limit: 1, ..Filter::default() };
    if let Some(row) = service.client.schedules(by_name.clone()).await?.pop() {
        return Ok(Slot::Taken(Found::Repeated(row)));
    }
    // By its name: one that was made again has another id.
    if let Some(timer) = service.client.find(&name).await? {
        return Ok(Slot::Taken(Found::Once(timer)));
    }
    let newest = Filter { newest_first: true, ..by_name };
    let mut last = service.client.records(newest.clone()).await?.pop();
    if last.as_ref().is_some_and(|record| record.schedule.is_some()) {
        let more = service.client.records(Filter { limit: LOOKED, ..newest }).await?;
        last = more.into_iter().find(|record| record.schedule.is_none());
    }
    let Some(mut last) = last else { return Ok(Slot::Free(model::once_id(&name))) };
    // Those of one moment are in no order of time.
    let next = loop {
        let next = TimerId::of_revival(last.timer);
        let by_id = Filter { timer: Some(next), limit: 1, ..Filter::default() };
        match service.client.records(by_id).await?.pop() {
            Some(record) => last = record,
            None => break next,
        }
    };
    Ok(match last.outcome {
        Outcome::Cancelled => Slot::Free(next),
        _ => Slot::Taken(Found::Over(last)),
    })
}

/// Finds what is there under the key.
pub(crate) async fn find(
    service: &Service,
    app: &str,
    key: &str,
) -> Result<Option<Found>, Problem> {
    Ok(match look(service, app, key).await? {
        Slot::Taken(found) => Some(found),
        Slot::Free(_) => None,
    })
}

impl Found {
    /// Returns the payload for its handler, unless it is over.
    fn payload(&self) -> Option<&[u8]> {
        match self {
            Self::Repeated(row) => Some(&row.payload),
            Self::Once(timer) => Some(&timer.new.payload),
            Self::Over(record) => record.payload.as_deref(),
        }
    }

    /// Returns about how many bytes it takes in the store.
    pub(super) fn size(&self) -> usize {
        self.payload().map_or(0, <[u8]>::len)
    }

    /// Returns what was asked for, unless it is over.
    pub(crate) fn stored(&self) -> Option<Stored> {
        serde_json::from_slice(self.payload()?).ok()
    }

    /// Returns `true` if this definition asked for it.
    fn is_of(&self, definition: &Definition) -> bool {
        match self {
            Self::Over(Record { payload: None, detail, .. }) => was_of(detail, definition),
            _ => self.stored().is_some_and(|stored| stored.definition == *definition),
        }
    }

    pub(crate) fn version(&self) -> u64 {
        match self {
            Self::Repeated(row) => row.version,
            Self::Once(timer) => timer.version,
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

    /// Returns it as the API shows it; `None` if a newer version has written it.
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
        let (when, rest, xtimer) = match stored {
            Some(Stored { definition, xtimer, .. }) => {
                (definition.when.clone(), Some(definition), xtimer)
            }
            None => (When::At(AtWhen { at: model::rfc3339(at?) }), None, None),
        };
        let rest = rest.as_ref();
        let xtimer = xtimer.and_then(|kept| kept.view(key));
        Some(Schedule {
            app: app.to_owned(),
            key: key.to_owned(),
            id,
            version: self.version(),
            state,
            next: self.next(now).into_iter().map(model::rfc3339).collect(),
            created,
            when,
            callback: rest.map(|rest| rest.callback.masked()),
            missed: rest.and_then(|rest| rest.missed),
            on_time_within: rest.and_then(|rest| rest.on_time_within.clone()),
            overlap: rest.and_then(|rest| rest.overlap),
            jitter: rest.and_then(|rest| rest.jitter.clone()),
            retry: rest.and_then(|rest| rest.retry.clone()),
            enabled,
            xtimer,
        })
    }
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

/// Body of a request for a new schedule or one-shot.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewSchedule {
    /// Drawn if it is missing.
    key: Option<String>,
    #[serde(flatten)]
    definition: Definition,
}

/// Definition to write under a key.
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

    /// Returns what is kept in place of `old`: what no definition has stays as it was, and so do
    /// values of headers that came back masked.
    ///
    /// # Errors
    ///
    /// Each masked value that there is nothing to put in place of.
    fn in_place_of(&self, old: Option<Stored>) -> Result<Stored, Problem> {
        let mut stored = self.stored.clone();
        let callback = old.as_ref().map(|old| &old.definition.callback);
        stored.definition.callback.keep(callback).map_err(Problem::fields)?;
        let Some(old) = old else { return Ok(stored) };
        if (&stored.definition, stored.at_us) == (&old.definition, old.at_us) {
            stored.traceparent = old.traceparent;
        }
        stored.created = old.created;
        stored.xtimer = stored.xtimer.or(old.xtimer);
        Ok(stored)
    }

    /// Makes it under a key that is free. Returns `false` if the key is not free any more.
    async fn make(&self, service: &Service, id: TimerId) -> Result<bool, Problem> {
        let (name, payload) = (self.name(), payload(&self.in_place_of(None)?)?);
        let client = &service.client;
        let Times::Repeated(schedule) = &self.plan.times else {
            let once = client.once(&model::kind(self.app), self.due()).id(id).name(&*name);
            let once = once.payload(payload).retry(self.plan.retry);
            if let Created::Exists(_) = once.create().await? {
                return Ok(false);
            }
            // A schedule may be made at the same time: who finds the other there steps back.
            let rivals = Filter { name: Some(name), limit: 1, ..Filter::default() };
            let is_alone = client.schedules(rivals).await?.is_empty();
            return Ok(is_alone || client.cancel(id).await? != TimerUpdate::Done);
        };
        match self.upsert(service, schedule, payload, None).await? {
            Upsert::Created => {}
            _ => return Ok(false),
        }
        let is_alone = client.find(&name).await?.is_none();
        if !is_alone {
            client.remove(&name).await?;
        }
        Ok(is_alone)
    }

    /// Makes a schedule, or changes that of this version.
    async fn upsert(
        &self,
        service: &Service,
        schedule: &tourbillon_durable::Schedule,
        payload: Vec<u8>,
        expect: Option<u64>,
    ) -> Result<Upsert, Problem> {
        let every = service.client.every(&self.name(), schedule.clone());
        let every = every.kind(model::kind(self.app)).payload(payload).expect(expect);
        let every = self.plan.policies(every).enabled(self.stored.definition.enabled);
        Ok(every.upsert().await?)
    }

    /// Makes it, unless it is there.
    pub(crate) async fn create(&self, service: &Service, app: &App) -> Result<StatusCode, Problem> {
        for _ in 0..TRIES {
            let id = match look(service, self.app, self.key).await? {
                Slot::Free(id) => id,
                Slot::Taken(found) => {
                    let stored = self.in_place_of(found.stored())?;
                    if found.is_of(&stored.definition) {
                        return Ok(StatusCode::OK);
                    }
                    if matches!(found, Found::Over(_)) {
                        return Err(is_used_up());
                    }
                    let why = "the key is used for another definition; PUT replaces it";
                    return Err(Problem::conflict(why));
                }
            };
            service.quota.check(service, self.app, app.limits.schedules).await?;
            if self.make(service, id).await? {
                service.quota.count(self.app);
                return Ok(StatusCode::CREATED);
            }
        }
        Err(is_contended())
    }

    /// Makes it, or puts it in place of what is there, which has to have the version `expect`.
    pub(crate) async fn replace(
        &self,
        service: &Service,
        app: &App,
        expect: Option<u64>,
    ) -> Result<StatusCode, Problem> {
        let stale = || {
            let why = "it was changed since, or is not there";
            Problem::new(StatusCode::PRECONDITION_FAILED, why)
        };
        for _ in 0..TRIES {
            let found = match look(service, self.app, self.key).await? {
                Slot::Free(_) if expect.is_some() => return Err(stale()),
                Slot::Free(id) => {
                    service.quota.check(service, self.app, app.limits.schedules).await?;
                    if self.make(service, id).await? {
                        service.quota.count(self.app);
                        return Ok(StatusCode::CREATED);
                    }
                    continue;
                }
                Slot::Taken(found) => found,
            };
            let version = found.version();
            if expect.is_some_and(|expect| expect != version) {
                return Err(stale());
            }
            let stored = self.in_place_of(found.stored())?;
            let is_done = match (&found, &self.plan.times) {
                (Found::Repeated(_), Times::Repeated(schedule)) => {
                    let payload = payload(&stored)?;
                    self.upsert(service, schedule, payload, Some(version)).await? != Upsert::Stale
                }
                (Found::Once(timer), Times::At(_) | Times::After(_)) => {
                    self.change(service, timer, &stored).await?
                }
                // Asked for again at another time, it is another.
                (Found::Over(_), Times::At(_)) if found.is_of(&stored.definition) => true,
                (Found::Over(_), _) => return Err(is_used_up()),
                _ => {
                    let why = "what repeats and what happens once do not replace each other";
                    return Err(Problem::conflict(why));
                }
            };
            if is_done {
                return Ok(StatusCode::OK);
            }
        }
        Err(is_contended())
    }

    /// Changes a one-shot, if it is as it was found.
    async fn change(
        &self,
        service: &Service,
        timer: &Timer,
        stored: &Stored,
    ) -> Result<bool, Problem> {
        if timer.new.retry.parse().ok() != Some(self.plan.retry) {
            let why = "a one-shot keeps the policy that it was made with";
            return Err(Problem::field("retry", why));
        }
        let (due, payload) = (self.due(), payload(stored)?);
        if (timer.new.scheduled_for, &timer.new.payload) == (due, &payload) {
            return Ok(true);
        }
        let replacement = Replacement::at(due).payload(payload).expect(timer.version);
        give(service, timer.new.id, replacement).await
    }
}

/// Gives a one-shot another time. Returns `false` if it is not as it was found.
async fn give(
    service: &Service,
    timer: TimerId,
    replacement: Replacement,
) -> Result<bool, Problem> {
    match service.client.replace(timer, replacement).await? {
        TimerUpdate::Done => Ok(true),
        TimerUpdate::Running { attempt } => Err(runs(attempt)),
        TimerUpdate::Stale | TimerUpdate::Gone => Ok(false),
    }
}

fn is_used_up() -> Problem {
    Problem::conflict("the key was used for a one-shot that is over; DELETE frees it")
}

fn is_contended() -> Problem {
    Problem::conflict("others change it at the same time: try again")
}

fn runs(attempt: u32) -> Problem {
    Problem::conflict(format!("attempt {attempt} runs, and nothing was changed: try again"))
}

/// Makes a schedule or a one-shot.
///
/// Repeated, it makes nothing: with a key it can be sent again until it is answered.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "create_schedule",
    params(("app" = String, Path, description = "The app")),
    request_body = NewSchedule,
    responses(
        (status = 201, body = Schedule, description = "It is made"),
        (status = 200, body = Schedule, description = "It is there already"),
        (status = 409, body = Problem, description = "The key is used for something else"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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

/// Filter of a list of schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Listed {
    /// Only keys with this prefix.
    prefix: Option<String>,
    /// Only schedules in this state: `enabled`, `disabled`, `pending` or `running`.
    state: Option<Stands>,
    /// `repeated` or `once`.
    #[param(inline)]
    kind: Option<ListedKind>,
    /// Number of items; 100 by default, 1000 at most.
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// Kind of schedule: repeating or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ListedKind {
    Repeated,
    Once,
}

/// Lists schedules, and one-shots that are not over, by key.
///
/// A list leaves out the bodies of callbacks and says how long they are; showing one has its body.
/// A page may have fewer items than its `limit`, or none, although there are more: it has a `next`
/// as long as there are.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules", tag = "schedules",
    operation_id = "list_schedules",
    params(("app" = String, Path, description = "The app"), Listed),
    responses(
        (status = 200, body = Page<Schedule>, description = "A page"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    Path(app): Path<String>,
    access: Access,
    Params(listed): Params<Listed>,
) -> Result<Response, Problem> {
    access.to(&app, Scope::Read)?;
    let limit = limit(listed.limit)?;
    let draft = service.answers.draft().await;
    let prefix = model::name(&app, listed.prefix.as_deref().unwrap_or(""));
    let after = listed.cursor.as_ref().map(|key| model::name(&app, key));
    let all = Filter { prefix: Some(prefix), after_name: after, ..Filter::default() };
    let enabled = match listed.state {
        Some(Stands::Enabled) => Some(true),
        Some(Stands::Disabled) => Some(false),
        _ => None,
    };
    let state = match listed.state {
        Some(Stands::Running) => Some(TimerState::Running),
        Some(Stands::Pending | Stands::Disabled) => Some(TimerState::Pending),
        _ => None,
    };
    let is_any = listed.state.is_none();
    let repeats = listed.kind != Some(ListedKind::Once) && (is_any || enabled.is_some());
    let happens = listed.kind != Some(ListedKind::Repeated) && (is_any || state.is_some());
    let schedules = repeats.then_some(Filter { enabled, ..all.clone() });
    let timers = happens.then_some(Filter { state, ..all });
    let now = service.reader.now().await?;
    let mut live = Live::new(&service, schedules, timers);
    let mut left = Left::new(limit as usize);
    let (mut items, mut next, mut last) = (Vec::new(), None, None);
    while let Some((name, found)) = live.next(left.rows()).await? {
        if left.is_none() {
            next = last;
            break;
        }
        last = model::app_and_key(&name).map(|(_, key)| key.to_owned());
        let fits = listed.state.is_none_or(|state| found.state() == state);
        match last.as_ref().filter(|_| fits).and_then(|key| found.view(&app, key, now)) {
            Some(view) => {
                left.take(found.size());
                items.push(without_body(view));
            }
            None => left.pass(),
        }
    }
    Ok(draft.answer(&Page { items, next }))
}

/// A schedule as lists show it.
fn without_body(mut schedule: Schedule) -> Schedule {
    if let Some(callback) = schedule.callback.as_mut().filter(|callback| !callback.body.is_empty())
    {
        callback.body_bytes = Some(std::mem::take(&mut callback.body).len());
    }
    schedule
}

/// Shows a schedule or a one-shot.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}", tag = "schedules",
    operation_id = "get_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Schedule, description = "It"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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
    operation_id = "put_schedule",
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
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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
    operation_id = "delete_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is gone"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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
    let client = &service.client;
    for _ in 0..TRIES {
        let found = find(service, app, key).await?;
        match found.ok_or_else(|| Problem::not_found("schedule"))? {
            Found::Repeated(row) => {
                if let ScheduleUpdate::Done { running } = client.remove(&row.name).await? {
                    service.quota.forget(app);
                    return Ok(stopped(&running));
                }
            }
            Found::Once(timer) => match client.cancel(timer.new.id).await? {
                TimerUpdate::Done => {
                    service.quota.forget(app);
                    return Ok(stopped(&[]));
                }
                TimerUpdate::Running { attempt } => return Err(runs(attempt)),
                TimerUpdate::Stale | TimerUpdate::Gone => {}
            },
            Found::Over(record) => {
                // The record stays. What would be made of it next is made, held, and taken back.
                let id = TimerId::of_revival(record.timer);
                let next = client.once(&model::kind(app), Time::NEVER).id(id);
                next.name(model::name(app, key)).create().await?;
                match client.cancel(id).await? {
                    TimerUpdate::Done => return Ok(stopped(&[])),
                    TimerUpdate::Running { attempt } => return Err(runs(attempt)),
                    TimerUpdate::Stale | TimerUpdate::Gone => {}
                }
            }
        }
    }
    Err(is_contended())
}

fn stopped(running: &[(TimerId, u32)]) -> Stopped {
    let attempt =
        |(run, attempt): &(TimerId, u32)| Attempt { run: run.to_string(), attempt: *attempt };
    Stopped { running: running.iter().map(attempt).collect() }
}

/// Enables a schedule from now, or a one-shot at its time; at once if that is past.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/enable", tag = "schedules",
    operation_id = "enable_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is enabled"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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

/// Disables a schedule or a one-shot until it is enabled.
///
/// After the answer no callback starts, on any node. The answer names runs under way.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/disable", tag = "schedules",
    operation_id = "disable_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Stopped, description = "It is disabled"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
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
    for _ in 0..TRIES {
        let found = find(service, app, key).await?;
        let found = found.ok_or_else(|| Problem::not_found("schedule"))?;
        let timer = match &found {
            Found::Over(_) => return Err(Problem::conflict("it is over")),
            Found::Repeated(row) => {
                let switched = match on {
                    true => service.client.enable(&row.name).await?,
                    false => service.client.disable(&row.name).await?,
                };
                return match switched {
                    ScheduleUpdate::Done { running } => Ok(stopped(&running)),
                    ScheduleUpdate::Unchanged => Ok(stopped(&[])),
                    ScheduleUpdate::Gone => Err(Problem::not_found("schedule")),
                };
            }
            Found::Once(timer) => timer,
        };
        let state = found.state();
        if on != (state == Stands::Disabled) && (on || state != Stands::Running) {
            return Ok(stopped(&[]));
        }
        let at = match found.stored().and_then(|stored| stored.at_us) {
            Some(at) if on => Time::from_micros(at),
            None if on => return Err(Problem::conflict("a newer version has written it")),
            _ => Time::NEVER,
        };
        let replacement = Replacement::at(at).expect(timer.version);
        if give(service, timer.new.id, replacement).await? {
            return Ok(stopped(&[]));
        }
    }
    Err(is_contended())
}

/// Calls now: what repeats beside its times, and a one-shot instead of at its time.
///
/// Disabled or removed later, it is taken back, or named as running.
#[utoipa::path(
    post, path = "/v1/apps/{app}/schedules/{key}/fire", tag = "schedules",
    operation_id = "fire_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
    ),
    responses(
        (status = 200, body = Made, description = "The run"),
        (status = 409, body = Problem, description = "It is disabled or over, or another run of it \
            is unfinished and its `overlap` allows no further one"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn fire(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
) -> Result<axum::Json<Made>, Problem> {
    access.to(&app, Scope::Write)?;
    let id = run_now(&service, &app, &key).await?;
    Ok(axum::Json(Made { id: id.to_string() }))
}

async fn run_now(service: &Service, app: &str, key: &str) -> Result<TimerId, Problem> {
    for _ in 0..TRIES {
        let found = find(service, app, key).await?;
        let found = found.ok_or_else(|| Problem::not_found("schedule"))?;
        let timer = match &found {
            Found::Over(_) => return Err(Problem::conflict("it is over")),
            Found::Repeated(row) => {
                return match service.client.run_now(&row.name).await? {
                    RunNow::Done(id) => Ok(id),
                    RunNow::Busy => {
                        let why =
                            "another run is not over, and its `overlap` allows no further one";
                        Err(Problem::conflict(why))
                    }
                    RunNow::Disabled => Err(Problem::conflict("it is disabled")),
                    RunNow::Gone => Err(Problem::not_found("schedule")),
                };
            }
            Found::Once(_) if found.state() == Stands::Disabled => {
                return Err(Problem::conflict("it is disabled"));
            }
            Found::Once(timer) => timer,
        };
        let now = service.client.now().await?;
        let replacement = Replacement::at(now).expect(timer.version);
        if give(service, timer.new.id, replacement).await? {
            return Ok(timer.new.id);
        }
    }
    Err(is_contended())
}
