//! The engine's side of the driver thread.

use std::borrow::Cow;
use std::time::Duration;

use crate::engine::parker::Parker;
use crate::engine::{Engine, SharedEngine};
use crate::fork::Generation;
use crate::sync::unmodelled::AtomicBool;
use crate::sync::{Condvar, Mutex, MutexGuard, Ordering, SetOnce, Thread, wait};
use crate::timer_fd::TimerFd;

/// Begins to watch for resumes from suspend: each unparks the driver. Returns a function that the
/// driver calls before it parks, and which returns the longest time that it may park for.
pub(crate) type WatchResumes = fn(&SharedEngine) -> Box<dyn FnMut() -> Duration>;

/// State that an engine needs to run a driver thread.
pub(crate) struct DriverThread {
    pub(crate) name: Cow<'static, str>,
    /// `None` if the clock stops in suspend, as parks do. A pointer, so that only programs with
    /// another clock have the code.
    pub(crate) watch_resumes: Option<WatchResumes>,
    pub(crate) parker: Parker,
    /// The start lock.
    pub(crate) life: Mutex<Life>,
    /// Signalled when an answer is there.
    answered: Condvar,
    /// True while a handle waits for an answer. Written under `life`.
    is_asked: AtomicBool,
    /// Held by a handle that ends the thread, until that is gone.
    pub(crate) ends: Mutex<()>,
    /// Descriptor of the reactor that takes the thread's place. Not there before one has.
    #[cfg_attr(
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
        allow(dead_code, reason = "an event loop has the place")
    )]
    timer_fd: SetOnce<RingByPointer>,
}

/// Descriptor of a reactor, and its [`ring`](TimerFd::ring), by its address: a program without a
/// reactor has none of its code.
struct RingByPointer {
    descriptor: TimerFd,
    #[cfg_attr(
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
        allow(dead_code, reason = "an event loop has the place")
    )]
    ring: fn(&TimerFd),
}

/// Claim of a runtime's reactor to turn the wheels.
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android", all(test, tourbillon_model))),
    allow(dead_code, reason = "no descriptor tells a reactor the time")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// There is none.
    Empty,
    /// Made, and waiting for the thread to end.
    Awaited,
    /// In force: there is no thread.
    Taken,
}

/// Record of the driver, and of the thread's answer to a handle that asked it to end.
pub(crate) struct Life {
    /// The process of the thread.
    #[cfg_attr(not(unix), allow(dead_code, reason = "none forks"))]
    generation: Generation,
    /// Set where the thread is started, taken out by the thread as it ends: a handle that is kept
    /// keeps the thread's stack.
    pub(crate) thread: Option<Thread>,
    #[cfg_attr(
        all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
        allow(dead_code, reason = "an event loop has the place")
    )]
    pub(crate) reactor: Seat,
    answer: Option<Answer>,
}

impl Life {
    fn new() -> Self {
        Self {
            generation: Generation::at_birth(),
            thread: None,
            reactor: Seat::Empty,
            answer: None,
        }
    }
}

#[cfg(unix)]
impl Drop for Life {
    /// A child of `fork` detaches no thread of its parent's.
    fn drop(&mut self) {
        if self.generation.is_past() {
            std::mem::forget((self.thread.take(), self.answer.take()));
        }
    }
}

/// The thread, about to be gone; or the number of timers that are armed.
pub(crate) type Answer = Result<Thread, usize>;

impl DriverThread {
    /// Name of a thread that is given none.
    pub(crate) const NAME: &str = "tourbillon";

    pub(crate) fn new(name: Cow<'static, str>, watch_resumes: Option<WatchResumes>) -> Self {
        Self {
            name,
            watch_resumes,
            parker: Parker::new(),
            life: Mutex::new(Life::new()),
            answered: Condvar::new(),
            is_asked: AtomicBool::new(false),
            ends: Mutex::new(()),
            timer_fd: SetOnce::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// One for a thread of the same name in another process.
    pub(crate) fn anew(&self) -> Self {
        Self::new(self.name.clone(), self.watch_resumes)
    }

    #[cfg(not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")))]
    pub(crate) fn unpark(&self) {
        // Both: either may have published the plan that the caller exchanged.
        self.parker.unpark();
        if let Some(timer_fd) = self.timer_fd.get() {
            (timer_fd.ring)(&timer_fd.descriptor);
        }
    }

    /// The descriptor of a reactor, for the first time with `ends` held.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) fn timer_fd(&self) -> &TimerFd {
        let new = || RingByPointer { descriptor: TimerFd::new(), ring: TimerFd::ring };
        &self.timer_fd.get_or_init(new).descriptor
    }

    pub(crate) fn is_asked_to_end(&self) -> bool {
        // ORDERING: Relaxed; read by the driver, under `life` where it decides, and in a child.
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Waits for the driver's answer, once `engine` is closed for it. The thread runs.
    pub(crate) fn ask_to_end(&self, engine: &Engine, mut life: MutexGuard<'_, Life>) -> Answer {
        // ORDERING: Relaxed; `life` orders it.
        self.is_asked.store(true, Ordering::Relaxed);
        engine.close();
        loop {
            if let Some(answer) = life.answer.take() {
                return answer;
            }
            life = wait(&self.answered, life);
        }
    }

    /// Gives an answer to the handle that asked, if one did. The driver's.
    pub(crate) fn answer(&self, engine: &Engine, life: &mut Life, answer: Answer) {
        if self.is_asked_to_end() {
            // ORDERING: Relaxed; `life` orders it.
            self.is_asked.store(false, Ordering::Relaxed);
            engine.reopen();
            life.answer = Some(answer);
            self.answered.notify_one();
        }
    }

    /// Lets the driver see that the model's clock has moved.
    #[cfg(all(test, tourbillon_model))]
    pub(crate) fn advanced(&self) {
        self.parker.advanced();
    }
}
