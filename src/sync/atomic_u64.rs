//! `AtomicU64` for processors without, where there is no operating system. `portable-atomic`'s is a
//! lock that spins, and an interrupt handler would spin for ever.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::Ordering;

use critical_section::Mutex;

/// Stand-in for `core`'s, with the operations that the crate uses. A critical section orders all of
/// them.
pub(crate) struct AtomicU64(Mutex<Cell<u64>>);

impl AtomicU64 {
    pub(crate) const fn new(value: u64) -> Self {
        Self(Mutex::new(Cell::new(value)))
    }

    fn update(&self, new: impl FnOnce(u64) -> u64) -> u64 {
        critical_section::with(|section| {
            let cell = self.0.borrow(section);
            cell.replace(new(cell.get()))
        })
    }

    pub(crate) fn load(&self, _: Ordering) -> u64 {
        self.update(|value| value)
    }

    pub(crate) fn store(&self, new: u64, _: Ordering) {
        self.update(|_| new);
    }

    pub(crate) fn fetch_add(&self, more: u64, _: Ordering) -> u64 {
        self.update(|value| value.wrapping_add(more))
    }

    pub(crate) fn fetch_max(&self, least: u64, _: Ordering) -> u64 {
        self.update(|value| value.max(least))
    }

    pub(crate) fn compare_exchange(
        &self,
        current: u64,
        new: u64,
        _: Ordering,
        _: Ordering,
    ) -> Result<u64, u64> {
        let seen = self.update(|value| if value == current { new } else { value });
        if seen == current { Ok(seen) } else { Err(seen) }
    }
}

impl fmt::Debug for AtomicU64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ORDERING: Relaxed; a snapshot for people.
        self.load(Ordering::Relaxed).fmt(f)
    }
}
