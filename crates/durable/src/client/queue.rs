//! [`Queue`]: requests that wait for a thread of a client, and what is sent together.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::{Call, Confirm, Insert, Lookup};
use crate::id::TimerId;
use crate::store::NewTimer;
use crate::time::Time;

/// Most inserts, lookups or confirmations that go together.
const BATCH: usize = 1_000;

/// Request that a thread carries out by itself.
pub(super) enum Single {
    /// A call.
    Call(Call),
    /// A timer was given that time.
    Due(TimerId, Time),
    /// A timer was made by a call.
    Made(NewTimer),
}

/// Work that one thread takes from the queue.
pub(super) enum Work {
    Single(Single),
    /// Inserts for one transaction. No other thread inserts until [`Queue::has_inserted`].
    Inserts(Vec<Insert>),
    /// Lookups for one statement.
    Lookups(Vec<Lookup>),
    /// Callers that one confirmation is for.
    Confirms(Vec<Confirm>),
}

/// Requests of one kind, each with its number in the order in which all came.
type Line<T> = VecDeque<(u64, T)>;

/// Requests of all clones of a client, which its threads share.
///
/// A thread takes the request that came first; with an insert, a lookup or a confirmation, it takes
/// all others of its kind. While one thread inserts, what comes to be inserted waits for the next
/// transaction, which is the larger for it.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Notified when a thread that waits may have work, and when the queue is closed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Number of the next request.
    next: u64,
    singles: Line<Single>,
    inserts: Line<Insert>,
    lookups: Line<Lookup>,
    confirms: Line<Confirm>,
    /// True while a thread inserts.
    is_inserting: bool,
    /// Threads that wait.
    idle: usize,
    /// Threads that have not ended.
    threads: usize,
    /// True once no client is left.
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request to the line of its kind. If no thread is left, the request is dropped, and
    /// its reply with it.
    fn add<T>(&self, request: T, line: impl FnOnce(&mut State) -> &mut Line<T>) {
        let mut state = self.lock();
        if state.threads == 0 {
            return;
        }
        let number = state.next;
        state.next += 1;
        line(&mut state).push_back((number, request));
        let is_waited_for = state.idle > 0;
        drop(state);
        if is_waited_for {
            self.changed.notify_one();
        }
    }

    pub(super) fn call(&self, request: Single) {
        self.add(request, |state| &mut state.singles);
    }

    pub(super) fn insert(&self, request: Insert) {
        self.add(request, |state| &mut state.inserts);
    }

    pub(super) fn look_up(&self, request: Lookup) {
        self.add(request, |state| &mut state.lookups);
    }

    pub(super) fn confirm(&self, request: Confirm) {
        self.add(request, |state| &mut state.confirms);
    }

    /// Returns the number of requests that wait.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        state.singles.len() + state.inserts.len() + state.lookups.len() + state.confirms.len()
    }

    /// Lets the threads end once nothing waits.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Counts a thread in, before it starts.
    pub(super) fn enter(&self) {
        self.lock().threads += 1;
    }

    /// Counts a thread out. What waits when the last has ended is dropped.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.threads -= 1;
        if state.threads == 0 {
            let left = std::mem::take(&mut *state);
            drop(state);
            drop(left);
        }
    }

    /// Waits for work; `None` once the queue is closed and empty.
    pub(super) fn take(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.take() {
                return Some(work);
            }
            // What waits to be inserted is the work of the thread that inserts now.
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    /// Lets the next thread insert.
    pub(super) fn has_inserted(&self) {
        self.lock().is_inserting = false;
    }
}

impl State {
    fn take(&mut self) -> Option<Work> {
        fn first<T>(line: &Line<T>) -> u64 {
            line.front().map_or(u64::MAX, |(number, _)| *number)
        }
        fn take<T>(line: &mut Line<T>) -> Vec<T> {
            let count = line.len().min(BATCH);
            line.drain(..count).map(|(_, request)| request).collect()
        }
        let insert = if self.is_inserting { u64::MAX } else { first(&self.inserts) };
        let (single, lookup) = (first(&self.singles), first(&self.lookups));
        match single.min(insert).min(lookup).min(first(&self.confirms)) {
            u64::MAX => None,
            oldest if oldest == single => {
                self.singles.pop_front().map(|(_, request)| Work::Single(request))
            }
            oldest if oldest == insert => {
                self.is_inserting = true;
                Some(Work::Inserts(take(&mut self.inserts)))
            }
            oldest if oldest == lookup => Some(Work::Lookups(take(&mut self.lookups))),
            _ => Some(Work::Confirms(take(&mut self.confirms))),
        }
    }
}
