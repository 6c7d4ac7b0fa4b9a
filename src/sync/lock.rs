//! The lock of a shard: one atomic exchange to take, one plain store to give back.
//!
//! `std`'s mutex needs a second exchange to unlock, because it must learn whether to wake a
//! sleeper. Shard locks are held for bounded, short times and never while foreign code runs, so a
//! waiter here spins for about a microsecond, then lets others run, then sleeps for ever longer
//! spells up to a millisecond. The sleep is what keeps a real-time thread that waits from starving
//! the thread it waits for.
//!
//! A holder that wants the lock back at once, for its next part of a long work, would take it again
//! before any waiter has seen it free. So waiters are counted, and such a holder gives way to them.
//!
//! The models of the engine use a mutex in its place; this lock has a model of its own.

#[cfg(not(all(test, tourbillon_model)))]
pub(crate) use spin::{Lock, LockGuard};

#[cfg(all(test, tourbillon_model))]
pub(crate) use stand_in::times_given_way;
#[cfg(all(test, tourbillon_model))]
pub(crate) use stand_in::{Lock, LockGuard};

#[cfg_attr(all(test, tourbillon_model), allow(dead_code, reason = "only its own model uses it"))]
mod spin {
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    use crate::sync::{
        AtomicBool, AtomicU32, ONE_THREAD, Ordering, UnsafeCell, no_other_thread, sleep,
    };

    /// Tries of a waiter before it sleeps, and after each sleep: they take longer than a part of
    /// the work under a shard's lock, 20 us. Loom has to see every wait.
    const TRIES: u32 = if cfg!(all(test, tourbillon_model)) { 1 } else { 256 };
    const FIRST_SLEEP: Duration = Duration::from_micros(20);
    const LONGEST_SLEEP: Duration = Duration::from_millis(1);

    /// A pause that grows: at first the processor idles, then others run.
    struct Backoff {
        /// Pauses so far, up to [`LONG`](Self::LONG).
        step: u32,
    }

    impl Backoff {
        /// So many pauses are spent idle, of 1, 2, 4, ... turns of a loop.
        const IDLE: u32 = 7;
        /// After so many it has waited long.
        const LONG: u32 = 11;

        const fn new() -> Self {
            Self { step: 0 }
        }

        fn snooze(&mut self) {
            if self.step < Self::IDLE {
                (0..1 << self.step).for_each(|_| std::hint::spin_loop());
            } else {
                std::thread::yield_now();
            }
            self.step = (self.step + 1).min(Self::LONG);
        }

        fn is_long(&self) -> bool {
            self.step == Self::LONG
        }
    }

    /// A value that one thread at a time may touch. It begins on the flag's cache line.
    #[repr(C)]
    pub(crate) struct Lock<T> {
        taken: AtomicBool,
        /// Number of threads that wait for it. A hint.
        waiting: AtomicU32,
        /// Touched only by the thread that set `taken`.
        value: UnsafeCell<T>,
    }

    /// Access to the value until dropped.
    pub(crate) struct LockGuard<'a, T> {
        lock: &'a Lock<T>,
    }

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self {
                taken: AtomicBool::new(false),
                waiting: AtomicU32::new(0),
                value: UnsafeCell::new(value),
            }
        }

        #[inline]
        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            self.try_lock().unwrap_or_else(|| self.lock_contended())
        }

        #[inline]
        pub(crate) fn try_lock(&self) -> Option<LockGuard<'_, T>> {
            // ORDERING: Acquire, the partner of the Release in `drop`: the next holder sees the
            // last one's writes. Relaxed on failure: nothing is read then. Loom
            // `the_lock_excludes_and_publishes`.
            self.taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
                .then(|| LockGuard { lock: self })
        }

        #[cold]
        fn lock_contended(&self) -> LockGuard<'_, T> {
            if ONE_THREAD {
                no_other_thread();
            }
            // ORDERING: Relaxed, twice; a hint, which nothing is read or written by.
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let guard = self.wait();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            guard
        }

        fn wait(&self) -> LockGuard<'_, T> {
            let mut backoff = Backoff::new();
            let mut spell = FIRST_SLEEP;
            loop {
                for _ in 0..TRIES {
                    // ORDERING: Relaxed; only a hint, `try_lock` decides.
                    if !self.taken.load(Ordering::Relaxed) {
                        if let Some(guard) = self.try_lock() {
                            return guard;
                        }
                    }
                    backoff.snooze();
                }
                sleep(spell);
                spell = (spell * 2).min(LONGEST_SLEEP);
            }
        }

        /// Lets waiting threads have the lock, for a while: for the thread that has released it and
        /// is about to take it again. Waits for some microseconds at most: a waiting thread may be
        /// asleep.
        #[inline]
        pub(crate) fn give_way(&self) {
            if !ONE_THREAD && self.is_waited_for() {
                self.wait_for_waiters();
            }
        }

        #[cold]
        fn wait_for_waiters(&self) {
            let mut backoff = Backoff::new();
            while self.is_waited_for() && !backoff.is_long() {
                if cfg!(all(test, tourbillon_model)) {
                    sleep(FIRST_SLEEP);
                } else {
                    backoff.snooze();
                }
            }
        }

        fn is_waited_for(&self) -> bool {
            // ORDERING: Relaxed; a hint, as above. Loom `a_waiter_is_given_way`.
            self.waiting.load(Ordering::Relaxed) > 0
        }
    }

    impl<T> Deref for LockGuard<'_, T> {
        type Target = T;

        #[inline]
        fn deref(&self) -> &T {
            // SAFETY: the guard exists, so this thread set `taken` and nobody else touches the
            // value until the guard is dropped, and the returned borrow forbids that.
            self.lock.value.with(|value| unsafe { &*value })
        }
    }

    impl<T> DerefMut for LockGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as in `deref`; `&mut self` makes this the guard's only borrow.
            self.lock.value.with_mut(|value| unsafe { &mut *value })
        }
    }

    impl<T> Drop for LockGuard<'_, T> {
        #[inline]
        fn drop(&mut self) {
            // ORDERING: Release, the partner of the Acquire in `try_lock`.
            self.lock.taken.store(false, Ordering::Release);
        }
    }

    impl<T> fmt::Debug for Lock<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Lock").finish_non_exhaustive()
        }
    }

    // SAFETY: the lock hands the value to one thread at a time, whichever that is: `T: Send`.
    unsafe impl<T: Send> Send for Lock<T> {}
    // SAFETY: as above; shared access to the lock never gives shared access to the value.
    unsafe impl<T: Send> Sync for Lock<T> {}

    #[cfg(all(test, tourbillon_model))]
    mod tests {
        use loom::sync::Arc;

        use super::Lock;

        /// Tries twice: the second try finds out whether the first has harmed a lock that was
        /// taken. Returns how often it got it.
        fn add_twice(lock: &Lock<usize>) -> usize {
            (0..2).filter_map(|_| lock.try_lock().map(|mut value| *value += 1)).count()
        }

        /// The same of threads that wait for it. Oracle: as below; deadlock, if a waiter gives up.
        #[test]
        fn the_lock_is_waited_for() {
            let mut builder = loom::model::Builder::new();
            builder.preemption_bound = Some(builder.preemption_bound.unwrap_or(2));
            builder.check(|| {
                let lock = Arc::new(Lock::new(0));
                let add = |lock: &Lock<usize>| (0..2).for_each(|_| *lock.lock() += 1);
                let other = loom::thread::spawn({
                    let lock = Arc::clone(&lock);
                    move || add(&lock)
                });
                add(&lock);
                other.join().expect("the other thread ends");
                assert_eq!(*lock.lock(), 4);
            });
        }

        /// The holder takes the lock again only when the waiter has had it. Oracle: the order;
        /// deadlock, if a waiter is never seen, or for ever.
        #[test]
        fn a_waiter_is_given_way() {
            loom::model(|| {
                let lock = Arc::new(Lock::new(0));
                let held = lock.lock();
                let waiter = loom::thread::spawn({
                    let lock = Arc::clone(&lock);
                    move || *lock.lock() += 1
                });
                while !lock.is_waited_for() {
                    loom::thread::yield_now();
                }
                drop(held);
                lock.give_way();
                assert_eq!(*lock.lock(), 1);
                waiter.join().expect("the waiter ends");
            });
        }

        /// Oracle: loom's checks of the cell's accesses, and the sum.
        #[test]
        fn the_lock_excludes_and_publishes() {
            loom::model(|| {
                let lock = Arc::new(Lock::new(0));
                let other = loom::thread::spawn({
                    let lock = Arc::clone(&lock);
                    move || add_twice(&lock)
                });
                let sum = add_twice(&lock) + other.join().expect("the other thread ends");
                assert_eq!(*lock.try_lock().expect("nobody holds it"), sum);
            });
        }
    }

    #[cfg(all(test, not(tourbillon_model)))]
    mod tests {
        use std::thread;

        use super::Lock;

        #[test]
        fn waiters_get_through() {
            const ROUNDS: u32 = if cfg!(miri) { 30 } else { 10_000 };
            let lock = Lock::new(0u32);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| (0..ROUNDS).for_each(|_| *lock.lock() += 1));
                }
            });
            assert_eq!(*lock.lock(), 4 * ROUNDS);
        }

        #[test]
        fn a_holder_that_sleeps_is_waited_for() {
            let lock = Lock::new(false);
            thread::scope(|scope| {
                let mut held = lock.lock();
                let waiter = scope.spawn(|| *lock.lock());
                thread::sleep(std::time::Duration::from_millis(5));
                *held = true;
                drop(held);
                assert!(waiter.join().expect("the waiter ends"));
            });
        }

        #[test]
        fn a_taken_lock_is_not_tried_for() {
            let lock = Lock::new(());
            let held = lock.lock();
            assert!(lock.try_lock().is_none());
            assert!(lock.try_lock().is_none(), "a failed try leaves it taken");
            drop(held);
            assert!(lock.try_lock().is_some());
        }
    }
}

#[cfg(all(test, tourbillon_model))]
mod stand_in {
    use std::cell::Cell;

    pub(crate) use crate::sync::MutexGuard as LockGuard;

    /// A mutex, since it has far fewer schedules to explore than a thread that spins.
    #[derive(Debug)]
    pub(crate) struct Lock<T>(crate::sync::Mutex<T>);

    impl<T> Lock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(crate::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> LockGuard<'_, T> {
            crate::sync::lock(&self.0)
        }

        pub(crate) fn try_lock(&self) -> Option<LockGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        /// Gives nobody way: loom takes a thread that waits for a mutex into account by itself.
        pub(crate) fn give_way(&self) {
            GIVEN_WAY.set(GIVEN_WAY.get() + 1);
        }
    }

    std::thread_local!(static GIVEN_WAY: Cell<usize> = const { Cell::new(0) });

    /// How often threads of this model and of those before it have given way.
    pub(crate) fn times_given_way() -> usize {
        GIVEN_WAY.get()
    }
}
