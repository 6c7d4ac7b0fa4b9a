//! Entries: state that a sleep and its shard share about one armed timer.
//!
//! An entry lives in its shard's [`Store`](crate::wheel) at a stable address. It belongs to one
//! sleep from the moment the shard hands it out until the sleep gives it back. The right to it is
//! the sleep's [`Claim`]. It cannot be copied, and giving the entry back uses it up.

#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use alloc::boxed::Box;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use core::cell::Cell;
use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use core::task::Waker;

#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::engine::HostWait;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
use crate::platform::OWN_WAITS;
use crate::sync::{AtomicU8, AtomicU64, Ordering, UnsafeCell, unmodelled};
use crate::tick::Tick;
use crate::tolerance::{Due, Margin};
use crate::wheel::{Filed, Place, Timed};

/// Polls in a row that may trust a parked driver before one reads the clock itself.
const TRUSTING_POLLS: u8 = 16;

/// Bit of [`Entry::own`]: whether the sleep is due later than the driver may have fired it for.
const POSTPONED: u8 = 1;

/// Amount that a poll adds to [`Entry::own`].
const POLL: u8 = 2;

/// State of an entry. Transitions, all under the shard's lock:
///
/// ```text
/// Idle   --arm, by the sleep-->     Queued   the waker moves in
/// Idle   --keep, by the sleep-->    Kept     the waker moves in
/// Kept   --rearm, by the sleep-->   Queued
/// Queued --fire, by the driver-->   Fired    the waker moves out
/// Queued --abandon, by a driver that goes--> Abandoned   the waker moves out
/// Queued, Kept     --remove, by the sleep--> Idle     the waker moves out
/// Fired, Abandoned --rearm, by the sleep-->  Queued   the waker moves in
/// Fired, Abandoned --remove, by the sleep--> Idle
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Not in the wheel; nobody's, or about to be armed.
    Idle,
    /// In the wheel, with a waker.
    Queued,
    /// Out of the wheel, with the waker of a sleep that never ends.
    Kept,
    /// Out of the wheel because due, without a waker.
    Fired,
    /// Out of the wheel because nobody turns that any more, without a waker.
    Abandoned,
}

impl State {
    /// Returns whether it was armed, and its waker has moved out.
    #[inline]
    pub(crate) fn is_out(self) -> bool {
        matches!(self, Self::Fired | Self::Abandoned)
    }
}

/// The shared node of one timer. It lies within one cache line.
#[cfg_attr(not(target_os = "none"), repr(align(32)))]
pub(crate) struct Entry {
    /// Present exactly while the state is Queued or Kept. Written under the shard's lock; its two
    /// words may also be read, as numbers, by the sleep that owns the entry.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// Instant to fire it by: the one in force, or an earlier one; never later. Written by the
    /// sleep.
    due: AtomicU64,
    pub(super) place: Place,
    pub(super) shard: u8,
    /// A [`State`]. Written under the shard's lock.
    state: AtomicU8,
    /// A [`Margin`]. Written by the sleep, under the shard's lock.
    margin: unmodelled::AtomicU8,
    /// [`POSTPONED`], and polls since one looked at the clock. The sleep's.
    own: unmodelled::AtomicU8,
    /// True if no turn fires it, but a wait of the host's for it alone.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    alone: Cell<bool>,
    /// The wait that is set; gone before the entry is given back.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    wait: ManuallyDrop<Cell<Option<Box<HostWait>>>>,
}

impl Entry {
    pub(crate) fn new(shard: u8) -> Self {
        Self {
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            due: AtomicU64::new(0),
            place: Place::new(),
            shard,
            state: AtomicU8::new(State::Idle as u8),
            margin: unmodelled::AtomicU8::new(Margin::NONE.code()),
            own: unmodelled::AtomicU8::new(0),
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            alone: Cell::new(false),
            #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
            wait: ManuallyDrop::new(Cell::new(None)),
        }
    }

    /// Returns whether no turn fires it.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn is_alone(&self) -> bool {
        OWN_WAITS && self.alone.get()
    }

    /// Sets what [`is_alone`](Self::is_alone) returns, before it is queued.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn set_alone(&self, is_alone: bool) {
        self.alone.set(is_alone);
    }

    /// Puts another wait of the host's into the place of the one before.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn replace_wait(&self, wait: Option<Box<HostWait>>) -> Option<Box<HostWait>> {
        if OWN_WAITS { self.wait.replace(wait) } else { wait }
    }

    /// Returns whether there is one.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn has_wait(&self) -> bool {
        let wait = self.wait.take();
        let has_wait = wait.is_some();
        self.wait.set(wait);
        has_wait
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        // ORDERING: Relaxed. Under the shard's lock it is exact. Without, the sleep may read a
        // Queued that is out of date, but not after the wake-up for it: whatever brought the news
        // of that wake-up to the polling thread orders this load behind the store. All that the
        // state guards is only ever touched under the lock.
        match self.state.load(Ordering::Relaxed) {
            0 => State::Idle,
            1 => State::Queued,
            2 => State::Kept,
            3 => State::Fired,
            _ => State::Abandoned,
        }
    }

    /// Returns whether it may be out of the wheel before the deadline in force.
    #[inline]
    pub(crate) fn may_be_early(&self) -> bool {
        self.is_postponed() || self.state() == State::Abandoned
    }

    /// Returns whether an entry that is due by a later instant, with this margin, may be fired no
    /// earlier than before. Then a store is enough to postpone it.
    #[inline]
    pub(crate) fn has_at_most(&self, margin: Margin) -> bool {
        margin >= self.margin()
    }

    /// Moves the instant that it is due by later than all before since the entry was armed, without
    /// the lock. The margin stays as it is.
    #[inline]
    pub(crate) fn postpone(&self, by: Tick) {
        // ORDERING: Relaxed; as in `due_by`, and the flag is the sleep's own.
        self.own.store(POSTPONED, Ordering::Relaxed);
        self.due.store(by.raw(), Ordering::Relaxed);
    }

    /// Returns whether it is due later than when it was filed. Then a fired entry does not show
    /// that the deadline in force has come.
    #[inline]
    pub(crate) fn is_postponed(&self) -> bool {
        // ORDERING: Relaxed; the flag is the sleep's own.
        self.own.load(Ordering::Relaxed) & POSTPONED != 0
    }

    /// Notes that the entry fired for a deadline that is no longer in force.
    pub(crate) fn distrust_fire(&self) {
        // ORDERING: Relaxed; the flag is the sleep's own.
        self.own.store(POSTPONED, Ordering::Relaxed);
    }

    /// Sets the instant and margin that the entry is filed under, and its place. Under the shard's
    /// lock.
    #[inline]
    pub(crate) fn file_under(&self, due: Due, filed: Filed) {
        self.place.file(filed);
        // ORDERING: Relaxed; the lock orders all three.
        self.due.store(due.by.raw(), Ordering::Relaxed);
        self.margin.store(due.margin.code(), Ordering::Relaxed);
        self.own.store(0, Ordering::Relaxed);
    }

    /// How long before the instant that it is due by it may be fired.
    #[inline(always)]
    pub(super) fn margin(&self) -> Margin {
        // ORDERING: Relaxed; the lock orders it, and its sleep wrote it.
        Margin::from_code(self.margin.load(Ordering::Relaxed))
    }

    /// Counts a poll; true when it is time to read the clock.
    #[inline]
    pub(crate) fn count_poll(&self) -> bool {
        // ORDERING: Relaxed, twice; the byte is the sleep's own.
        let own = self.own.load(Ordering::Relaxed).wrapping_add(POLL);
        self.own.store(own, Ordering::Relaxed);
        own / POLL % TRUSTING_POLLS == 0
    }

    /// Returns whether `waker` is the one the entry was last given, as far as that can be known.
    ///
    /// For the owning sleep, while [`state`](Self::state) reads Queued or Kept.
    #[inline]
    pub(crate) fn has_waker(&self, waker: &Waker) -> bool {
        self.waker.with(|own| {
            // SAFETY: the cell is valid for reads and was initialised when the sleep armed the
            // entry; only the sleep writes to it, so nobody does now. The driver may have moved the
            // waker out, but leaves the bytes; the copy's two words are compared and it is not
            // dropped, so their target is not touched.
            let own = unsafe { own.cast::<ManuallyDrop<Waker>>().read() };
            // If the driver took the waker and another now has the same two words, then that
            // one was made after the first was dropped, and its poll reads Fired, not Queued.
            own.will_wake(waker)
        })
    }

    /// Idle, Fired or Abandoned to Queued, with a waker; or Kept to Queued, with the one it has.
    /// Under the shard's lock.
    #[inline]
    pub(crate) fn queue(&self, waker: Option<Waker>) {
        debug_assert!(self.state() != State::Queued, "armed twice");
        debug_assert!(waker.is_none() == (self.state() == State::Kept), "which waker?");
        if let Some(waker) = waker {
            self.waker.with_mut(|own| {
                // SAFETY: the caller holds the lock under which alone the waker is written, and by
                // the state there is none to be lost.
                unsafe { (*own).write(waker) };
            });
        }
        self.set(State::Queued);
    }

    /// Idle to Kept. Under the shard's lock.
    pub(crate) fn keep(&self, waker: Waker) {
        self.queue(Some(waker));
        self.set(State::Kept);
    }

    /// Queued to Fired, giving the waker. Under the shard's lock.
    pub(crate) fn fire(&self) -> Waker {
        let waker = self.take_waker();
        self.set(State::Fired);
        waker
    }

    /// Queued to Abandoned, giving the waker. Under the shard's lock.
    pub(crate) fn abandon(&self) -> Waker {
        let waker = self.take_waker();
        self.set(State::Abandoned);
        waker
    }

    /// Any but Idle to Idle, giving the waker if there was one. Under the shard's lock; `seen` is
    /// its state there.
    #[inline]
    pub(crate) fn remove(&self, seen: State) -> Option<Waker> {
        let waker = matches!(seen, State::Queued | State::Kept).then(|| self.take_waker());
        self.set(State::Idle);
        waker
    }

    /// Puts `waker` in the place of the one before. Under the shard's lock, while there is one.
    pub(crate) fn replace_waker(&self, waker: Waker) -> Waker {
        let old = self.take_waker();
        // SAFETY: as in `queue`; the old waker has just been moved out.
        self.waker.with_mut(|own| unsafe { (*own).write(waker) });
        old
    }

    #[inline]
    fn take_waker(&self) -> Waker {
        debug_assert!(matches!(self.state(), State::Queued | State::Kept), "there is no waker");
        // SAFETY: the caller holds the lock and has seen Queued or Kept, so a waker is there; the
        // caller overwrites it or changes the state before it lets go of the lock, so it is read
        // once.
        self.waker.with(|own| unsafe { own.cast::<Waker>().read() })
    }

    #[inline]
    fn set(&self, state: State) {
        // ORDERING: Relaxed; see `state`.
        self.state.store(state as u8, Ordering::Relaxed);
    }
}

impl Timed for Entry {
    #[inline(always)]
    fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the instant to fire it by that the driver may see: the instant in force, or an
    /// earlier one.
    #[inline(always)]
    fn due_by(&self) -> Tick {
        // ORDERING: Relaxed; a value out of date is an earlier instant. The sleep's next poll
        // (`is_postponed`) or the wheel's next look puts it right. Loom
        // `fire_races_reset_to_later`.
        Tick::from_raw(self.due.load(Ordering::Relaxed))
    }

    /// Returns when it may be fired, given what `due_by` returned.
    #[inline(always)]
    fn deadline(&self, due_by: Tick) -> Tick {
        Due { by: due_by, margin: self.margin() }.from()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("state", &self.state())
            .field("due", &self.due_by())
            .finish_non_exhaustive()
    }
}

// SAFETY: the waker, the only part that is not atomic or constant, is `Send + Sync`; it is written
// and moved under the shard's lock only, and read without it only by the one owner and as a number.
// Where there are waits of the host's, there is one thread.
unsafe impl Sync for Entry {}

/// A sleep's claim on an entry: while there is one, the entry stays where it is.
///
/// There is one claim to an entry, since it is neither `Clone` nor `Copy`, and
/// [`Shard::remove`](super::shard::Shard::remove) takes it by value. So an entry is not given
/// back twice, and no reference to it outlives its claim. A claim that is dropped leaks its entry,
/// no more.
#[derive(PartialEq)]
pub(crate) struct Claim(NonNull<Entry>);

impl Claim {
    /// Claims nothing: the mark of a sleep that has completed.
    pub(crate) const SPENT: Self = Self(NonNull::dangling());

    /// Claims nothing: the mark of a sleep that is not armed, and whose deadline was well ahead of
    /// the clock when it was set. No entry lies at this address, nor at that of `SPENT`.
    pub(crate) const AHEAD: Self = Self(NonNull::<u8>::dangling().cast());

    /// The claim on `entry`, which its shard has just handed out.
    pub(crate) fn on(entry: &Entry) -> Self {
        Self(NonNull::from(entry))
    }

    /// Returns whether this is a mark, and no claim on an entry.
    #[inline]
    pub(crate) fn is_mark(&self) -> bool {
        self.0.addr() <= Self::SPENT.0.addr()
    }

    /// The claimed entry.
    ///
    /// # Safety
    ///
    /// `self` is not a [mark](Self::is_mark), and the engine that it was made by is alive.
    #[inline]
    pub(crate) unsafe fn entry(&self) -> &Entry {
        // SAFETY: the engine's store keeps an entry at its address until it is given back, and
        // until then shares it by reference only. It has not been given back: that would have used
        // up the claim, and the returned reference borrows the claim.
        unsafe { self.0.as_ref() }
    }
}

// SAFETY: a claim stands for a shared reference to an `Entry`, and an `Entry` is `Sync`.
unsafe impl Send for Claim {}
// SAFETY: as above.
unsafe impl Sync for Claim {}

// The marks differ.
const _: () = assert!(align_of::<Entry>() > align_of::<u8>());
const _: () = assert!(cfg!(tourbillon_model) || size_of::<Entry>() == 32 || size_of::<usize>() < 8);
