//! Tests: a callback that is sent once, as an attempt would be, and nothing is kept of it.

use hyper::header::{HeaderName, HeaderValue};
use tourbillon_durable::TimerId;

use super::*;

/// Header that says that a call is a test. No definition can have it.
const MARK: HeaderName = HeaderName::from_static("tourbillon-test");

/// Name of the schedule in the body of a test.
const SCHEDULE: &str = "test";

/// Longest time that a test takes, so that it is answered within the time of a request.
const TAKES_MAX: Duration = Duration::from_secs(20);

/// Returns a trial with its host. Ends it if it has none, although it was checked.
pub(super) fn understood(trial: Trial) -> Option<Call> {
    match callback::target(&trial.callback.url) {
        Ok(url) => {
            let host = url.host_str().unwrap_or_default().into();
            Some(Call::Trial(Box::new(trial), host))
        }
        Err(_) => {
            trial.end(Err(Untried::Away));
            None
        }
    }
}

/// Sends the request of a test, and answers with what came of it. A test that nobody waits for is
/// not sent.
pub(super) async fn carry_out(shared: Arc<Shared>, trial: Trial) {
    if !trial.is_awaited() {
        return;
    }
    let timer = &shared.service.timer;
    let (start, started) = (timer.now(), Timestamp::now());
    let redact = Redact::new(&shared.config, &trial.callback);
    let exchange = send(&shared, &trial, &redact, started).await;
    let took = timer.now().duration_since(start);
    let Exchange { request, answer, timing } = exchange;
    let answer = answer.map_err(Lack::into_text);
    let success = &trial.callback.success;
    let error = match judge(&answer, success, &Retry::NEVER, 0, random()) {
        Verdict::Succeeded => None,
        Verdict::Failed(why, _) | Verdict::GivenUp(why) => Some(redact.text(why)),
    };
    let sent = (request, timing);
    let ended = ended((1, started, took), sent, answer.as_ref().ok(), error, &redact);
    let (app, ms, status, error) = (&shared.app, ended.ms, ended.status, ended.error.as_deref());
    info!(app, ms, status, error, "a callback was tested");
    trial.end(Ok(ended));
}

async fn send(shared: &Shared, trial: &Trial, redact: &Redact, now: Timestamp) -> Exchange {
    let callback = &trial.callback;
    let scheduled_for = shared.service.timer.wall_now().into();
    let attempt = Attempt {
        app: &shared.app,
        schedule: SCHEDULE,
        key: TimerId::new(scheduled_for).to_string(),
        scheduled_for,
        number: 1,
        trace: trial.trace.clone(),
    };
    let request = callback::build(callback, None, &attempt, &shared.config, now);
    match (request, callback::limit(callback)) {
        (Ok(mut request), Ok(limit)) => {
            request.headers_mut().insert(MARK, HeaderValue::from_static("true"));
            Exchange::send(shared, request, limit.min(TAKES_MAX), redact).await
        }
        (Err(why), _) => why.into(),
        (_, Err(why)) => format!("the timeout {why}").into(),
    }
}
