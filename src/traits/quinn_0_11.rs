//! quinn 0.11: its timer trait, and a runtime adapter that replaces the timers.
//!
//! Needs the feature `quinn-0_11`.
//!
//! quinn takes its timers, its sockets and the spawning of its tasks from one [`Runtime`].
//! [`WithTimer`] replaces the timers of an existing runtime. To write your own runtime, box a sleep
//! for the timer and read the timer's clock:
//!
//! ```
//! # extern crate quinn_0_11 as quinn;
//! use std::future::Future;
//! use std::io;
//! use std::pin::Pin;
//! use std::sync::Arc;
//! use std::time::Instant;
//!
//! use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};
//! use tourbillon::Timer;
//!
//! #[derive(Debug)]
//! struct Mine {
//!     timer: Timer,
//! }
//!
//! impl Runtime for Mine {
//!     fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
//!         Box::pin(self.timer.sleep_until(deadline))
//!     }
//!
//!     fn now(&self) -> Instant {
//!         self.timer.now()
//!     }
//!
//!     fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
//!         smol::spawn(task).detach();
//!     }
//!
//!     fn wrap_udp_socket(
//!         &self,
//!         socket: std::net::UdpSocket,
//!     ) -> io::Result<Arc<dyn AsyncUdpSocket>> {
//!         // Sockets belong to a reactor.
//! #       drop(socket);
//! #       Err(io::ErrorKind::Unsupported.into())
//!     }
//! }
//! # let timer = Timer::builder().build()?;
//! # let runtime = Mine { timer };
//! # let mut timer = runtime.new_timer(runtime.now());
//! # pollster::block_on(std::future::poll_fn(|cx| timer.as_mut().poll(cx)));
//! # io::Result::Ok(())
//! ```

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use quinn_0_11::{AsyncTimer, Runtime};

use crate::sleep::Sleep;
use crate::sync::StdArc as Arc;
use crate::time::Instant;
use crate::timer::Timer;

/// A sleep is quinn's timer. A reset allocates nothing, and to a later deadline takes no lock.
impl AsyncTimer for Sleep {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        Sleep::reset(&mut self, deadline);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx)
    }
}

/// A [`Runtime`] with the timers and the clock of a [`Timer`], and the rest of another runtime.
///
/// # Examples
///
/// ```
/// # extern crate quinn_0_11 as quinn;
/// use std::sync::Arc;
///
/// use quinn::Runtime;
/// use tourbillon::Timer;
/// use tourbillon::quinn_0_11::WithTimer;
///
/// fn on_our_timer(runtime: Arc<dyn Runtime>) -> Arc<dyn Runtime> {
///     Arc::new(WithTimer::new(runtime, &Timer::global()))
/// }
///
/// // As `quinn::SmolRuntime` there is, with quinn's feature of that name.
/// if let Some(runtime) = quinn::default_runtime() {
///     // To be given to `quinn::Endpoint::new`.
///     let runtime = on_our_timer(runtime);
/// }
/// ```
#[derive(Debug)]
pub struct WithTimer {
    runtime: Arc<dyn Runtime>,
    timer: Timer,
}

impl WithTimer {
    /// Replaces the timers of `runtime` by sleeps of `timer`.
    ///
    /// On a [`VirtualClock`](crate::virtual_time::VirtualClock) quinn's time is virtual too. The
    /// network's is not: moving the clock while datagrams are in flight makes them late or lost.
    pub fn new(runtime: Arc<dyn Runtime>, timer: &Timer) -> Self {
        Self { runtime, timer: timer.clone() }
    }
}

impl Runtime for WithTimer {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(self.timer.sleep_until(deadline))
    }

    #[track_caller]
    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.runtime.spawn(future);
    }

    /// In a browser there are no such sockets, and quinn does not ask.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    fn wrap_udp_socket(
        &self,
        socket: std::net::UdpSocket,
    ) -> std::io::Result<Arc<dyn quinn_0_11::AsyncUdpSocket>> {
        self.runtime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }
}
