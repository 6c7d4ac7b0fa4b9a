//! [`Timer::drive_on`]: a runtime's reactor in the place of the driver thread.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::driver::{Reactor, TurnFd};
use crate::timer::Timer;

impl Timer {
    /// Hands this timer to a runtime: it turns the wheels inside its own wait, in the place of the
    /// driver thread. For tokio, the crate `tourbillon-tokio` makes this call.
    ///
    /// # Examples
    ///
    /// The process-wide timer, on smol's reactor:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tourbillon::{Timer, sleep};
    ///
    /// Timer::global().drive_on(|due| {
    ///     let due = smol::Async::new(due)?;
    ///     Ok(move |cx: &mut std::task::Context<'_>| due.poll_readable(cx))
    /// })?;
    /// smol::block_on(sleep(Duration::from_millis(1)));
    /// # std::io::Result::Ok(())
    /// ```
    ///
    /// # Details
    ///
    /// `register` registers a descriptor with the runtime's reactor, and returns a function that
    /// polls it: ready once for each time that it became readable, and otherwise keeping the waker.
    /// The waker turns the wheel where the reactor wakes it, so a task that is due is woken by its
    /// own runtime's thread. The runtime's other descriptors have their turn after half a
    /// millisecond.
    ///
    /// Timers that are sparse fire at their own deadline. So do the first of a crowd; its others,
    /// and all from 10,000 deadlines a second on, fire in turns of up to a millisecond apart.
    /// Fires, wakers and callbacks run on the thread that waits in the reactor: a callback that
    /// blocks holds up the runtime's sockets.
    ///
    /// Like the runtime's own, no timer fires while that thread is held by a task, or while nothing
    /// runs the runtime: no other thread steps in. A sleep that is polled meanwhile reads the
    /// clock, and finds that its deadline has passed.
    ///
    /// May be called at any time, also while timers are armed: a thread that runs ends first, and
    /// the call waits until it is gone. Once the function reports an error, because the runtime
    /// ends, or panics, the thread starts again if a timer is armed, or else with the next, and
    /// another runtime may take its place. If the system refuses the thread, all armed sleeps are
    /// woken: the poll of each tries again, and panics like that of a first sleep. A timer that is
    /// gone leaves the reactor with its last armed sleep. A child of `fork` begins with a thread of
    /// its own.
    ///
    /// # Errors
    ///
    /// Fails with [`AlreadyExists`](io::ErrorKind::AlreadyExists) if a runtime drives the timer,
    /// with [`InvalidInput`](io::ErrorKind::InvalidInput) if it never has a thread (by hand, on a
    /// virtual clock, by a runtime's task), and with [`WouldBlock`](io::ErrorKind::WouldBlock) in a
    /// waker or callback. Otherwise as `timerfd_create(2)` and `register` do. The timer stays as it
    /// is.
    #[cfg_attr(docsrs, doc(cfg(any(target_os = "linux", target_os = "android"))))]
    pub fn drive_on<W>(&self, register: impl FnOnce(TurnFd) -> io::Result<W>) -> io::Result<()>
    where
        W: FnMut(&mut Context<'_>) -> Poll<io::Result<()>> + Send + 'static,
    {
        let engine = self.shared_engine();
        let timer_fd = Reactor::timer_fd(engine)?;
        // With no lock held: foreign code.
        let watch = register(timer_fd.descriptor(engine.clock())?.clone())?;
        let reactor = Reactor::seat(engine, Box::new(watch))?;
        timer_fd.set(|| Some(Duration::ZERO));
        reactor.turn();
        Ok(())
    }
}
