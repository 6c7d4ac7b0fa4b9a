//! [`Queue`]: requests that wait for a thread of a client, and requests sent together.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::inserts::Insert;
use super::upserts::Upsertion;
use super::{Call, Confirm, Lookup};
use crate::id::TimerId;
use crate::store::NewTimer;
use crate::time::Time;

/// Most inserts, upserts, lookups or confirmations that go together.
const BATCH: usize = 1_000;

/// Timer that nodes may have to be notified of.
#[derive(Debug)]
pub(super) enum Notifiable {
    /// A timer that nodes of other processes do not expect then.
    Due(TimerId, Time),
    /// A timer that was made by a call.
    Made(NewTimer),
}

/// Work that one thread takes from the queue.
pub(super) enum Work {
    Call(Call),
    /// Inserts for one transaction.
    Inserts(Vec<Insert>),
    /// Schedules to make or change; new ones in one transaction.
    Upserts(Vec<Upsertion>),
    /// Lookups for one statement.
    Lookups(Vec<Lookup>),
    /// Callers that one confirmation is for.
    Confirms(Vec<Confirm>),
    /// Timers for one notice.
    Notices(Vec<Notifiable>),
}

/// Part of a thread in the work of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Writes; and does all else if there is no reader. A client has one writer.
    Writer,
    /// Handles calls that need no order among writes: reads, confirmations, notices.
    Reader,
}

/// Requests of one kind, each with its number in the order in which all came.
type Numbered<T> = VecDeque<(u64, T)>;

/// Requests of all clones of a client, which its threads share.
///
/// A thread takes the request that came first for its role; with an insert, an upsert, a lookup or
/// a confirmation, it takes all others of its kind. Notices come before the rest.
///
/// One thread sends all writes. A write whose answer was lost may still be carried out until its
/// connection is replaced, and the next call of that connection begins with this. If another
/// connection took the next write, the lost one could undo it afterwards.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// Notified when the writer may have work, and when the queue is closed.
    for_writer: Condvar,
    /// Notified when a reader may have work, and when the queue is closed.
    for_readers: Condvar,
}

#[derive(Default)]
struct QueueState {
    /// Number of the next request.
    next: u64,
    writes: Numbered<Call>,
    inserts: Numbered<Insert>,
    /// Inserts that go alone.
    hindered: Numbered<Insert>,
    upserts: Numbered<Upsertion>,
    reads: Numbered<Call>,
    lookups: Numbered<Lookup>,
    confirms: Numbered<Confirm>,
    notices: Vec<Notifiable>,
    writers: Crew,
    readers: Crew,
    /// True once no client is left.
    is_closed: bool,
}

/// Threads of one role.
#[derive(Default)]
struct Crew {
    /// Threads that have not ended.
    threads: usize,
    /// Threads that wait.
    idle: usize,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request for a thread of the role, by `push`, which receives its number. If no thread
    /// is left for it, the request is dropped, and its reply with it.
    fn add(&self, role: Role, push: impl FnOnce(&mut QueueState, u64)) {
        let mut state = self.lock();
        let Some(role) = state.stand_in(role) else { return };
        let number = state.next;
        state.next += 1;
        push(&mut state, number);
        let is_waited_for = state.crew(role).idle > 0;
        drop(state);
        if is_waited_for {
            self.changed(role).notify_one();
        }
    }

    /// Adds a call that may write.
    pub(super) fn write(&self, call: Call) {
        self.add(Role::Writer, |state, number| state.writes.push_back((number, call)));
    }

    /// Adds a call that writes nothing.
    pub(super) fn read(&self, call: Call) {
        self.add(Role::Reader, |state, number| state.reads.push_back((number, call)));
    }

    pub(super) fn insert(&self, insert: Insert) {
        self.add(Role::Writer, |state, number| {
            let line = if insert.alone { &mut state.hindered } else { &mut state.inserts };
            line.push_back((number, insert));
        });
    }

    pub(super) fn upsert(&self, upsertion: Upsertion) {
        self.add(Role::Writer, |state, number| state.upserts.push_back((number, upsertion)));
    }

    pub(super) fn look_up(&self, lookup: Lookup) {
        self.add(Role::Reader, |state, number| state.lookups.push_back((number, lookup)));
    }

    pub(super) fn confirm(&self, confirm: Confirm) {
        self.add(Role::Reader, |state, number| state.confirms.push_back((number, confirm)));
    }

    pub(super) fn notify(&self, notices: impl IntoIterator<Item = Notifiable>) {
        let mut notices = notices.into_iter().peekable();
        if notices.peek().is_some() {
            self.add(Role::Reader, |state, _| state.notices.extend(notices));
        }
    }

    /// Returns the number of requests that wait.
    pub(super) fn len(&self) -> usize {
        let state = self.lock();
        let inserts = state.inserts.len() + state.hindered.len();
        let writes = state.writes.len() + inserts + state.upserts.len();
        writes + state.reads.len() + state.lookups.len() + state.confirms.len()
    }

    /// Lets the threads end once nothing waits.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.for_writer.notify_all();
        self.for_readers.notify_all();
    }

    /// Counts a thread in, before it starts.
    pub(super) fn enter(&self, role: Role) {
        self.lock().crew(role).threads += 1;
    }

    /// Counts a thread out. If the role has no thread left, its waiting requests are dropped.
    pub(super) fn leave(&self, role: Role) {
        let mut state = self.lock();
        state.crew(role).threads -= 1;
        let mut left = QueueState::default();
        for role in [Role::Writer, Role::Reader] {
            if state.stand_in(role).is_none() {
                state.hand_over(role, &mut left);
            }
        }
        drop(state);
        drop(left);
        // After the last reader, the writer does the readers' work.
        self.for_writer.notify_one();
    }

    /// Waits for work of the role; `None` once the queue is closed and has none.
    pub(super) fn take(&self, role: Role) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.take(role) {
                return Some(work);
            }
            if state.is_closed {
                return None;
            }
            state.crew(role).idle += 1;
            state = self.changed(role).wait(state).unwrap_or_else(PoisonError::into_inner);
            state.crew(role).idle -= 1;
        }
    }

    fn changed(&self, role: Role) -> &Condvar {
        match role {
            Role::Writer => &self.for_writer,
            Role::Reader => &self.for_readers,
        }
    }
}

impl QueueState {
    fn crew(&mut self, role: Role) -> &mut Crew {
        match role {
            Role::Writer => &mut self.writers,
            Role::Reader => &mut self.readers,
        }
    }

    /// Returns the role of the threads that do the work of this one; `None` if there is none. No
    /// reader writes: it cannot know which writes were sent.
    fn stand_in(&self, role: Role) -> Option<Role> {
        match role {
            Role::Reader if self.readers.threads > 0 => Some(Role::Reader),
            _ => (self.writers.threads > 0).then_some(Role::Writer),
        }
    }

    /// Moves the waiting requests of the role to `to`.
    fn hand_over(&mut self, role: Role, to: &mut Self) {
        match role {
            Role::Writer => {
                to.writes.append(&mut self.writes);
                to.inserts.append(&mut self.inserts);
                to.hindered.append(&mut self.hindered);
                to.upserts.append(&mut self.upserts);
            }
            Role::Reader => {
                to.reads.append(&mut self.reads);
                to.lookups.append(&mut self.lookups);
                to.confirms.append(&mut self.confirms);
                to.notices.append(&mut self.notices);
            }
        }
    }

    fn take(&mut self, role: Role) -> Option<Work> {
        fn first<T>(line: &Numbered<T>, is_taken: bool) -> u64 {
            line.front().filter(|_| is_taken).map_or(u64::MAX, |(number, _)| *number)
        }
        fn take<T>(line: &mut Numbered<T>) -> Vec<T> {
            let count = line.len().min(BATCH);
            line.drain(..count).map(|(_, request)| request).collect()
        }
        let writes = role == Role::Writer;
        // Readers of a closed queue may be about to end.
        let reads = !writes || self.readers.threads == 0 || self.is_closed;
        if reads && !self.notices.is_empty() {
            return Some(Work::Notices(std::mem::take(&mut self.notices)));
        }
        let (write, insert) = (first(&self.writes, writes), first(&self.inserts, writes));
        let (read, lookup) = (first(&self.reads, reads), first(&self.lookups, reads));
        let (confirm, upsert) = (first(&self.confirms, reads), first(&self.upserts, writes));
        let hindered = first(&self.hindered, writes);
        match write.min(insert).min(hindered).min(upsert).min(read).min(lookup).min(confirm) {
            u64::MAX => None,
            oldest if oldest == write => self.writes.pop_front().map(|(_, call)| Work::Call(call)),
            oldest if oldest == read => self.reads.pop_front().map(|(_, call)| Work::Call(call)),
            oldest if oldest == hindered => {
                self.hindered.pop_front().map(|(_, insert)| Work::Inserts(vec![insert]))
            }
            oldest if oldest == insert => Some(Work::Inserts(take(&mut self.inserts))),
            oldest if oldest == upsert => Some(Work::Upserts(take(&mut self.upserts))),
            oldest if oldest == lookup => Some(Work::Lookups(take(&mut self.lookups))),
            _ => Some(Work::Confirms(take(&mut self.confirms))),
        }
    }
}
