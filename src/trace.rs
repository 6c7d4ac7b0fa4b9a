//! Events for [`tracing`](https://docs.rs/tracing): the only module that names it.
//!
//! Without the feature `tracing` all of this is empty. A subscriber is foreign code: it is called
//! with no lock held, and its panic is caught like a waker's. The crate's docs list the events and
//! their levels.

pub(crate) use imp::*;

#[cfg(all(feature = "tracing", not(target_os = "none")))]
mod imp {
    use std::fmt;
    use std::time::Duration;

    use tracing::{Span, debug, debug_span, error, warn};

    use crate::foreign::guarded;

    const TARGET: &str = "tourbillon";

    /// Least lateness of a late pass: several times the lateness that pacing and a busy system add
    /// by themselves.
    const LATE: Duration = Duration::from_millis(5);

    /// Least lateness of a pass that is worth a warning.
    const VERY_LATE: Duration = Duration::from_millis(100);

    /// The life of a driver thread: its span.
    ///
    /// The span is the parent of all that the driver reports, and is never entered: the wakers that
    /// run on the thread are not a part of it.
    pub(crate) struct DriverLife {
        span: Span,
    }

    impl DriverLife {
        /// Begins in the thread that it is the life of, and ends when dropped.
        pub(crate) fn begin(thread: &str, shards: usize) -> Self {
            let span =
                guarded(|| debug_span!(target: TARGET, parent: None, "driver", thread, shards));
            let life = Self { span: span.unwrap_or_else(Span::none) };
            guarded(|| debug!(target: TARGET, parent: &life.span, "driver thread started"));
            life
        }
    }

    impl Drop for DriverLife {
        fn drop(&mut self) {
            guarded(|| debug!(target: TARGET, parent: &self.span, "driver thread ends"));
            let span = std::mem::replace(&mut self.span, Span::none());
            guarded(move || drop(span));
        }
    }

    impl fmt::Debug for DriverLife {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("DriverLife").finish_non_exhaustive()
        }
    }

    /// Reports a pass if it fired a timer late or took long: as part of a driver thread's life, or
    /// of whatever its caller is doing. `lag_ns` says how far the wheels are behind the clock now.
    /// With no lock held.
    #[inline]
    pub(crate) fn passed(
        life: Option<&DriverLife>,
        fired: usize,
        lateness_ns_max: u64,
        lag_ns: impl FnOnce() -> u64,
    ) {
        if fired > 0 {
            let lag_ns = lag_ns();
            let worst = Duration::from_nanos(lateness_ns_max.max(lag_ns));
            if worst >= LATE {
                let warns = worst >= VERY_LATE;
                guarded(|| report(life, warns, fired, lateness_ns_max, lag_ns));
            }
        }
    }

    /// Reports wakers that took longer than the limit, in one pass. With no lock held.
    #[inline]
    pub(crate) fn called(life: Option<&DriverLife>, slow_calls: u64, call_ns_max: u64) {
        if slow_calls > 0 {
            guarded(|| report_slow(life, slow_calls, call_ns_max));
        }
    }

    /// Reports the first panic of foreign code that a timer has caught. With no lock held.
    pub(crate) fn panicked() {
        guarded(|| error!(target: TARGET, "waker panicked"));
    }

    #[cold]
    fn report_slow(life: Option<&DriverLife>, slow_calls: u64, call_ns_max: u64) {
        const SLOW: &str = "slow call";
        match life {
            Some(life) => {
                warn!(target: TARGET, parent: &life.span, slow_calls, call_ns_max, "{SLOW}");
            }
            None => warn!(target: TARGET, slow_calls, call_ns_max, "{SLOW}"),
        }
    }

    #[cold]
    fn report(
        life: Option<&DriverLife>,
        warns: bool,
        fired: usize,
        lateness_ns_max: u64,
        lag_ns: u64,
    ) {
        // A level is fixed at compile time, and so is whether there is a parent.
        macro_rules! late {
            ($event:ident $($parent:tt)*) => {
                $event!(target: TARGET, $($parent)* fired, lateness_ns_max, lag_ns, "late pass")
            };
        }
        match (life, warns) {
            (Some(life), false) => late!(debug parent: &life.span,),
            (Some(life), true) => late!(warn parent: &life.span,),
            (None, false) => late!(debug),
            (None, true) => late!(warn),
        }
    }
}

#[cfg(not(all(feature = "tracing", not(target_os = "none"))))]
mod imp {
    #[derive(Debug)]
    pub(crate) struct DriverLife(());

    impl DriverLife {
        #[inline(always)]
        pub(crate) fn begin(_thread: &str, _shards: usize) -> Self {
            Self(())
        }
    }

    #[inline(always)]
    pub(crate) fn passed(
        _life: Option<&DriverLife>,
        _fired: usize,
        _lateness_ns_max: u64,
        _lag_ns: impl FnOnce() -> u64,
    ) {
    }

    #[inline(always)]
    pub(crate) fn called(_life: Option<&DriverLife>, _slow_calls: u64, _call_ns_max: u64) {}

    #[inline(always)]
    pub(crate) fn panicked() {}
}
