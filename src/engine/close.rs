//! A driver's end: edges `close` and `leave`.

use crate::engine::{DrivenBy, Engine};
#[cfg(not(target_os = "none"))]
use crate::foreign::{Running, guarded};
use crate::platform::IN_EVENT_LOOP;
use crate::sync::{Ordering, fence};

impl Engine {
    /// Says that the last handle is gone: a driver thread ends with the last armed sleep. Or that
    /// a handle asks the thread to end, until it [answers](Self::reopen).
    pub(crate) fn close(&self) {
        // ORDERING: Relaxed; the fence that follows orders it.
        self.closed.store(true, Ordering::Relaxed);
        // ORDERING: SeqCst, the partner of that in `Board::begin_scan`: either the scan's thread
        // reads this store, or this thread sees the scan announced. Loom
        // `the_end_of_one_timer_races_arm_on_another`.
        fence(Ordering::SeqCst);
        self.notify_driver();
    }

    /// Number of timers that are armed, if the driver is to end once there is none. To be asked by
    /// the driver, after a scan.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn left_at_close(&self) -> Option<usize> {
        // ORDERING: Relaxed; the fence of the scan orders it, as `close` says. Before any shard is
        // found empty; see `remove`.
        self.closed.load(Ordering::Relaxed).then(|| self.pending())
    }

    /// Says that there is no driver, unless a timer is armed after all: that one's thread may have
    /// seen the driver, and rely on it. To be called by the driver, under the start lock. Returns
    /// whether it is to end.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn try_to_leave(&self) -> bool {
        self.alarm.leave();
        self.pending() == 0
    }

    /// Says whether a thread drives the engine, and so is trusted to wake in time, or a reactor in
    /// its place. To be called under the start lock.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) fn trust_parks(&self, of_thread: bool) {
        let trusted = of_thread && self.driven_by.parks_in_time(&self.clock);
        // ORDERING: Relaxed; only decides whether a poll reads the clock itself.
        self.parks_in_time.store(trusted, Ordering::Relaxed);
    }

    /// Takes back that a handle asks the driver's thread to end. That handle is still there.
    pub(crate) fn reopen(&self) {
        // ORDERING: Relaxed; the driver answers under the start lock. That orders it before the
        // last handle's going.
        self.closed.store(false, Ordering::Relaxed);
    }

    /// Number of timers that are armed. Takes each shard's lock in turn.
    #[cfg(not(target_os = "none"))]
    fn pending(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().pending()).sum()
    }

    /// Returns whether the driver waits now, and for nothing once nothing is pending, not even for
    /// a cancelled timer's deadline: its wait may keep a program from ending.
    #[inline]
    pub(super) fn ends_idle_waits(&self) -> bool {
        match self.driven_by {
            DrivenBy::Thread(_) => IN_EVENT_LOOP && !self.alarm.is_idle(),
            DrivenBy::Task(_) | DrivenBy::Hand(_) | DrivenBy::Clock => false,
        }
    }

    /// Wakes all that is armed, once the driver [has left](crate::engine::Alarm::leave): the sleeps
    /// then look for another.
    ///
    /// They find by the clock that their deadlines have not come.
    #[cfg(not(target_os = "none"))]
    #[inline]
    pub(crate) fn abandon(&self) {
        for index in 0..self.shards.len() {
            for chunk in 0.. {
                let mut shard = self.shards.at(index).lock();
                let abandoned = shard.abandon(chunk);
                shard.forget_cancelled();
                self.board.raise(index, shard.earliest());
                self.board.open(index, shard.opens());
                drop(shard);
                let Some(wakers) = abandoned else { break };
                let _running = Running::begin();
                for waker in wakers {
                    self.count_panics(u64::from(guarded(|| waker.wake()).is_none()));
                }
            }
        }
    }
}
