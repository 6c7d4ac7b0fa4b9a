//! XTimer's routes and JSON, so that its clients work without a change.
//!
//! Its timers have numbers, and its routes no app. So a number has 16 bits of its app's hash, and
//! the key is `xtimer.` and the number.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tourbillon_durable::store::Filter;
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::problem::Problem;
use super::request::BODY_MAX;
use super::runs;
use super::schedules::{Found, Wanted, find, remove, switch};
use crate::Service;
use crate::config::Scope;
use crate::model::{
    self, Callback, CronWhen, Definition, Run, RunState, State as Stands, Stored, When, XTimer,
};

/// How many random bits a number has, below 16 of the app's hash. JSON's numbers hold all of it.
const RANDOM_BITS: u32 = 37;

/// How many records are counted.
const COUNTED: usize = 10_000;

/// A timer, as XTimer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct TimerDef {
    /// Its number; not of a new one.
    #[serde(skip_serializing_if = "is_zero")]
    id: u64,
    /// Whose it is.
    app: String,
    /// What it is called.
    name: String,
    /// Who made it.
    creator: String,
    /// 1: it is not enabled; 2: it is.
    status: u8,
    /// Five fields; or six, the last being the year; or seven, the first being the second.
    cron: String,
    /// What is called.
    #[serde(rename = "notifyHTTPParam")]
    notify_http_param: Option<NotifyHttpParam>,
}

fn is_zero(id: &u64) -> bool {
    *id == 0
}

/// What is called, as XTimer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct NotifyHttpParam {
    method: String,
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    header: Option<BTreeMap<String, Vec<String>>>,
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
}

/// What became of a run, as XTimer has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Task {
    id: u64,
    app: String,
    #[serde(rename = "timerID")]
    timer_id: u64,
    /// What the last attempt was answered, or why it failed.
    output: String,
    /// When it was to run.
    #[serde(rename = "runTimer")]
    run_timer: String,
    /// How long the last attempt took, in milliseconds.
    #[serde(rename = "costTime")]
    cost_time: u64,
    /// 0: it did not run; 1: it runs; 2: it succeeded; 3: it failed.
    status: u8,
}

/// Any of XTimer's answers.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(crate) struct Answer<T> {
    /// 0, or -1 for an error.
    code: i32,
    /// What is wrong.
    msg: String,
    /// `null`, or something for an error.
    err: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
}

type Answered<T> = Result<axum::Json<Answer<T>>, Failure>;

/// An error, in XTimer's JSON.
pub(crate) struct Failure(Problem);

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<tourbillon_durable::StoreError> for Failure {
    fn from(error: tourbillon_durable::StoreError) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failure {
    /// With the status that XTimer answers: 200 where it found something wrong with what was asked
    /// for, which its clients see by the code.
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let msg = match &problem.errors[..] {
            [] => problem.detail.clone(),
            all => {
                let all = all.iter().map(|error| format!("{}: {}", error.field, error.detail));
                all.collect::<Vec<_>>().join("; ")
            }
        };
        let answer =
            Answer::<u64> { code: -1, msg, err: Some(BTreeMap::new()), ..Answer::default() };
        let status = match StatusCode::from_u16(problem.status) {
            Ok(StatusCode::NOT_FOUND | StatusCode::CONFLICT) => StatusCode::OK,
            Ok(StatusCode::UNPROCESSABLE_ENTITY) => StatusCode::BAD_REQUEST,
            _ => {
                let (parts, _) = problem.into_response().into_parts();
                let mut response = (parts.status, axum::Json(answer)).into_response();
                for (name, value) in &parts.headers {
                    if name != axum::http::header::CONTENT_TYPE {
                        response.headers_mut().insert(name, value.clone());
                    }
                }
                return response;
            }
        };
        (status, axum::Json(answer)).into_response()
    }
}

/// A body that is read as JSON, whatever it says that it is, as XTimer does.
pub(crate) struct Lax<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Lax<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, _: &S) -> Result<Self, Self::Rejection> {
        let body = Limited::new(request.into_body(), BODY_MAX).collect().await.map_err(|_| {
            let why = format!("a body has {BODY_MAX} bytes at most");
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, why)
        })?;
        Ok(super::request::read(&body.to_bytes()).map(Self)?)
    }
}

/// A query.
pub(crate) struct Search<T>(T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Search<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let query = Query::try_from_uri(&parts.uri);
        let Query(query) =
            query.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
        Ok(Self(query))
    }
}

/// A timer's number.
#[derive(Debug, Deserialize, IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
pub(crate) struct ById {
    id: u64,
}

/// A page of an app's timers.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ByApp {
    app: String,
    /// From 1.
    #[serde(rename = "pageIndex", default)]
    page_index: usize,
    /// 10 by default.
    #[serde(rename = "pageSize", default)]
    page_size: usize,
}

/// A page of a timer's records.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ByTimer {
    #[serde(rename = "timerID")]
    timer_id: u64,
    /// From 1.
    #[serde(rename = "pageIndex", default)]
    page_index: usize,
    /// 10 by default.
    #[serde(rename = "pageSize", default)]
    page_size: usize,
}

/// From where, and how many.
fn page(index: usize, size: usize) -> (usize, usize) {
    let size = if size == 0 { 10 } else { size.min(1_000) };
    (index.saturating_sub(1).saturating_mul(size), size)
}

fn bits_of(app: &str) -> u64 {
    u64::try_from(model::once_id(app).bits() >> 112).unwrap_or(0)
}

/// A number that nothing of the app has, most likely.
fn draw(app: &str) -> u64 {
    let random = getrandom::u64().expect("the system has random numbers");
    bits_of(app) << RANDOM_BITS | random >> (64 - RANDOM_BITS)
}

fn key(id: u64) -> String {
    format!("xtimer.{id}")
}

/// The app whose timer this is, and what is there.
async fn of(
    service: &Service,
    access: &Access,
    id: u64,
    scope: Scope,
) -> Result<(String, Found), Problem> {
    for (app, _) in access.seen().filter(|(app, _)| bits_of(app) == id >> RANDOM_BITS) {
        if let Some(found) = find(service, app, &key(id)).await? {
            access.to(app, scope)?;
            return Ok((app.clone(), found));
        }
    }
    Err(Problem::not_found("timer"))
}

/// What is kept of a timer.
fn stored(def: &TimerDef, zone: &str) -> Result<(Definition, XTimer), Problem> {
    let required = [
        ("app", def.app.is_empty()),
        ("name", def.name.is_empty()),
        ("creator", def.creator.is_empty()),
        ("cron", def.cron.is_empty()),
        ("notifyHTTPParam", def.notify_http_param.is_none()),
    ];
    let missing = required.iter().filter(|(_, is_missing)| *is_missing);
    let missing: Vec<_> =
        missing.map(|(field, _)| ((*field).to_owned(), "it is missing".to_owned())).collect();
    let (true, Some(notify)) = (missing.is_empty(), &def.notify_http_param) else {
        return Err(Problem::fields(missing));
    };
    let header = notify.header.clone().unwrap_or_default();
    let headers = header.iter().map(|(name, values)| (name.clone(), values.join(", ")));
    let definition = Definition {
        when: When::Cron(CronWhen { cron: translate(&def.cron)?, zone: zone.to_owned() }),
        callback: Callback {
            method: notify.method.clone(),
            url: notify.url.clone(),
            headers: headers.collect(),
            body: notify.body.clone(),
            timeout: None,
        },
        missed: None,
        on_time_within: None,
        overlap: None,
        jitter: None,
        retry: None,
        enabled: def.status == 2,
    };
    let (name, creator, cron) = (def.name.clone(), def.creator.clone(), def.cron.clone());
    Ok((definition, XTimer { name, creator, cron, header }))
}

/// From the dialect of its parser, `cronexpr`, to ours: a year comes last, with six fields or
/// seven, and `a/b` is `a-MAX/b`.
fn translate(cron: &str) -> Result<String, Problem> {
    let wrong = |why: &str| Problem::field("cron", why);
    let cron = cron.trim();
    if cron == "@minutely" {
        return Ok("* * * * *".to_owned());
    }
    let mut fields: Vec<&str> = cron.split_whitespace().collect();
    if fields.len() >= 6 && !matches!(fields.pop(), Some("*" | "?")) {
        return Err(wrong("a year other than `*` cannot be given"));
    }
    let most: &[u32] =
        if fields.len() == 6 { &[59, 59, 23, 31, 12, 6] } else { &[59, 23, 31, 12, 6] };
    let field = |(place, field): (usize, &&str)| {
        let part = |part: &str| match (part.split_once('/'), most.get(place)) {
            (Some((first, step)), Some(most)) if first.parse::<u32>().is_ok() => {
                format!("{first}-{most}/{step}")
            }
            _ => part.to_owned(),
        };
        field.split(',').map(part).collect::<Vec<_>>().join(",")
    };
    Ok(fields.iter().enumerate().map(field).collect::<Vec<_>>().join(" "))
}

/// A timer as XTimer shows it.
fn view(app: &str, id: u64, found: &Found) -> Option<TimerDef> {
    let Stored { definition, xtimer, .. } = found.stored()?;
    let xtimer = xtimer?;
    let callback = definition.callback;
    Some(TimerDef {
        id,
        app: app.to_owned(),
        name: xtimer.name,
        creator: xtimer.creator,
        status: if found.state() == Stands::Enabled { 2 } else { 1 },
        cron: xtimer.cron,
        notify_http_param: Some(NotifyHttpParam {
            method: callback.method,
            url: callback.url,
            header: Some(xtimer.header).filter(|header| !header.is_empty()),
            body: callback.body,
        }),
    })
}

fn done<T>(answer: Answer<T>) -> Answered<T> {
    Ok(axum::Json(answer))
}

/// Makes a timer.
#[utoipa::path(
    post, path = "/api/timer/v1/def", tag = "xtimer", request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "Its number")),
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let (definition, xtimer) = stored(&def, &access.config().xtimer_zone)?;
    let app = access.to(&def.app, Scope::Write)?;
    let now = service.client.now().await?;
    loop {
        let id = draw(&def.app);
        let key = key(id);
        let mut wanted = Wanted::new((&def.app, app), &key, definition.clone(), &headers, now)?;
        wanted.stored.xtimer = Some(xtimer.clone());
        if wanted.create(&service, app).await? == StatusCode::CREATED {
            return done(Answer { id: Some(id), ..Answer::default() });
        }
    }
}

/// Shows a timer.
#[utoipa::path(
    get, path = "/api/timer/v1/def", tag = "xtimer", params(ById),
    responses((status = 200, body = Answer<TimerDef>, description = "It")),
)]
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(ById { id }): Search<ById>,
) -> Answered<TimerDef> {
    let (app, found) = of(&service, &access, id, Scope::Read).await?;
    let data = view(&app, id, &found);
    done(Answer { data, ..Answer::default() })
}

/// Changes a timer. What is not given stays. XTimer answers this, and does nothing.
#[utoipa::path(
    patch, path = "/api/timer/v1/def", tag = "xtimer", request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "It is changed")),
)]
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let (name, found) = of(&service, &access, def.id, Scope::Write).await?;
    let old = view(&name, def.id, &found).ok_or_else(|| Problem::not_found("timer"))?;
    let or = |new: String, old: String| if new.is_empty() { old } else { new };
    let def = TimerDef {
        id: def.id,
        app: name.clone(),
        name: or(def.name, old.name),
        creator: or(def.creator, old.creator),
        status: if def.status == 0 { old.status } else { def.status },
        cron: or(def.cron, old.cron),
        notify_http_param: def.notify_http_param.or(old.notify_http_param),
    };
    let (definition, xtimer) = stored(&def, &access.config().xtimer_zone)?;
    let app = access.to(&name, Scope::Write)?;
    let key = key(def.id);
    let now = service.client.now().await?;
    let mut wanted = Wanted::new((&name, app), &key, definition, &headers, now)?;
    wanted.stored.xtimer = Some(xtimer);
    if let Some(old) = found.stored() {
        wanted.stored.created = old.created;
    }
    wanted.write(&service, None).await?;
    done(Answer::default())
}

/// Removes a timer.
#[utoipa::path(
    delete, path = "/api/timer/v1/def", tag = "xtimer", request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "It is gone")),
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    let (app, _) = of(&service, &access, id, Scope::Write).await?;
    remove(&service, &app, &key(id)).await?;
    done(Answer::default())
}

/// Lists an app's timers that were made by these routes, the newest first.
#[utoipa::path(
    get, path = "/api/timer/v1/defs", tag = "xtimer", params(ByApp),
    responses((status = 200, body = Answer<Vec<TimerDef>>, description = "A page")),
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(by): Search<ByApp>,
) -> Answered<Vec<TimerDef>> {
    access.to(&by.app, Scope::Read)?;
    let prefix = model::name(&by.app, "xtimer.");
    let mut filter = Filter { prefix: Some(prefix.clone()), limit: 1_000, ..Filter::default() };
    let mut all = Vec::new();
    loop {
        let rows = service.reader.schedules(filter.clone()).await?;
        let is_last = rows.len() < 1_000;
        filter.after_name = rows.last().map(|row| row.name.clone());
        for row in rows {
            let id = row.name[prefix.len()..].parse().unwrap_or(0);
            let made = row.id;
            let found = Found::Repeated(row);
            // The identity of a schedule begins with when it was made.
            all.extend(view(&by.app, id, &found).map(|def| (made, def)));
        }
        if is_last {
            break;
        }
    }
    all.sort_by_key(|(made, _)| std::cmp::Reverse(*made));
    let (offset, size) = page(by.page_index, by.page_size);
    let total = Some(all.len() as u64);
    let data = all.into_iter().skip(offset).take(size).map(|(_, def)| def).collect();
    done(Answer { data: Some(data), total, ..Answer::default() })
}

/// Enables a timer that is not.
#[utoipa::path(
    post, path = "/api/timer/v1/enable", tag = "xtimer", request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "It is enabled")),
)]
pub(super) async fn enable(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    turn(&service, &access, id, true).await
}

/// Disables a timer that is enabled. Once this is answered, no callback starts.
#[utoipa::path(
    post, path = "/api/timer/v1/unable", tag = "xtimer", request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "It is disabled")),
)]
pub(super) async fn unable(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    turn(&service, &access, id, false).await
}

async fn turn(service: &Service, access: &Access, id: u64, on: bool) -> Answered<u64> {
    let (app, found) = of(service, access, id, Scope::Write).await?;
    if on == (found.state() == Stands::Enabled) {
        let is = if on { "enabled" } else { "disabled" };
        return Err(Problem::conflict(format!("the timer is {is} already")).into());
    }
    switch(service, &app, &key(id), on).await?;
    done(Answer::default())
}

/// Lists what became of a timer's runs, the newest first.
#[utoipa::path(
    get, path = "/api/task/v1/records", tag = "xtimer", params(ByTimer),
    responses((status = 200, body = Answer<Vec<Task>>, description = "A page")),
)]
pub(super) async fn records(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(by): Search<ByTimer>,
) -> Answered<Vec<Task>> {
    let (app, _) = of(&service, &access, by.timer_id, Scope::Read).await?;
    let (offset, size) = page(by.page_index, by.page_size);
    let mut filter = Filter {
        name: Some(model::name(&app, &key(by.timer_id))),
        newest_first: true,
        limit: 1_000,
        ..Filter::default()
    };
    let (mut total, mut data) = (0, Vec::new());
    loop {
        let records = service.reader.records(filter.clone()).await?;
        let is_last = records.len() < 1_000;
        filter.after_record = records.last().map(|record| (record.recorded, record.timer));
        for record in &records {
            if total >= offset && data.len() < size {
                data.push(task(by.timer_id, &runs::of_record(record)));
            }
            total += 1;
        }
        if is_last || total >= COUNTED {
            break;
        }
    }
    done(Answer { data: Some(data), total: Some(total as u64), ..Answer::default() })
}

fn task(timer_id: u64, run: &Run) -> Task {
    let last = run.tries.last();
    let output = last.map(|last| match (&last.error, last.status) {
        (Some(error), _) => error.clone(),
        (None, Some(status)) => format!("{status} {}", last.answer),
        (None, None) => last.answer.clone(),
    });
    let bits = run.id.parse().map_or(0, |id: tourbillon_durable::TimerId| id.bits());
    Task {
        // What JSON's numbers hold.
        id: bits as u64 >> 11,
        app: run.app.clone(),
        timer_id,
        output: output.or_else(|| run.reason.clone()).unwrap_or_default(),
        run_timer: run.scheduled_for.clone(),
        cost_time: last.map_or(0, |last| last.ms),
        status: match run.state {
            RunState::Running => 1,
            RunState::Succeeded => 2,
            RunState::Dead => 3,
            RunState::Pending | RunState::Skipped | RunState::Cancelled => 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{bits_of, draw, translate};

    #[test]
    fn expressions_of_its_dialect_are_ours() {
        let ours = |cron: &str| translate(cron).unwrap();
        assert_eq!(ours("15,45 */2 * * *"), "15,45 */2 * * *");
        assert_eq!(ours("30 9 * * MON *"), "30 9 * * MON");
        assert_eq!(ours("*/5 * * * * * *"), "*/5 * * * * *");
        assert_eq!(ours("3/15 * L * ?"), "3-59/15 * L * ?");
        assert_eq!(ours("1/20,7 0 0 1/10 * * *"), "1-59/20,7 0 0 1-31/10 * *");
        assert_eq!(ours("@minutely"), "* * * * *");
        assert_eq!(ours("@daily"), "@daily");
        assert!(translate("0 0 1 1 * 2030").is_err());
    }

    #[test]
    fn a_number_is_safe_in_json_and_leads_to_its_app() {
        for app in ["default", "mail", "a"] {
            let id = draw(app);
            assert!(id < 1 << 53);
            assert_eq!(id >> super::RANDOM_BITS, bits_of(app));
        }
    }
}
