//! Calls that a concurrent transaction is in the way of.

use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use pollster::block_on;

use super::{Around, Gate, Gated, begin};
use crate::client::{Client, Created};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::store::{Inserted, Memory, NewTimer, Result, Store, TimerUpdate};
use crate::time::Time;

/// A store in which a transaction holds a name, and may hold a row.
#[derive(Clone)]
struct Hindering(Memory, Arc<Held>);

#[derive(Default)]
struct Held {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True once the transaction has ended.
    is_over: bool,
    /// Names of the timers of each insert.
    inserts: Vec<Vec<String>>,
    /// Number of cancels that conflict yet.
    cancels: usize,
}

impl Held {
    /// Returns once so many inserts have come, with them.
    fn inserts(&self, count: usize) -> Vec<Vec<String>> {
        let state = self.state.lock().unwrap();
        let fewer = |state: &mut State| state.inserts.len() < count;
        self.changed.wait_while(state, fewer).unwrap().inserts.clone()
    }

    fn end(&self) {
        self.state.lock().unwrap().is_over = true;
    }
}

impl Hindering {
    fn new() -> (Self, Arc<Held>) {
        let held = Arc::new(Held::default());
        (Self(Memory::new(&tourbillon::Timer::global()), held.clone()), held)
    }
}

impl Around for Hindering {
    fn tables(&mut self) -> &mut Memory {
        &mut self.0
    }
}

fn conflict<T>() -> Result<T> {
    Err(StoreError::new(StoreErrorKind::Conflict, "a lock is held"))
}

impl crate::store::Sealed for Hindering {}

impl Store for Hindering {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.clone()))
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        let names = timers.iter().map(|timer| timer.name.clone().unwrap_or_default());
        let names: Vec<_> = names.collect();
        let mut state = self.1.state.lock().unwrap();
        let is_held = !state.is_over && names.iter().any(|name| name == "held");
        state.inserts.push(names);
        drop(state);
        self.1.changed.notify_all();
        if is_held { conflict() } else { self.0.insert(timers) }
    }

    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate> {
        let mut state = self.1.state.lock().unwrap();
        if state.cancels > 0 {
            state.cancels -= 1;
            return conflict();
        }
        self.0.cancel(timer)
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes scan held claim finish reschedule amend confirm find
        timers schedule schedules upcoming zoned rezone change advance backfill
        insert_occurrence records overview prune named promote
    }
}

async fn create(client: &Client, name: &str) -> Created {
    client.once("mail", Time::NEVER).name(name).create().await.unwrap()
}

#[test]
fn an_insert_that_is_hindered_goes_again_and_no_other_waits_for_it() {
    let (store, held) = Hindering::new();
    let client = Client::new(Box::new(store)).unwrap();
    thread::scope(|scope| {
        let hindered = scope.spawn(|| block_on(create(&client, "held")));
        held.inserts(2);
        for name in ["a", "b", "c"] {
            assert!(matches!(block_on(create(&client, name)), Created::Created(_)));
        }
        assert!(!hindered.is_finished());
        held.end();
        assert!(matches!(hindered.join().unwrap(), Created::Created(_)));
    });
}

#[test]
fn of_inserts_that_go_together_only_the_hindered_one_waits() {
    let (store, held) = Hindering::new();
    let gate = Arc::new(Gate::default());
    let client = Client::new(Box::new(Gated(store, gate.clone()))).unwrap();
    gate.close();
    let mut first = pin!(client.now());
    begin(first.as_mut());
    gate.wait();
    let mut calls = ["a", "held", "b", "c"].map(|name| Box::pin(create(&client, name)));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    gate.open();
    let [a, hindered, b, c] = calls;
    for other in [a, b, c] {
        assert!(matches!(block_on(other), Created::Created(_)));
    }
    let together: &[&[&str]] =
        &[&["a", "held", "b", "c"], &["a", "held"], &["a"], &["held"], &["b", "c"]];
    assert_eq!(held.inserts(5), together);
    held.end();
    assert!(matches!(block_on(hindered), Created::Created(_)));
    assert_eq!(held.inserts(6)[5], ["held"]);
}

#[test]
fn a_cancel_that_is_hindered_goes_again() {
    let (store, held) = Hindering::new();
    let client = Client::new(Box::new(store)).unwrap();
    let Created::Created(timer) = block_on(create(&client, "a")) else { panic!("it is new") };
    held.state.lock().unwrap().cancels = 3;
    assert_eq!(block_on(client.cancel(timer)).unwrap(), TimerUpdate::Done);
    assert_eq!(held.state.lock().unwrap().cancels, 0);
}
