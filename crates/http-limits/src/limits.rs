//! [`Limits`] of a client, and its [`Standing`].

use std::time::Duration;

/// Limit on a client that is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Limit {
    /// Silence before a request: from the start of the connection, or from the last byte of the
    /// answer before, to the first byte of the request.
    Idle,
    /// Head of a request: from its first byte to its last.
    Header,
    /// Answer that the client does not take: since it last took a byte.
    Write,
    /// Connection that is being closed with a part of a body unread: it is drained for that long,
    /// so that the client sees the answer, and not a reset.
    Linger,
}

/// Spans of all limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    idle: Duration,
    header: Duration,
    write: Duration,
    linger: Duration,
}

impl Default for Limits {
    /// Returns limits for a server on the internet: 75 s of silence, 10 s for a head, 30 s for a
    /// part of an answer, and 2 s to linger.
    fn default() -> Self {
        let [idle, header, write, linger] = [75, 10, 30, 2].map(Duration::from_secs);
        Self { idle, header, write, linger }
    }
}

impl Limits {
    /// Sets the span of [`Limit::Idle`].
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Sets the span of [`Limit::Header`].
    #[must_use]
    pub fn header(self, header: Duration) -> Self {
        Self { header, ..self }
    }

    /// Sets the span of [`Limit::Write`].
    #[must_use]
    pub fn write(self, write: Duration) -> Self {
        Self { write, ..self }
    }

    /// Sets the span of [`Limit::Linger`].
    #[must_use]
    pub fn linger(self, linger: Duration) -> Self {
        Self { linger, ..self }
    }

    /// Returns the span of a limit.
    pub fn span(&self, limit: Limit) -> Duration {
        match limit {
            Limit::Idle => self.idle,
            Limit::Header => self.header,
            Limit::Write => self.write,
            Limit::Linger => self.linger,
        }
    }
}

/// Standing of a client that may be closed where there is no room for another, those to close first
/// at the beginning. A *stranger* was granted nothing yet.
///
/// A client whose request is being answered has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// Stranger that is silent.
    Silent,
    /// Stranger whose request is not complete.
    Begins,
    /// Client that was granted something, and is silent.
    Idle,
    /// Client that does not read its answer.
    Unread,
    /// Client that was granted something, and whose request is not complete.
    Continues,
}
