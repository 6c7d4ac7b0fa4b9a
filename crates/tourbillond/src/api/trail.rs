//! [`Trail`]: changes by a request, for the audit log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::audit::{Audit, AuditError};

/// Parts of an audit entry that a request's route fills in; an extension of the request.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    audit: Arc<Audit>,
    change: Arc<Mutex<Change>>,
}

/// Change that a request was permitted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    /// App that is changed; `None` until the token is found to permit that.
    pub(crate) app: Option<String>,
    /// Name of the token.
    pub(crate) token: Option<String>,
    /// Key of the schedule, where the path does not have it.
    pub(crate) key: Option<String>,
}

/// Mark of an answer that has changed nothing, whatever its status; an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

impl Trail {
    pub(crate) fn new(audit: &Arc<Audit>) -> Self {
        Self { audit: Arc::clone(audit), change: Arc::default() }
    }

    /// Notes that a token permits a change of an app.
    ///
    /// # Errors
    ///
    /// If no change may begin because the log might never have it.
    pub(super) fn permit(&self, app: &str, token: Option<&str>) -> Result<(), AuditError> {
        self.audit.check()?;
        let mut change = self.lock();
        change.app = Some(app.to_owned());
        change.token = token.map(str::to_owned);
        Ok(())
    }

    /// Notes the key of the change.
    pub(super) fn concern(&self, key: &str) {
        self.lock().key = Some(key.to_owned());
    }

    /// The change so far.
    pub(crate) fn change(&self) -> Change {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Change> {
        self.change.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
