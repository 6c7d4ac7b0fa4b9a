//! XTimer's routes and JSON, for its clients. The README has what differs.
//!
//! Its timers have numbers, and its routes no app. So a number has 16 bits of its app's hash, and
//! the key is `xtimer.` and the number.

mod asked;
mod dialect;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tourbillon_durable::store::Filter;
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::pages::{Left, Live, PAGE, ROWS};
use super::problem::Problem;
use super::runs;
use super::schedules::{Found, TRIES, Wanted, find, remove, switch};
use crate::Service;
use crate::config::{App, Scope};
use crate::model::{
    self, Callback, CronWhen, Definition, Run, RunState, State as Stands, Stored, When, XTIMER,
    XTimer,
};
use asked::{Lax, Search, page};

/// Random bits of a number, below 16 of the app's hash. JSON's numbers hold all of it.
const RANDOM_BITS: u32 = 37;

/// Most records that are counted.
const COUNTED: usize = 10_000;

/// A timer, as XTimer has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct TimerDef {
    /// Its number; not of a new one.
    #[serde(skip_serializing_if = "is_zero")]
    id: u64,
    /// App of the timer.
    app: String,
    /// Name of the timer.
    name: String,
    /// Creator of the timer.
    creator: String,
    /// 1: it is not enabled; 2: it is.
    status: u8,
    /// Five fields; or six, the last being the year; or seven, the first being the second.
    cron: String,
    /// Callback of the timer.
    #[serde(rename = "notifyHTTPParam")]
    notify_http_param: Option<NotifyHttpParam>,
}

fn is_zero(id: &u64) -> bool {
    *id == 0
}

/// Callback, as XTimer has it.
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

/// Run, as XTimer has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Task {
    id: u64,
    app: String,
    #[serde(rename = "timerID")]
    timer_id: u64,
    /// Answer of the last attempt, or the reason of its failure.
    output: String,
    /// When it was to run.
    #[serde(rename = "runTimer")]
    run_timer: String,
    /// Time that the last attempt took, in milliseconds.
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
    /// Explanation of the error.
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
    /// Number of the page, from 1.
    #[serde(rename = "pageIndex", default)]
    page_index: i64,
    /// 10 by default, 100 at most.
    #[serde(rename = "pageSize", default)]
    page_size: i64,
}

/// A page of a timer's records.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ByTimer {
    #[serde(rename = "timerID")]
    timer_id: u64,
    /// Number of the page, from 1.
    #[serde(rename = "pageIndex", default)]
    page_index: i64,
    /// 10 by default, 100 at most.
    #[serde(rename = "pageSize", default)]
    page_size: i64,
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
    format!("{XTIMER}{id}")
}

/// A timer of XTimer's, with what is kept of it.
struct Its {
    /// The app that it is kept in.
    app: String,
    found: Found,
    stored: Stored,
    xtimer: XTimer,
}

impl Its {
    /// Returns `None` if it was not made by these routes.
    fn new(app: &str, found: Found) -> Option<Self> {
        let stored = found.stored()?;
        let xtimer = stored.xtimer.clone()?;
        Some(Self { app: app.to_owned(), found, stored, xtimer })
    }

    fn is_enabled(&self) -> bool {
        self.found.state() == Stands::Enabled
    }

    /// Returns it as XTimer shows it.
    fn view(&self, id: u64) -> TimerDef {
        let Self { app, stored, xtimer, .. } = self;
        TimerDef::of((app, id), self.is_enabled(), &stored.definition, xtimer)
    }
}

fn not_found() -> Problem {
    Problem::not_found("timer")
}

/// Finds the timer of this number.
async fn of(service: &Service, access: &Access, id: u64, scope: Scope) -> Result<Its, Problem> {
    for app in may_have(access, id) {
        if let Some(its) =
            find(service, app, &key(id)).await?.and_then(|found| Its::new(app, found))
        {
            access.to(app, scope)?;
            return Ok(its);
        }
    }
    Err(not_found())
}

/// Returns the apps that a timer of this number may be in.
fn may_have(access: &Access, id: u64) -> impl Iterator<Item = &String> {
    access.seen().map(|(app, _)| app).filter(move |app| bits_of(app) == id >> RANDOM_BITS)
}

/// Returns the app that a timer of XTimer's app is kept in, and whether that has another name.
fn home<'a>(access: &'a Access, app: &'a str) -> Result<(&'a str, &'a App, bool), Problem> {
    let config = access.config();
    match &config.xtimer_app {
        Some(home) if !config.apps.contains_key(app) => {
            Ok((home, access.to(home, Scope::Write)?, true))
        }
        _ => match access.to(app, Scope::Write) {
            Err(problem) if problem.status == StatusCode::NOT_FOUND => {
                let why = "there is no such app; with `--xtimer-app`, one keeps those of any other";
                Err(Problem::new(StatusCode::NOT_FOUND, why))
            }
            limits => Ok((app, limits?, false)),
        },
    }
}

/// Reads a new timer: its definition, and what is kept beside it.
fn new(def: TimerDef, zone: &str) -> Result<(Definition, XTimer), Problem> {
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
    if !missing.is_empty() {
        return Err(Problem::fields(missing));
    }
    let mut definition = Definition {
        when: When::Cron(CronWhen { cron: String::new(), zone: zone.to_owned() }),
        callback: Callback {
            method: String::new(),
            url: String::new(),
            headers: BTreeMap::new(),
            body: String::new(),
            body_bytes: None,
            timeout: None,
        },
        missed: None,
        on_time_within: None,
        overlap: None,
        jitter: None,
        retry: None,
        enabled: false,
    };
    let mut xtimer = XTimer::default();
    def.apply(&mut definition, &mut xtimer, zone)?;
    Ok((definition, xtimer))
}

fn done<T>(answer: Answer<T>) -> Answered<T> {
    Ok(axum::Json(answer))
}

/// Makes a timer.
#[utoipa::path(
    post, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_create",
    request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "Its number")),
)]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let app = def.app.clone();
    let (definition, mut xtimer) = new(def, &access.config().xtimer_zone)?;
    let (home, limits, is_other) = home(&access, &app)?;
    xtimer.app = is_other.then(|| app.clone());
    let now = service.client.now().await?;
    loop {
        let id = draw(home);
        let key = key(id);
        let mut wanted = Wanted::new((home, limits), &key, definition.clone(), &headers, now)?;
        wanted.stored.xtimer = Some(xtimer.clone());
        if wanted.create(&service, limits).await? == StatusCode::CREATED {
            return done(Answer { id: Some(id), ..Answer::default() });
        }
    }
}

/// Shows a timer.
#[utoipa::path(
    get, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_get",
    params(ById),
    responses((status = 200, body = Answer<TimerDef>, description = "It")),
)]
pub(super) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(ById { id }): Search<ById>,
) -> Answered<TimerDef> {
    let data = Some(of(&service, &access, id, Scope::Read).await?.view(id));
    done(Answer { data, ..Answer::default() })
}

/// Changes a timer. What is not given stays. XTimer answers this, and does nothing.
#[utoipa::path(
    patch, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_update",
    request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "It is changed")),
)]
pub(super) async fn update(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let key = key(def.id);
    for _ in 0..TRIES {
        let mut its = of(&service, &access, def.id, Scope::Write).await?;
        let mut definition = its.stored.definition.clone();
        definition.enabled = its.is_enabled();
        def.clone().apply(&mut definition, &mut its.xtimer, &access.config().xtimer_zone)?;
        let limits = access.to(&its.app, Scope::Write)?;
        let now = service.client.now().await?;
        let mut wanted = Wanted::new((&its.app, limits), &key, definition, &headers, now)?;
        wanted.stored.xtimer = Some(its.xtimer);
        match wanted.replace(&service, limits, Some(its.found.version())).await {
            Ok(_) => return done(Answer::default()),
            // Changed since, or deleted.
            Err(problem) if problem.status == StatusCode::PRECONDITION_FAILED => {}
            Err(problem) => return Err(problem.into()),
        }
    }
    Err(Problem::conflict("others change it at the same time: try again").into())
}

/// Removes a timer.
#[utoipa::path(
    delete, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_delete",
    request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "It is gone")),
)]
pub(super) async fn delete(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    let removed = match of(&service, &access, id, Scope::Write).await {
        Ok(its) => remove(&service, &its.app, &key(id)).await.map(drop),
        Err(problem) => Err(problem),
    };
    match removed {
        // To XTimer, what is not there is removed.
        Err(problem) if problem.status != StatusCode::NOT_FOUND => Err(problem.into()),
        _ => done(Answer::default()),
    }
}

/// Lists an app's timers that were made by these routes, the newest first.
#[utoipa::path(
    get, path = "/api/timer/v1/defs", tag = "xtimer",
    operation_id = "xtimer_list",
    params(ByApp),
    responses((status = 200, body = Answer<Vec<TimerDef>>, description = "A page")),
)]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(by): Search<ByApp>,
) -> Result<Response, Failure> {
    let config = access.config();
    let own = config.apps.contains_key(&by.app).then_some((&by.app, None));
    let other = config.xtimer_app.as_ref().filter(|home| **home != by.app);
    let other = other.map(|home| (home, Some(&by.app)));
    if own.is_none() && other.is_none() {
        home(&access, &by.app)?;
    }
    let homes: Vec<_> = own.into_iter().chain(other).collect();
    homes.iter().try_for_each(|(home, _)| access.to(home, Scope::Read).map(drop))?;
    let draft = service.answers.draft().await;
    let mut all = Vec::new();
    for (home, app) in homes {
        let every = Filter { prefix: Some(model::name(home, XTIMER)), ..Filter::default() };
        let mut rows = Live::new(&service, Some(every), None);
        while let Some((name, found)) = rows.next(ROWS).await? {
            let Found::Repeated(row) = &found else { continue };
            // The identity of a schedule begins with when it was made.
            let made = row.id;
            if Its::new(home, found).is_some_and(|its| its.xtimer.app.as_ref() == app) {
                all.push((made, home, name));
            }
        }
    }
    all.sort_by_key(|(made, ..)| std::cmp::Reverse(*made));
    let (offset, size) = page(by.page_index, by.page_size);
    let total = Some(all.len() as u64);
    let (mut data, mut left) = (Vec::new(), Left::new(usize::MAX));
    for (_, home, name) in all.into_iter().skip(offset).take(size) {
        let id = model::app_and_key(&name).and_then(|(_, key)| key.strip_prefix(XTIMER));
        let id = id.and_then(|id| id.parse().ok()).unwrap_or(0);
        let by_name = Filter { name: Some(name), limit: 1, ..Filter::default() };
        // What was removed meanwhile is left out.
        let row = service.reader.schedules(by_name).await?.pop();
        let Some(its) = row.and_then(|row| Its::new(home, Found::Repeated(row))) else { continue };
        if left.is_none() {
            // Fewer would be taken for all.
            let why = format!("so many have more than {PAGE} bytes: ask for fewer");
            return Err(Problem::field("pageSize", why).into());
        }
        left.take(its.found.size());
        data.push(its.view(id));
    }
    Ok(draft.answer(&Answer { data: Some(data), total, ..Answer::default() }))
}

/// Enables a timer that is not.
#[utoipa::path(
    post, path = "/api/timer/v1/enable", tag = "xtimer",
    operation_id = "xtimer_enable",
    request_body = ById,
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
    post, path = "/api/timer/v1/unable", tag = "xtimer",
    operation_id = "xtimer_disable",
    request_body = ById,
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
    let its = of(service, access, id, Scope::Write).await?;
    if on == its.is_enabled() {
        let is = if on { "enabled" } else { "disabled" };
        return Err(Problem::conflict(format!("the timer is {is} already")).into());
    }
    switch(service, &its.app, &key(id), on).await?;
    done(Answer::default())
}

/// Lists what becomes of a timer's runs, the newest first, also once the timer is deleted.
#[utoipa::path(
    get, path = "/api/task/v1/records", tag = "xtimer",
    operation_id = "xtimer_records",
    params(ByTimer),
    responses((status = 200, body = Answer<Vec<Task>>, description = "A page")),
)]
pub(super) async fn records(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(by): Search<ByTimer>,
) -> Answered<Vec<Task>> {
    let (id, (offset, size)) = (by.timer_id, page(by.page_index, by.page_size));
    let (mut total, mut data) = (0, Vec::new());
    let mut add = |run: Run, app: &Option<String>| {
        if total >= offset && data.len() < size {
            data.push(task(id, run, app));
        }
        total += 1;
    };
    for home in may_have(&access, id) {
        access.to(home, Scope::Read)?;
        let its = find(&service, home, &key(id)).await?.and_then(|found| Its::new(home, found));
        let app = its.and_then(|its| its.xtimer.app);
        let name = Some(model::name(home, &key(id)));
        let mut filter = Filter { name, newest_first: true, limit: ROWS, ..Filter::default() };
        let waiting = service.reader.timers(filter.clone()).await?;
        waiting.iter().rev().for_each(|timer| add(runs::of_timer(timer), &app));
        let mut counted = 0;
        loop {
            let records = service.reader.records(filter.clone()).await?;
            let is_last = records.len() < ROWS as usize;
            filter.after_record = records.last().map(|record| (record.recorded, record.timer));
            counted += records.len();
            records.iter().for_each(|record| add(runs::of_record(record), &app));
            if is_last || counted >= COUNTED {
                break;
            }
        }
    }
    done(Answer { data: Some(data), total: Some(total as u64), ..Answer::default() })
}

fn task(timer_id: u64, run: Run, app: &Option<String>) -> Task {
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
        app: app.clone().unwrap_or(run.app),
        timer_id,
        output: output.or(run.reason).unwrap_or_default(),
        run_timer: run.scheduled_for,
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
    use super::{bits_of, draw};

    #[test]
    fn a_number_is_safe_in_json_and_leads_to_its_app() {
        for app in ["default", "mail", "a"] {
            let id = draw(app);
            assert!(id < 1 << 53);
            assert_eq!(id >> super::RANDOM_BITS, bits_of(app));
        }
    }
}
