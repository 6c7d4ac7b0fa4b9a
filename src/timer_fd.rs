//! The timerfd of a [`Driver`](crate::driver::Driver), readable when a turn is due, for loops that
//! wait for nothing but descriptors. There is none until the loop asks for it.
//!
//! Each turn sets it to the end of the loop's wait before it publishes that (edge `timerfd`), and a
//! thread that arms an earlier timer sets it to the present. Setting it takes back an earlier
//! report.

use core::time::Duration;
#[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
use std::io;

#[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
use crate::clock::Clock;
use crate::fork::PerProcess;
use crate::sync::{SetOnce, StdArc};

use imp::Descriptor;
#[cfg(all(any(target_os = "linux", target_os = "android"), not(all(test, tourbillon_model))))]
pub use imp::TurnFd;

/// Shared by the driver and its hook. A child process, which would set its parent's, has another.
#[derive(Clone)]
pub(crate) struct TimerFd(StdArc<PerProcess<SetOnce<Descriptor>>>);

impl TimerFd {
    pub(crate) fn new() -> Self {
        Self(StdArc::new(PerProcess::new(SetOnce::new())))
    }

    fn slot(&self) -> &SetOnce<Descriptor> {
        self.0.get(|_| SetOnce::new())
    }

    /// The descriptor, made at the first call, and then readable. Called by one thread at a time.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) fn descriptor(&self, clock: &Clock) -> io::Result<&Descriptor> {
        let slot = self.slot();
        if slot.get().is_none() {
            let new = Descriptor::new(clock)?;
            new.set(Some(Duration::ZERO));
            return Ok(slot.get_or_init(|| new));
        }
        Ok(slot.get().expect("it was there"))
    }

    /// Makes it readable now.
    #[cfg(any(target_os = "linux", target_os = "android", all(test, tourbillon_model)))]
    pub(crate) fn ring(&self) {
        self.set(|| Some(Duration::ZERO));
    }

    /// Makes it readable after the wait that is given, counted from now, or only when it is set
    /// again.
    pub(crate) fn set(&self, wait: impl FnOnce() -> Option<Duration>) {
        if let Some(descriptor) = self.slot().get() {
            descriptor.set(wait());
        }
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(all(test, tourbillon_model))))]
mod imp {
    use core::ptr;
    use core::time::Duration;
    use std::io;
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

    use crate::clock::Clock;
    use crate::sync::StdArc;

    /// A file descriptor that is readable when a turn is due: [`Driver::turn_fd`].
    ///
    /// Clones are the same descriptor, which is closed with the last of them and the driver.
    ///
    /// [`Driver::turn_fd`]: crate::driver::Driver::turn_fd
    #[derive(Clone, Debug)]
    pub struct TurnFd(StdArc<OwnedFd>);

    pub(super) use TurnFd as Descriptor;

    impl AsFd for TurnFd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl AsRawFd for TurnFd {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_raw_fd()
        }
    }

    impl TurnFd {
        pub(super) fn new(clock: &Clock) -> io::Result<Self> {
            let id =
                if clock.counts_suspend() { libc::CLOCK_BOOTTIME } else { libc::CLOCK_MONOTONIC };
            // SAFETY: the call takes two numbers.
            let fd = unsafe { libc::timerfd_create(id, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
            if fd == -1 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor was made just now, and is nobody else's.
            Ok(Self(StdArc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
        }

        /// The system call takes the timer's own lock, so calls of several threads are ordered.
        pub(super) fn set(&self, wait: Option<Duration>) {
            // Zero would be never.
            let wait = wait.map_or(Duration::ZERO, |wait| wait.max(Duration::from_nanos(1)));
            // SAFETY: numbers may be zero; 32-bit systems have padding beside them.
            let mut spec: libc::itimerspec = unsafe { core::mem::zeroed() };
            // A wait too long for the number ends early, and the next turn sets it again.
            spec.it_value.tv_sec = wait.as_secs().try_into().unwrap_or(libc::time_t::MAX);
            spec.it_value.tv_nsec = wait.subsec_nanos() as _;
            // SAFETY: the descriptor is open, and is a timer's. `spec` is valid for reads, and the
            // old setting is not asked for. With these it cannot fail.
            unsafe {
                libc::timerfd_settime(self.0.as_raw_fd(), 0, &raw const spec, ptr::null_mut())
            };
        }
    }
}

/// The timerfd where there is no such descriptor.
#[cfg(not(any(target_os = "linux", target_os = "android", all(test, tourbillon_model))))]
mod imp {
    use core::time::Duration;

    pub(crate) enum Descriptor {}

    impl Descriptor {
        pub(super) fn set(&self, _: Option<Duration>) {
            match *self {}
        }
    }
}

/// The models' stand-in: the lock of the kernel's timer, and who waits for it. In a model no time
/// passes while somebody waits.
#[cfg(all(test, tourbillon_model))]
mod imp {
    use core::time::Duration;
    use std::io;

    use crate::clock::Clock;
    use crate::sync::{Condvar, Mutex, lock, wait};

    pub(crate) struct Descriptor {
        wait: Mutex<Option<Duration>>,
        changed: Condvar,
    }

    impl Descriptor {
        pub(super) fn new(_: &Clock) -> io::Result<Self> {
            Ok(Self { wait: Mutex::new(None), changed: Condvar::new() })
        }

        pub(super) fn set(&self, wait: Option<Duration>) {
            *lock(&self.wait) = wait;
            self.changed.notify_one();
        }

        /// Waits until it is readable.
        pub(crate) fn wait(&self) {
            let mut set = lock(&self.wait);
            while *set != Some(Duration::ZERO) {
                set = wait(&self.changed, set);
            }
        }
    }
}
