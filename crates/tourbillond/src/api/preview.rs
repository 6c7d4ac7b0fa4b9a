//! The next occurrences, and what daylight saving does to them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tourbillon_durable::{Schedule, Time};
use utoipa::{IntoParams, ToSchema};

use super::access::Access;
use super::definition::{Times, read_times};
use super::problem::Problem;
use super::request::{Json, Params, Path};
use super::schedules::find;
use crate::Service;
use crate::config::Scope;
use crate::model::{self, CronWhen, Note, Occurrence, When};

/// Most occurrences that are shown.
const COUNT_MAX: u32 = 1_000;

/// Number that is shown by default.
const COUNT: u32 = 10;

/// Number of previews that wait for their turn or are computed; more are refused.
const ROOM: usize = 16;

/// Previews in hand. One is computed at a time, on a thread of its own, so that callbacks and other
/// requests have the other processors, and all of the runtime's threads.
#[derive(Debug)]
pub(crate) struct Previews {
    room: Arc<Semaphore>,
    turn: Arc<Semaphore>,
}

impl Default for Previews {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(ROOM)), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Previews {
    /// Computes when it is the turn of `compute`.
    ///
    /// # Errors
    ///
    /// If too many wait.
    ///
    /// # Cancel safety
    ///
    /// Dropped before its turn, it computes nothing.
    async fn compute<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let Ok(room) = Arc::clone(&self.room).try_acquire_owned() else {
            let why = format!("{ROOM} previews are being computed on this node: try again");
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why));
        };
        let turn = Arc::clone(&self.turn).acquire_owned().await.expect("it is never closed");
        let computed = tokio::task::spawn_blocking(move || {
            let _held = (room, turn);
            compute()
        });
        computed.await.map_err(|error| {
            tracing::error!(%error, "a preview was not computed");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the preview was not computed")
        })
    }
}

/// Schedule to preview.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// Number of occurrences; 10 by default, 1000 at most.
    count: Option<u32>,
    /// After when, RFC 3339; now by default.
    from: Option<String>,
}

/// A `when` that is not kept.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Preview {
    /// When.
    when: When,
    /// Number of occurrences; 10 by default, 1000 at most.
    count: Option<u32>,
    /// After when, RFC 3339; now by default.
    from: Option<String>,
}

/// Shows the next occurrences of a schedule, whether or not it is enabled.
#[utoipa::path(
    get, path = "/v1/apps/{app}/schedules/{key}/preview", tag = "schedules",
    operation_id = "preview_schedule",
    params(
        ("app" = String, Path, description = "The app"),
        ("key" = String, Path, description = "The key"),
        Asked,
    ),
    responses(
        (status = 200, body = Vec<Occurrence>, description = "They"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn kept(
    State(service): State<Arc<Service>>,
    Path((app, key)): Path<(String, String)>,
    access: Access,
    Params(asked): Params<Asked>,
) -> Result<axum::Json<Vec<Occurrence>>, Problem> {
    access.to(&app, Scope::Read)?;
    let found = find(&service, &app, &key).await?.ok_or_else(|| Problem::not_found("schedule"))?;
    let stored = found.stored().ok_or_else(|| Problem::conflict("it is over"))?;
    let when = match stored.at_us {
        Some(at) => Times::At(Time::from_micros(at)),
        None => read_times(&stored.definition.when)?,
    };
    show(&service, stored.definition.when, when, asked.count, asked.from).await
}

/// Shows the next occurrences of a `when` that is not kept.
#[utoipa::path(
    post, path = "/v1/preview", tag = "schedules",
    operation_id = "preview",
    request_body = Preview,
    responses(
        (status = 200, body = Vec<Occurrence>, description = "They"),
        (status = "default", body = Problem, description = "Error, as application/problem+json"),
    ),
)]
pub(super) async fn free(
    State(service): State<Arc<Service>>,
    _: Access,
    Json(Preview { when, count, from }): Json<Preview>,
) -> Result<axum::Json<Vec<Occurrence>>, Problem> {
    let times = read_times(&when)?;
    show(&service, when, times, count, from).await
}

async fn show(
    service: &Service,
    when: When,
    times: Times,
    count: Option<u32>,
    from: Option<String>,
) -> Result<axum::Json<Vec<Occurrence>>, Problem> {
    let count = match count.unwrap_or(COUNT) {
        count @ 1..=COUNT_MAX => count as usize,
        _ => return Err(Problem::field("count", format!("it is not within 1 to {COUNT_MAX}"))),
    };
    let from = from.map(|from| model::time(&from)).transpose();
    let from = match from.map_err(|why| Problem::field("from", why))? {
        Some(from) => from,
        None => service.reader.now().await?,
    };
    let computed = service.previews.compute(move || {
        let times = match times {
            Times::Repeated(schedule) => schedule.occurrences(from).take(count).collect(),
            Times::At(at) => vec![at],
            Times::After(after) => vec![from + after],
        };
        occurrences(&when, &times)
    });
    computed.await.map(axum::Json)
}

/// The occurrences as the API shows them, by the clock on the wall of their zone.
fn occurrences(when: &When, times: &[Time]) -> Vec<Occurrence> {
    let cron = match when {
        When::Cron(cron) => Some(cron),
        _ => None,
    };
    let zone = cron.and_then(|cron| TimeZone::get(&cron.zone).ok()).unwrap_or(TimeZone::UTC);
    // The same times on a clock that is never changed.
    let plain = cron.and_then(|CronWhen { cron, .. }| Schedule::cron(cron, "UTC").ok());
    let show = |time: &Time| {
        let at = Timestamp::from_microsecond(time.as_micros()).ok()?;
        let local = zone.to_datetime(at);
        let is_own = plain.as_ref().is_none_or(|plain| {
            let wall = local.to_zoned(TimeZone::UTC).map(|wall| wall.timestamp().as_microsecond());
            wall.is_ok_and(|wall| {
                plain.next_after(Time::from_micros(wall - 1)) == Some(Time::from_micros(wall))
            })
        });
        let note = match () {
            () if !is_own => Some(Note::Gap),
            () if zone.to_ambiguous_timestamp(local).is_ambiguous() => Some(Note::Fold),
            () => None,
        };
        Some(Occurrence {
            at: model::rfc3339(*time),
            local: local.to_string(),
            offset: zone.to_offset(at).to_string(),
            note: note.filter(|_| cron.is_some()),
        })
    };
    times.iter().filter_map(show).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use axum::body::Body;
    use axum::http::{Request, StatusCode, header};
    use tourbillon::Timer;
    use tourbillon_durable::store::Memory;
    use tower::ServiceExt as _;

    use super::{CronWhen, Note, Occurrence, ROOM, Schedule, When, occurrences};
    use crate::config::{App, Config};
    use crate::{Service, api, model};

    fn of(cron: &str, zone: &str, from: &str, count: usize) -> Vec<Occurrence> {
        let times = Schedule::cron(cron, zone).unwrap();
        let times: Vec<_> = times.occurrences(model::time(from).unwrap()).take(count).collect();
        occurrences(&When::Cron(CronWhen { cron: cron.into(), zone: zone.into() }), &times)
    }

    #[test]
    fn daylight_saving_is_noted() {
        let notes = |found: Vec<Occurrence>| -> Vec<_> {
            found.into_iter().map(|found| (found.local, found.note)).collect()
        };
        let winter_ends = of("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", 2);
        assert_eq!(winter_ends[0].offset, "-04");
        assert_eq!(
            notes(winter_ends),
            [
                ("2026-03-08T03:00:00".to_owned(), Some(Note::Gap)),
                ("2026-03-09T02:30:00".to_owned(), None)
            ]
        );
        let summer_ends = of("*/30 1 * * *", "America/New_York", "2026-11-01T04:59:00Z", 4);
        assert_eq!(
            notes(summer_ends),
            ["01:00", "01:30", "01:00", "01:30"]
                .map(|time| (format!("2026-11-01T{time}:00"), Some(Note::Fold)))
        );
    }

    #[tokio::test]
    async fn previews_wait_for_their_turn_and_too_many_are_refused() {
        let timer = Timer::global();
        let apps = BTreeMap::from([("default".to_owned(), App::default())]);
        let config = Config { apps, ..Config::default() };
        let service = Service::start(Box::new(Memory::new(&timer)), config, &timer).unwrap();
        let router = api::router(Arc::clone(&service));
        let ask = || {
            let body = r#"{ "when": { "cron": "* * * * *" }, "count": 1000 }"#;
            let request = Request::post("/v1/preview").header("host", "localhost");
            let request = request.header("content-type", "application/json");
            router.clone().oneshot(request.body(Body::from(body)).unwrap())
        };
        // One is being computed, and takes long. There is no turn for a second.
        let turn = Arc::clone(&service.previews.turn).try_acquire_owned().unwrap();
        assert_eq!(service.previews.turn.available_permits(), 0);
        let waiting: Vec<_> = (0..ROOM).map(|_| tokio::spawn(ask())).collect();
        while service.previews.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let refused = ask().await.unwrap();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.headers().contains_key(header::RETRY_AFTER));
        // Everything else is answered meanwhile.
        let healthy = Request::get("/healthz").header("host", "localhost");
        let healthy = healthy.body(Body::empty()).unwrap();
        assert_eq!(router.clone().oneshot(healthy).await.unwrap().status(), StatusCode::OK);
        assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
        drop(turn);
        for waiting in waiting {
            assert_eq!(waiting.await.unwrap().unwrap().status(), StatusCode::OK);
        }
        assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
    }
}
