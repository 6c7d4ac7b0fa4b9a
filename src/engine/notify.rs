//! Whom a thread notifies once it has queued an entry: edge `alarm` from the side of an insert.

use crate::engine::{DrivenBy, Engine, Entry};
use crate::foreign::{Running, guarded};
use crate::platform::IN_EVENT_LOOP;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::platform::OWN_WAITS;
use crate::sync::Ordering;
use crate::tick::Tick;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::wheel::NodeKey;

/// Work that an insert leaves. Each stage does its part, and returns the rest to its caller:
///
/// | stage | does | returns |
/// |---|---|---|
/// | the shard, under its lock | compares the entry with its earliest | `Earliest`, `NotEarliest`, `Wait` |
/// | the alarm, after the lock | compares the entry with the driver's plan | `Nothing`, `Unpark`, `Start` |
/// | the engine | unparks the driver | `Nothing`, `Start`, `Wait` |
/// | `EngineRef`, above the drivers | starts the driver, begins a wait of the host's | an error |
///
/// An engine does not know how its driver is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Notify {
    /// Nothing is left.
    Nothing,
    /// The entry, due by this tick, is the shard's earliest: it has to be published, and the alarm
    /// compared with it once the lock is released.
    Earliest(Tick),
    /// Another insert lowered the shard's earliest deadline at least this far, and has notified the
    /// driver or is about to, if there is one.
    NotEarliest(Tick),
    /// Unpark the driver.
    Unpark,
    /// Start the driver. An insert that cannot have that done is to be removed.
    Start,
    /// The same, and begin a wait of the host's for the entry of this key alone.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    Wait(NodeKey),
}

impl Engine {
    /// Has the driver scan in time for an insert, with no lock held: this may call a hook. Returns
    /// the rest.
    #[inline(always)]
    pub(crate) fn notify(&self, insert: Notify) -> Notify {
        let notify = match insert {
            Notify::Earliest(by) => self.alarm.pull_forward(by),
            Notify::NotEarliest(_) => self.alarm.start_if_absent(),
            rest => return rest,
        };
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        let notify = self.notify_of_loss(notify, insert);
        if notify == Notify::Unpark {
            self.unpark();
            return Notify::Nothing;
        }
        notify
    }

    /// Makes the driver, if there is one, look at its wheels now.
    pub(crate) fn notify_driver(&self) {
        if self.alarm.pull_forward(Tick::PAST) == Notify::Unpark {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        // ORDERING: Relaxed; a statistic.
        self.observed.unparks.fetch_add(1, Ordering::Relaxed);
        match &self.driven_by {
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            DrivenBy::Thread(thread) => thread.parker.unpark(self.clock.last_reading()),
            #[cfg(not(all(
                target_family = "wasm",
                target_os = "unknown",
                feature = "wasm-bindgen"
            )))]
            DrivenBy::Thread(thread) => thread.unpark(),
            _ => (self.uncommon().unpark)(self),
        }
    }

    /// Sees to it that a queued entry is fired. `anew` says that its waker is another.
    #[inline]
    #[cfg_attr(
        not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")),
        allow(unused_variables, reason = "no host has waits")
    )]
    pub(crate) fn ensure_driver(&self, entry: &Entry, anew: bool) -> Notify {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if OWN_WAITS {
            if let Some(key) = self.shards.at(0).lock().key_to_wait(entry, anew) {
                return Notify::Wait(key);
            }
        }
        self.look_for_driver()
    }

    /// Returns whether the driver has to be started.
    pub(crate) fn look_for_driver(&self) -> Notify {
        self.alarm.start_if_absent()
    }

    /// Returns whether a sleep may leave it to the driver to notice its deadline, rather than read
    /// the clock in every poll: a thread of its own is parked, and will wake in time. The loop that
    /// turns a hand-driven engine may be the very loop that does not get to it, and so may an event
    /// loop, and a runtime whose reactor is the driver. Where the clock counts suspend, a park may
    /// end late by that.
    #[inline]
    pub(crate) fn driver_covers(&self, deadline: Tick) -> bool {
        // ORDERING: Relaxed; only decides whether a poll reads the clock itself.
        let parks_in_time = self.parks_in_time.load(Ordering::Relaxed);
        !IN_EVENT_LOOP && parks_in_time && self.alarm.is_set_for(deadline)
    }

    /// Fires one entry, if it is queued: a virtual clock has passed it before that, or there is no
    /// driver for it.
    #[cold]
    #[inline]
    pub(crate) fn fire_late(&self, entry: &Entry, now: Tick) {
        let waker = self.shard_of(entry).fire(entry, now);
        if let Some(waker) = waker {
            let _running = Running::begin();
            self.count_panics(u64::from(guarded(|| waker.wake()).is_none()));
        }
    }
}
