//! Calls that a database holds up, and callers that leave.

mod backfill;
mod backlogs;
mod hindered;
mod refusals;
mod threads;

use std::fmt::Debug;
use std::future::Future;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::slice::from_ref;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use pollster::block_on;

use super::{Client, Created, Upsert};
use crate::error::StoreErrorKind;
use crate::id::TimerId;
use crate::schedule::Schedule;
use crate::store::{Memory, Named, NewTimer, Result, Store, TimerQuery, TimerUpdate};
use crate::time::Time;

/// Deadline of calls that are not answered.
const SHORT: Duration = Duration::from_millis(20);

/// Gate that holds calls of a store.
#[derive(Default)]
struct Gate {
    state: Mutex<Calls>,
    changed: Condvar,
    /// Is called with the name of each call once that is carried out.
    after: Option<Box<dyn Fn(&'static str) + Send + Sync>>,
}

/// Calls that came to a gate.
#[derive(Default)]
struct Calls {
    /// Names of the calls that came since it was last closed.
    seen: Vec<&'static str>,
    /// Places in `seen` of the waiting ones.
    held: Range<usize>,
}

impl Gate {
    fn with(after: impl Fn(&'static str) + Send + Sync + 'static) -> Self {
        Self { after: Some(Box::new(after)), ..Self::default() }
    }

    /// Holds all calls.
    fn close(&self) {
        self.hold(0..usize::MAX);
    }

    /// Holds the calls at these places of all that come from now on.
    fn hold(&self, held: Range<usize>) {
        *self.state.lock().unwrap() = Calls { seen: Vec::new(), held };
    }

    fn open(&self) {
        self.state.lock().unwrap().held = 0..0;
        self.changed.notify_all();
    }

    /// Returns once a call waits.
    fn wait(&self) {
        self.wait_for(1);
    }

    /// Returns once so many calls have come.
    fn wait_for(&self, count: usize) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |calls| calls.seen.len() < count).unwrap());
    }

    fn seen(&self) -> Vec<&'static str> {
        self.state.lock().unwrap().seen.clone()
    }

    fn pass(&self, name: &'static str) {
        let mut state = self.state.lock().unwrap();
        let place = state.seen.len();
        state.seen.push(name);
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |calls| calls.held.contains(&place)).unwrap());
    }
}

/// Passes calls to the store that is inside, as they are.
trait Around {
    fn tables(&mut self) -> &mut Memory;

    fn pass<T>(&mut self, _: &str, work: impl FnOnce(&mut Memory) -> Result<T>) -> Result<T> {
        work(self.tables())
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
        self.1.pass(name);
        let answer = work(&mut self.0);
        if let Some(after) = &self.1.after {
            after(name);
        }
        answer
    }
}

impl<S: Store + Clone + 'static> crate::store::Sealed for Gated<S> {}

impl<S: Store + Clone + 'static> Store for Gated<S> {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self(self.0.clone(), self.1.clone())))
    }

    crate::forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming zoned rezone change advance backfill
        insert_occurrence records overview prune named promote create_schedules
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
        Self::with(1)
    }

    /// With so many connections.
    fn with(connections: usize) -> Self {
        let tables = Memory::new(&tourbillon::Timer::global());
        Self::on(tables, Gate::default(), connections)
    }

    fn on(tables: Memory, gate: Gate, connections: usize) -> Self {
        let gate = Arc::new(gate);
        let store = || Box::new(Gated(tables.clone(), gate.clone())) as Box<dyn Store>;
        let stores = (0..connections).map(|_| store()).collect();
        let client = Client::start(stores, None).unwrap();
        Self { client, gate, tables }
    }

    /// Closes the gate and begins a call, which waits there.
    fn hold_up(&self) -> Pin<Box<impl Future<Output = Result<Time>>>> {
        self.gate.close();
        let mut call = Box::pin(self.client.now());
        begin(call.as_mut());
        self.gate.wait();
        call
    }

    /// Returns the calls that have come once this one, and another after it, are answered.
    fn seen_after(&self, call: impl Future<Output = Result<Time>>) -> Vec<&'static str> {
        block_on(call).unwrap();
        block_on(self.client.nodes()).unwrap();
        self.gate.seen()
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
    let first = scene.hold_up();
    begin(pin!(scene.client.cancel(id)).as_mut());
    begin(pin!(scene.client.once("mail", Time::NEVER).create()).as_mut());
    scene.gate.open();
    assert_eq!(scene.seen_after(first), ["now", "nodes"]);
    assert_eq!(scene.timers(), [id]);
}

#[test]
fn new_schedules_that_wait_at_the_same_time_are_made_together() {
    let scene = Scene::new();
    let upsert =
        |name: &str| scene.client.every(name, Schedule::every(Duration::from_secs(3_600))).upsert();
    assert_eq!(block_on(upsert("old")).unwrap(), Upsert::Created);
    let first = scene.hold_up();
    let (mut one, mut old, mut two) =
        (pin!(upsert("one")), pin!(upsert("old")), pin!(upsert("two")));
    begin(one.as_mut());
    begin(old.as_mut());
    begin(pin!(upsert("left")).as_mut());
    begin(two.as_mut());
    scene.gate.open();
    block_on(first).unwrap();
    assert_eq!(
        [block_on(one).unwrap(), block_on(two).unwrap()],
        [Upsert::Created, Upsert::Created]
    );
    assert_eq!(block_on(old).unwrap(), Upsert::Unchanged);
    assert_eq!(scene.gate.seen(), ["now", "now", "create_schedules", "schedule", "confirm"]);
    assert_eq!(scene.tables.clone().schedule("left").unwrap().1, None);
}

#[test]
fn of_inserts_that_go_together_those_without_a_caller_are_not_sent() {
    let scene = Scene::new();
    let _first = scene.hold_up();
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
    let first = scene.hold_up();
    let hasty = scene.client.clone().with_deadline(SHORT);
    assert_eq!(kind(block_on(hasty.cancel(id))), StoreErrorKind::Unavailable);
    let insert = hasty.once("mail", Time::NEVER).create();
    assert_eq!(kind(block_on(insert)), StoreErrorKind::Unavailable);
    scene.gate.open();
    // The clone that it was set of keeps its own.
    assert_eq!(scene.seen_after(first), ["now", "nodes"]);
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
    let _first = scene.hold_up();
    let mut calls = ["a", "b", "a"].map(|name| Box::pin(scene.client.named(name)));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.open();
    for call in calls {
        assert_eq!(block_on(call).unwrap().1, Named::default());
    }
    assert_eq!(scene.gate.seen(), ["now", "named"]);
}

#[test]
fn inserts_that_wait_go_together_and_each_that_looks_gets_the_rows_of_its_name() {
    let scene = Scene::new();
    let _first = scene.hold_up();
    let once = |name: &str| scene.client.once("mail", Time::NEVER).name(name);
    let mut plain = pin!(once("a").create());
    let mut looks = ["b", "c", "b"].map(|name| Box::pin(once(name).create_and_look()));
    begin(looks[0].as_mut());
    begin(plain.as_mut());
    begin(pin!(once("left").create_and_look()).as_mut());
    looks[1..].iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.open();
    let [b, c, second] = looks.map(|call| block_on(call).unwrap());
    let id = |(_, (_, named)): &(Created, (Time, Named))| named.timer.as_ref().unwrap().new.id;
    assert_eq!((b.0, c.0), (Created::Created(id(&b)), Created::Created(id(&c))));
    assert_eq!((second.0, id(&second)), (Created::Exists(id(&b)), id(&b)));
    assert!(matches!(block_on(plain).unwrap(), Created::Created(_)));
    // The clock is read for the first call, and for a notice.
    let seen = scene.gate.seen().into_iter().filter(|name| *name != "now");
    assert_eq!(seen.collect::<Vec<_>>(), ["insert", "named"]);
    assert_eq!(scene.timers().len(), 3);
}

#[test]
fn callers_that_wait_are_confirmed_by_one_call() {
    let scene = Scene::new();
    let _first = scene.hold_up();
    let mut calls: [_; 3] = std::array::from_fn(|_| Box::pin(scene.client.confirm()));
    calls.iter_mut().for_each(|call| begin(call.as_mut()));
    scene.gate.open();
    calls.into_iter().for_each(|call| block_on(call).unwrap());
    assert_eq!(scene.gate.seen(), ["now", "confirm"]);
}

#[test]
fn what_waits_to_be_inserted_goes_together_while_other_threads_read() {
    let scene = Scene::with(2);
    scene.gate.hold(0..1);
    let mut calls: [_; 4] = std::array::from_fn(|n| {
        Box::pin(scene.client.once("mail", Time::NEVER).name(format!("{n}")).create())
    });
    begin(calls[0].as_mut());
    scene.gate.wait();
    calls[1..].iter_mut().for_each(|call| begin(call.as_mut()));
    // The other thread leaves the inserts alone, and takes this.
    block_on(scene.client.nodes()).unwrap();
    assert_eq!(scene.gate.seen(), ["insert", "nodes"]);
    scene.gate.open();
    for call in calls {
        assert!(matches!(block_on(call).unwrap(), Created::Created(_)));
    }
    let inserts = scene.gate.seen().iter().filter(|name| **name == "insert").count();
    assert_eq!(inserts, 2, "those that waited went together");
}

#[test]
fn a_write_that_was_left_comes_before_a_later_one_whatever_the_connections() {
    let scene = Scene::with(3);
    let id = scene.timer();
    let now = scene.tables.clone().now().unwrap();
    let at = |hour: u64| now + Duration::from_secs(hour * 3_600);
    scene.gate.hold(0..1);
    let mut first = Box::pin(scene.client.reschedule(id, at(1)));
    begin(first.as_mut());
    scene.gate.wait();
    drop(first);
    let mut second = pin!(scene.client.reschedule(id, at(2)));
    begin(second.as_mut());
    // A read overtakes both. On any other thread the second write would have come before it.
    block_on(scene.client.now()).unwrap();
    assert_eq!(scene.gate.seen(), ["reschedule", "now"]);
    scene.gate.open();
    assert_eq!(block_on(second).unwrap(), TimerUpdate::Done);
    let due = scene.tables.clone().timers(&TimerQuery::new()).unwrap()[0].new.due;
    assert_eq!(due, at(2));
}

#[test]
fn a_cancel_finds_what_was_inserted_for_a_caller_who_left() {
    let scene = Scene::with(3);
    let id = TimerId::new(Time::NEVER);
    scene.gate.hold(0..1);
    let mut create = Box::pin(scene.client.once("mail", Time::NEVER).id(id).create());
    begin(create.as_mut());
    scene.gate.wait();
    drop(create);
    let mut cancel = pin!(scene.client.cancel(id));
    begin(cancel.as_mut());
    block_on(scene.client.now()).unwrap();
    assert_eq!(scene.gate.seen(), ["insert", "now"]);
    scene.gate.open();
    assert_eq!(block_on(cancel).unwrap(), TimerUpdate::Done);
    assert_eq!(scene.timers(), []);
}

#[test]
fn a_write_does_not_wait_for_the_notice_of_an_insert() {
    let scene = Scene::with(2);
    // After the insert the clock is read, to see whether a notice is needed.
    scene.gate.hold(1..2);
    block_on(scene.client.once("mail", Time::NEVER).create()).unwrap();
    scene.gate.wait_for(2);
    assert_eq!(scene.gate.seen(), ["insert", "now"]);
    block_on(scene.client.once("mail", Time::NEVER).create()).unwrap();
    scene.gate.open();
}
