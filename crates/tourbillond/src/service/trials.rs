//! [`Trials`]: callbacks that are sent once, for somebody who waits for the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::callback::Trace;
use crate::model::{Callback, EndedAttempt};

/// The trials of all apps: one at a time of each, on this node.
#[derive(Debug, Default)]
pub(crate) struct Trials(Mutex<HashMap<String, Desk>>);

/// The trials of one app.
#[derive(Debug)]
struct Desk {
    one: Arc<Semaphore>,
    /// Way to the dispatcher of the app.
    sender: mpsc::Sender<Trial>,
}

/// A callback to send once, now.
pub(crate) struct Trial {
    pub(crate) callback: Callback,
    pub(crate) trace: Option<Trace>,
    answer: oneshot::Sender<Result<EndedAttempt, Untried>>,
    _one: OwnedSemaphorePermit,
}

/// Reason why a callback was not tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Untried {
    #[error("another test of the app is under way on this node; wait for its answer")]
    Busy,
    #[error("the app or the host has as many callbacks as its limits allow; wait")]
    Limited,
    /// The app has no dispatcher: it starts, stops, or its configuration is changed.
    #[error("the node sends no callbacks of the app at the moment; try again")]
    Away,
}

impl Trials {
    /// Returns the trials of an app from now on. Older ones, for an earlier dispatcher, are not
    /// sent.
    pub(crate) fn open(&self, app: &str) -> mpsc::Receiver<Trial> {
        let (sender, trials) = mpsc::channel(1);
        let mut desks = self.lock();
        let one = desks.remove(app).map_or_else(|| Arc::new(Semaphore::new(1)), |desk| desk.one);
        desks.insert(app.to_owned(), Desk { one, sender });
        trials
    }

    /// Sends a callback once, and returns how that ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped, the callback is not sent, unless it was sent already.
    pub(crate) async fn send(
        &self,
        app: &str,
        callback: Callback,
        trace: Option<Trace>,
    ) -> Result<EndedAttempt, Untried> {
        let (answer, answered) = oneshot::channel();
        {
            let desks = self.lock();
            let desk = desks.get(app).ok_or(Untried::Away)?;
            let one = Arc::clone(&desk.one).try_acquire_owned().map_err(|_| Untried::Busy)?;
            let trial = Trial { callback, trace, answer, _one: one };
            desk.sender.try_send(trial).map_err(|_| Untried::Away)?;
        }
        answered.await.unwrap_or(Err(Untried::Away))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Desk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trial {
    /// Returns whether somebody waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Answers. Another trial of the app can begin then.
    pub(crate) fn end(self, answer: Result<EndedAttempt, Untried>) {
        let Self { answer: to, _one: one, .. } = self;
        drop(one);
        // Nobody may wait any more.
        let _ = to.send(answer);
    }
}
