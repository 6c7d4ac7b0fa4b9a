//! The route of tests.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::access::Access;
use super::problem::{Failure, PROBLEM, Problem};
use super::request::{Json, OfApp, Path, traceparent};
use crate::callback::{Trace, check};
use crate::config::Scope;
use crate::model::{Callback, EndedAttempt, Header, MASK};
use crate::service::{Service, Untried};

/// Longest time that a test waits for its answer, the wait for its start included.
const WAIT: Duration = Duration::from_secs(25);

/// Sends a callback once, now, and returns how the attempt ended.
///
/// The request is made like a run of a schedule with the key `test`, with the header
/// `Tourbillon-Test: true`. It is not retried, and is not in the list of runs. It counts towards
/// the limits of the app, and each node runs one test of an app at a time. A test takes 20 seconds
/// at most. The answer is 200 even if the attempt failed.
#[utoipa::path(
    post, path = "/v1/apps/{app}/test", tag = "schedules",
    operation_id = "test_callback",
    params(OfApp),
    request_body = Callback,
    responses(
        (status = 200, body = EndedAttempt, description = "The attempt, also if it failed."),
        (status = 409, body = Problem, content_type = PROBLEM,
            description = "Another test of the app is running."),
        (status = 429, body = Problem, content_type = PROBLEM,
            description = "The app, or the host, has as many callbacks as it may."),
        (status = 504, body = Problem, content_type = PROBLEM,
            description = "The test has no answer after 25 seconds; it may have been sent."),
        Failure,
    ),
)]
pub(crate) async fn send(
    State(service): State<Arc<Service>>,
    Path(OfApp { app }): Path<OfApp>,
    access: Access,
    headers: HeaderMap,
    Json(callback): Json<Callback>,
) -> Result<axum::Json<EndedAttempt>, Problem> {
    let config = access.to(&app, Scope::Write)?;
    let mut faults = check(config, &callback).err().unwrap_or_default();
    for (name, value) in &callback.headers {
        if matches!(value, Header::Value(value) if value == MASK) {
            let why = "is masked: give the value, or name a secret";
            faults.push((format!("callback.headers.{name}"), why.to_owned()));
        }
    }
    if !faults.is_empty() {
        let own =
            |field: String| field.strip_prefix("callback.").map(str::to_owned).unwrap_or(field);
        return Err(Problem::fields(
            faults.into_iter().map(|(field, why)| (own(field), why)).collect(),
        ));
    }
    let trace = traceparent(&headers).and_then(Trace::parse);
    let ended = service.timer.timeout(WAIT, service.trials.send(&app, callback, trace)).await;
    let Ok(ended) = ended else {
        let why = format!("the test has no answer after {WAIT:?}; its request may have been sent");
        return Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, why));
    };
    ended.map(axum::Json).map_err(|untried| {
        let status = match untried {
            Untried::Busy => StatusCode::CONFLICT,
            Untried::Limited => StatusCode::TOO_MANY_REQUESTS,
            Untried::Away => StatusCode::SERVICE_UNAVAILABLE,
        };
        Problem::new(status, untried.to_string())
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tokio::task::yield_now;
    use tourbillon::Timer;
    use tourbillon_durable::store::Memory;
    use tower::ServiceExt as _;

    use super::*;
    use crate::config::Config;

    #[tokio::test]
    async fn a_test_that_has_no_answer_in_time_ends_in_504_and_is_not_sent_later() {
        let (clock, timer) = crate::watched::clocked();
        let apps = [("a".to_owned(), Default::default())].into();
        let config = Config { apps, ..Config::default() };
        let store = Box::new(Memory::new(&Timer::global()));
        let service = Service::start(store, config, &timer).unwrap();
        // A dispatcher whose limits are reached.
        let mut trials = service.trials.open("a");
        let request = Request::post("/v1/apps/a/test").header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let body = Body::from(r#"{ "url": "https://hooks.example.com/" }"#);
        let router = crate::routes::router(Arc::clone(&service));
        let answer = tokio::spawn(router.oneshot(request.body(body).unwrap()));
        let trial = trials.recv().await.unwrap();
        clock.advance(WAIT - Duration::from_nanos(1));
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(trial.is_awaited() && !answer.is_finished());
        clock.advance(Duration::from_nanos(1));
        let answer = answer.await.unwrap().unwrap();
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
        let body = axum::body::to_bytes(answer.into_body(), 4_096).await.unwrap();
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("no answer after 25s"), "{detail}");
        assert!(!trial.is_awaited());
    }
}
