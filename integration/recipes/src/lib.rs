//! A library for Python, Kotlin and Swift by UniFFI: their `async` functions sleep on our timers,
//! and their objects are called each period. `examples/uniffi.py` uses it.

use std::sync::Arc;
use std::time::Duration;

use tourbillon::callback::Callback;

uniffi::setup_scaffolding!("recipe");

/// Sleeps in the caller's own loop: `await` in Python, `suspend` in Kotlin, `async` in Swift.
#[uniffi::export]
async fn sleep(delay: Duration) {
    tourbillon::sleep(delay).await;
}

/// An object of the other language.
#[uniffi::export(with_foreign)]
pub trait Listener: Send + Sync {
    /// Called on the driver's thread.
    fn tick(&self);
}

/// Calls of a listener, until it is cancelled or dropped.
#[derive(uniffi::Object)]
pub struct Ticks(Callback);

#[uniffi::export]
impl Ticks {
    #[uniffi::constructor]
    fn every(period: Duration, listener: Arc<dyn Listener>) -> Self {
        Self(tourbillon::interval(period).call(move |_| listener.tick()))
    }

    /// Waits for a call that is being made.
    fn cancel(&self) {
        self.0.cancel_and_wait();
    }
}
