//! [`drive`]: a runtime's workers turn a timer's wheel in their own park.

use std::io;

use tourbillon::Timer;

/// Hands `timer` to the current runtime: its workers drive it inside their park, without a thread.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tourbillon::{Timer, sleep};
///
/// # #[cfg(any(target_os = "linux", target_os = "android"))]
/// #[tokio::main]
/// async fn main() -> std::io::Result<()> {
///     tourbillon_tokio::drive(&Timer::global())?;
///     sleep(Duration::from_millis(1)).await;
///     Ok(())
/// }
/// # #[cfg(not(any(target_os = "linux", target_os = "android")))]
/// # fn main() {}
/// ```
///
/// # Details
///
/// For any timer that has a driver thread, at any time, on current-thread and multi-thread
/// runtimes. The time is the system's, also where tokio's is paused. Another runtime than the
/// current is entered first ([`Handle::enter`](tokio::runtime::Handle::enter)). Tasks, threads and
/// other runtimes may use the timer.
///
/// `Timer::drive_on` has the rest: the pace, and the effect of a worker that is blocked. The
/// runtime's end loses nothing: timers that are armed continue with the driver thread, and the next
/// runtime may take its place.
///
/// # Panics
///
/// Outside of a runtime, and if the runtime's I/O is not enabled.
///
/// # Errors
///
/// Fails as `Timer::drive_on` does. [`Unsupported`](io::ErrorKind::Unsupported) on systems other
/// than Linux and Android, where the timer keeps its thread.
#[track_caller]
pub fn drive(timer: &Timer) -> io::Result<()> {
    imp::drive(timer)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::future::{Future, poll_fn};
    use std::io;
    use std::pin::pin;
    use std::task::Context;

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    use tokio::task::unconstrained;
    use tourbillon::Timer;

    #[track_caller]
    pub(super) fn drive(timer: &Timer) -> io::Result<()> {
        timer.drive_on(|due| {
            #[allow(deprecated, reason = "the call that takes its place is unsafe, and newer")]
            let due = AsyncFd::with_interest(due, Interest::READABLE)?;
            Ok(move |cx: &mut Context<'_>| {
                let clear = |cx: &mut Context<'_>| {
                    due.poll_read_ready(cx).map_ok(|mut ready| ready.clear_ready())
                };
                // The first call is in a task, whose budget may be spent.
                pin!(unconstrained(poll_fn(clear))).poll(cx)
            })
        })
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::io;

    use tourbillon::Timer;

    pub(super) fn drive(_: &Timer) -> io::Result<()> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no descriptor here tells a runtime the time",
        ))
    }
}
