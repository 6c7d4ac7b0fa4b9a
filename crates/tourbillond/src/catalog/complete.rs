//! Completion of attempts by calls of their receivers.
//!
//! An attempt that was answered 202 leaves its wait in the timer's detail, and the timer is due
//! when the wait ends. A call writes its result there and makes the timer due now: the node that
//! claims it ends the attempt in the usual way. So the timer alone has the state. The write applies
//! only to an unchanged timer. So of two calls, or of a call and the end of the wait, the first
//! wins.

use std::time::Duration;

use tourbillon_durable::store::{RecordQuery, TimerQuery, TimerUpdate};
use tourbillon_durable::{Outcome, Time};

use super::error::{Conflict, Error, Result};
use super::{Catalog, TRIES};
use crate::callback::{
    COMPLETE_MAX, MARGIN, Redact, TEXT_MAX, Ticket, closed, complete_within, cut, open, opened,
    read_attempts,
};
use crate::config::App;
use crate::model::{self, Complete, Completed, CompletionState, EndedAttempt, Stored, WorkOutcome};

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
            let Some(mut open) = open else {
                // Of attempts with a successor, only failures were judged.
                let is_judged = |attempt: &EndedAttempt| attempt.error.is_some();
                return self.result_kept(&timer.detail, ticket, call, is_judged).await;
            };
            let ended = ended(&open)?;
            let Some(completion) = &mut open.completion else { return Err(Error::Late) };
            if completion.state != CompletionState::Waiting {
                return self.result_kept(&timer.detail, ticket, call, |_| true).await;
            }
            let now = self.client.now().await?;
            let until = model::time(&completion.until).map_err(|_| Error::Unreadable)?;
            if timer.running.is_some() || until <= now {
                return Err(Error::Late);
            }
            let (state, pause) = match call.outcome {
                WorkOutcome::Working => {
                    let within = complete_within(&definition.callback);
                    let within = within.ok().flatten().ok_or(Error::Unreadable)?;
                    let until = until.max((now + within).min(ended + COMPLETE_MAX));
                    completion.until = model::rfc3339(until);
                    (CompletionState::Waiting, until.since(now) + MARGIN)
                }
                WorkOutcome::Succeeded => (CompletionState::Succeeded, Duration::ZERO),
                WorkOutcome::Failed => (CompletionState::Failed, Duration::ZERO),
            };
            // A receiver may log the call that it makes.
            let callback = &definition.callback;
            let redact = Redact::new(app, callback).and_tokens(callback);
            let tokens = app.secrets.iter().map(|secret| ticket.token(secret));
            let redact = tokens.fold(redact, |redact, token| redact.with(&token));
            completion.state = state;
            completion.called = Some(model::rfc3339(now));
            completion.text = cut(&redact.beginning(&call.text, TEXT_MAX), TEXT_MAX);
            let until = completion.until.clone();
            // An amendment adds one to the version.
            let detail = opened(&closed(&timer.detail, &open), &definition, timer.version + 1);
            match self.client.amend(&timer, detail, pause).await? {
                TimerUpdate::Done => return Ok(answer(ticket, call, Some(until))),
                // A node or another call came first.
                TimerUpdate::Running { .. } | TimerUpdate::Stale => {}
                // Its schedule was disabled, or it ended.
                TimerUpdate::Gone => return Err(Error::Late),
            }
        }
        Err(Conflict::Contended.into())
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
        match (completion.map(|completion| completion.state), call.outcome) {
            (Some(CompletionState::Succeeded), WorkOutcome::Succeeded)
            | (Some(CompletionState::Failed), WorkOutcome::Failed) => {
                self.client.confirm().await?;
                Ok(answer(ticket, call, None))
            }
            (Some(CompletionState::Succeeded | CompletionState::Failed), _) => {
                Err(Conflict::Completed.into())
            }
            _ => Err(Error::Late),
        }
    }
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
