//! Forks: how a child treats each lock of its parent.
//!
//! A child has one thread: a copy of the thread that forked. The other threads are gone, and a lock
//! that any of these held is held for ever. So a child never waits for a lock that it inherited:
//!
//! 1. No thread waits while another makes a value. A value that is made once is a `SetOnce`: each
//!    thread that finds none makes one, and the first to publish its own wins.
//! 2. A lock belongs to a [`Generation`] of processes. A child finds that it is an earlier one's,
//!    and makes itself another ([`PerProcess`], `Engine::current`) or leaves it alone.
//! 3. A child reads of its parent's memory only atomics, values that do not change once published,
//!    and values behind a lock that it only tries, for reading (the wall setting of a virtual
//!    clock).
//!
//! `cargo xtask tidy` requires a row for each lock, and allows no `OnceLock` or the like.
//!
//! | where | name | lock | what a child does |
//! |---|---|---|---|
//! | `handle.rs` | `GLOBAL` | set once | makes an engine if the fork found none; else that is inherited, as any other |
//! | `engine/shard.rs` | `AllShards` | spins | never takes it: `Engine::current` is another engine |
//! | `engine.rs` | `successor` | set once | makes the engine that stands in for its parent's |
//! | `engine/stakes.rs` | `of` | set once | finds it set or not, as the fork did; what its own engine is in has others |
//! | `engine/armed.rs` | `rows` | mutex | has another, in its own engine; leaves its parent's alone |
//! | `engine/driven_by/thread.rs` | `life`, `answered`, `ends` | mutex, condition | has others, in its own engine, and starts a thread of its own |
//! | `engine/driven_by/thread.rs` | `timer_fd` | set once | has another, which is not set |
//! | `driver/reactor.rs` | `desk` | mutex | never takes it: its engine is its parent's |
//! | `engine/driven_by/task.rs` | `running`, `waker` | mutexes | has others, in its own engine; the runtime is its parent's |
//! | `engine/parker/token.rs` | `is_left`, `left` | mutex, condition | has others, in its own engine; so of the word that takes their place on Linux |
//! | `engine/parker/windows.rs` | `fallback` | condition | Windows has no `fork` |
//! | `engine/parker/windows/resumes.rs` | `LISTENERS` | mutex | as above |
//! | `engine/parker/event_loop.rs` | `event_loop` | mutex | nor has a browser |
//! | `fork.rs` | `successor` | set once | makes the value that stands in for its parent's |
//! | `callback/shared.rs` | `stage`, `over` | mutex, condition | takes neither: calls, cancels and resets nothing of its parent's |
//! | `clock/steps.rs` | `SYSTEM` | set once | as `GLOBAL` |
//! | `clock/steps.rs` | `waiting` | mutex | has another without wakers, and starts a watcher of its own |
//! | `clock/steps.rs` | `ends` | mutex | has another: nobody waits for a thread of its parent's |
//! | `clock/virtual_time.rs` | `movers`: `moves`, `moved` | mutex, condition | has others: nobody moves the clock, and its goal is the time that it shows |
//! | `clock/virtual_time.rs` | `wall`: `Wall` | two for reading and writing | has others, with what it reads in the place that was not being written |
//! | `timer_fd.rs` | `TimerFd` | set once | has another, which is not set |
//! | `virtual_time/hold.rs` | `Holds`: `state`, `changed` | mutex, condition | has others: none of its parent's holds |
//! | `virtual_time/hold.rs` | `runnable` | mutex | has another: the future waits until it is polled |
//! | `virtual_time/spawn.rs` | `Channel` | mutex | has another: no output of its parent's tasks comes |
//! | `virtual_time/clock.rs` | `engine`, `nodes`, `next` | set once | finds it set or not, as the fork did |
//! | `queue/by_deadline.rs` | `firsts` | set once | as that |
//!
//! Atomics are as the fork found them: `SHARDS`, where a child that finds zero counts the
//! processors again; `PLACES`, a mere hint to look for a scope; and the numbers of threads and
//! registrations: it takes the next ones.
//!
//! # Threads and descriptors
//!
//! Threads that race may all make a value, and all but one drop theirs. So making one starts no
//! thread and takes no lock that another fork could find held. A thread is started under a lock of
//! the process it belongs to (`life`, `waiting`), so there is one. A child neither joins nor
//! detaches a thread of its parent's, also where it drops the timer. The timerfd is
//! made by the one owner of a `Driver`, before it is published. If another thread forks in between,
//! the child has a descriptor that nobody refers to, until it ends or calls `exec`. A watcher's
//! descriptors stay open in a child in the same way; it waits for none of them.
//!
//! # Order
//!
//! `fork` copies the memory at one instant: if a child finds a write of its parent's thread, it
//! finds everything that happened before that write. So a release and an acquire pair across it as
//! they do between threads. A child's own writes are in order, because it has one thread at first:
//! the handler counts the fork before `fork` returns.
//!
//! # A child of a child
//!
//! [`FORKS`] grows with each `fork` in the line from the first process, so that all processes in
//! that line differ. A chain of successors is walked to its end, this process's. Two children of
//! one process may have the same number: neither has anything of the other's.
//!
//! # What is not noticed
//!
//! The handler is called by the C library's `fork`. A child made by the system call itself (`clone`
//! and the like) takes itself for its parent, and may wait for ever; the allocator of the C library
//! is not prepared for such a child either. A child of `vfork` shares its parent's memory and may
//! call nothing but `exec` and `_exit`.

use alloc::boxed::Box;

use crate::sync::unmodelled::{AtomicBool, AtomicU32};
use crate::sync::{Ordering, SetOnce};

/// Forks that lie between the first process and this one; some count more than once.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// A generation of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

impl Generation {
    /// This process's, for something that is made now.
    pub(crate) fn at_birth() -> Self {
        /// True once forks are counted. Threads that find that they are not may all see to it.
        static WATCHED: AtomicBool = AtomicBool::new(false);
        see_to(&WATCHED, watch);
        Self::current()
    }

    /// Returns whether it is an earlier process's.
    #[inline]
    pub(crate) fn is_past(self) -> bool {
        // ORDERING: Relaxed; as in `current`.
        cfg!(unix) && self.0 != FORKS.load(Ordering::Relaxed)
    }

    #[inline]
    fn current() -> Self {
        // ORDERING: Relaxed; it is written in a child before that has a second thread.
        Self(FORKS.load(Ordering::Relaxed))
    }
}

/// Value for each process: a child makes its own, since a thread that is not there may hold a lock
/// in its parent's.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    /// The process of `own`.
    generation: Generation,
    own: T,
    /// Value that stands in for `own` in a child of that process.
    successor: SetOnce<Box<Self>>,
}

impl<T> PerProcess<T> {
    /// `own` is this process's.
    pub(crate) fn new(own: T) -> Self {
        Self { generation: Generation::at_birth(), own, successor: SetOnce::new() }
    }

    /// This process's value. If there is none yet, `anew` makes it from its parent's. Several
    /// threads may do that at once, and any of them fork meanwhile: `anew` waits for no lock.
    pub(crate) fn get(&self, anew: impl Fn(&T) -> T + Copy) -> &T {
        if !self.generation.is_past() {
            return &self.own;
        }
        self.successor.get_or_init(|| Box::new(Self::new(anew(&self.own)))).get(anew)
    }
}

/// Ends this process: a child that foreign code has forked on a thread of this crate's, and then
/// returned. Nothing else of the program is to run on that thread.
pub(crate) fn end_child(panicked: bool) -> ! {
    #[cfg(unix)]
    // SAFETY: the call takes a number, and may be made in any child.
    unsafe {
        // As a program ends that returns from `main`, or panics in it.
        libc::_exit(if panicked { 101 } else { 0 })
    }
    #[cfg(not(unix))]
    unreachable!("a process that cannot fork has forked; panicked: {panicked}")
}

/// Calls `watch`, unless it has said before that forks are counted.
fn see_to(watched: &AtomicBool, watch: impl FnOnce() -> bool) {
    // ORDERING: Acquire, and Release once they are: a thread that sees it set forks after they are
    // counted, and leaves no generation uncounted that it hands to its child.
    if !watched.load(Ordering::Acquire) {
        watched.store(watch(), Ordering::Release);
    }
}

/// Counts the forks from now on. Says whether that is so.
fn watch() -> bool {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            // ORDERING: Relaxed; the child has one thread.
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the handler may run in a child of a process with threads: it does no more than
        // add to an atomic. If it cannot be registered, children have no new engines; the next call
        // tries again.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) == 0 }
    }
    #[cfg(not(unix))]
    true
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn forks_are_said_to_be_counted_only_once_they_are() {
        let watched = AtomicBool::new(false);
        let is_said = || watched.load(Ordering::Relaxed); // ORDERING: one thread has it
        for succeeds in [false, true] {
            see_to(&watched, || {
                assert!(!is_said(), "another thread would fork before they are counted");
                succeeds
            });
            assert_eq!(is_said(), succeeds);
        }
        see_to(&watched, || unreachable!("they are counted"));
    }
}
