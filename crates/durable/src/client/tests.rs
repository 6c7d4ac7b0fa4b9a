//! Calls that a database holds up, and callers that leave.

use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::slice::from_ref;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use pollster::block_on;

use super::schedules::{Tried, attempt};
use super::{Client, Created};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::schedule::Schedule;
use crate::store::{Inserted, Memory, Named, NewTimer, Result, Store, TimerQuery};
use crate::time::Time;

/// Deadline of calls that are not answered.
const SHORT: Duration = Duration::from_millis(20);

/// Gate that holds the calls of a store.
#[derive(Default)]
struct Gate {
    /// Names of the calls that came since it was last closed, and whether they wait.
    state: Mutex<(Vec<&'static str>, bool)>,
    changed: Condvar,
}

impl Gate {
    fn close(&self) {
        *self.state.lock().unwrap() = (Vec::new(), true);
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = false;
        self.changed.notify_all();
    }

    /// Returns once a call waits.
    fn wait(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |(seen, _)| seen.is_empty()).unwrap());
    }

    fn seen(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().0.clone()
    }
}

/// Store whose calls pass a gate.
struct Gated<S>(S, Arc<Gate>);

impl<S: Store> Gated<S> {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.1.state.lock().unwrap();
        state.0.push(name);
        self.1.changed.notify_all();
        drop(self.1.changed.wait_while(state, |(_, is_closed)| *is_closed).unwrap());
        work(&mut self.0)
    }
}

impl<S: Store + Clone + 'static> Store for Gated<S> {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self(self.0.clone(), self.1.clone())))
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule confirm
        find timers schedule schedules upcoming change advance backfill insert_occurrence records
        overview prune named
    }
}

/// A client whose calls pass a gate, and its tables.
struct Scene {
    client: Client,
    gate: Arc<Gate>,
    tables: Memory,
}

impl Scene {
    fn new() -> Self {
        let tables = Memory::new(&tourbillon::Timer::global());
        let gate = Arc::new(Gate::default());
        let client = Client::new(Box::new(Gated(tables.clone(), gate.clone()))).unwrap();
        Self { client, gate, tables }
    }

    /// Inserts a timer.
    fn timer(&self) -> TimerId {
        let timer = NewTimer::new(TimerId::new(Time::NEVER), "mail", Time::NEVER);
        self.tables.clone().insert(from_ref(&timer)).unwrap();
        timer.id
    }

    /// Returns the ids of the timers.
    fn timers(&self) -> Vec<TimerId> {
        let timers = self.tables.clone().timers(&TimerQuery::new()).unwrap();
        timers.into_iter().map(|timer| timer.new.id).collect()
    }
}

/// Polls a call once, so that it is queued.
fn begin<F: Future>(call: Pin<&mut F>) {
    assert!(call.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

fn kind<T: Debug>(answer: Result<T>) -> StoreErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn a_call_that_is_dropped_before_it_is_sent_is_not_sent() {
    let scene = Scene::new();
    let id = scene.timer();
    scene.gate.close();
    let mut first = pin!(scene.client.now());
    begin(first.as_mut());
    scene.gate.wait();
    begin(pin!(scene.client.cancel(id)).as_mut());
    begin(pin!(scene.client.once("mail", Time::NEVER).create()).as_mut());
    scene.gate.open();
    block_on(first).unwrap();
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.gate.seen(), ["now", "nodes"]);
    assert_eq!(scene.timers(), [id]);
}

#[test]
fn of_inserts_that_go_together_those_without_a_caller_are_not_sent() {
    let scene = Scene::new();
    scene.gate.close();
    let mut first = pin!(scene.client.now());
    begin(first.as_mut());
    scene.gate.wait();
    let mut wanted = pin!(scene.client.once("mail", Time::NEVER).create());
    begin(wanted.as_mut());
    begin(pin!(scene.client.once("mail", Time::NEVER).create()).as_mut());
    scene.gate.open();
    let Created::Created(id) = block_on(wanted).unwrap() else { panic!("it exists") };
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.timers(), [id]);
}

#[test]
fn a_call_whose_deadline_passes_before_it_is_sent_is_unavailable_and_not_sent() {
    let scene = Scene::new();
    let id = scene.timer();
    scene.gate.close();
    let mut first = pin!(scene.client.now());
    begin(first.as_mut());
    scene.gate.wait();
    let hasty = scene.client.clone().with_deadline(SHORT);
    assert_eq!(kind(block_on(hasty.cancel(id))), StoreErrorKind::Unavailable);
    let insert = hasty.once("mail", Time::NEVER).create();
    assert_eq!(kind(block_on(insert)), StoreErrorKind::Unavailable);
    scene.gate.open();
    // The clone that it was set of keeps its own.
    block_on(first).unwrap();
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.gate.seen(), ["now", "nodes"]);
    assert_eq!(scene.timers(), [id]);
}

#[test]
fn a_write_that_was_sent_and_is_not_answered_by_its_deadline_is_uncertain() {
    let scene = Scene::new();
    let id = scene.timer();
    let hasty = scene.client.clone().with_deadline(SHORT);
    scene.gate.close();
    let mut cancel = pin!(hasty.cancel(id));
    begin(cancel.as_mut());
    scene.gate.wait();
    assert_eq!(kind(block_on(cancel)), StoreErrorKind::Uncertain);
    scene.gate.open();
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.timers(), []);
}

#[test]
fn a_read_that_was_sent_and_is_not_answered_by_its_deadline_is_unavailable() {
    let scene = Scene::new();
    let hasty = scene.client.clone().with_deadline(SHORT);
    scene.gate.close();
    let mut read = pin!(hasty.now());
    begin(read.as_mut());
    scene.gate.wait();
    assert_eq!(kind(block_on(read)), StoreErrorKind::Unavailable);
    scene.gate.open();
}

#[test]
fn of_calls_at_once_that_are_not_answered_each_ends_by_its_deadline_and_one_is_sent() {
    let scene = Scene::new();
    let ids: [_; 12] = std::array::from_fn(|_| scene.timer());
    let hasty = scene.client.clone().with_deadline(SHORT);
    scene.gate.close();
    let mut calls = ids.map(|id| Box::pin(hasty.cancel(id)));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.wait();
    let kinds = calls.map(|call| kind(block_on(call)));
    assert_eq!(kinds[0], StoreErrorKind::Uncertain);
    assert_eq!(kinds[1..], [StoreErrorKind::Unavailable; 11]);
    scene.gate.open();
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.gate.seen(), ["cancel", "nodes"]);
    assert_eq!(scene.timers().len(), 11);
}

#[test]
fn a_call_that_is_left_sends_no_further_statement() {
    let scene = Scene::new();
    scene.gate.close();
    let daily = Schedule::every(Duration::from_secs(86_400));
    let mut upsert = Box::pin(scene.client.every("backup", daily).upsert());
    begin(upsert.as_mut());
    scene.gate.wait();
    drop(upsert);
    scene.gate.open();
    block_on(scene.client.nodes()).unwrap();
    // Left out: the change.
    assert_eq!(scene.gate.seen(), ["schedule", "nodes"]);
}

#[test]
fn a_call_with_the_longest_deadline_is_answered() {
    let client = Scene::new().client.with_deadline(Duration::MAX);
    block_on(client.now()).unwrap();
}

#[test]
fn names_that_wait_are_looked_up_in_one_statement() {
    let scene = Scene::new();
    scene.gate.close();
    let mut first = pin!(scene.client.now());
    begin(first.as_mut());
    scene.gate.wait();
    let mut calls = ["a", "b", "a"].map(|name| Box::pin(scene.client.named(name)));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.open();
    for call in calls {
        assert_eq!(block_on(call).unwrap().1, Named::default());
    }
    assert_eq!(scene.gate.seen(), ["now", "named"]);
}

#[test]
fn callers_that_wait_are_confirmed_by_one_call() {
    let scene = Scene::new();
    scene.gate.close();
    let mut first = pin!(scene.client.now());
    begin(first.as_mut());
    scene.gate.wait();
    let mut calls: [_; 3] = std::array::from_fn(|_| Box::pin(scene.client.confirm()));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.open();
    calls.into_iter().for_each(|call| block_on(call).unwrap());
    assert_eq!(scene.gate.seen(), ["now", "confirm"]);
}

#[test]
fn one_thread_of_a_client_inserts_at_a_time_and_others_answer() {
    let tables = Memory::new(&tourbillon::Timer::global());
    let gate = Arc::new(Gate::default());
    let store = || Box::new(Gated(tables.clone(), gate.clone())) as Box<dyn Store>;
    let client = Client::start(vec![store(), store()], None).unwrap();
    gate.close();
    let mut calls: [_; 4] = std::array::from_fn(|n| {
        Box::pin(client.once("mail", Time::NEVER).name(format!("{n}")).create())
    });
    begin(calls[0].as_mut());
    gate.wait();
    calls[1..].iter_mut().for_each(|call| begin(call.as_mut()));
    // The other thread leaves the inserts alone, and takes this.
    let mut call = pin!(client.cancel(TimerId::new(Time::NEVER)));
    begin(call.as_mut());
    while gate.seen().len() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(gate.seen(), ["insert", "cancel"]);
    gate.open();
    for call in calls {
        assert!(matches!(block_on(call).unwrap(), Created::Created(_)));
    }
    let inserts = gate.seen().iter().filter(|name| **name == "insert").count();
    assert_eq!(inserts, 2, "those that waited went together");
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
    impl Store for Broken {
        fn connect(&self) -> Result<Box<dyn Store>> {
            Ok(Box::new(Self))
        }

        crate::forward! { self.pass;
            now join beat leave maintain nodes insert scan held claim finish cancel reschedule
            confirm find timers schedule schedules upcoming change advance insert_occurrence records
            overview prune backfill
        }
    }
    let client = Client::new(Box::new(Broken)).unwrap().with_deadline(Duration::MAX);
    for _ in 0..2 {
        assert_eq!(kind(block_on(client.now())), StoreErrorKind::Unavailable);
    }
}

/// A store that refuses timers, and a name.
#[derive(Clone)]
struct Refusing(Memory);

impl Refusing {
    fn pass<T>(
        &mut self,
        _: &'static str,
        work: impl FnOnce(&mut Memory) -> Result<T>,
    ) -> Result<T> {
        work(&mut self.0)
    }
}

impl Store for Refusing {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self(self.0.clone())))
    }

    fn insert(&mut self, _: &[NewTimer]) -> Result<Vec<Inserted>> {
        Err(StoreError::new(StoreErrorKind::Invalid, "of this kind"))
    }

    fn named(&mut self, names: &[&str]) -> Result<(Time, Vec<Named>)> {
        if names.iter().any(|name| name.contains("refused")) {
            return Err(StoreError::new(StoreErrorKind::Invalid, "of this name"));
        }
        self.0.named(names)
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes scan held claim finish cancel reschedule confirm
        find timers schedule schedules upcoming change advance backfill insert_occurrence records
        overview prune
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
    let error = block_on(client.once("mail", Time::NEVER).create()).unwrap_err();
    assert_eq!(error.to_string(), "the database refused: of this kind");
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
