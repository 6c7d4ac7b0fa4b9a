//! Unparks the driver when the machine resumes from suspend, if its clock counts suspend.
//!
//! A park is timed by a clock that stops in suspend, so it would end late by that much. A resume is
//! a step of the wall clock, where steps are announced. Where they are not, a park is limited
//! instead; a park may end spuriously anyway.

use std::task::{Wake, Waker};
use std::time::Duration;

use crate::clock::{Need, RECHECK, Registration, Watch};
use crate::engine::{SharedEngine, WatchResumes};
use crate::sync::{Arc, StdArc};

/// Returns how the driver's thread learns of a resume, if its clock `counts_suspend`. A program for
/// whose clocks that is a constant `false` has nothing of it.
#[inline(always)]
pub(crate) fn watch_resumes(counts_suspend: bool) -> Option<WatchResumes> {
    counts_suspend.then_some(ResumeWatch::begin)
}

/// A waker that is registered for steps and unparks the driver.
struct ResumeWatch {
    engine: SharedEngine,
    key: Registration,
    waker: Waker,
}

impl ResumeWatch {
    /// Begins to watch, until the result is dropped.
    #[inline]
    fn begin(engine: &SharedEngine) -> Box<dyn FnMut() -> Duration> {
        let mut watch = Self::new(engine);
        Box::new(move || watch.limit())
    }

    #[inline]
    fn new(engine: &SharedEngine) -> Self {
        let waker = Waker::from(StdArc::new(Caller(Arc::clone(engine))));
        Self { engine: Arc::clone(engine), key: Registration::new(), waker }
    }

    /// Returns the longest park of a driver that has not read its clock since before the call.
    #[inline]
    fn limit(&mut self) -> Duration {
        // No rechecks: they are for a wall clock that is set, and would wake an idle process.
        match self.engine.clock().steps().watch(&mut self.key, &self.waker, Need::Notices) {
            Watch::Kept | Watch::New => Duration::MAX,
            Watch::Unannounced => RECHECK,
        }
    }
}

impl Drop for ResumeWatch {
    #[inline]
    fn drop(&mut self) {
        self.engine.clock().steps().forget(&self.key);
    }
}

struct Caller(SharedEngine);

impl Wake for Caller {
    #[inline]
    fn wake(self: StdArc<Self>) {
        self.0.notify_driver();
    }
}

#[cfg(all(test, tourbillon_model))]
mod tests {
    use super::*;
    use crate::models::harness::Harness;
    use crate::sync::refuse_threads;

    /// Of one thread: what ends a park is in `resumes_race_park`.
    #[test]
    fn where_there_is_no_notice_of_a_resume_parks_are_limited() {
        loom::model(|| {
            let harness = Harness::counting_suspend();
            let mut watch = ResumeWatch::new(harness.timer.shared_engine());
            assert_eq!(watch.limit(), Duration::MAX);
            harness.time.steps.stop_announcing();
            // There is no watcher to be started.
            refuse_threads(true);
            assert_eq!(watch.limit(), RECHECK);
        });
    }
}
