//! Entries go into the shards' wheels, and out again before their time.

use core::task::Waker;

use crate::engine::shard::Shard;
use crate::engine::{Claim, Engine, Entry, Notify, State};
use crate::platform::ONE_SHARD;
use crate::sync::{Home, LockGuard, Ordering, with_home};
use crate::tolerance::{Due, Margin};

/// The caller of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A sleep, with no lock held: the driver is notified at once.
    Sleep,
    /// A callback, with its lock held. No foreign code runs under that, so the callback
    /// [notifies](Engine::notify) later, and leaves a timer that is due to the next move of a
    /// virtual clock.
    Callback,
}

impl Engine {
    /// Queues a new entry.
    #[cfg_attr(not(any(target_family = "wasm", target_os = "none")), inline(always))]
    pub(crate) fn arm(&self, due: Due, waker: Waker, caller: Caller) -> (Claim, Notify) {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if self.waits_alone(caller) {
            return self.insert_alone(due, waker);
        }
        let (index, mut shard) = self.lock_home();
        let (claim, notify) = shard.arm(index, due, waker);
        // SAFETY: a shard of this engine's has just made the claim.
        let entry = unsafe { claim.entry() };
        let rest = self.finish_insert(shard, entry, due, notify, caller);
        (claim, rest)
    }

    /// Keeps the waker of a sleep that never ends, for its next deadline.
    #[cold]
    pub(crate) fn keep(&self, waker: Waker) -> Claim {
        let (index, mut shard) = self.lock_home();
        let claim = shard.keep(index, waker);
        drop(shard);
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        // SAFETY: as in `arm`.
        unsafe { claim.entry() }.set_alone(self.waits_alone(Caller::Sleep));
        claim
    }

    /// Queues a fired entry again.
    pub(crate) fn rearm(&self, entry: &Entry, due: Due, waker: Waker) -> Notify {
        let mut shard = self.shard_of(entry);
        let notify = shard.rearm(entry, due, Some(waker));
        self.finish_insert(shard, entry, due, notify, Caller::Sleep)
    }

    /// Files an entry anew if it is queued, and queues it if it was kept.
    #[inline]
    pub(crate) fn refile(&self, entry: &Entry, due: Due, caller: Caller) -> Notify {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        self.read_for_wait(entry.is_alone());
        let mut shard = self.shard_of(entry);
        let notify = shard.refile(entry, due);
        self.finish_insert(shard, entry, due, notify, caller)
    }

    /// Publishes the changes that an insert has made, releases the lock, and does the part after it
    /// if its caller may. Returns the rest.
    ///
    /// An entry that was just queued is fired if a virtual clock has passed its deadline meanwhile.
    /// The move of the clock was followed by a scan of the shards. If that was after the insert,
    /// the entry has been fired. If before, the insert's thread sees the new time, by the shard's
    /// lock or by the fence of the insert that the scan passed over. Loom `advance_races_arm`. A
    /// thread that is moving the clock itself, and runs in a waker, will scan again, and in order.
    #[inline(always)]
    fn finish_insert(
        &self,
        shard: LockGuard<'_, Shard>,
        entry: &Entry,
        due: Due,
        notify: Notify,
        caller: Caller,
    ) -> Notify {
        if due.margin != Margin::NONE {
            self.board.open(entry.shard.into(), shard.opens());
        }
        if let Notify::Earliest(by) = notify {
            self.board.lower(entry.shard.into(), by);
        }
        drop(shard);
        if caller == Caller::Callback {
            return notify;
        }
        if self.clock.is_virtual() {
            (self.uncommon().catch_up)(self, entry, due.by);
        }
        self.notify(notify)
    }

    /// Puts `waker` in the place of an entry's. False if the entry has fired meanwhile.
    #[must_use]
    pub(crate) fn replace_waker(&self, entry: &Entry, waker: Waker) -> bool {
        let shard = self.shard_of(entry);
        let waits = !entry.state().is_out();
        // Whichever is no longer needed is dropped after the lock, as drops are foreign code.
        let old = if waits { entry.replace_waker(waker) } else { waker };
        drop(shard);
        drop(old);
        waits
    }

    /// Takes an entry back, and then drops its waker: that is foreign code and may panic. Returns
    /// whether there was one, since nothing had fired the entry.
    ///
    /// # Safety
    ///
    /// The claim was made by this engine, and is not a [mark](Claim::is_mark).
    #[inline(always)]
    pub(crate) unsafe fn remove(&self, claim: Claim, completed: bool) -> bool {
        // SAFETY: as the caller says; this engine is alive.
        let entry = unsafe { claim.entry() };
        // Before the lock: the host's function is foreign code.
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        drop(entry.replace_wait(None));
        let mut shard = self.shard_of(entry);
        let seen = entry.state();
        // SAFETY: the entry itself names its shard.
        let waker = unsafe { shard.remove(claim, seen, completed) };
        // ORDERING: Relaxed; the shard's lock orders this load. If a driver that has read `closed`
        // counts what is pending here after us, it finds nothing. If before, we read what it has
        // read, or a later value. Loom `last_cancel_races_close`.
        let last = shard.pending() == 0
            && (self.closed.load(Ordering::Relaxed)
                || seen == State::Queued && self.ends_idle_waits());
        drop(shard);
        if last {
            self.notify_driver();
        }
        drop(waker);
        seen == State::Queued
    }

    /// Locks the calling thread's shard, or the next one if that is taken at the moment.
    #[inline]
    fn lock_home(&self) -> (u8, LockGuard<'_, Shard>) {
        if ONE_SHARD {
            return (0, self.shards.at(0).lock());
        }
        with_home(|home| {
            let index = home.number() & (self.shards.len() - 1);
            match self.shards.at(index).try_lock() {
                Some(shard) => {
                    home.was_free();
                    (index as u8, shard)
                }
                None => self.lock_neighbour(home, index),
            }
        })
    }

    #[cold]
    fn lock_neighbour(&self, home: &Home, index: usize) -> (u8, LockGuard<'_, Shard>) {
        let next = (index + 1) & (self.shards.len() - 1);
        if next != index {
            // A driver that is awake may have the lock for a while, and then takes the next.
            if self.alarm.plan().is_some() {
                home.was_taken();
            }
            if let Some(shard) = self.shards.at(next).try_lock() {
                return (next as u8, shard);
            }
        }
        (index as u8, self.shards.at(index).lock())
    }

    #[inline]
    pub(super) fn shard_of(&self, entry: &Entry) -> LockGuard<'_, Shard> {
        self.shards.at(entry.shard.into()).lock()
    }
}
