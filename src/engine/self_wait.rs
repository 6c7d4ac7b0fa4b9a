//! Finds wakers and callbacks that wait for a timer of the very driver that runs them, in debug
//! builds.
//!
//! Such a wait never ends. At first it cannot be distinguished from a task that yields: a sleep is
//! polled, and is pending. But a task that yields lets its waker return, and nothing here sees what
//! a thread does that blocks. So after a while, what was polled is woken by another thread, which
//! it has to bear; and if it is polled again within the same call, that has waited. The poll
//! panics.
//!
//! In builds without debug assertions all of this is empty, as it is where there are no threads.

pub(crate) use imp::*;

#[cfg(all(
    debug_assertions,
    not(any(target_os = "none", target_family = "wasm", miri, all(test, tourbillon_model)))
))]
mod imp {
    use core::task::Waker;
    use core::time::Duration;

    use crate::foreign::guarded;
    use crate::sync::unmodelled::AtomicU64;
    use crate::sync::{Mutex, Ordering, StdArc, lock, sleep, spawn, this_thread};

    /// Time that a wait within a call may last at least. One that lasts twice as long is found.
    const PATIENCE: Duration = Duration::from_secs(1);

    /// The name of the thread that wakes what has waited too long. It ends once nothing waits.
    const WATCHER: &str = "tourbillon-debug";

    /// The waits of the thread that runs one timer's wakers.
    #[derive(Debug, Default)]
    pub(crate) struct SelfWait {
        /// Number of that thread and one, or 0 while none does.
        runner: AtomicU64,
        waits: StdArc<Mutex<Waits>>,
    }

    /// Waits of the batch that is being woken.
    #[derive(Debug, Default)]
    struct Waits {
        /// Wakers of polled and pending sleeps, with the round in which they were polled.
        waiting: Vec<(u64, Waker)>,
        /// Wakers woken by the watcher; for comparison only.
        woken: Vec<Identity>,
        /// Number of times that the watcher has looked.
        round: u64,
        is_watched: bool,
    }

    /// The two words of a waker.
    type Identity = (usize, usize);

    fn identity(waker: &Waker) -> Identity {
        (waker.data().addr(), core::ptr::from_ref(waker.vtable()).addr())
    }

    impl SelfWait {
        /// The calling thread begins to run wakers. Whether it is the only one, and therefore
        /// watched.
        pub(crate) fn begin(&self) -> bool {
            let me = this_thread() as u64 + 1;
            // ORDERING: Relaxed; a thread looks for its own number, which no other writes.
            self.runner.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        }

        /// The calling thread has run them; `is_watched` is what [`begin`](Self::begin) returned.
        pub(crate) fn end(&self, is_watched: bool) {
            if !is_watched {
                return;
            }
            // ORDERING: Relaxed; see `begin`.
            self.runner.store(0, Ordering::Relaxed);
            let waiting = {
                let mut waits = lock(&self.waits);
                waits.woken.clear();
                core::mem::take(&mut waits.waiting)
            };
            for (_, waker) in waiting {
                guarded(|| drop(waker));
            }
        }

        fn is_run_here(&self) -> bool {
            // ORDERING: Relaxed; see `begin`.
            self.runner.load(Ordering::Relaxed) == this_thread() as u64 + 1
        }

        /// Notes that a sleep of this timer is pending.
        pub(crate) fn note(&self, waker: &Waker) {
            if !self.is_run_here() {
                return;
            }
            // Cloned without the lock, as that is foreign code.
            let waker = waker.clone();
            let mut waits = lock(&self.waits);
            let round = waits.round;
            waits.waiting.push((round, waker));
            if !waits.is_watched {
                let shared = StdArc::clone(&self.waits);
                // Without a thread there is nothing but silence.
                waits.is_watched = spawn(WATCHER, move || watch(&shared)).is_ok();
            }
        }

        /// Looks whether a sleep of this timer is polled by a task that waits for it within a call
        /// of this timer's driver.
        ///
        /// # Panics
        ///
        /// If so.
        pub(crate) fn check(&self, waker: &Waker) {
            if self.is_run_here() {
                let waits = lock(&self.waits).woken.contains(&identity(waker));
                assert!(!waits, "a waker or callback waits for a timer of the driver that runs it");
            }
        }
    }

    fn watch(waits: &Mutex<Waits>) {
        loop {
            sleep(PATIENCE);
            let mut state = lock(waits);
            if state.waiting.is_empty() {
                state.is_watched = false;
                return;
            }
            let round = state.round;
            state.round += 1;
            let all = core::mem::take(&mut state.waiting);
            let (overdue, rest) = all.into_iter().partition::<Vec<_>, _>(|(at, _)| *at < round);
            state.waiting = rest;
            state.woken.extend(overdue.iter().map(|(_, waker)| identity(waker)));
            drop(state);
            for (_, waker) in overdue {
                guarded(|| waker.wake());
            }
        }
    }
}

#[cfg(not(all(
    debug_assertions,
    not(any(target_os = "none", target_family = "wasm", miri, all(test, tourbillon_model)))
)))]
mod imp {
    use core::task::Waker;

    #[derive(Debug, Default)]
    pub(crate) struct SelfWait(());

    impl SelfWait {
        #[inline(always)]
        pub(crate) fn begin(&self) -> bool {
            false
        }

        #[inline(always)]
        pub(crate) fn end(&self, _is_watched: bool) {}

        #[inline(always)]
        pub(crate) fn note(&self, _waker: &Waker) {}

        #[inline(always)]
        pub(crate) fn check(&self, _waker: &Waker) {}
    }
}
