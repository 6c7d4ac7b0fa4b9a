//! Attempts that were answered 202, and are decided by a call of their receiver, or by its lack.
//!
//! Between the answer and the decision there is no attempt here: the timer waits in the store, for
//! any node, and takes no place of the gate.

use super::*;
use crate::callback::{EXPIRED, failed};
use crate::model::{Completion, CompletionState};

/// Returns the completion of an attempt whose receiver has this time from now.
pub(super) fn waiting(shared: &Shared, job: &Job, within: Duration) -> Completion {
    Completion {
        state: CompletionState::Waiting,
        until: model::rfc3339(job.now(&shared.service.timer) + within),
        called: None,
        text: String::new(),
    }
}

/// Returns the job, if it is to be sent. Otherwise ends the attempt that it waited for: a wait that
/// nothing has changed is over once its timer is due, whatever the clock says.
pub(super) fn settled(shared: &Arc<Shared>, job: Job) -> Option<Job> {
    let open = callback::open(job.fire.detail(), &job.stored.definition, job.fire.version());
    let Some(open) = open else { return Some(job) };
    let Some(completion) = open.completion.clone() else { return Some(job) };
    if matches!(completion.state, CompletionState::Expired | CompletionState::Superseded) {
        return Some(job);
    }
    // By itself: the notices may wait for the database.
    tokio::spawn(settle(shared.clone(), job, open, completion));
    None
}

/// Ends the attempt as its completion says.
async fn settle(
    shared: Arc<Shared>,
    job: Job,
    mut ended: EndedAttempt,
    mut completion: Completion,
) {
    let why = match completion.state {
        CompletionState::Succeeded => None,
        CompletionState::Failed => Some(failed(&std::mem::take(&mut completion.text))),
        _ => {
            completion.state = CompletionState::Expired;
            Some(EXPIRED.to_owned())
        }
    };
    let verdict = match &why {
        None => Verdict::Succeeded,
        Some(why) => {
            let why = Err(why.clone());
            let now = model::timestamp(job.now(&shared.service.timer));
            judge(&why, (&[], None), &job.retry, job.fire.failures(), random(), now)
        }
    };
    ended.error = why;
    ended.completion = Some(completion);
    let detail = callback::closed(job.fire.detail(), &ended);
    conclude(shared, job, ended, verdict, detail).await;
}

/// Returns the attempts before a further one: the last of them waits no longer.
pub(super) fn superseded(kept: &str) -> String {
    let last = read_attempts(kept).pop().filter(|last| last.error.is_none());
    let Some((mut last, mut completion)) =
        last.and_then(|mut last| last.completion.take().map(|completion| (last, completion)))
    else {
        return kept.to_owned();
    };
    completion.state = CompletionState::Superseded;
    last.completion = Some(completion);
    callback::closed(kept, &last)
}
