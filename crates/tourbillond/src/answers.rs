//! [`Answers`]: the memory of answers that clients have not read yet.
//!
//! An answer takes memory until the system has it for sending, and a client that does not read can
//! make this last as long as a write may. So all answers share a bounded amount of memory. A large
//! answer is made only once there is room for it. While one waits for room, clients that do not
//! read are cut.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};
use hyper::body::Bytes;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};

/// Memory of all answers together, in bytes.
pub(crate) const ANSWERS_MAX: usize = 32 << 20;

/// Memory that is kept for a list while it is made, in bytes: more than it can have.
const LIST: usize = 2 << 20;

/// Lists that are made at a time. The rows of a list take more memory than the list.
const LISTS: usize = 4;

/// The memory of answers.
pub struct Answers {
    ledger: Mutex<Ledger>,
    /// Somebody waits.
    short: Notify,
    lists: Arc<Semaphore>,
}

struct Ledger {
    free: usize,
    /// Requests that wait, in their order.
    waiting: VecDeque<(usize, oneshot::Sender<Held>)>,
}

/// A part of the memory. Dropped, it is free again.
pub(crate) struct Held {
    answers: Arc<Answers>,
    bytes: usize,
}

/// Mark of an answer whose memory is held; an extension of the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted;

/// A place for a list, of [`LISTS`], with memory for it.
pub(crate) struct ListPermit {
    held: Held,
    _one: OwnedSemaphorePermit,
}

impl Answers {
    /// Memory of so many bytes.
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            ledger: Mutex::new(Ledger { free: bytes, waiting: VecDeque::new() }),
            short: Notify::new(),
            lists: Arc::new(Semaphore::new(LISTS)),
        })
    }

    /// Waits for memory for an answer of so many bytes. An answer larger than all of it gets all.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it takes nothing.
    pub(crate) async fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        let bytes = bytes.min(ANSWERS_MAX);
        let granted = {
            let mut ledger = self.lock();
            if ledger.waiting.is_empty() && ledger.free >= bytes {
                ledger.free -= bytes;
                return Held { answers: Arc::clone(self), bytes };
            }
            let (grant, granted) = oneshot::channel();
            ledger.waiting.push_back((bytes, grant));
            granted
        };
        self.short.notify_one();
        granted.await.expect("what waits is granted in the end")
    }

    /// Begins a list.
    pub(crate) async fn list_permit(self: &Arc<Self>) -> ListPermit {
        let one = Arc::clone(&self.lists).acquire_owned().await.expect("it is never closed");
        ListPermit { held: self.hold(LIST).await, _one: one }
    }

    /// Returns whether a request waits for memory.
    pub(crate) fn are_short(&self) -> bool {
        let mut ledger = self.lock();
        ledger.waiting.retain(|(_, grant)| !grant.is_closed());
        !ledger.waiting.is_empty()
    }

    /// Waits until somebody waits for memory.
    pub(crate) async fn short(&self) {
        self.short.notified().await;
    }

    fn free(self: &Arc<Self>, bytes: usize) {
        let mut granted = Vec::new();
        {
            let mut ledger = self.lock();
            ledger.free += bytes;
            while let Some((bytes, _)) = ledger.waiting.front() {
                let bytes = *bytes;
                if bytes > ledger.free {
                    break;
                }
                ledger.free -= bytes;
                granted.extend(ledger.waiting.pop_front());
            }
        }
        // Without the lock: grants that nobody waits for any more are free again at once.
        for (bytes, grant) in granted {
            let _ = grant.send(Held { answers: Arc::clone(self), bytes });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("free", &self.lock().free).finish_non_exhaustive()
    }
}

impl Held {
    /// Gives back the memory that an answer of so many bytes does not need.
    fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.bytes -= less;
        self.answers.free(less);
    }

    /// The bytes, which hold the memory for as long as they are there.
    pub(crate) fn by(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        struct Owner<T>(T, #[expect(dead_code, reason = "dropped with the bytes")] Held);
        impl<T: AsRef<[u8]>> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                self.0.as_ref()
            }
        }
        Bytes::from_owner(Owner(bytes, self))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answers.free(self.bytes);
    }
}

impl ListPermit {
    /// The answer, as JSON.
    pub(crate) fn answer(mut self, document: &impl Serialize) -> Response<Body> {
        let json = serde_json::to_vec(document).expect("it is JSON");
        self.held.shrink_to(json.len());
        let mut answer = Response::new(Body::from(self.held.by(json)));
        let kind = HeaderValue::from_static("application/json");
        answer.headers_mut().insert(header::CONTENT_TYPE, kind);
        answer.extensions_mut().insert(Counted);
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Whether a future is ready now.
    fn now<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn memory_is_granted_in_order_and_freed_with_the_bytes() {
        let answers = Answers::new(10);
        let first = now(pin!(answers.hold(6))).unwrap().by(vec![0; 6]);
        let (mut second, mut third) = (pin!(answers.hold(5)), pin!(answers.hold(1)));
        assert!(now(second.as_mut()).is_none() && now(third.as_mut()).is_none());
        assert!(answers.are_short());
        let part = first.slice(2..3);
        drop(first);
        assert!(now(second.as_mut()).is_none());
        drop(part);
        let second = now(second).unwrap();
        assert!(now(third).is_some() && !answers.are_short());
        drop(second);
        assert_eq!(answers.lock().free, 10);
    }

    #[test]
    fn what_is_waited_for_no_more_takes_nothing() {
        let answers = Answers::new(10);
        let all = now(pin!(answers.hold(10))).unwrap();
        {
            let mut waits = pin!(answers.hold(10));
            assert!(now(waits.as_mut()).is_none());
        }
        assert!(!answers.are_short());
        let mut next = Box::pin(answers.hold(3));
        assert!(now(next.as_mut()).is_none());
        drop(all);
        // Granted, and not taken.
        drop(next);
        assert_eq!(answers.lock().free, 10);
    }

    #[test]
    fn a_list_holds_what_it_needs() {
        let answers = Answers::new(2 * LIST);
        let permits = [now(pin!(answers.list_permit())), now(pin!(answers.list_permit()))];
        assert_eq!(answers.lock().free, 0);
        let made = permits.map(|permit| permit.unwrap().answer(&"x"));
        assert_eq!(answers.lock().free, 2 * (LIST - 3));
        drop(made);
        assert_eq!(answers.lock().free, 2 * LIST);
    }
}
