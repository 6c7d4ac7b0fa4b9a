//! The limits on a client, and which of them a connection is under.
//!
//! A [`Watch`] is told of what happens on a connection. From that follows at each moment which
//! limit counts, and since when; one sleep, moved to where that limit ends, keeps all of them.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tourbillon::{Sleep, Timer};

use super::room::Standing;

/// Reason for which a client is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// On the silence before a request: from the start of the connection, or the last byte of the
    /// response before, to the first byte of the request.
    Idle,
    /// On the head of a request: from its first byte to its last.
    Header,
    /// On a response: the time in which the client takes not a byte of it.
    Write,
    /// On a connection that is closed before all of a body was read: for that long it is read on,
    /// so that the client sees the answer, and not a reset.
    Linger,
}

/// Limits of clients.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time from the last byte of an answer to the first of a request.
    pub idle: Duration,
    /// Time from the first byte of a request's head to its last.
    pub header: Duration,
    /// Time from the end of the head to the answer, the request's body included.
    pub request: Duration,
    /// For taking a part of an answer.
    pub write: Duration,
    /// For seeing an answer that came before the body was read.
    pub linger: Duration,
    /// Most connections that may be open at a time; others wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let [idle, header, request, write, linger] = [75, 10, 30, 30, 2].map(Duration::from_secs);
        Self { idle, header, request, write, linger, connections: 20_000 }
    }
}

impl Limits {
    fn span(&self, limit: Limit) -> Duration {
        match limit {
            Limit::Idle => self.idle,
            Limit::Header => self.header,
            Limit::Write => self.write,
            Limit::Linger => self.linger,
        }
    }
}

/// Sees a connection's bytes go by, and says when the client is to be cut.
///
/// Only the connection's task uses it, so its lock is always free.
pub(super) struct Watch {
    timer: Timer,
    limits: Limits,
    state: Mutex<State>,
}

struct State {
    /// Left armed while there is no limit. To move it to later is nearly free, while to disarm and
    /// to arm it would each take a lock.
    sleep: Sleep,
    /// When the connection began, or the last byte of a response was written.
    quiet: Instant,
    /// When the first byte of the head that is arriving was read.
    head: Option<Instant>,
    /// Since when a write has made no progress.
    blocked: Option<Instant>,
    /// Since when the connection is being closed.
    closing: Option<Instant>,
    /// True while a request is being answered.
    answers: bool,
    /// True once a request was granted.
    is_known: bool,
    /// When the last request began, or the answer to it was there.
    turn: Instant,
    /// Bytes of the request's body that are still to come.
    body_left: u64,
    /// True while the line of a head that is arriving is empty so far.
    line_is_empty: bool,
}

impl State {
    /// The limit that counts now, and since when.
    fn limit(&self) -> Option<(Limit, Instant)> {
        if let Some(since) = self.closing {
            return Some((Limit::Linger, since));
        }
        match (self.blocked, self.head) {
            // First of all, since while a write is blocked nothing that the client sends is served.
            (Some(since), _) => Some((Limit::Write, since)),
            // The timeout around the handler counts.
            _ if self.answers => None,
            (None, Some(since)) => Some((Limit::Header, since)),
            (None, None) => Some((Limit::Idle, self.quiet)),
        }
    }

    /// Returns what the client may be cut for where there is no room, and since when.
    fn standing(&self) -> Option<(Standing, Instant)> {
        if self.blocked.is_some() || self.closing.is_some() {
            return Some((Standing::Unread, self.turn));
        }
        let is_part = self.head.is_some() || self.answers && self.body_left > 0;
        match (is_part, self.is_known) {
            (true, false) => Some((Standing::Begins, self.turn)),
            (true, true) => Some((Standing::Continues, self.turn)),
            _ if self.answers => None,
            (false, false) => Some((Standing::Silent, self.quiet)),
            (false, true) => Some((Standing::Idle, self.quiet)),
        }
    }

    /// Returns how many of `bytes` are up to the empty line that ends a head.
    fn head_part(&mut self, bytes: &[u8]) -> usize {
        for (place, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if self.line_is_empty => return place + 1,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
        }
        bytes.len()
    }
}

impl Watch {
    /// Begins with the connection.
    pub(super) fn new(timer: &Timer, limits: Limits) -> Self {
        let now = timer.now();
        let state = State {
            sleep: timer.never(),
            quiet: now,
            head: None,
            blocked: None,
            closing: None,
            answers: false,
            is_known: false,
            turn: now,
            body_left: 0,
            line_is_empty: true,
        };
        Self { timer: timer.clone(), limits, state: Mutex::new(state) }
    }

    /// `bytes` have come. Returns how many of them to pass on.
    ///
    /// The bytes belong together: none after the end of a head, and none after the end of a body.
    /// The rest is passed on with the next call, so that what is of the next head is seen to be,
    /// even if it came in one segment with the request before.
    pub(super) fn read(&self, bytes: &[u8]) -> usize {
        let mut state = self.lock();
        if state.body_left > 0 {
            let length = bytes.len().min(usize::try_from(state.body_left).unwrap_or(usize::MAX));
            state.body_left -= length as u64;
            return length;
        }
        if !bytes.is_empty() && state.head.is_none() {
            let now = self.timer.now();
            state.head = Some(now);
            state.turn = now;
        }
        state.head_part(bytes)
    }

    /// Some of a response was written; or not, as the client has no room for it.
    pub(super) fn writes(&self, is_written: bool) {
        let mut state = self.lock();
        let now = self.timer.now();
        match is_written {
            true => (state.quiet, state.blocked) = (now, None),
            false => state.blocked = state.blocked.or(Some(now)),
        }
    }

    /// The connection is being closed. Returns whether to read on, as there is more of a body.
    pub(super) fn closes(&self) -> bool {
        let mut state = self.lock();
        state.closing.get_or_insert_with(|| self.timer.now());
        state.body_left > 0
    }

    /// A head has come to its end; a body of so many bytes follows, where that is known.
    ///
    /// If the body was not read, nothing after it may be a request.
    pub(super) fn answer_begins(&self, body: Option<u64>) {
        let mut state = self.lock();
        state.head = None;
        state.line_is_empty = true;
        state.body_left = body.unwrap_or(u64::MAX);
        state.answers = true;
    }

    /// The response is there, and about to be written. It grants what was asked for, or does not.
    pub(super) fn answer_ends(&self, grants: bool) {
        let mut state = self.lock();
        state.quiet = self.timer.now();
        state.turn = state.quiet;
        state.answers = false;
        state.is_known |= grants;
    }

    /// Returns its standing, and since when it has that; `None` while it is being answered.
    pub(super) fn standing(&self) -> Option<(Standing, Instant)> {
        self.lock().standing()
    }

    /// Waits until a limit is over. To be polled after each poll of the connection.
    pub(super) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<Limit> {
        let mut state = self.lock();
        let Some((limit, since)) = state.limit() else { return Poll::Pending };
        state.sleep.reset(since + self.limits.span(limit));
        Pin::new(&mut state.sleep).poll(cx).map(|()| limit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
