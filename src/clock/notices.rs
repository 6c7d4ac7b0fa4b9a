//! What the system says of its wall clock's steps.

/// Notices of steps of the system's wall clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
pub(super) struct Notices(std::fs::File);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Notices {
    /// Notices of the steps from now on.
    ///
    /// They are those of a timer on `CLOCK_REALTIME` that is cancelled whenever the offset of that
    /// clock from `CLOCK_MONOTONIC` changes (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET): when the
    /// clock is set, at a leap second, and when the machine resumes, since `CLOCK_MONOTONIC` stood
    /// still meanwhile (Linux, kernel/time/hrtimer.c and fs/timerfd.c: `timerfd_clock_was_set`, and
    /// from 5.15 on `timerfd_resume`).
    ///
    /// # Errors
    ///
    /// When the system has no such timers, or refuses one.
    pub(super) fn subscribe() -> std::io::Result<Self> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

        // SAFETY: plain numbers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call returned it, so it is open and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let never = libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 };
        let timer = libc::itimerspec { it_interval: zero, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        let raw = fd.as_raw_fd();
        // SAFETY: `timer` is a valid itimerspec, and the old one is not asked for.
        let set =
            unsafe { libc::timerfd_settime(raw, flags, &raw const timer, std::ptr::null_mut()) };
        // A step right now is an error of this call, which has set the timer all the same.
        match (set, std::io::Error::last_os_error()) {
            (0, _) => Ok(Self(fd.into())),
            (_, error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(Self(fd.into())),
            (_, error) => Err(error),
        }
    }

    /// Waits for the next step.
    ///
    /// # Errors
    ///
    /// When there will be no more notices.
    pub(super) fn wait(&mut self) -> std::io::Result<()> {
        match std::io::Read::read_exact(&mut self.0, &mut [0; 8]) {
            Err(error) if error.raw_os_error() != Some(libc::ECANCELED) => Err(error),
            _ => Ok(()),
        }
    }
}

/// No notices: this system has none.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(super) struct Notices;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Notices {
    pub(super) fn subscribe() -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wait(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
