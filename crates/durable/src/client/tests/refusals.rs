//! Calls that are refused, by the store or before.

use std::pin::pin;
use std::slice::from_ref;
use std::sync::Arc;

use pollster::block_on;

use super::{Around, Gate, Gated, Scene, begin, kind};
use crate::client::Client;
use crate::client::schedules::{Tried, attempt};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::store::{Inserted, Memory, Named, NewTimer, Result, Store};
use crate::time::Time;

/// A store that refuses a kind of timers, and a name.
#[derive(Clone)]
struct Refusing(Memory);

impl Around for Refusing {
    fn tables(&mut self) -> &mut Memory {
        &mut self.0
    }
}

impl crate::store::Sealed for Refusing {}

impl Store for Refusing {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self(self.0.clone())))
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        if timers.iter().any(|timer| timer.kind == "refused") {
            return Err(StoreError::new(StoreErrorKind::Invalid, "of this kind"));
        }
        self.0.insert(timers)
    }

    fn named(&mut self, names: &[&str]) -> Result<(Time, Vec<Named>)> {
        if names.iter().any(|name| name.contains("refused")) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "of this name"));
        }
        self.0.named(names)
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes scan held claim finish cancel reschedule amend confirm
        find timers schedule schedules upcoming zoned rezone change advance backfill
        insert_occurrence records overview prune promote
    }
}

#[test]
fn a_name_that_is_refused_is_refused_to_its_caller_alone() {
    let gate = Arc::new(Gate::default());
    let memory = Memory::new(&tourbillon::Timer::global());
    let mut timer = NewTimer::new(TimerId::new(Time::NEVER), "mail", Time::NEVER);
    timer.name = Some("there".to_owned());
    memory.clone().insert(from_ref(&timer)).unwrap();
    let client = Client::new(Box::new(Gated(Refusing(memory), gate.clone()))).unwrap();
    gate.close();
    let mut first = pin!(client.now());
    begin(first.as_mut());
    gate.wait();
    let mut calls = ["there", "refused", "none"].map(|name| Box::pin(client.named(name)));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    gate.open();
    let [there, refused, none] = calls.map(block_on);
    assert_eq!(there.unwrap().1.timer.unwrap().new.id, timer.id);
    assert_eq!(kind(refused), StoreErrorKind::Invalid);
    assert_eq!(none.unwrap().1, Named::default());
    assert_eq!(gate.seen(), ["now", "named", "named", "named", "named"]);
}

#[test]
fn a_name_that_no_store_takes_is_not_looked_up() {
    let scene = Scene::new();
    scene.gate.close();
    scene.gate.open();
    for name in ["", "a\0b", &"x".repeat(201)] {
        assert_eq!(block_on(scene.client.named(name)).unwrap().1, Named::default());
    }
    assert_eq!(scene.gate.seen(), ["now"; 3]);
}

#[test]
fn a_refusal_has_its_reason_once() {
    let memory = Memory::new(&tourbillon::Timer::global());
    let client = Client::new(Box::new(Refusing(memory))).unwrap();
    let error = block_on(client.once("refused", Time::NEVER).create()).unwrap_err();
    assert_eq!(error.to_string(), "the database refused: of this kind");
}

#[test]
fn after_an_insert_an_error_of_the_look_is_uncertain() {
    let mut memory = Memory::new(&tourbillon::Timer::global());
    let client = Client::new(Box::new(Refusing(memory.clone()))).unwrap();
    let once = client.once("mail", Time::NEVER).name("refused");
    assert_eq!(kind(block_on(once.create_and_look())), StoreErrorKind::Uncertain);
    assert!(memory.find("refused").unwrap().is_some());
}

#[test]
fn after_a_part_of_a_change_was_committed_an_error_is_uncertain() {
    use StoreErrorKind::{Conflict, Gone, Unavailable, Uncertain};
    for (error, alone, later) in
        [(Unavailable, Unavailable, Uncertain), (Conflict, Conflict, Uncertain), (Gone, Gone, Gone)]
    {
        for (parts, expected) in [(0, alone), (1, later)] {
            let mut done = 0..parts;
            let answer = attempt::<()>(|| match done.next() {
                Some(_) => Ok(Tried::Further),
                None => Err(StoreError::new(error, "no")),
            });
            assert_eq!(kind(answer), expected);
        }
    }
    let mut done = 0..1;
    let stale = attempt::<()>(|| Ok(done.next().map_or(Tried::Stale, |_| Tried::Further)));
    assert_eq!(kind(stale), Uncertain);
}
