//! Writes that another request comes after before they are answered.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tourbillon_durable::store::calls::{Change, Reschedule};
use tourbillon_durable::store::{Memory, ScheduleQuery, ScheduleRow};
use tourbillon_durable::{ScheduleId, Store, Time, TimerId};

use crate::catalog::Error;
use crate::config::Config;
use crate::model::{self, Schedule};
use crate::service::Service;
use crate::watched::{Side, Watched};

/// Change by another client.
type Other = Box<dyn FnOnce(&mut Memory) + Send>;

#[derive(Default)]
struct Race {
    /// Change that comes right after the next write.
    other: Option<Other>,
    /// Call that it comes right after instead.
    after: Option<&'static str>,
    has_written: bool,
    looks: usize,
}

impl Race {
    /// Lets another client come between a write and the look that follows it.
    fn watch(&mut self, side: Side, name: &'static str, store: &mut Memory) {
        let comes = match side {
            Side::Before if name == "named" => {
                self.looks += 1;
                std::mem::take(&mut self.has_written) && self.after.is_none()
            }
            Side::Before => {
                self.has_written |= ["insert", "change", "reschedule"].contains(&name);
                false
            }
            Side::After => self.after == Some(name),
        };
        if let Some(other) = self.other.take_if(|_| comes) {
            other(store);
        }
    }
}

/// Gives the schedule or one-shot of this name another payload, and so another version.
fn change(store: &mut Memory, name: &str) {
    if let Some(timer) = store.find(name).unwrap() {
        rewrite(store, timer.new.id, timer.new.scheduled_for + Duration::from_secs(1), b"{}");
        return;
    }
    let mut row = store.schedule(name).unwrap().1.unwrap();
    row.payload = b"{}".to_vec();
    replace(store, name, Some(row.version), Some(&row));
}

/// Gives a timer another time and payload.
fn rewrite(store: &mut Memory, timer: TimerId, at: Time, payload: &[u8]) {
    let payload = Some(payload);
    store.reschedule(&Reschedule { payload, ..Reschedule::new(timer, at) }).unwrap();
}

/// Deletes the schedule or one-shot of this name.
fn delete(store: &mut Memory, name: &str) {
    if let Some(timer) = store.find(name).unwrap() {
        store.cancel(timer.new.id).unwrap();
        return;
    }
    let row = store.schedule(name).unwrap().1.unwrap();
    replace(store, name, Some(row.version), None);
}

/// Deletes the schedule of this name, and makes another of the same name.
fn make_anew(store: &mut Memory, name: &str) {
    let mut row = store.schedule(name).unwrap().1.unwrap();
    replace(store, name, Some(row.version), None);
    (row.id, row.payload, row.version) = (ScheduleId::new(Time::default()), b"{}".to_vec(), 1);
    replace(store, name, None, Some(&row));
}

fn replace(store: &mut Memory, name: &str, expect: Option<u64>, row: Option<&ScheduleRow>) {
    store.change(&Change { name, expect, row, withdraw: None, skipped: &[] }).unwrap();
}

struct Bench {
    service: Arc<Service>,
    race: Arc<Mutex<Race>>,
}

impl Bench {
    fn new() -> Self {
        let (timer, race) = (tourbillon::Timer::global(), Arc::<Mutex<Race>>::default());
        let watched = Arc::clone(&race);
        let store = Watched::store(Memory::new(&timer), move |side, name, store| {
            watched.lock().unwrap().watch(side, name, store);
            Ok(())
        });
        let mut config = Config::default();
        config.apps.insert("a".to_owned(), Default::default());
        Self { service: Service::start(store, config, &timer).unwrap(), race }
    }

    /// Lets another client come right after a call.
    fn race(&self, after: &'static str, other: impl FnOnce(&mut Memory) + Send + 'static) {
        let mut race = self.race.lock().unwrap();
        race.after = Some(after);
        race.other = Some(Box::new(other));
    }

    /// Fails if the other client has not come.
    #[track_caller]
    fn has_raced(&self) {
        assert!(self.race.lock().unwrap().other.is_none());
    }

    /// Puts a definition of the version `expect`, right before this change by another client.
    async fn put(
        &self,
        (key, when, expect): (&str, &str, Option<u64>),
        other: Option<fn(&mut Memory, &str)>,
    ) -> crate::catalog::error::Result<Schedule> {
        let json = format!(r#"{{"when": {when}, "callback": {{"url": "https://example.com/"}}}}"#);
        let name = model::name("a", key);
        let other = other.map(|other| -> Other { Box::new(move |store| other(store, &name)) });
        self.race.lock().unwrap().other = other;
        let definition = serde_json::from_str(&json).unwrap();
        Ok(self.service.catalog.put("a", key, definition, expect).await?.1)
    }
}

const KINDS: [(&str, &str, &str); 2] = [
    ("r", r#"{"every": "1h"}"#, r#"{"every": "2h"}"#),
    ("k", r#"{"at": "2199-01-01T00:00:00Z"}"#, r#"{"at": "2199-01-02T00:00:00Z"}"#),
];

fn when(schedule: &Schedule) -> String {
    serde_json::to_string(&schedule.when).unwrap()
}

#[tokio::test]
async fn a_write_that_another_follows_is_answered_with_its_own_version() {
    for (key, first, second) in KINDS {
        let bench = Bench::new();
        let second_text = second.replace(": ", ":");
        let made = bench.put((key, first, None), Some(change)).await.unwrap();
        assert_eq!((made.version, when(&made)), (1, first.replace(": ", ":")));
        // The answer does not let its client overwrite an unseen change.
        let late = bench.put((key, second, Some(made.version)), None).await;
        assert!(matches!(late, Err(Error::Stale)), "{key}");
        let put = bench.put((key, second, Some(2)), Some(change)).await.unwrap();
        assert_eq!((put.version, when(&put)), (3, second_text.clone()));
        let put = bench.put((key, first, Some(4)), None).await.unwrap();
        assert_eq!((put.version, when(&put)), (5, first.replace(": ", ":")));
        let put = bench.put((key, second, Some(5)), Some(delete)).await.unwrap();
        assert_eq!((put.version, when(&put)), (6, second_text));
        bench.service.stop().await;
    }
}

#[tokio::test]
async fn a_new_schedule_that_another_deletes_at_once_is_said_to_be_contended() {
    for (key, first, _) in KINDS {
        let bench = Bench::new();
        let made = bench.put((key, first, None), Some(delete)).await;
        assert!(matches!(made, Err(Error::Conflict(_))), "{key}");
        bench.service.stop().await;
    }
    // The version of another is not taken for its own.
    let bench = Bench::new();
    let made = bench.put(("r", KINDS[0].1, None), Some(make_anew)).await;
    assert!(matches!(made, Err(Error::Conflict(_))));
    bench.service.stop().await;
}

#[tokio::test]
async fn a_schedule_that_is_put_while_its_key_is_deleted_has_its_watch() {
    // Its watch is written before the schedule: before the delete looks at it, or after.
    for is_late in [true, false] {
        let bench = Bench::new();
        let notify = r#""notify": {"url": "https://example.com/"}"#;
        let watched = format!(r#"{{"every": "1h"}}, "success_within": "2h", {notify}"#);
        bench.put(("r", &watched, None), None).await.unwrap();
        let catalog = &bench.service.catalog;
        let rows = bench.service.reader.schedules(ScheduleQuery::new()).await.unwrap();
        let mut row = rows.into_iter().next().unwrap();
        bench.race("schedules", move |store| {
            if is_late {
                let watch = store.find("watch:a/r").unwrap().unwrap().new;
                rewrite(store, watch.id, watch.due, &watch.payload);
            }
            (row.id, row.version) = (ScheduleId::new(Time::default()), 1);
            replace(store, "a/r", None, Some(&row));
        });
        catalog.remove("a", "r").await.unwrap();
        bench.has_raced();
        assert!(catalog.watch("a", "r").await.unwrap().is_some(), "{is_late}");
        bench.service.stop().await;
    }
}

const TWO_HOURS: Duration = Duration::from_secs(7_200);

/// Writes into the watch of `a/r` that a success within two hours is awaited from this time on.
fn await_from(store: &mut Memory, since: Time) {
    let watch = store.find("watch:a/r").unwrap().unwrap().new;
    let mut state: serde_json::Value = serde_json::from_slice(&watch.payload).unwrap();
    state["since_us"] = since.as_micros().into();
    rewrite(store, watch.id, since + TWO_HOURS, state.to_string().as_bytes());
}

/// Ends the pause of `a/r` at this time, like a request that enables it.
fn enable(store: &mut Memory, now: Time) {
    await_from(store, now);
    let mut row = store.schedule("a/r").unwrap().1.unwrap();
    row.paused = None;
    replace(store, "a/r", Some(row.version), Some(&row));
}

/// Writes the watch of a paused schedule, like the request that has paused it.
fn follow(store: &mut Memory, name: &str) {
    let until = store.schedule(name).unwrap().1.unwrap().paused.unwrap();
    await_from(store, until);
}

/// Deletes `a/r` at this time, and ends its watch.
fn remove(store: &mut Memory, now: Time) {
    delete(store, "a/r");
    await_from(store, now);
}

#[tokio::test]
async fn the_watch_of_a_pause_that_another_request_ends_or_begins_follows_the_schedule() {
    let notify = r#""notify": {"url": "https://example.com/"}"#;
    let watched =
        |every: &str| format!(r#"{{"every": "{every}"}}, "success_within": "2h", {notify}"#);
    let bench = Bench::new();
    let catalog = &bench.service.catalog;
    let now = async || bench.service.client.now().await.unwrap();
    let due = async || catalog.watch("a", "r").await.unwrap().unwrap().due();
    bench.put(("r", &watched("1h"), None), None).await.unwrap();
    let at = now().await;
    let until = at + 10_000 * TWO_HOURS;
    // The pause is written, and ended before the watch follows it.
    bench.race("change", move |store| enable(store, at));
    catalog.pause("a", "r", until).await.unwrap();
    bench.has_raced();
    assert!(due().await <= now().await + TWO_HOURS);
    // The watch follows a pause that another request is about to end.
    for by_put in [false, true] {
        catalog.pause("a", "r", until).await.unwrap();
        assert_eq!(due().await, until + TWO_HOURS);
        bench.race("reschedule", |store| follow(store, "a/r"));
        if by_put {
            bench.put(("r", &watched("30m"), None), Some(follow)).await.unwrap();
        } else {
            catalog.switch("a", "r", true).await.unwrap();
        }
        bench.has_raced();
        let watch = catalog.watch("a", "r").await.unwrap().unwrap();
        assert!(watch.due() <= now().await + TWO_HOURS, "{by_put}");
        // It has waited for long, and no notice says so.
        assert!(!watch.is_notified(now().await));
    }
    // The schedule is deleted before the watch follows.
    bench.race("change", move |store| remove(store, at));
    catalog.pause("a", "r", until).await.unwrap();
    bench.has_raced();
    assert!(due().await <= now().await + TWO_HOURS);
    bench.service.stop().await;
}

#[tokio::test]
async fn what_can_be_no_key_is_not_looked_up() {
    let bench = Bench::new();
    for key in ["a\0", "", "a b", "."] {
        let shown = bench.service.catalog.show("a", key).await;
        assert!(matches!(shown, Err(Error::Missing(_))), "{key:?}");
        let removed = bench.service.catalog.remove("a", key).await;
        assert!(matches!(removed, Err(Error::Missing(_))), "{key:?}");
    }
    assert_eq!(bench.race.lock().unwrap().looks, 0);
    bench.service.stop().await;
}
