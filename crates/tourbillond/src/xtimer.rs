//! XTimer's routes and JSON, for its clients. The README lists the differences.
//!
//! Its timers have numbers, and its routes no app. So a number has 16 bits of its app's hash, and
//! the key is `xtimer.` and the number.

mod asked;
mod dialect;
mod timer;
mod wire;

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;

use crate::api::{Access, Problem, traceparent};
use crate::catalog::{Conflict, Error, Found, PAGE, PageBudget, ROWS, Written};
use crate::config::Scope;
use crate::model::{self, Run, XTIMER};
use crate::service::Service;
use asked::{Lax, Search, page};
use timer::{Its, draw, home, key, may_have};
pub(crate) use wire::Failure;
use wire::{Answer, ByApp, ById, ByTimer, NotifyHttpParam, Task, TimerDef};

/// Tries of a change that another change came before.
const TRIES: usize = 5;

/// Most records that are counted.
const COUNTED: usize = 10_000;

type Answered<T> = Result<axum::Json<Answer<T>>, Failure>;

fn done<T>(answer: Answer<T>) -> Answered<T> {
    Ok(axum::Json(answer))
}

/// Creates a timer.
#[utoipa::path(
    post, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_create",
    request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "The number of the timer.")),
)]
pub(crate) async fn create(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let app = def.app.clone();
    let (definition, mut xtimer) = dialect::new(def, &access.config().xtimer_zone)?;
    let (home, limits, is_other) = home(&access, &app)?;
    xtimer.app = is_other.then(|| app.clone());
    loop {
        let id = draw(home);
        let key = key(id);
        access.concern(&key);
        let trace = traceparent(&headers);
        let draft = service.catalog.draft((home, limits), &key, definition.clone(), trace)?;
        let draft = draft.xtimer(xtimer.clone());
        if draft.create(&service.catalog, None).await?.written == Written::Created {
            return done(Answer { id: Some(id), ..Answer::default() });
        }
    }
}

/// Returns a timer by its number.
#[utoipa::path(
    get, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_get",
    params(ById),
    responses((status = 200, body = Answer<TimerDef>, description = "The timer as it is now.")),
)]
pub(crate) async fn get(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(ById { id }): Search<ById>,
) -> Answered<TimerDef> {
    let data = Some(timer::of(&service, &access, id, Scope::Read).await?.view(id));
    done(Answer { data, ..Answer::default() })
}

/// Changes a timer; fields that are missing stay. XTimer itself answers, and changes nothing.
#[utoipa::path(
    patch, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_update",
    request_body = TimerDef,
    responses((status = 200, body = Answer<u64>, description = "The timer was changed.")),
)]
pub(crate) async fn update(
    State(service): State<Arc<Service>>,
    access: Access,
    headers: HeaderMap,
    Lax(def): Lax<TimerDef>,
) -> Answered<u64> {
    let key = key(def.id);
    for _ in 0..TRIES {
        let mut its = timer::of(&service, &access, def.id, Scope::Write).await?;
        let mut definition = its.stored.definition.clone();
        definition.enabled = its.is_enabled();
        def.clone().apply(&mut definition, &mut its.xtimer, &access.config().xtimer_zone)?;
        let limits = access.to(&its.app, Scope::Write)?;
        let trace = traceparent(&headers);
        let draft = service.catalog.draft((&its.app, limits), &key, definition, trace)?;
        let draft = draft.xtimer(its.xtimer);
        match draft.replace(&service.catalog, Some(its.found.version())).await {
            Ok(_) => return done(Answer::default()),
            // Changed since, or deleted.
            Err(Error::Stale) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::from(Conflict::Contended).into())
}

/// Deletes a timer by its number.
#[utoipa::path(
    delete, path = "/api/timer/v1/def", tag = "xtimer",
    operation_id = "xtimer_delete",
    request_body = ById,
    responses(
        (status = 200, body = Answer<u64>,
            description = "The timer was deleted, or did not exist. With `code` -1, it \
                may still be there."),
    ),
)]
pub(crate) async fn delete(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    let removed = match timer::of(&service, &access, id, Scope::Write).await {
        Ok(its) => {
            service.catalog.remove(&its.app, &key(id)).await.map(drop).map_err(Problem::from)
        }
        Err(problem) => Err(problem),
    };
    match removed {
        // To XTimer, a missing timer is removed. This has to be seen by a token that could remove
        // it: to another, a timer of an app that it may not see is missing too.
        Err(problem)
            if problem.status == StatusCode::NOT_FOUND && timer::may_remove(&access, id) =>
        {
            done(Answer::default())
        }
        Err(problem) => Err(problem.into()),
        Ok(()) => done(Answer::default()),
    }
}

/// Lists the timers of an app that these routes created, newest first.
#[utoipa::path(
    get, path = "/api/timer/v1/defs", tag = "xtimer",
    operation_id = "xtimer_list",
    params(ByApp),
    responses((status = 200, body = Answer<Vec<TimerDef>>, description = "One page of timers.")),
)]
pub(crate) async fn list(
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
    let permit = service.answers.list_permit().await;
    let mut all = Vec::new();
    for (home, app) in homes {
        let mut rows = service.catalog.repeating(home, XTIMER);
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
    let (mut data, mut left) = (Vec::new(), PageBudget::new(usize::MAX));
    for (_, home, name) in all.into_iter().skip(offset).take(size) {
        let key = model::app_and_key(&name).map_or("", |(_, key)| key);
        let id = key.strip_prefix(XTIMER).and_then(|id| id.parse().ok()).unwrap_or(0);
        // A timer that was removed meanwhile is left out.
        let row = service.catalog.repeated(home, key).await?;
        let Some(its) = row.and_then(|found| Its::new(home, found)) else { continue };
        if left.is_none() {
            // Fewer would be taken for all.
            let why = format!("so many timers take more than {PAGE} bytes: ask for fewer");
            return Err(Problem::field("pageSize", why).into());
        }
        left.take(its.found.size());
        data.push(its.view(id));
    }
    Ok(permit.answer(&Answer { data: Some(data), total, ..Answer::default() }))
}

/// Enables a timer that is disabled.
#[utoipa::path(
    post, path = "/api/timer/v1/enable", tag = "xtimer",
    operation_id = "xtimer_enable",
    request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "The timer is enabled.")),
)]
pub(crate) async fn enable(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    turn(&service, &access, id, true).await
}

/// Disables a timer that is enabled. After the answer, no callback of it starts.
#[utoipa::path(
    post, path = "/api/timer/v1/unable", tag = "xtimer",
    operation_id = "xtimer_disable",
    request_body = ById,
    responses((status = 200, body = Answer<u64>, description = "The timer is disabled.")),
)]
pub(crate) async fn unable(
    State(service): State<Arc<Service>>,
    access: Access,
    Lax(ById { id }): Lax<ById>,
) -> Answered<u64> {
    turn(&service, &access, id, false).await
}

async fn turn(service: &Service, access: &Access, id: u64, on: bool) -> Answered<u64> {
    let its = timer::of(service, access, id, Scope::Write).await?;
    if on == its.is_enabled() {
        let is = if on { "enabled" } else { "disabled" };
        return Err(Problem::conflict(format!("the timer is {is} already")).into());
    }
    service.catalog.switch(&its.app, &key(id), on).await?;
    done(Answer::default())
}

/// Lists the runs of a timer, newest first, also after the timer was deleted.
#[utoipa::path(
    get, path = "/api/task/v1/records", tag = "xtimer",
    operation_id = "xtimer_records",
    params(ByTimer),
    responses((status = 200, body = Answer<Vec<Task>>, description = "One page of runs.")),
)]
pub(crate) async fn records(
    State(service): State<Arc<Service>>,
    access: Access,
    Search(by): Search<ByTimer>,
) -> Answered<Vec<Task>> {
    let (id, (offset, size)) = (by.timer_id, page(by.page_index, by.page_size));
    let (mut total, mut data) = (0, Vec::new());
    let mut add = |run: Run, app: &Option<String>| {
        if total >= offset && data.len() < size {
            data.push(Task::of(id, run, app));
        }
        total += 1;
    };
    for home in may_have(&access, id) {
        access.to(home, Scope::Read)?;
        let its =
            service.catalog.find(home, &key(id)).await?.and_then(|found| Its::new(home, found));
        let app = its.and_then(|its| its.xtimer.app);
        service.catalog.each_run(home, &key(id), COUNTED, |run| add(run, &app)).await?;
    }
    done(Answer { data: Some(data), total: Some(total as u64), ..Answer::default() })
}
