//! Shared memory: the parts of `std` that the crate uses for it, their stand-ins in the models
//! (loom's, which explore every interleaving of a few operations), and their replacements without
//! an operating system. No other module names `std::sync`, `std::thread`, `loom` or
//! `critical_section`.

#[cfg(not(all(test, tourbillon_model)))]
mod cell;
#[cfg(not(target_os = "none"))]
mod home;
#[cfg(not(target_os = "none"))]
mod lock;
#[cfg(not(target_os = "none"))]
mod mutex;
mod padded;
#[cfg(not(target_os = "none"))]
mod processors;
#[cfg(not(target_os = "none"))]
mod set_once;
#[cfg(unix)]
mod signals;
#[cfg(not(target_os = "none"))]
mod waiters;

#[cfg(not(target_os = "none"))]
pub(crate) use home::*;
pub(crate) use imp::*;
#[cfg(all(test, tourbillon_model))]
pub(crate) use lock::times_given_way;
#[cfg(not(target_os = "none"))]
pub(crate) use lock::{Lock, LockGuard};
#[cfg(not(target_os = "none"))]
pub(crate) use mutex::*;
pub(crate) use padded::CachePadded;
#[cfg(not(target_os = "none"))]
pub(crate) use processors::processors;
#[cfg(not(target_os = "none"))]
pub(crate) use set_once::SetOnce;
#[cfg(unix)]
pub(crate) use signals::unblock_signals;
#[cfg(not(target_os = "none"))]
pub(crate) use waiters::Waiters;

/// True in browsers, where a timer has one thread: no other one holds a lock.
#[cfg(not(target_os = "none"))]
const ONE_THREAD: bool =
    cfg!(all(target_family = "wasm", target_os = "unknown", not(target_feature = "atomics")));

/// Ends a program whose one thread would wait for itself.
#[cfg(not(target_os = "none"))]
#[cold]
fn no_other_thread() -> ! {
    panic!("the only thread holds the lock that it waits for")
}

/// The counted pointer, in the models as well: for memory that a lock's holder makes and frees,
/// which needs no order of its own.
#[cfg(target_has_atomic = "ptr")]
pub(crate) use alloc::sync::Arc as StdArc;
#[cfg(not(target_has_atomic = "ptr"))]
pub(crate) use portable_atomic_util::Arc as StdArc;

/// Atomics on which no protocol rests: statistics, and what one thread at a time owns anyway. The
/// models leave them out, which keeps those small.
pub(crate) mod unmodelled {
    pub(crate) use crate::sync::whole::AtomicU64;
    #[cfg(not(target_os = "none"))]
    pub(crate) use core::sync::atomic::AtomicUsize;
    pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32};
}

/// `AtomicU64`, also where the processor has none.
mod whole {
    #[cfg(target_has_atomic = "64")]
    pub(crate) use core::sync::atomic::AtomicU64;

    #[cfg(not(any(target_has_atomic = "64", target_os = "none")))]
    pub(crate) use portable_atomic::AtomicU64;

    #[cfg(all(not(target_has_atomic = "64"), target_os = "none"))]
    pub(crate) use crate::sync::atomic_u64::AtomicU64;
}

#[cfg(any(
    all(not(target_has_atomic = "64"), target_os = "none"),
    all(test, not(tourbillon_model))
))]
mod atomic_u64;

/// Error of starting a thread.
#[cfg(not(any(
    target_os = "none",
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")
)))]
pub(crate) type SpawnError = std::io::Error;
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
pub(crate) use no_start::SpawnError;

/// What takes the place of the error where an event loop is the driver.
#[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
mod no_start {
    use std::{fmt, io};

    /// Error of starting a thread: none ever has to be started.
    #[derive(Debug)]
    pub(crate) enum SpawnError {}

    impl fmt::Display for SpawnError {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            match *self {}
        }
    }

    impl From<SpawnError> for io::Error {
        fn from(error: SpawnError) -> Self {
            match error {}
        }
    }
}

#[cfg(target_os = "none")]
#[path = "sync/bare.rs"]
mod imp;

#[cfg(all(test, not(tourbillon_model)))]
#[allow(dead_code, unused_imports, reason = "its own tests")]
mod bare;

#[cfg(not(any(target_os = "none", all(test, tourbillon_model))))]
mod imp {
    pub(crate) use crate::sync::cell::UnsafeCell;
    pub(crate) use crate::sync::whole::AtomicU64;
    use std::cell::Cell;
    use std::sync::atomic::AtomicUsize;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering, fence,
    };
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use std::thread::sleep;

    /// Identity of a thread among all others, past and present.
    pub(crate) type ThreadId = usize;

    /// A small number, counted up from zero by first use. Not `std`'s: that is not there while
    /// thread-local destructors run.
    pub(crate) fn this_thread() -> ThreadId {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local!(static ID: Cell<usize> = const { Cell::new(usize::MAX) });
        ID.with(|id| {
            if id.get() == usize::MAX {
                // ORDERING: Relaxed; only the numbers' distinctness matters.
                id.set(NEXT.fetch_add(1, Ordering::Relaxed));
            }
            id.get()
        })
    }

    thread_local!(static SCOPED: Cell<*const ()> = const { Cell::new(std::ptr::null()) });

    /// Gives the place for a pointer to the timer that is in scope on the calling thread; null if
    /// none is.
    #[inline]
    pub(crate) fn with_scoped<R>(action: impl FnOnce(&Cell<*const ()>) -> R) -> R {
        // As in `with_home`.
        SCOPED.try_with(action).unwrap_or_else(|_| unreachable!("it has no destructor"))
    }

    thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });

    /// Gives the calling thread's depth in calls of foreign code.
    pub(crate) fn with_depth<R>(action: impl FnOnce(&Cell<usize>) -> R) -> R {
        DEPTH.with(action)
    }

    /// A thread that was started. Dropped, it is detached.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")))]
    pub(crate) type Thread = std::thread::JoinHandle<()>;
    /// There is none in a browser.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) type Thread = ();

    /// Waits until a thread is gone, the destructors of its thread-local values included.
    pub(crate) fn join(thread: Thread) {
        #[cfg(not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")))]
        // Its body catches all panics but its own.
        let () = thread.join().unwrap_or(());
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        let () = thread;
    }

    /// Starts a thread, which leaves signals to the program's.
    pub(crate) fn spawn(
        name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Thread> {
        // Of one type: the code that starts a thread is there once for each.
        let body: Box<dyn FnOnce() + Send> = Box::new(body);
        // In the parent, so that the thread never has another mask.
        #[cfg(unix)]
        let _blocked = crate::sync::signals::Blocked::begin();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
        let thread = drop(thread);
        Ok(thread)
    }
}

#[cfg(all(test, tourbillon_model))]
mod imp {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
    };
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};
    pub(crate) use loom::thread::ThreadId;

    pub(crate) use loom::cell::UnsafeCell;
    use std::cell::Cell;

    pub(crate) fn this_thread() -> ThreadId {
        loom::thread::current().id()
    }

    std::thread_local!(static SCOPED: Cell<*const ()> = const { Cell::new(std::ptr::null()) });

    /// Models have no timer in scope, so their threads share the place: they are a single thread of
    /// the system.
    pub(crate) fn with_scoped<R>(action: impl FnOnce(&Cell<*const ()>) -> R) -> R {
        SCOPED.with(action)
    }

    loom::thread_local!(static DEPTH: Cell<usize> = Cell::new(0));

    pub(crate) fn with_depth<R>(action: impl FnOnce(&Cell<usize>) -> R) -> R {
        DEPTH.with(action)
    }

    loom::thread_local!(static REFUSED: Cell<bool> = Cell::new(false));

    /// Whether the calling thread can start no others.
    pub(crate) fn refuse_threads(refuse: bool) {
        REFUSED.with(|refused| refused.set(refuse));
    }

    pub(crate) type Thread = loom::thread::JoinHandle<()>;

    pub(crate) fn join(thread: Thread) {
        thread.join().expect("it ends");
    }

    pub(crate) fn spawn(
        _name: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Thread> {
        if REFUSED.with(Cell::get) {
            return Err(std::io::ErrorKind::WouldBlock.into());
        }
        Ok(loom::thread::spawn(body))
    }

    std::thread_local!(static NAPS: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn sleep(_: std::time::Duration) {
        NAPS.set(NAPS.get() + 1);
        loom::thread::yield_now();
    }

    /// How often threads of this model and of those before it have slept.
    pub(crate) fn naps() -> usize {
        NAPS.get()
    }
}
