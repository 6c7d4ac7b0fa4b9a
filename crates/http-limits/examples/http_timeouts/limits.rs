//! The limits of the example, short enough to be seen.

use std::time::Duration;

use tourbillon_http_limits as http_limits;

/// Reason to cut a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Silence before a request.
    Idle,
    /// Head of a request.
    Header,
    /// Time from the end of a request's head to the response, its body included.
    Request,
    /// Response that the client does not take.
    Write,
}

impl Limit {
    pub(crate) const ALL: [Self; 4] = [Self::Idle, Self::Header, Self::Request, Self::Write];

    pub(crate) const fn span(self) -> Duration {
        Duration::from_millis(match self {
            Self::Idle => 1500,
            Self::Header => 2000,
            Self::Request | Self::Write => 1000,
        })
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Header => "header",
            Self::Request => "request",
            Self::Write => "write",
        }
    }

    /// Returns the limit that a connection was closed for; `None` once its answer was sent.
    pub(crate) fn of(limit: http_limits::Limit) -> Option<Self> {
        match limit {
            http_limits::Limit::Idle => Some(Self::Idle),
            http_limits::Limit::Header => Some(Self::Header),
            http_limits::Limit::Write => Some(Self::Write),
            _ => None,
        }
    }

    /// Returns the limits of a connection. It does not linger, so that each cut is seen at once.
    pub(crate) fn of_connection() -> http_limits::Limits {
        http_limits::Limits::default()
            .idle(Self::Idle.span())
            .header(Self::Header.span())
            .write(Self::Write.span())
            .linger(Duration::ZERO)
    }
}
