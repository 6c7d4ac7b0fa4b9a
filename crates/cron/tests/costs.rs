//! Exact numbers of allocations.
//!
//! A binary of its own, since its allocator counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tourbillon::Timer;
use tourbillon_cron::{Cron, Schedule as _};

/// Counts the allocations of the calling thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local!(static CALLS: Cell<u64> = const { Cell::new(0) });

// SAFETY: both methods call the system's allocator, and it keeps the contract; counting allocates
// nothing, because the thread-local needs neither initialisation nor a destructor. The other
// methods call these.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

fn allocator_calls(action: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    action();
    CALLS.get() - before
}

#[test]
fn clones_of_a_cron_expression_and_streams_of_them_allocate_nothing() {
    Timer::global();
    let cron = Cron::parse("*/15 9-17 * * MON-FRI", "Europe/Berlin").expect("it is valid");
    assert_eq!(allocator_calls(|| drop(cron.clone())), 0);
    assert_eq!(allocator_calls(|| drop(cron.clone().ticks())), 0);
}
