//! The system's notices of steps of its wall clock, and a timer for rechecks.

/// Reasons for [`Notices::wait`] to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// The wall clock was set.
    Step,
    /// The time that [`Recheck::start`] was given has passed.
    Recheck,
    /// [`Recheck::end`] was called.
    End,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use linux::{Notices, Recheck};
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use none::{Notices, Recheck};

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::fs::File;
    use std::io::{self, ErrorKind, Read};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::time::Duration;

    use super::Notice;
    use crate::sync::unmodelled::AtomicBool;
    use crate::sync::{Ordering, StdArc};

    /// A second of the wall clock that does not come, in the year 2096. A library that shifts or
    /// stretches the clock (libfaketime) computes with it, and would turn the end of `time_t` into
    /// a second that the kernel refuses, or that has passed.
    const FAR: libc::time_t = if size_of::<libc::time_t>() > 4 {
        4_000_000_000_i64 as libc::time_t
    } else {
        libc::time_t::MAX
    };

    /// Notices of steps of the system's wall clock, and the end of a time that can be set.
    #[derive(Debug)]
    pub(in crate::clock) struct Notices {
        steps: File,
        recheck: StdArc<RecheckTimer>,
    }

    /// The time after which [`Notices::wait`] returns though there was no step.
    #[derive(Debug)]
    pub(in crate::clock) struct Recheck(StdArc<RecheckTimer>);

    #[derive(Debug)]
    struct RecheckTimer {
        timer: File,
        is_over: AtomicBool,
    }

    impl Notices {
        /// Notices of the steps from now on.
        ///
        /// They come from a timer on `CLOCK_REALTIME` that is cancelled whenever the offset of that
        /// clock from `CLOCK_MONOTONIC` changes (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET): when
        /// the clock is set, at a leap second, and when the machine resumes, since
        /// `CLOCK_MONOTONIC` stood still meanwhile (Linux, kernel/time/hrtimer.c and fs/timerfd.c:
        /// `timerfd_clock_was_set`, and from 5.15 on `timerfd_resume`).
        ///
        /// # Errors
        ///
        /// When the system has no such timers, or refuses one.
        pub(in crate::clock) fn subscribe() -> io::Result<(Self, Recheck)> {
            let steps = timer(libc::CLOCK_REALTIME, 0)?;
            let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
            match set(&steps, flags, FAR, 0) {
                // There was a step right now; the timer is set all the same.
                Err(error) if is_step(&error) => {}
                other => other?,
            }
            let timer = timer(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK)?;
            let recheck = StdArc::new(RecheckTimer { timer, is_over: AtomicBool::new(false) });
            Ok((Self { steps, recheck: StdArc::clone(&recheck) }, Recheck(recheck)))
        }

        /// Waits for the next step, or for the recheck.
        ///
        /// # Errors
        ///
        /// When there will be no more notices.
        pub(in crate::clock) fn wait(&mut self) -> io::Result<Notice> {
            loop {
                let readable = |file: &File| libc::pollfd {
                    fd: file.as_raw_fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                let mut files = [readable(&self.steps), readable(&self.recheck.timer)];
                // ORDERING: Relaxed; if it is not seen here, the timer that is set after it is, and
                // the kernel's lock orders the two.
                if self.recheck.is_over.load(Ordering::Relaxed) {
                    return Ok(Notice::End);
                }
                // SAFETY: `files` is a valid place for two entries.
                if unsafe { libc::poll(files.as_mut_ptr(), 2, -1) } < 0 {
                    let error = io::Error::last_os_error();
                    if error.kind() != ErrorKind::Interrupted {
                        return Err(error);
                    }
                } else if files[0].revents != 0 {
                    match self.steps.read_exact(&mut [0; 8]) {
                        Err(error) if !is_step(&error) => return Err(error),
                        _ => return Ok(Notice::Step),
                    }
                } else if files[1].revents != 0 {
                    match (&self.recheck.timer).read_exact(&mut [0; 8]) {
                        // It was started anew in between.
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        // ORDERING: Relaxed; as above.
                        Ok(()) if self.recheck.is_over.load(Ordering::Relaxed) => {
                            return Ok(Notice::End);
                        }
                        other => return other.map(|()| Notice::Recheck),
                    }
                }
            }
        }
    }

    impl Recheck {
        /// Makes [`Notices::wait`] return `after` from now.
        pub(in crate::clock) fn start(&self, after: Duration) -> io::Result<()> {
            set(&self.0.timer, 0, after.as_secs().try_into().unwrap_or(libc::time_t::MAX), 0)
        }

        /// Makes [`Notices::wait`] return at once, with [`Notice::End`].
        pub(in crate::clock) fn end(self) -> io::Result<()> {
            // ORDERING: Relaxed; see `wait`.
            self.0.is_over.store(true, Ordering::Relaxed);
            set(&self.0.timer, 0, 0, 1)
        }
    }

    #[inline]
    fn is_step(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::ECANCELED)
    }

    #[inline]
    fn timer(clock: libc::c_int, flags: libc::c_int) -> io::Result<File> {
        // SAFETY: plain numbers.
        let fd = unsafe { libc::timerfd_create(clock, libc::TFD_CLOEXEC | flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned it, so it is open and nobody else's.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
    }

    /// Sets `timer` to end once, at or after so many seconds and nanoseconds.
    #[inline]
    fn set(
        timer: &File,
        flags: libc::c_int,
        seconds: libc::time_t,
        nanos: libc::c_long,
    ) -> io::Result<()> {
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let end = libc::timespec { tv_sec: seconds, tv_nsec: nanos };
        let time = libc::itimerspec { it_interval: zero, it_value: end };
        let (fd, old) = (timer.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: `time` is a valid itimerspec, and the old one is not asked for.
        match unsafe { libc::timerfd_settime(fd, flags, &raw const time, old) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// No notices: this system has none.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod none {
    use std::convert::Infallible;
    use std::io;
    use std::time::Duration;

    use super::Notice;

    #[derive(Debug)]
    pub(in crate::clock) struct Notices(Infallible);

    #[derive(Debug)]
    pub(in crate::clock) struct Recheck(Infallible);

    impl Notices {
        pub(in crate::clock) fn subscribe() -> io::Result<(Self, Recheck)> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(in crate::clock) fn wait(&mut self) -> io::Result<Notice> {
            match self.0 {}
        }
    }

    impl Recheck {
        pub(in crate::clock) fn start(&self, _: Duration) -> io::Result<()> {
            match self.0 {}
        }

        pub(in crate::clock) fn end(self) -> io::Result<()> {
            match self.0 {}
        }
    }
}
