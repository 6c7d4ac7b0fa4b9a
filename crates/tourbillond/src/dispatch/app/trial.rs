//! Tests: a callback that is sent once, like an attempt, and leaves no record.

use tourbillon_durable::TimerId;

use super::*;

/// Name of the schedule in the body of a test.
const SCHEDULE: &str = "test";

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

/// Sends the request of a test, and answers with its result. A test that nobody waits for is not
/// sent.
pub(super) async fn carry_out(shared: Arc<Shared>, trial: Trial) {
    if !trial.is_awaited() {
        return;
    }
    let Ok(started) = shared.service.reader.now().await else {
        trial.end(Err(Untried::Away));
        return;
    };
    let timer = &shared.service.timer;
    let start = timer.now();
    let outgoing = Outgoing {
        callback: &trial.callback,
        xtimer: None,
        attempt: Attempt {
            app: &shared.app,
            schedule: SCHEDULE,
            key: TimerId::new(started).to_string(),
            scheduled_for: started,
            number: 1,
            run: None,
            trace: trial.trace.clone(),
        },
        is_test: true,
    };
    let exchange = outgoing.exchange(&shared, model::timestamp(started)).await;
    let took = timer.now().duration_since(start);
    let of = (&trial.callback, &Retry::NEVER, 0);
    let (_, ended) = exchange.judged(of, (1, started, took));
    let (app, ms, status, error) = (&shared.app, ended.ms, ended.status, ended.error.as_deref());
    info!(app, ms, status, error, "a callback was tested");
    trial.end(Ok(ended));
}
