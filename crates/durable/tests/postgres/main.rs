//! The store on PostgreSQL, on a real cluster: `ci/durable-postgres.sh`, in the repository,
//! makes one.

mod by_name;
mod cluster;
mod connections;
mod events;
mod faults;
mod floor;
mod functions;
mod hosts;
mod listening;
mod plans;
mod pooler;
mod replica;
mod replication;
mod runtimes;
mod schema;
mod schemas;
#[cfg(feature = "sqlx-0_8")]
mod sqlx;
#[cfg(feature = "tls")]
mod tls;
mod transactions;
mod trips;

use std::time::Duration;

use cluster::Schema;
use tourbillon_durable::store::conformance::{Rig, done};
use tourbillon_durable::store::{End, NewTimer, Store};
use tourbillon_durable::{Lease, NodeId, Time, TimerId};

impl Rig for Schema {
    fn store(&self) -> Box<dyn Store> {
        Box::new(self.connect())
    }

    fn pass(&self, span: Duration) {
        std::thread::sleep(span);
    }
}

mod conformance {
    use super::cluster::Schema;

    tourbillon_durable::conformance!(Schema::new());
}

/// Long enough for no test to see its end.
const LONG: Duration = Duration::from_secs(600);

/// A timer of the kind `mail`.
fn timer(due: Time) -> NewTimer {
    let mut timer = NewTimer::new(TimerId::new(due), "mail", due);
    timer.payload = b"to whom it may concern".to_vec();
    timer
}

/// A timer that runs, and the lease that it runs under.
fn running(store: &mut dyn Store) -> (Lease, TimerId) {
    let timer = timer(store.now().unwrap());
    let lease = join(store);
    store.insert(std::slice::from_ref(&timer)).unwrap();
    assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers.len(), 1);
    (lease, timer.id)
}

/// The success of a timer's first attempt.
fn first_done(timer: TimerId) -> [End; 1] {
    [End { timer, attempt: 1, how: done() }]
}

fn join(store: &mut dyn Store) -> Lease {
    store.join(Lease { node: NodeId::new(), epoch: 1 }, LONG).unwrap().unwrap().lease
}
