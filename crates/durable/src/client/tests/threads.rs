//! Threads of a client that have ended, as their store has panicked.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pollster::block_on;

use super::{Gate, Gated, begin, kind};
use crate::client::Client;
use crate::error::StoreErrorKind;
use crate::id::TimerId;
use crate::store::{Memory, Result, Store};
use crate::time::Time;

/// Store that passes a gate, and panics in calls of this name.
struct Breaking(Gated<Memory>, &'static str);

impl Breaking {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        self.0.1.pass(name);
        assert_ne!(name, self.1, "a store that panics");
        work(&mut self.0.0)
    }
}

impl crate::store::Sealed for Breaking {}

impl Store for Breaking {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self(Gated(self.0.0.clone(), self.0.1.clone()), self.1)))
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming zoned rezone change advance backfill
        insert_occurrence records overview prune named promote
    }
}

impl Breaking {
    /// A client with two threads.
    fn client(name: &'static str) -> (Client, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        let tables = Memory::new(&tourbillon::Timer::global());
        let store = Self(Gated(tables, gate.clone()), name);
        let stores = vec![store.connect().unwrap(), store.connect().unwrap()];
        (Client::start(stores, None).unwrap().with_deadline(Duration::MAX), gate)
    }
}

#[test]
fn after_the_thread_that_writes_has_ended_writes_are_refused_at_once() {
    let (client, gate) = Breaking::client("insert");
    gate.close();
    let mut first = pin!(client.once("mail", Time::NEVER).create());
    begin(first.as_mut());
    gate.wait();
    let mut waiting = pin!(client.once("mail", Time::NEVER).create());
    begin(waiting.as_mut());
    gate.open();
    assert_eq!(kind(block_on(first)), StoreErrorKind::Unavailable);
    assert_eq!(kind(block_on(waiting)), StoreErrorKind::Unavailable);
    // What that thread sent may be carried out still.
    assert_eq!(
        kind(block_on(client.cancel(TimerId::new(Time::NEVER)))),
        StoreErrorKind::Unavailable
    );
    block_on(client.now()).unwrap();
}

#[test]
fn after_the_threads_that_read_have_ended_the_other_reads() {
    let (client, gate) = Breaking::client("nodes");
    gate.close();
    let mut first = pin!(client.nodes());
    begin(first.as_mut());
    gate.wait();
    let mut waiting = pin!(client.now());
    begin(waiting.as_mut());
    gate.open();
    assert_eq!(kind(block_on(first)), StoreErrorKind::Unavailable);
    block_on(waiting).unwrap();
    block_on(client.once("mail", Time::NEVER).create()).unwrap();
}

#[test]
fn a_client_whose_threads_have_ended_says_so_at_once() {
    struct Broken;
    impl Broken {
        fn pass<T>(
            &mut self,
            _: &'static str,
            _: impl FnOnce(&mut dyn Store) -> Result<T>,
        ) -> Result<T> {
            panic!("a store that panics")
        }
    }
    impl crate::store::Sealed for Broken {}

    impl Store for Broken {
        fn connect(&self) -> Result<Box<dyn Store>> {
            Ok(Box::new(Self))
        }

        crate::forward! { self.pass;
            now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
            confirm find timers schedule schedules upcoming zoned rezone change advance
            insert_occurrence records overview prune backfill promote
        }
    }
    let client = Client::new(Box::new(Broken)).unwrap().with_deadline(Duration::MAX);
    for _ in 0..2 {
        assert_eq!(kind(block_on(client.now())), StoreErrorKind::Unavailable);
    }
}
