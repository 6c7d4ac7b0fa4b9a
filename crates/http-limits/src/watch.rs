//! [`Watch`]: the limit that a connection is under.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use tourbillon::{Sleep, Timer};

use crate::limits::{Limit, Limits, Standing};

/// Watch over one connection: the limit that counts now, and its end.
///
/// A [`Socket`](crate::Socket) shows it the bytes, and the server says where a request and its
/// answer begin. Only the connection's task uses it, so its lock is always free.
pub struct Watch {
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
    /// Bytes of the request that have come, until the answer to it is there.
    taken: usize,
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
            // First of all, because nothing from the client is served while a write is blocked.
            (Some(since), _) => Some((Limit::Write, since)),
            // The timeout around the handler counts.
            _ if self.answers => None,
            (None, Some(since)) => Some((Limit::Header, since)),
            (None, None) => Some((Limit::Idle, self.quiet)),
        }
    }

    /// Returns the client's standing where there is no room for another, and since when it has it.
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
    /// Creates a watch over a connection that begins now. It waits by `timer`.
    pub fn new(timer: &Timer, limits: Limits) -> Self {
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
            taken: 0,
            line_is_empty: true,
        };
        Self { timer: timer.clone(), limits, state: Mutex::new(state) }
    }

    /// Takes note of `bytes` that have come. Returns how many of them to pass on.
    ///
    /// The bytes belong together: none after the end of a head, and none after the end of a body.
    /// The rest is passed on with the next call, so that bytes of the next head count as such, even
    /// if they came in one segment with the request before.
    pub(crate) fn read(&self, bytes: &[u8]) -> usize {
        let mut state = self.lock();
        if state.body_left > 0 {
            let length = bytes.len().min(usize::try_from(state.body_left).unwrap_or(usize::MAX));
            state.body_left -= length as u64;
            state.taken += length;
            return length;
        }
        if !bytes.is_empty() && state.head.is_none() {
            let now = self.timer.now();
            state.head = Some(now);
            state.turn = now;
            state.taken = 0;
        }
        let length = state.head_part(bytes);
        state.taken += length;
        length
    }

    /// Takes note that some of a response was written, or that the client had no room for it.
    pub(crate) fn writes(&self, is_written: bool) {
        let mut state = self.lock();
        let now = self.timer.now();
        match is_written {
            true => (state.quiet, state.blocked) = (now, None),
            false => state.blocked = state.blocked.or(Some(now)),
        }
    }

    /// Takes note that the connection is being closed. Returns `true` to read on, because more of a
    /// body is to come.
    pub(crate) fn closes(&self) -> bool {
        let mut state = self.lock();
        state.closing.get_or_insert_with(|| self.timer.now());
        state.body_left > 0
    }

    /// Takes note that a head has come to its end, and that a body of so many bytes follows; `None`
    /// for a body in chunks.
    ///
    /// Only hyper knows where a body in chunks ends: answer it with `Connection: close`. Call this
    /// when hyper calls the service, and not when its future is first polled: bytes that come in
    /// between belong to the next head.
    pub fn request_begins(&self, body: Option<u64>) {
        let mut state = self.lock();
        state.head = None;
        state.line_is_empty = true;
        state.body_left = body.unwrap_or(u64::MAX);
        state.answers = true;
    }

    /// Takes note that the response is there, and about to be written. `granted` is `false` for an
    /// error: a client that was granted nothing is a stranger to [`standing`](Self::standing).
    pub fn response_begins(&self, granted: bool) {
        let mut state = self.lock();
        state.quiet = self.timer.now();
        state.turn = state.quiet;
        state.answers = false;
        state.taken = 0;
        state.is_known |= granted;
    }

    /// Returns how many bytes of a request have come that is not answered yet: of its head and its
    /// body. About as much memory is taken by it.
    pub fn taken(&self) -> usize {
        self.lock().taken
    }

    /// Returns `true` while more of the body of a request is to come, and of one in chunks always.
    pub fn is_body_due(&self) -> bool {
        self.lock().body_left > 0
    }

    /// Returns the client's standing, and since when it has that; `None` while it is being
    /// answered.
    pub fn standing(&self) -> Option<(Standing, Instant)> {
        self.lock().standing()
    }

    /// Waits until a limit is over, and returns it: the connection is then to be dropped.
    ///
    /// Poll it after each poll of the connection, by the same task: bytes that the connection read
    /// or wrote may have moved the limit.
    ///
    /// # Cancel safety
    ///
    /// A watch keeps its limit when it is not polled; a later poll reports it.
    pub fn poll_limit(&self, cx: &mut Context<'_>) -> Poll<Limit> {
        let mut state = self.lock();
        let Some((limit, since)) = state.limit() else { return Poll::Pending };
        state.sleep.reset(since + self.limits.span(limit));
        Pin::new(&mut state.sleep).poll(cx).map(|()| limit)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("limit", &self.lock().limit()).finish_non_exhaustive()
    }
}
