//! Connections to receivers, and those that are kept for the next request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tourbillon::Timer;

use super::connect::{Steps, Stream};

/// Time that an idle connection is kept for the next request.
pub(super) const IDLE: Duration = Duration::from_secs(30);

/// Age from which a connection takes no further request: another one resolves the name anew.
pub(super) const AGE: Duration = Duration::from_secs(5 * 60);

/// Most bytes of an answer's head that are read.
const HEAD_MAX: usize = 64 * 1024;

/// Headers that fit into a head: a name of one letter, a colon, and the end of the line are the
/// least that one takes.
const HEADERS_MAX: usize = HEAD_MAX / 3;

/// A connection by HTTP/1.1 that is used for one request at a time.
#[derive(Debug)]
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Steps that made it.
    steps: Arc<Steps>,
}

/// A request without an answer.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) why: hyper::Error,
    /// The request, if none of it was sent.
    pub(super) unsent: Option<Box<Request<Full<Bytes>>>>,
    /// True if nothing came back either.
    pub(super) is_silent: bool,
}

impl Connection {
    /// Speaks HTTP on a connection.
    pub(super) async fn open(stream: Stream, steps: Arc<Steps>) -> hyper::Result<Self> {
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_MAX).max_header_size(HEAD_MAX).max_headers(HEADERS_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // A request on it has its error.
        tokio::spawn(async move { _ = connection.await });
        Ok(Self { sender, steps })
    }

    /// Sends a request, and returns the answer as soon as its head is there.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        let before = self.steps.read();
        self.sender.try_send_request(request).await.map_err(|mut error| Unanswered {
            unsent: error.take_message().map(Box::new),
            why: error.into_error(),
            is_silent: self.steps.read() == before,
        })
    }

    /// Steps that made the connection.
    pub(super) fn steps(&self) -> &Arc<Steps> {
        &self.steps
    }

    /// Returns whether it can take another request at this time.
    fn is_good(&self, now: Instant) -> bool {
        let made = self.steps.made().unwrap_or(now);
        self.sender.is_ready() && now.saturating_duration_since(made) < AGE
    }
}

/// Idle connections, by the origin that they lead to.
#[derive(Debug)]
pub(super) struct Pool {
    kept: Mutex<Kept>,
    timer: Timer,
}

#[derive(Debug, Default)]
struct Kept {
    /// Connections of each origin, and when they became idle; the latest last.
    connections: HashMap<String, Vec<(Connection, Instant)>>,
    /// True while a task closes connections that are idle for too long.
    is_tidied: bool,
}

impl Pool {
    pub(super) fn new(timer: &Timer) -> Arc<Self> {
        Arc::new(Self { kept: Mutex::default(), timer: timer.clone() })
    }

    /// Takes the connection to an origin that was used last.
    pub(super) fn take(&self, origin: &str) -> Option<Connection> {
        let now = self.timer.now();
        let mut kept = self.kept();
        let connections = kept.connections.get_mut(origin)?;
        while let Some((connection, since)) = connections.pop() {
            if connection.is_good(now) && now.saturating_duration_since(since) < IDLE {
                return Some(connection);
            }
        }
        kept.connections.remove(origin);
        None
    }

    /// Keeps a connection once it is ready for another request.
    pub(super) fn keep(self: &Arc<Self>, origin: String, mut connection: Connection) {
        if connection.sender.is_ready() {
            return self.put(origin, connection);
        }
        let pool = Arc::downgrade(self);
        tokio::spawn(async move {
            if let (Ok(()), Some(pool)) = (connection.sender.ready().await, pool.upgrade()) {
                pool.put(origin, connection);
            }
        });
    }

    fn put(self: &Arc<Self>, origin: String, connection: Connection) {
        let now = self.timer.now();
        if !connection.is_good(now) {
            return;
        }
        let mut kept = self.kept();
        kept.connections.entry(origin).or_default().push((connection, now));
        if !std::mem::replace(&mut kept.is_tidied, true) {
            tokio::spawn(tidy(Arc::downgrade(self), self.timer.clone()));
        }
    }

    /// Closes connections that are idle for too long. Returns whether there are others.
    fn tidy(&self) -> bool {
        let now = self.timer.now();
        let mut kept = self.kept();
        kept.connections.retain(|_, connections| {
            connections.retain(|(connection, since)| {
                connection.is_good(now) && now.saturating_duration_since(*since) < IDLE
            });
            !connections.is_empty()
        });
        kept.is_tidied = !kept.connections.is_empty();
        kept.is_tidied
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn tidy(pool: Weak<Pool>, timer: Timer) {
    loop {
        timer.sleep(IDLE).await;
        if !pool.upgrade().is_some_and(|pool| pool.tidy()) {
            return;
        }
    }
}
