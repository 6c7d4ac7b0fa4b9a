//! Inserts that wait at the same time and go together.

use async_channel::Sender;

use super::ticket::{Attended, Caller, Ticket};
use super::tries::Tries;
use super::{Client, in_time, until_answered};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Inserted, Looked, Named, NewTimer, Result, Store};
use crate::time::Time;

/// An insert and its caller.
pub(super) struct Insert {
    timer: NewTimer,
    /// True if the timer's name is looked up afterwards.
    looks: bool,
    /// True if a concurrent transaction was in its way. It goes alone, and no other waits with it.
    pub(super) alone: bool,
    ticket: Ticket,
    reply: Sender<Result<Reply>>,
}

/// Answer to one try of an insert.
enum Reply {
    Done(Box<InsertAnswer>),
    /// A concurrent transaction is in the way of this timer.
    Hindered(Box<NewTimer>, StoreError),
}

/// Answer to an insert: with the time and the holders of the name, if that was looked up.
pub(super) type InsertAnswer = (Inserted, Option<(Time, Named)>);

impl Client {
    /// Inserts as [`insist`](Self::insist) runs calls.
    pub(super) async fn insert(&self, mut timer: NewTimer, looks: bool) -> Result<InsertAnswer> {
        let (mut tries, mut alone) = (Tries::within(self.deadline), false);
        loop {
            let (reply, answer) = async_channel::bounded(1);
            let ticket = Ticket::default();
            let insert = Insert { timer, looks, alone, ticket: ticket.clone(), reply };
            self.handle.0.insert(insert);
            let caller = Caller::new(ticket);
            match in_time(tries.left(), caller, answer, StoreErrorKind::Uncertain).await? {
                Reply::Done(answer) => return Ok(*answer),
                Reply::Hindered(_, error) if !tries.again().await => return Err(error),
                Reply::Hindered(hindered, _) => (timer, alone) = (*hindered, true),
            }
        }
    }
}

/// Inserts the timers of waiting callers, looks up the names that callers wait for, and answers.
/// Returns the new timers.
pub(super) fn insert_together(store: &mut dyn Store, inserts: Vec<Insert>) -> Vec<NewTimer> {
    let mut batch = Batch::default();
    for Insert { timer, looks, ticket, reply, .. } in inserts {
        if ticket.send() {
            batch.timers.push(timer);
            batch.tickets.push(ticket);
            batch.callers.push((reply, looks));
        }
    }
    if batch.timers.is_empty() { Vec::new() } else { batch.insert(store) }
}

/// Inserts that go together. Each has the same place in all lists.
#[derive(Default)]
struct Batch {
    timers: Vec<NewTimer>,
    tickets: Vec<Ticket>,
    /// Where each is answered, and whether its name is looked up.
    callers: Vec<(Sender<Result<Reply>>, bool)>,
}

impl Batch {
    /// Inserts, answers, and returns the new timers. If a concurrent transaction is in the way of
    /// one, the halves go each by itself, so that only this one is hindered.
    fn insert(mut self, store: &mut dyn Store) -> Vec<NewTimer> {
        let looks = self.timers.iter().zip(&self.callers).filter(|(_, (_, looks))| *looks);
        // Nothing has an empty name.
        let names: Vec<_> = looks.map(|(timer, _)| timer.name.as_deref().unwrap_or("")).collect();
        let answer =
            insert_and_look(&mut Attended::new(store, &self.tickets), &self.timers, &names);
        match answer {
            Ok((inserted, now, found)) => {
                let mut found = found.into_iter();
                for (inserted, (reply, looks)) in inserted.iter().zip(self.callers) {
                    let seen = looks.then(|| (now, found.next().unwrap_or_default()));
                    let _ = reply.try_send(Ok(Reply::Done(Box::new((*inserted, seen)))));
                }
                let mut inserted = inserted.into_iter();
                self.timers.retain(|_| inserted.next() == Some(Inserted::Created));
                self.timers
            }
            Err(error) if error.kind() == StoreErrorKind::Conflict && self.timers.len() == 1 => {
                for (timer, (reply, _)) in self.timers.into_iter().zip(self.callers) {
                    let _ = reply.try_send(Ok(Reply::Hindered(Box::new(timer), error.copy())));
                }
                Vec::new()
            }
            Err(error) if error.kind() == StoreErrorKind::Conflict => {
                let half = self.timers.len() / 2;
                let rest = Self {
                    timers: self.timers.split_off(half),
                    tickets: self.tickets.split_off(half),
                    callers: self.callers.split_off(half),
                };
                let mut made = self.insert(store);
                made.extend(rest.insert(store));
                made
            }
            Err(error) => {
                for (reply, _) in self.callers {
                    let _ = reply.try_send(Err(error.copy()));
                }
                Vec::new()
            }
        }
    }
}

/// Inserts, and inserts again while the answer is lost.
pub(crate) fn insert_all(store: &mut dyn Store, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
    insert_and_look(store, timers, &[]).map(|(inserted, ..)| inserted)
}

/// Inserts, and looks up names afterwards if there are any; both again while the answer is lost.
fn insert_and_look(store: &mut dyn Store, timers: &[NewTimer], names: &[&str]) -> Result<Looked> {
    let ((mut inserted, now, found), is_repeated) = until_answered(|| match names {
        [] => Ok((store.insert(timers)?, Time::default(), Vec::new())),
        names => store.insert_and_look(timers, names),
    })?;
    for (answer, timer) in inserted.iter_mut().zip(timers) {
        // A timer that exists under this id was made by the first try.
        if is_repeated && *answer == Inserted::Exists(timer.id) {
            *answer = Inserted::Created;
        }
    }
    Ok((inserted, now, found))
}
