//! Schedules that callers make at the same time: new ones share one transaction.

use async_channel::Sender;

use super::schedules::{Upsert, Wanted, new_row, upsert};
use super::ticket::{Attended, Ticket};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{Result, Store};
use crate::time::Time;

/// A schedule to make or change, and the caller.
pub(super) struct Upsertion {
    pub(super) wanted: Wanted,
    /// Time of the database that the caller has read.
    pub(super) as_of: Option<Time>,
    pub(super) ticket: Ticket,
    pub(super) reply: Sender<Result<Upsert>>,
}

/// Makes or changes the schedules that callers wait for, and answers. Schedules that may be new are
/// made together; schedules that were there already are then changed one after the other.
pub(super) fn upsert_together(store: &mut dyn Store, upserts: Vec<Upsertion>) {
    let waiting: Vec<_> = upserts.into_iter().filter(|one| one.ticket.send()).collect();
    let are_several = waiting.len() > 1;
    // One alone that may be there is looked for first: that costs no more than the try.
    let may_be_new = |one: &Upsertion| match one.wanted.expect {
        Some(version) => version.is_none(),
        None => are_several,
    };
    let (new, mut others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(may_be_new);
    if !new.is_empty() {
        others.extend(create_together(store, new));
    }
    for Upsertion { wanted, ticket, reply, .. } in others {
        let _ = reply.try_send(upsert(&mut Attended::new(store, &[ticket]), &wanted));
    }
}

/// Makes the schedules whose names are free, and answers. Returns the others, or all of them if the
/// store refuses any.
fn create_together(store: &mut dyn Store, new: Vec<Upsertion>) -> Vec<Upsertion> {
    let tickets: Vec<_> = new.iter().map(|one| one.ticket.clone()).collect();
    let mut store = Attended::new(store, &tickets);
    let now = match new.iter().all(|one| one.as_of.is_some()) {
        true => None,
        false => match store.now() {
            Ok(now) => Some(now),
            Err(_) => return new,
        },
    };
    let (mut rows, mut makers, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for one in new {
        let enabled = one.wanted.enabled.unwrap_or(true);
        match one.as_of.or(now).map(|now| new_row(&one.wanted, enabled, now)) {
            Some(Ok(row)) => {
                rows.push(row);
                makers.push(one);
            }
            _ => others.push(one),
        }
    }
    if rows.is_empty() {
        return others;
    }
    match store.create_schedules(&rows) {
        Ok(made) => {
            for (one, is_made) in makers.into_iter().zip(made) {
                if is_made {
                    let _ = one.reply.try_send(Ok(Upsert::Created));
                } else {
                    others.push(one);
                }
            }
        }
        Err(error)
            if matches!(error.kind(), StoreErrorKind::Invalid | StoreErrorKind::Conflict) =>
        {
            others.extend(makers);
        }
        Err(error) => {
            for one in makers {
                let _ = one.reply.try_send(Err(StoreError::copy(&error)));
            }
        }
    }
    others
}
