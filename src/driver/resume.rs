//! Calls the driver when the machine resumes, if its clock has run on meanwhile.
//!
//! A park is timed by a clock that stops in suspend, so it would end late by that much. A resume is
//! a step of the wall clock, to those who are told of its steps. Where nobody is, a park is limited
//! instead; that it may end for no reason is the parker's rule anyway.

use std::task::{Wake, Waker};
use std::time::Duration;

use crate::clock::{Key, Need, RECHECK, Watch};
use crate::engine::Engine;
use crate::sync::{Arc, StdArc};

/// What a driver thread of a clock that counts suspend has hung up.
pub(super) struct ResumeWatch {
    engine: Arc<Engine>,
    key: Key,
    waker: Waker,
}

impl ResumeWatch {
    pub(super) fn new(engine: &Arc<Engine>) -> Self {
        let waker = Waker::from(StdArc::new(Caller(Arc::clone(engine))));
        Self { engine: Arc::clone(engine), key: Key::new(), waker }
    }

    /// For how long the driver may park, if it has not looked at its clock since before the call.
    pub(super) fn limit(&self) -> Duration {
        // No rechecks: they are for a wall clock that is set, and would wake an idle process.
        match self.engine.clock().steps().watch(self.key, &self.waker, Need::Notices) {
            Watch::Kept | Watch::New => Duration::MAX,
            Watch::Untold => RECHECK,
        }
    }
}

impl Drop for ResumeWatch {
    fn drop(&mut self) {
        self.engine.clock().steps().forget(self.key);
    }
}

struct Caller(Arc<Engine>);

impl Wake for Caller {
    fn wake(self: StdArc<Self>) {
        self.0.notify_driver();
    }
}

#[cfg(all(test, tourbillon_model, not(tourbillon_shuttle)))]
mod tests {
    use super::*;
    use crate::engine::harness::Rig;
    use crate::sync::refuse_threads;

    /// Of one thread: what ends a park is in `resumes_race_park`.
    #[test]
    fn where_there_is_no_notice_of_a_resume_parks_are_limited() {
        loom::model(|| {
            let rig = Rig::counting_suspend();
            let bell = Bell::new(rig.timer.engine());
            assert_eq!(bell.limit(), Duration::MAX);
            rig.time.steps.fall_silent();
            // There is no watcher to be started.
            refuse_threads(true);
            assert_eq!(bell.limit(), RECHECK);
        });
    }
}
