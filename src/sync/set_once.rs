//! A value that is set once, and that no thread waits for.
//!
//! `std`'s `OnceLock` makes a thread wait while another makes the value. In a child of `fork` that
//! other thread may not exist, so the wait would never end. Here every thread that finds no value
//! makes one. The first to publish its own, by a compare-and-exchange, wins, and the others drop
//! theirs.
//!
//! The models of the engine use `OnceLock` in its place; this type has models of its own.

#[cfg(not(all(test, tourbillon_model)))]
pub(crate) use race::SetOnce;

#[cfg(all(test, tourbillon_model))]
pub(crate) use std::sync::OnceLock as SetOnce;

#[cfg_attr(all(test, tourbillon_model), allow(dead_code, reason = "only its own models use it"))]
mod race {
    use std::fmt;
    use std::marker::PhantomData;
    use std::ptr;

    use crate::sync::{AtomicPtr, Ordering};

    /// A value that is set once, and stays until this is dropped.
    pub(crate) struct SetOnce<T> {
        /// Null, or from a `Box` that this owns. Changes once, from null.
        value: AtomicPtr<T>,
        /// Leaves `Send` and `Sync` to the impls below.
        _owned: PhantomData<*mut T>,
    }

    impl<T> SetOnce<T> {
        #[cfg(not(all(test, tourbillon_model)))]
        pub(crate) const fn new() -> Self {
            Self { value: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }

        /// Loom's atomics are not made in a constant.
        #[cfg(all(test, tourbillon_model))]
        pub(crate) fn new() -> Self {
            Self { value: AtomicPtr::new(ptr::null_mut()), _owned: PhantomData }
        }

        /// The value, if it is set.
        #[inline]
        pub(crate) fn get(&self) -> Option<&T> {
            // ORDERING: Acquire, the partner of the Release in `publish`: all writes to the value
            // before its publication are seen. Loom `threads_that_set_a_value_agree_on_it`.
            let value = self.value.load(Ordering::Acquire);
            // SAFETY: null, or from the `Box` of the thread that published it. Nobody has a mutable
            // reference to it, and it is freed by the drop of `self`, which `&self` forbids.
            unsafe { value.as_ref() }
        }

        /// The value, if it is set, to be changed.
        #[inline]
        pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
            // ORDERING: Relaxed; as in `drop`.
            let value = self.value.load(Ordering::Relaxed);
            // SAFETY: null, or from a `Box` that this owns; and nobody else refers to it while this
            // is borrowed exclusively.
            unsafe { value.as_mut() }
        }

        /// Sets the value, or gives it back if there is one.
        pub(crate) fn set(&self, new: T) -> Result<(), T> {
            self.publish(Box::new(new)).map(drop).map_err(|new| *new)
        }

        /// The value. If there is none, it is what `make` makes, or what another thread publishes
        /// meanwhile; then that of `make` is dropped.
        #[inline]
        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            match self.get() {
                Some(value) => value,
                None => self.init(make),
            }
        }

        #[cold]
        fn init(&self, make: impl FnOnce() -> T) -> &T {
            if let Ok(value) = self.publish(Box::new(make())) {
                return value;
            }
            self.get().expect("another thread has set it")
        }

        /// Publishes `new`, or gives it back if there is a value.
        fn publish(&self, new: Box<T>) -> Result<&T, Box<T>> {
            let new = Box::into_raw(new);
            // ORDERING: Release, the partner of the Acquire in `get`. Relaxed on failure: `get`
            // reads the value anew. Loom `threads_that_set_a_value_agree_on_it`.
            match self.value.compare_exchange(
                ptr::null_mut(),
                new,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                // SAFETY: as in `get`; this thread has just published it.
                Ok(_) => Ok(unsafe { &*new }),
                // SAFETY: it is from `into_raw` above, and was not published.
                Err(_) => Err(unsafe { Box::from_raw(new) }),
            }
        }
    }

    impl<T> Drop for SetOnce<T> {
        fn drop(&mut self) {
            // ORDERING: Relaxed; `&mut self` comes after every access of another thread.
            let value = self.value.load(Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: it is from a `Box`, and `&mut self` says that nobody else refers to it.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }

    impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_tuple("SetOnce").field(&self.get()).finish()
        }
    }

    // SAFETY: it owns a value, and takes it along: `T: Send`.
    unsafe impl<T: Send> Send for SetOnce<T> {}
    // SAFETY: shared access gives shared access to the value (`T: Sync`), and lets another thread
    // set the value that this one drops (`T: Send`).
    unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

    #[cfg(all(test, tourbillon_model))]
    mod tests {
        use loom::cell::UnsafeCell;
        use loom::sync::Arc;
        use loom::thread;

        use super::SetOnce;

        /// A number whose accesses loom checks; and a count of the values alive.
        struct Value(UnsafeCell<u32>, Arc<()>);

        // SAFETY: written before it is shared, and only read from then on, as loom checks.
        unsafe impl Sync for Value {}

        impl Value {
            fn new(number: u32, alive: &Arc<()>) -> Self {
                let value = Self(UnsafeCell::new(0), Arc::clone(alive));
                // SAFETY: nobody else has it.
                value.0.with_mut(|place| unsafe { *place = number });
                value
            }

            fn number(&self) -> u32 {
                // SAFETY: nobody writes it.
                self.0.with(|place| unsafe { *place })
            }
        }

        /// Two threads make a value, and one looks whether there is one. Oracle: they see the same;
        /// loom's checks of the cell, written before its publication; and the count.
        #[test]
        fn threads_that_set_a_value_agree_on_it() {
            loom::model(|| {
                let (once, alive) = (Arc::new(SetOnce::new()), Arc::new(()));
                let other = thread::spawn({
                    let (once, alive) = (Arc::clone(&once), Arc::clone(&alive));
                    move || once.get_or_init(|| Value::new(1, &alive)).number()
                });
                let reader = thread::spawn({
                    let once: Arc<SetOnce<Value>> = Arc::clone(&once);
                    move || once.get().map(Value::number)
                });
                let own = once.get_or_init(|| Value::new(2, &alive)).number();
                let seen = reader.join().expect("the reader ends");
                assert_eq!(own, other.join().expect("the other thread ends"));
                assert!(seen.is_none_or(|seen| seen == own));
                assert_eq!(once.get().map(Value::number), Some(own), "it stays");
                assert_eq!(Arc::strong_count(&alive), 2, "what lost is dropped");
                drop(once);
                assert_eq!(Arc::strong_count(&alive), 1, "and what won, at the end");
            });
        }
    }

    #[cfg(all(test, not(tourbillon_model)))]
    mod tests {
        use std::sync::{Arc, Barrier};
        use std::thread;

        use super::SetOnce;

        #[test]
        fn what_is_set_stays_and_is_dropped_once() {
            let (once, value) = (SetOnce::new(), Arc::new(7));
            assert!(once.get().is_none());
            assert!(once.set(Arc::clone(&value)).is_ok());
            assert_eq!(once.set(Arc::new(8)).map_err(|back| *back), Err(8));
            assert_eq!(**once.get_or_init(|| unreachable!("it is set")), 7);
            drop(once);
            assert_eq!(Arc::strong_count(&value), 1);
        }

        #[test]
        fn all_that_make_a_value_at_once_get_the_same() {
            for _ in 0..if cfg!(miri) { 5 } else { 500 } {
                let (once, start) = (SetOnce::new(), Barrier::new(3));
                let own = |n: usize| {
                    start.wait();
                    std::ptr::from_ref(once.get_or_init(|| Box::new(n))).addr()
                };
                let seen = thread::scope(|scope| {
                    [1, 2, 3]
                        .map(|n| scope.spawn(move || own(n)))
                        .map(|thread| thread.join().expect("no panic"))
                });
                assert_eq!(seen, [seen[0]; 3]);
            }
        }

        /// As `OnceLock` would, for ever: a thread that makes the value waits for another that
        /// makes it too.
        #[test]
        fn nobody_waits_while_a_value_is_made() {
            let once = SetOnce::new();
            let value = once.get_or_init(|| {
                thread::scope(|scope| {
                    let other = scope.spawn(|| *once.get_or_init(|| 2));
                    other.join().expect("no panic")
                }) - 1
            });
            assert_eq!(*value, 2, "the other came first");
        }
    }
}
