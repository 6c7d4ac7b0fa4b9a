//! Waits of the host's, each for one entry alone, in an event loop that has them.

use alloc::boxed::Box;
use core::task::Waker;

use crate::engine::{Caller, Claim, DrivenBy, Engine, Notify, OwnWaits, Pass};
use crate::platform::OWN_WAITS;
use crate::tick::Tick;
use crate::tolerance::Due;
use crate::wheel::{NodeKey, Timed as _};

impl Engine {
    /// Returns whether a new entry is to have a wait of its own. Reads the clock for that wait,
    /// where no poll has.
    #[inline]
    pub(super) fn waits_alone(&self, caller: Caller) -> bool {
        match caller {
            Caller::Sleep => self.own_waits() >= OwnWaits::Polls,
            Caller::Callback => {
                let waits_alone = self.own_waits() == OwnWaits::All;
                self.read_for_wait(waits_alone);
                waits_alone
            }
        }
    }

    /// Reads the clock for the wait that is to begin, where no poll has.
    pub(super) fn read_for_wait(&self, is_alone: bool) {
        if is_alone {
            self.clock.now();
        }
    }

    #[inline(never)]
    pub(super) fn insert_alone(&self, due: Due, waker: Waker) -> (Claim, Notify) {
        self.shards.at(0).lock().arm_alone(due, waker)
    }

    fn own_waits(&self) -> OwnWaits {
        match &self.driven_by {
            DrivenBy::Thread(thread) => thread.parker.own_waits(),
            _ => OwnWaits::None,
        }
    }

    /// Begins a wait of the host's for the entry of this key, in the place of the one before and by
    /// the last reading. An exception of the host's passes through, and all stays the same.
    #[inline(never)]
    pub(crate) fn wait_by_host(&self, key: NodeKey) {
        if !OWN_WAITS {
            return;
        }
        let due = self.shards.at(0).lock().find_alone(key).map(|entry| entry.due_by());
        let DrivenBy::Thread(thread) = &self.driven_by else { return };
        let Some(event_loop) = thread.parker.event_loop() else { return };
        let Some(due) = due.filter(|due| *due != Tick::NEVER) else { return };
        let wait = event_loop.wait(key.0, due);
        let wait = Box::new(wait.unwrap_or_else(|thrown| wasm_bindgen::throw_val(thrown)));
        let mut shard = self.shards.at(0).lock();
        let over = match shard.find_alone(key) {
            Some(entry) => entry.replace_wait(Some(wait)),
            None => Some(wait),
        };
        drop(shard);
        drop(over);
    }

    /// Ends a wait of the host's. Returns the waker of its entry, if that is due.
    pub(crate) fn end_wait(&self, key: u32, generation: u32) -> Option<Waker> {
        let key = NodeKey(key);
        let now = self.clock.now();
        let mut shard = self.shards.at(0).lock();
        let entry = shard.find_alone(key)?;
        let wait = entry.replace_wait(None)?;
        if wait.generation != generation {
            entry.replace_wait(Some(wait));
            return None;
        }
        wait.leave();
        if entry.due_by() > now {
            drop(shard);
            self.wait_by_host(key);
            return None;
        }
        Some(shard.fire_alone(key, now))
    }

    /// Wakes the waker of an entry whose wait has ended.
    pub(crate) fn wake_alone(&self, waker: Waker) {
        let measured = self.observed.calls.wake_one(&self.clock, waker);
        self.count_panics(measured.panics);
    }

    /// Has an event loop's driver unparked also if its host has lost the turn that is to come. The
    /// arm has just read the clock.
    pub(super) fn notify_of_loss(&self, notify: Notify, insert: Notify) -> Notify {
        let DrivenBy::Thread(thread) = &self.driven_by else { return notify };
        let is_lost = notify == Notify::Nothing
            && !matches!(insert, Notify::Earliest(Tick::NEVER) | Notify::NotEarliest(Tick::NEVER))
            // Or it has refused it, if nothing is set for the new entry.
            && (self.alarm.is_idle()
                || thread.parker.is_lost(self.clock.last_reading()));
        if is_lost {
            self.alarm.stay_awake();
            return Notify::Unpark;
        }
        notify
    }

    /// Wakes one waker that a pass has left to the event loop.
    pub(crate) fn wake_deferred(&self, waker: Waker, pass: &mut Pass) {
        let measured = self.observed.calls.wake_one(&self.clock, waker);
        self.count_calls(measured, pass);
    }

    /// Counts a call of [`wake_deferred`](Self::wake_deferred) that was cut off by a panic.
    pub(crate) fn count_cut_off(&self) {
        self.observed.calls.cut_off(&self.clock);
        self.count_panics(1);
    }
}
