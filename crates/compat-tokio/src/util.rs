//! The timed part of tokio-util, by its paths.

/// `tokio_util::time`.
pub mod time {
    pub use crate::delay_queue::DelayQueue;
    pub use crate::future_ext::FutureExt;

    /// `tokio_util::time::delay_queue`.
    pub mod delay_queue {
        pub use crate::delay_queue::{DelayQueue, Expired};
        pub use tourbillon::queue::Key;
    }
}

/// `tokio_util::future`.
pub mod future {
    pub use crate::future_ext::FutureExt;
}
