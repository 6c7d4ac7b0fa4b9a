//! One lock's worth of timers: a wheel, the earliest deadline in it, and counters; and all of them.
//!
//! Nothing here calls foreign code, since all of it runs under the shard's lock: wakers come in
//! cloned and go out by value.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Deref;
use core::task::Waker;

use crate::engine::entry::{Claim, Entry, State};
use crate::engine::notify::Notify;
use crate::engine::wake_batch::WakeBatch;
use crate::platform::{PerShard, Wheel, per_shard, position};
use crate::stats::Histogram;
use crate::sync::{CachePadded, Lock};
use crate::tick::Tick;
use crate::tolerance::{Due, Margin};
use crate::wheel::{Allowance, Memory, NodeKey, Timed, Turned};

/// Entries filed again in one turn. Bounds how long the lock is held: each costs up to about
/// 100 ns where the memory is cold. Without an operating system interrupts wait for the lock. The
/// models, of a few timers each, have turns end partly all the same.
const MOVES: usize =
    if cfg!(any(all(test, tourbillon_model), target_os = "none")) { 2 } else { 128 };

/// State behind one shard's lock.
///
/// In the order it lies in memory: most of the state that each arm and cancel writes is on the
/// cache line of the lock. That matters where a timer is armed on one processor and dropped on
/// another.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard {
    /// No later than the instant that any entry is due by. Lowered by each insert; a cancel leaves
    /// it, so that cancelling the earliest timer and arming the next costs no wake-up.
    earliest: Tick,
    /// On a virtual clock, where nothing is postponed by a store: whether an entry is certain to be
    /// due by `earliest`.
    exact: bool,
    /// Number of queued entries that have a margin.
    tolerant: u32,
    pub(crate) counters: ShardCounters,
    wheel: Wheel<Entry>,
    pub(crate) lateness: Lateness,
    /// No later than any instant from which on an entry with a margin may be fired; NEVER if there
    /// is none.
    opens: Tick,
}

/// All shards of an engine. In one lock for all, threads would meet, and one inbox for all would
/// cost each timer a hand-over.
pub(super) struct AllShards(PerShard<CachePadded<Lock<Shard>>>);

/// Counts of what happened in one shard so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShardCounters {
    pub(crate) armed: u64,
    pub(crate) fired: u64,
    pub(crate) cancelled: u64,
}

/// Lateness of the fires of one shard.
#[derive(Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) ns_max: u64,
    /// `None` unless the timer was asked to keep it.
    pub(crate) histogram: Option<Box<Histogram>>,
}

impl AllShards {
    pub(super) fn new(shards: usize, mut make: impl FnMut() -> Shard) -> Self {
        Self(per_shard(shards, || CachePadded::new(Lock::new(make()))))
    }

    #[inline(always)]
    pub(super) fn at(&self, shard: usize) -> &Lock<Shard> {
        &self.0[position(shard)]
    }
}

impl Deref for AllShards {
    type Target = [CachePadded<Lock<Shard>>];

    #[inline(always)]
    fn deref(&self) -> &Self::Target {
        &self.0[..]
    }
}

impl Lateness {
    #[inline]
    fn note(&mut self, lateness_ns: u64) {
        self.ns_max = self.ns_max.max(lateness_ns);
        if let Some(histogram) = &mut self.histogram {
            histogram.record(lateness_ns);
        }
    }
}

impl Shard {
    pub(crate) fn new(now: Tick) -> Self {
        Self {
            earliest: Tick::NEVER,
            exact: true,
            tolerant: 0,
            counters: ShardCounters::default(),
            wheel: Wheel::new(now, Memory::Ahead),
            lateness: Lateness::default(),
            opens: Tick::NEVER,
        }
    }

    pub(crate) fn pending(&self) -> usize {
        self.wheel.len()
    }

    /// No later than the instant that any timer of the shard is due by; [`Tick::NEVER`] says that
    /// there is none.
    pub(crate) fn earliest(&self) -> Tick {
        self.earliest
    }

    /// No later than any instant from which on a timer with a margin may be fired;
    /// [`Tick::NEVER`] says that there is none.
    pub(crate) fn opens(&self) -> Tick {
        self.opens
    }

    /// The first instant itself that a timer is due by, on a virtual clock. At the price of a walk
    /// through the slots that begin before it, if an entry due then has left since the last time.
    pub(crate) fn exact_earliest(&mut self) -> Option<Tick> {
        if !self.exact {
            self.earliest = self.wheel.first_due().unwrap_or(Tick::NEVER);
            self.exact = true;
        }
        (self.earliest != Tick::NEVER).then_some(self.earliest)
    }

    /// Forgets about timers that were cancelled, if nothing is pending. For a driver that waits for
    /// nothing then.
    pub(crate) fn forget_cancelled(&mut self) {
        if self.pending() == 0 {
            self.earliest = Tick::NEVER;
            self.opens = Tick::NEVER;
            self.exact = true;
        }
    }

    /// Hands out a queued entry. `index` is this shard's own.
    #[inline(always)]
    pub(crate) fn arm(&mut self, index: u8, due: Due, waker: Waker) -> (Claim, Notify) {
        let key = self.allocate(index);
        let filed = self.wheel.insert(key, due.from(), due.by);
        let entry = self.wheel.entries.value(key);
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        entry.set_alone(false);
        entry.file_under(due, filed);
        entry.queue(Some(waker));
        let claim = Claim::on(entry);
        self.counters.armed += 1;
        (claim, self.note_queued(due))
    }

    /// Hands out an entry. The only place, so that the code that makes chunks is there once.
    #[inline]
    fn allocate(&mut self, index: u8) -> NodeKey {
        self.wheel.entries.allocate(|| Entry::new(index))
    }

    /// Hands out an entry that keeps `waker`, outside of the wheel.
    pub(crate) fn keep(&mut self, index: u8, waker: Waker) -> Claim {
        let key = self.allocate(index);
        let entry = self.wheel.entries.value(key);
        entry.place.leave(key);
        entry.keep(waker);
        Claim::on(entry)
    }

    /// Queues a fired entry again, or a kept one with the waker that it has.
    pub(crate) fn rearm(&mut self, entry: &Entry, due: Due, waker: Option<Waker>) -> Notify {
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if entry.is_alone() {
            return self.queue_alone(entry.place.key(), due, waker);
        }
        let filed = self.wheel.insert(entry.place.key(), due.from(), due.by);
        entry.file_under(due, filed);
        entry.queue(waker);
        self.counters.armed += 1;
        self.note_queued(due)
    }

    /// Files a queued entry anew. A fired one stays as it is, and a kept one is queued.
    #[inline]
    pub(crate) fn refile(&mut self, entry: &Entry, due: Due) -> Notify {
        if entry.state() != State::Queued {
            return self.refile_unqueued(entry, due);
        }
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        if entry.is_alone() {
            let filed = entry.place.filed();
            entry.file_under(Due::at(due.by), filed);
            return Notify::Wait(self.wheel.key(filed));
        }
        self.note_removal(entry);
        let key = self.wheel.remove(entry.place.filed());
        let filed = self.wheel.insert(key, due.from(), due.by);
        entry.file_under(due, filed);
        self.note_queued(due)
    }

    #[cold]
    #[inline]
    fn refile_unqueued(&mut self, entry: &Entry, due: Due) -> Notify {
        if entry.state().is_out() {
            entry.distrust_fire();
            return Notify::NotEarliest(due.by);
        }
        if due.by == Tick::NEVER { Notify::Nothing } else { self.rearm(entry, due, None) }
    }

    /// [`arm`](Self::arm) for one with a wait of the host's.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn arm_alone(&mut self, due: Due, waker: Waker) -> (Claim, Notify) {
        let key = self.allocate(0);
        self.wheel.entries.value(key).set_alone(true);
        let notify = self.queue_alone(key, due, Some(waker));
        (Claim::on(self.wheel.entries.value(key)), notify)
    }

    /// Files the entry where no turn comes to it, so that it counts, and is fired by its wait.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    #[inline(never)]
    fn queue_alone(&mut self, key: NodeKey, due: Due, waker: Option<Waker>) -> Notify {
        let filed = self.wheel.insert(key, Tick::NEVER, Tick::NEVER);
        let entry = self.wheel.entries.value(key);
        entry.file_under(Due::at(due.by), filed);
        entry.queue(waker);
        self.counters.armed += 1;
        Notify::Wait(key)
    }

    /// The key of an entry that is queued and waits alone, if it is to have another wait: it has
    /// none, or one for another waker.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn key_to_wait(&self, entry: &Entry, anew: bool) -> Option<NodeKey> {
        let waits = entry.is_alone() && (anew || !entry.has_wait());
        waits.then(|| self.wheel.key(entry.place.filed()))
    }

    /// The entry of this key, if it is queued and waits alone.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn find_alone(&mut self, key: NodeKey) -> Option<&Entry> {
        let entry = self.wheel.entries.find(key)?;
        (entry.is_alone() && entry.state() == State::Queued).then_some(entry)
    }

    /// Fires such an entry. It must be due.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn fire_alone(&mut self, key: NodeKey, now: Tick) -> Waker {
        let entry = self.wheel.entries.value(key);
        let (filed, due) = (entry.place.filed(), entry.due_by());
        self.wheel.remove(filed);
        self.counters.fired += 1;
        self.lateness.note(now.nanos_since(due));
        self.wheel.entries.value(key).fire()
    }

    /// Takes an entry back, and gives the waker that will not be needed. `completed` says whether
    /// its sleep found the deadline past by itself. `seen` is the entry's state.
    ///
    /// # Safety
    ///
    /// The claim is on an entry of this shard.
    #[inline(always)]
    pub(crate) unsafe fn remove(
        &mut self,
        claim: Claim,
        seen: State,
        completed: bool,
    ) -> Option<Waker> {
        // SAFETY: as the caller says; the shard is there, and so is its engine.
        let entry = unsafe { claim.entry() };
        let waker = entry.remove(seen);
        // No reference to the entry is used once it is discarded or released: its memory may be
        // freed then.
        if seen == State::Queued {
            self.note_removal(entry);
            if completed {
                self.counters.fired += 1;
            } else {
                self.counters.cancelled += 1;
            }
            self.wheel.discard(entry.place.filed());
        } else {
            self.wheel.entries.release(entry.place.key());
        }
        waker
    }

    /// Fires a queued entry by itself, whatever else is due. `None` if it is not queued.
    pub(crate) fn fire(&mut self, entry: &Entry, now: Tick) -> Option<Waker> {
        (entry.state() == State::Queued).then(|| {
            self.note_removal(entry);
            self.wheel.remove(entry.place.filed());
            self.counters.fired += 1;
            self.lateness.note(now.nanos_since(entry.due_by()));
            entry.fire()
        })
    }

    /// Takes the entries of a chunk out of the wheel, whenever they are due: nobody turns it any
    /// more. Returns their wakers; `None` if there are no more chunks.
    #[inline]
    pub(crate) fn abandon(&mut self, chunk: usize) -> Option<Vec<Waker>> {
        let entries = self.wheel.entries.chunk(chunk)?.iter();
        let queued = entries.filter(|entry| entry.state() == State::Queued);
        let filed: Vec<_> = queued.map(|entry| entry.place.filed()).collect();
        self.exact = false;
        let wakers = filed.into_iter().map(|filed| {
            let key = self.wheel.remove(filed);
            let entry = self.wheel.entries.value(key);
            self.tolerant -= u32::from(entry.margin() != Margin::NONE);
            self.counters.cancelled += 1;
            entry.abandon()
        });
        Some(wakers.collect())
    }

    /// Fires the timers due at `now`, as far as the batch has room. Returns the worst lateness too,
    /// in nanoseconds.
    pub(crate) fn turn(&mut self, now: Tick, batch: &mut WakeBatch) -> (Turned, u64) {
        let (counters, lateness) = (&mut self.counters, &mut self.lateness);
        let tolerant = &mut self.tolerant;
        let allowance = Allowance { expiries: batch.room(), moves: MOVES };
        let mut lateness_ns_max = 0;
        let turned = self.wheel.turn(now, allowance, |entry, due_by| {
            *tolerant -= u32::from(entry.margin() != Margin::NONE);
            batch.push(entry.fire());
            let lateness_ns = now.nanos_since(due_by);
            lateness_ns_max = lateness_ns_max.max(lateness_ns);
            counters.fired += 1;
            lateness.note(lateness_ns);
        });
        if self.earliest <= now || self.opens <= now {
            self.exact = false;
            if turned == Turned::Completely {
                self.earliest = self.wheel.next_due().unwrap_or(Tick::NEVER);
                self.find_next_window();
            }
        }
        (turned, lateness_ns_max)
    }

    /// After a turn that filed as many entries again as one may: has the next one fire due timers
    /// before it files more of their slot again.
    #[inline]
    pub(crate) fn set_aside(&mut self) {
        self.wheel.set_aside();
    }

    /// Notes an entry that is queued.
    #[inline(always)]
    fn note_queued(&mut self, due: Due) -> Notify {
        if due.margin != Margin::NONE {
            self.tolerant += 1;
            self.opens = self.opens.min(due.from());
        }
        if due.by >= self.earliest {
            return Notify::NotEarliest(due.by);
        }
        self.exact = true;
        self.earliest = due.by;
        Notify::Earliest(due.by)
    }

    /// Raises `opens` after a complete turn. The next slot may have none of the entries with a
    /// margin; then the turn that it brings about is for nothing, and files its entries again at a
    /// finer level, which some turn has to.
    #[inline]
    fn find_next_window(&mut self) {
        if self.opens != Tick::NEVER {
            let next = if self.tolerant > 0 { self.wheel.next_start() } else { None };
            self.opens = next.unwrap_or(Tick::NEVER);
        }
    }

    /// Notes that a queued entry leaves the wheel before it is fired by a turn.
    #[inline]
    fn note_removal(&mut self, entry: &Entry) {
        self.tolerant -= u32::from(entry.margin() != Margin::NONE);
        self.exact &= entry.due_by() != self.earliest;
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::tolerance::Slack;

    fn armed(shard: &mut Shard, count: u64) -> Vec<Claim> {
        (0..count)
            .map(|n| {
                let deadline = Tick::ORIGIN.saturating_add(Duration::from_nanos(1 + n));
                shard.arm(0, Due::at(deadline), Waker::noop().clone()).0
            })
            .collect()
    }

    fn remove(shard: &mut Shard, claim: Claim) {
        // SAFETY: the shard is alive, and the claim is its own.
        let seen = unsafe { claim.entry() }.state();
        // SAFETY: as above.
        drop(unsafe { shard.remove(claim, seen, false) });
    }

    /// Several chunks of entries.
    const BURST: u64 = if cfg!(miri) { 600 } else { 10_000 };

    #[test]
    fn memory_is_given_back_after_a_burst_but_for_two_chunks() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let mut batch = WakeBatch::new();
        let mut claims = armed(&mut shard, BURST);
        // In no order.
        while !claims.is_empty() {
            let index = claims.len() * 7 / 11;
            remove(&mut shard, claims.swap_remove(index));
        }
        assert_eq!(shard.turn(Tick::ORIGIN, &mut batch).0, Turned::Completely);
        assert_eq!(shard.pending(), 0);
        assert!(shard.wheel.entries.chunks() <= 2);
        let claims = armed(&mut shard, BURST);
        while shard.turn(Tick::LAST, &mut batch).0 == Turned::Partly {
            assert_eq!(batch.wake_all(|_| ()), 0);
        }
        for claim in claims {
            remove(&mut shard, claim);
        }
        assert_eq!(shard.turn(Tick::LAST, &mut batch).0, Turned::Completely);
        assert_eq!(shard.counters.fired, BURST);
        assert!(shard.wheel.entries.chunks() <= 2);
    }

    #[test]
    fn a_turn_hands_out_no_more_than_a_batch() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let claims = armed(&mut shard, 100);
        let mut batch = WakeBatch::new();
        assert_eq!(shard.turn(Tick::LAST, &mut batch).0, Turned::Partly);
        assert_eq!(batch.len(), crate::engine::wake_batch::BATCH);
        for claim in claims {
            remove(&mut shard, claim);
        }
    }

    #[test]
    fn a_turn_files_again_no_more_than_a_number() {
        let mut shard = Shard::new(Tick::ORIGIN);
        // All of one slot, which begins long before they are due.
        const BEGINS: u64 = 1 << 30;
        let after = |nanos| Tick::ORIGIN.saturating_add(Duration::from_nanos(nanos));
        let claims: Vec<_> = (0..1_000)
            .map(|n| shard.arm(0, Due::at(after(BEGINS + 1_000 + n)), Waker::noop().clone()).0)
            .collect();
        let mut batch = WakeBatch::new();
        let turns = (1..).find(|_| shard.turn(after(BEGINS), &mut batch).0 == Turned::Completely);
        assert_eq!((turns, batch.len()), (Some(1_000 / MOVES + 1), 0));
        for claim in claims {
            remove(&mut shard, claim);
        }
    }

    #[test]
    fn a_cancel_keeps_the_earliest_deadline_and_the_next_turn_finds_it() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let mut claims = armed(&mut shard, 2).into_iter();
        let earliest = shard.earliest();
        remove(&mut shard, claims.next().expect("the first"));
        assert_eq!(shard.earliest(), earliest);
        assert_eq!(shard.turn(earliest, &mut WakeBatch::new()).0, Turned::Completely);
        assert!(shard.earliest() > earliest);
        remove(&mut shard, claims.next().expect("the second"));
    }

    #[test]
    fn no_window_is_to_come_once_no_entry_has_a_margin() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let mut batch = WakeBatch::new();
        let after = |micros| Tick::ORIGIN.saturating_add(Duration::from_micros(micros));
        let window =
            |from, span| Due::within(after(from), Slack::fixed(Duration::from_micros(span)));
        let exact = shard.arm(0, Due::at(after(1 << 30)), Waker::noop().clone()).0;
        let [fired, reset, removed, alone] =
            [(100, 100), (10_000, 10_000), (50_000, 40_000), (600, 300)]
                .map(|(from, span)| shard.arm(0, window(from, span), Waker::noop().clone()).0);
        assert_eq!(shard.opens(), window(100, 100).from());
        assert_eq!(shard.turn(after(150), &mut batch).0, Turned::Completely);
        assert!(shard.opens() <= window(600, 300).from());
        // SAFETY: the shard is alive, and the claims are its own.
        let [resets, fires] = [&reset, &alone].map(|claim| unsafe { claim.entry() });
        let later = after(1 << 29);
        assert_eq!(shard.refile(resets, Due::at(later)), Notify::NotEarliest(later));
        assert!(shard.fire(fires, after(700)).is_some());
        remove(&mut shard, removed);
        assert_eq!(shard.turn(after(1_000), &mut batch).0, Turned::Completely);
        assert_eq!(shard.opens(), Tick::NEVER);
        assert_eq!(batch.wake_all(|_| ()), 0);
        for claim in [exact, fired, reset, alone] {
            remove(&mut shard, claim);
        }
    }

    #[test]
    fn what_is_armed_after_a_step_back_is_seen_before_what_was_armed_ahead() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let mut batch = WakeBatch::new();
        let after = |nanos| Tick::ORIGIN.saturating_add(Duration::from_nanos(nanos));
        assert_eq!(shard.turn(after(0x1005), &mut batch).0, Turned::Completely);
        let ahead = shard.arm(0, Due::at(after(0x1009)), Waker::noop().clone()).0;
        assert_eq!(shard.turn(after(5), &mut batch).0, Turned::Completely);
        let soon = shard.arm(0, Due::at(after(20)), Waker::noop().clone()).0;
        assert_eq!(shard.exact_earliest(), Some(after(20)));
        for claim in [ahead, soon] {
            remove(&mut shard, claim);
        }
    }

    #[test]
    fn a_clock_that_steps_back_fires_nothing_early_and_keeps_nothing_from_firing() {
        let mut shard = Shard::new(Tick::ORIGIN);
        let mut batch = WakeBatch::new();
        let after = |nanos| Tick::ORIGIN.saturating_add(Duration::from_nanos(nanos));
        assert_eq!(shard.turn(after(100), &mut batch), (Turned::Completely, 0));
        // Armed while the clock shows less than it did.
        let claims =
            [10, 30, 10, 200].map(|n| shard.arm(0, Due::at(after(n)), Waker::noop().clone()).0);
        for (now, due, next) in [(5, 0, 10), (10, 2, 30), (20, 0, 30), (150, 1, 200), (200, 1, 0)] {
            assert_eq!(shard.turn(after(now), &mut batch).0, Turned::Completely);
            assert_eq!(batch.len(), due, "at {now}");
            assert_eq!(batch.wake_all(|_| ()), 0);
            assert_eq!(shard.earliest(), if next == 0 { Tick::NEVER } else { after(next) });
        }
        for claim in claims {
            remove(&mut shard, claim);
        }
    }
}
