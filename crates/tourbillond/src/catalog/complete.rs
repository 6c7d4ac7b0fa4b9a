//! Completion of attempts by calls of their receivers.
//!
//! An attempt that was answered 202 leaves its wait in the timer's detail, and the timer is due
//! when the wait ends. A call writes its result there and makes the timer due now: the node that
//! claims it ends the attempt in the usual way. So the timer alone has the state. The write applies
//! only to an unchanged timer. So of two calls, or of a call and the end of the wait, the first
//! wins.

use std::time::Duration;

use tourbillon_durable::store::{RecordQuery, Timer, TimerQuery, TimerUpdate};
use tourbillon_durable::{Outcome, Time};

use super::error::{Conflict, Error, Result};
use super::{Catalog, TRIES};
use crate::callback::{
    COMPLETE_MAX, MARGIN, Redact, TEXT_MAX, Ticket, closed, complete_within, cut, open, opened,
    read_attempts,
};
use crate::config::App;
use crate::model::{
    self, Callback, Complete, Completed, CompletionState, Definition, EndedAttempt, Stored,
    WorkOutcome,
};

impl Catalog {
    /// Keeps a receiver's result of an attempt, or gives the attempt more time. A repeat changes
    /// nothing, and returns the same.
    ///
    /// # Errors
    ///
    /// [`Late`](Error::Late) if the attempt is over; a [conflict](Conflict) if it was not answered
    /// yet, or was completed with another outcome. Nothing is changed then.
    pub(crate) async fn complete(
        &self,
        ticket: Ticket<'_>,
        app: &App,
        call: &Complete,
    ) -> Result<Completed> {
        for _ in 0..TRIES {
            let found = self.client.timers(TimerQuery::new().timer(ticket.run)).await?.pop();
            let Some(timer) = found else {
                let by_id = RecordQuery::new().timer(ticket.run);
                let record = self.client.records(by_id).await?.pop();
                // A run that was cancelled before its completion was recorded did not complete.
                let record = record.filter(|record| record.outcome != Outcome::Cancelled);
                let kept = record.map(|record| record.detail).unwrap_or_default();
                return self.result_kept(&kept, ticket, call, |_| true).await;
            };
            if let Some(completed) = self.complete_timer(&timer, ticket, app, call).await? {
                return Ok(completed);
            }
        }
        Err(Conflict::Contended.into())
    }

    /// Completes an attempt of a timer as it was read; `None` if a node or another call came first.
    async fn complete_timer(
        &self,
        timer: &Timer,
        ticket: Ticket<'_>,
        app: &App,
        call: &Complete,
    ) -> Result<Option<Completed>> {
        if timer.running.is_some() && timer.attempt == ticket.attempt {
            return Err(Conflict::Unanswered.into());
        }
        let stored = serde_json::from_slice::<Stored>(&timer.new.payload);
        let stored = stored.map_err(|_| Error::Unreadable)?;
        if stored.made() != ticket.made {
            return Err(Error::Late);
        }
        let definition = stored.definition;
        let open = open(&timer.detail, &definition, timer.version);
        let open = open.filter(|open| open.attempt == ticket.attempt);
        let Some(open) = open else {
            // Of attempts with a successor, only failures were judged.
            let is_judged = |attempt: &EndedAttempt| attempt.error.is_some();
            return self.result_kept(&timer.detail, ticket, call, is_judged).await.map(Some);
        };
        match open.completion.as_ref().map(|completion| completion.state) {
            Some(CompletionState::Waiting) => {
                self.write_call(timer, (open, &definition), ticket, app, call).await
            }
            Some(_) => self.result_kept(&timer.detail, ticket, call, |_| true).await.map(Some),
            None => Err(Error::Late),
        }
    }

    /// Writes a call into the attempt that waits for one; `None` if another write came first.
    async fn write_call(
        &self,
        timer: &Timer,
        (mut open, definition): (EndedAttempt, &Definition),
        ticket: Ticket<'_>,
        app: &App,
        call: &Complete,
    ) -> Result<Option<Completed>> {
        let ended = ended(&open)?;
        let Some(completion) = &mut open.completion else { return Err(Error::Late) };
        let now = self.client.now().await?;
        let until = model::time(&completion.until).map_err(|_| Error::Unreadable)?;
        if timer.running.is_some() || until <= now {
            return Err(Error::Late);
        }
        let callback = &definition.callback;
        let pause = match call.outcome {
            WorkOutcome::Working => {
                let within = complete_within(callback).ok().flatten();
                let within = within.ok_or(Error::Unreadable)?;
                let until = until.max((now + within).min(ended + COMPLETE_MAX));
                completion.until = model::rfc3339(until);
                until.since(now) + MARGIN
            }
            WorkOutcome::Succeeded | WorkOutcome::Failed => Duration::ZERO,
        };
        completion.state = state(call.outcome);
        completion.called = Some(model::rfc3339(now));
        completion.text = text(call, ticket, app, callback);
        let until = completion.until.clone();
        // An amendment adds one to the version.
        let detail = opened(&closed(&timer.detail, &open), definition, timer.version + 1);
        match self.client.amend(timer, detail, pause).await? {
            TimerUpdate::Done => Ok(Some(answer(ticket, call, Some(until)))),
            TimerUpdate::Running { .. } | TimerUpdate::Stale => Ok(None),
            // Its schedule was disabled, or it ended.
            TimerUpdate::Gone => Err(Error::Late),
        }
    }

    /// Returns the answer to a call for an attempt that does not wait, if the result that is kept
    /// of it counts.
    async fn result_kept(
        &self,
        kept: &str,
        ticket: Ticket<'_>,
        call: &Complete,
        counts: impl Fn(&EndedAttempt) -> bool,
    ) -> Result<Completed> {
        let attempts = read_attempts(kept);
        let attempt = attempts.into_iter().rfind(|attempt| attempt.attempt == ticket.attempt);
        let completion = attempt.filter(counts).and_then(|attempt| attempt.completion);
        match completion.map(|completion| completion.state) {
            Some(kept @ (CompletionState::Succeeded | CompletionState::Failed)) => {
                if kept != state(call.outcome) {
                    return Err(Conflict::Completed.into());
                }
                self.client.confirm().await?;
                Ok(answer(ticket, call, None))
            }
            _ => Err(Error::Late),
        }
    }
}

/// Returns the state of an attempt after a call.
fn state(outcome: WorkOutcome) -> CompletionState {
    match outcome {
        WorkOutcome::Working => CompletionState::Waiting,
        WorkOutcome::Succeeded => CompletionState::Succeeded,
        WorkOutcome::Failed => CompletionState::Failed,
    }
}

/// Returns the text of a call as it is kept: a receiver may log the call that it makes.
fn text(call: &Complete, ticket: Ticket<'_>, app: &App, callback: &Callback) -> String {
    let redact = Redact::new(app, callback).and_tokens(callback);
    let tokens = app.secrets.iter().map(|secret| ticket.token(secret));
    let redact = tokens.fold(redact, |redact, token| redact.with(&token));
    cut(&redact.beginning(&call.text, TEXT_MAX), TEXT_MAX)
}

/// Returns when an attempt was answered.
fn ended(attempt: &EndedAttempt) -> Result<Time> {
    let started = model::time(&attempt.started).map_err(|_| Error::Unreadable)?;
    Ok(started + Duration::from_millis(attempt.ms))
}

fn answer(ticket: Ticket<'_>, call: &Complete, until: Option<String>) -> Completed {
    Completed {
        run: ticket.run.to_string(),
        attempt: ticket.attempt,
        outcome: call.outcome,
        until: until.filter(|_| call.outcome == WorkOutcome::Working),
    }
}
