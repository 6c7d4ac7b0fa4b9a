//! Random requests about one key, on a clock that the test moves: every acknowledged definition
//! that was not taken back is called, or has a record that says why not; and nothing else is
//! called.
//!
//! Each run is decided by its seed. `PROMISE_SEEDS=FIRST..END` runs others.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::{Value, json};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_durable::store::calls::{Advance, Scan, UpcomingQuery};
use tourbillon_durable::store::{End, How, Memory, NewTimer, Sqlite, Store, Timer as Row};
use tourbillon_durable::{Lease, NodeId, Outcome, Reason, Shards, Time};
use tourbillond::model::{self, Stored};

use super::{Answer, Api, SCHEDULES, one, open};

/// Requests of one run.
const STEPS: usize = 80;

const HOUR: Duration = Duration::from_secs(3_600);

/// Span that nothing outlives.
const YEARS: Duration = Duration::from_secs(20 * 366 * 86_400);

/// Definition that was acknowledged under the key, and not taken back.
#[derive(Clone, Debug)]
enum Live {
    Once { run: String, body: String, due: Time, enabled: bool },
    Every { body: String, enabled: bool },
}

impl Live {
    fn body(&self) -> &str {
        match self {
            Self::Once { body, .. } | Self::Every { body, .. } => body,
        }
    }

    fn enabled(&mut self) -> &mut bool {
        match self {
            Self::Once { enabled, .. } | Self::Every { enabled, .. } => enabled,
        }
    }

    fn is_once(&self) -> bool {
        matches!(self, Self::Once { .. })
    }
}

/// Promises of the answers, and nothing that was read from the store.
#[derive(Debug, Default)]
struct Promised {
    live: Option<Live>,
    /// The body of the one-shot that the key is used up by, and its run.
    over: Option<(String, String)>,
    /// Runs of a schedule that were made by a request and are not called yet, with their bodies.
    fired: BTreeMap<String, String>,
    /// Runs that died: whether of the one-shot, and the key's incarnation.
    dead: Vec<(String, bool, u32, String)>,
    /// Runs that were taken back.
    gone: Vec<String>,
    called: Vec<String>,
    incarnation: u32,
}

struct World {
    api: Api,
    clock: VirtualClock,
    node: Box<dyn Store>,
    lease: Lease,
    rng: fastrand::Rng,
    start: Time,
    promised: Promised,
    log: Vec<String>,
}

/// A definition, and whether it happens once.
fn definition(number: u64, start: Time) -> (Value, String, Option<Time>) {
    let body = format!("body {number}");
    let at = start + HOUR * u32::try_from(number + 1).unwrap();
    let when = match number {
        0..4 => json!({ "at": model::rfc3339(at) }),
        _ => json!({ "every": "1h" }),
    };
    let definition = json!({
        "when": when,
        "callback": { "url": "https://hooks.example.com/x", "body": body },
        "retry": { "attempts": 1, "first": "1s", "longest": "1s" },
    });
    (definition, body, (number < 4).then_some(at))
}

impl World {
    async fn new(seed: u64, store: impl FnOnce(&Timer) -> Box<dyn Store>) -> Self {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        let store = store(&timer);
        let mut node = store.connect().unwrap();
        let api = Api::with(store, open());
        // The test is the only node: what happens is decided by the seed alone.
        api.service.stop().await;
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        node.join(lease, YEARS).unwrap().unwrap();
        let start = node.now().unwrap();
        let rng = fastrand::Rng::with_seed(seed);
        let (promised, log) = (Promised::default(), Vec::new());
        Self { api, clock, node, lease, rng, start, promised, log }
    }

    async fn step(&mut self) {
        match self.rng.u32(..100) {
            0..16 => self.create().await,
            16..32 => self.put().await,
            32..40 => self.switch(false).await,
            40..49 => self.switch(true).await,
            49..59 => self.delete().await,
            59..69 => self.fire().await,
            69..77 => self.retry().await,
            _ => {
                let span = Duration::from_secs(self.rng.u64(..5_400));
                self.pass(span);
            }
        }
    }

    fn note(&mut self, what: &str, answer: &Answer) {
        self.log.push(format!("{what}: {} {}", answer.status.as_u16(), answer.body));
    }

    async fn create(&mut self) {
        let (mut asked, body, at) = definition(self.rng.u64(..6), self.start);
        asked["key"] = "k".into();
        let answer = self.api.post(SCHEDULES, asked).await;
        self.note(&format!("create {body}"), &answer);
        let Promised { live, over, .. } = &self.promised;
        let expected = match (live, over) {
            (Some(live), _) if live.body() == body => 200,
            (None, Some((known, _))) if *known == body => 200,
            (None, None) => 201,
            _ => 409,
        };
        let shown = answer.expect(expected);
        if expected == 201 {
            self.made(&shown, body, at);
        } else if expected == 200 {
            let run = self.promised.over.as_ref().map(|(_, run)| run.clone());
            assert!(run.is_none_or(|run| shown["id"] == run), "{shown}");
        }
    }

    async fn put(&mut self) {
        let (asked, body, at) = definition(self.rng.u64(..6), self.start);
        let tag = self.api.get(&one("k")).await.headers.get("etag").cloned();
        let request = Request::put(one("k")).header("content-type", "application/json");
        let request = match tag.filter(|_| self.rng.bool()) {
            Some(tag) => request.header("if-match", tag),
            None => request,
        };
        let answer = self.api.send(request.body(Body::from(asked.to_string())).unwrap()).await;
        self.note(&format!("put {body}"), &answer);
        let Promised { live, over, .. } = &self.promised;
        let expected = match (live, over) {
            (Some(live), _) if live.is_once() == at.is_some() => 200,
            (None, Some((known, _))) if *known == body => 200,
            (None, None) => 201,
            _ => 409,
        };
        let shown = answer.expect(expected);
        if expected == 201 || expected == 200 && self.promised.live.is_some() {
            self.made(&shown, body, at);
        }
    }

    /// Takes note of a definition that is in force.
    fn made(&mut self, shown: &Value, body: String, at: Option<Time>) {
        if self.promised.live.is_none() {
            self.promised.incarnation += 1;
        }
        let enabled = true;
        self.promised.live = Some(match at {
            Some(at) => {
                let run = shown["id"].as_str().unwrap().to_owned();
                assert!(!self.promised.called.contains(&run), "{run} was called before");
                assert!(!self.promised.gone.contains(&run), "{run} was taken back before");
                Live::Once { run, body, due: at, enabled }
            }
            None => {
                // What was never claimed has the new definition.
                self.promised.fired.values_mut().for_each(|fired| fired.clone_from(&body));
                Live::Every { body, enabled }
            }
        });
    }

    async fn switch(&mut self, on: bool) {
        let to = if on { "enable" } else { "disable" };
        let answer = self.api.post(&one(&format!("k/{to}")), json!(null)).await;
        self.note(to, &answer);
        let Promised { live, over, .. } = &mut self.promised;
        let Some(live) = live else {
            answer.expect(if over.is_some() { 409 } else { 404 });
            return;
        };
        answer.expect(200);
        let was = std::mem::replace(live.enabled(), on);
        let number = live.body().strip_prefix("body ").unwrap().parse().unwrap();
        if let (Live::Once { due, .. }, true) = (live, on && !was) {
            *due = definition(number, self.start).2.unwrap();
        }
        if !on {
            self.take_back();
        }
    }

    fn take_back(&mut self) {
        let fired = std::mem::take(&mut self.promised.fired);
        self.promised.gone.extend(fired.into_keys());
    }

    async fn delete(&mut self) {
        let answer = self.api.delete(&one("k")).await;
        self.note("delete", &answer);
        let (live, over) = (self.promised.live.take(), self.promised.over.take());
        answer.expect(if live.is_some() || over.is_some() { 200 } else { 404 });
        if let Some(Live::Once { run, .. }) = live {
            self.promised.gone.push(run);
        }
        self.take_back();
        self.promised.incarnation += 1;
        self.api.get(&one("k")).await.expect(404);
    }

    async fn fire(&mut self) {
        let answer = self.api.post(&one("k/run-now"), json!(null)).await;
        self.note("run-now", &answer);
        let now = self.node.now().unwrap();
        let Promised { live, over, fired, .. } = &mut self.promised;
        let Some(live) = live else {
            answer.expect(if over.is_some() { 409 } else { 404 });
            return;
        };
        if !*live.enabled() {
            answer.expect(409);
            return;
        }
        let id = answer.expect(200)["id"].as_str().unwrap().to_owned();
        match live {
            Live::Once { run, due, .. } => {
                assert_eq!(*run, id);
                *due = now;
            }
            Live::Every { body, .. } => _ = fired.insert(id, body.clone()),
        }
    }

    async fn retry(&mut self) {
        if self.promised.dead.is_empty() {
            return;
        }
        let place = self.rng.usize(..self.promised.dead.len());
        let (dead, is_once, incarnation, body) = self.promised.dead[place].clone();
        let path = format!("/v1/apps/default/runs/{dead}/retry");
        let answer = self.api.post(&path, json!(null)).await;
        self.note(&format!("retry {dead}"), &answer);
        let now = self.node.now().unwrap();
        let promised = &mut self.promised;
        let is_refused = answer.status == 409;
        if incarnation != promised.incarnation {
            // A repeat may name its earlier run, which was called.
            let is_repeat = promised.called.iter().any(|run| answer.body["id"] == **run);
            assert!(is_refused || is_repeat, "its key was deleted since: {answer:?}");
            return;
        }
        if is_refused {
            // It was made again before, or it is not to run now.
            let is_off = promised.live.as_mut().is_some_and(|live| !*live.enabled());
            assert!(is_off || !promised.gone.is_empty(), "{answer:?}");
            return;
        }
        let id = answer.expect(200)["id"].as_str().unwrap().to_owned();
        assert!(!promised.gone.contains(&id), "{id} was taken back, and is not called");
        if promised.called.contains(&id) {
            return;
        }
        if is_once {
            let again = Live::Once { run: id, body, due: now, enabled: true };
            if promised.live.is_none() {
                (promised.live, promised.over) = (Some(again), None);
            }
        } else {
            promised.fired.insert(id, body);
        }
    }

    /// Lets time pass, in which everything is called that is due.
    fn pass(&mut self, span: Duration) {
        let before = self.node.now().unwrap();
        self.clock.advance(span);
        let now = self.node.now().unwrap();
        self.log.push(format!("pass {span:?}"));
        let mut calls = Vec::new();
        while self.plan() || self.claim(now, &mut calls) {}
        let promised = &mut self.promised;
        let mut occurrences = 0;
        for (row, outcome) in calls {
            let (run, body) = (row.new.id.to_string(), body(&row));
            assert!(row.new.due <= now, "{run} is early");
            assert!(!promised.gone.contains(&run), "{run} was taken back, and is called");
            promised.called.push(run.clone());
            let is_once = row.new.schedule.is_none();
            if outcome == Outcome::Dead {
                let incarnation = promised.incarnation;
                promised.dead.push((run.clone(), is_once, incarnation, body.clone()));
            }
            if let Some(fired) = promised.fired.remove(&run) {
                assert_eq!(fired, body);
                continue;
            }
            match &promised.live {
                Some(Live::Once { run: own, body: asked, due, enabled: true }) if is_once => {
                    assert_eq!((own, asked), (&run, &body));
                    assert!(*due <= now, "{run} is called before its time");
                    promised.over = Some((body, run));
                    promised.live = None;
                }
                Some(Live::Every { enabled: true, .. }) if !is_once => occurrences += 1,
                live => panic!("{run} is called, and there is {live:?}"),
            }
        }
        match &promised.live {
            Some(Live::Once { run, due, enabled: true, .. }) => {
                assert!(*due > now, "{run} is due and was not called");
            }
            Some(Live::Every { enabled: true, .. }) => {
                let hour = |time: Time| time.as_micros().div_euclid(3_600_000_000);
                assert_eq!(occurrences, hour(now) - hour(before), "occurrences of the schedule");
            }
            _ => {}
        }
        assert!(promised.fired.is_empty(), "{:?} were not called", promised.fired);
    }

    /// Makes timers of due occurrences, like any node.
    fn plan(&mut self) -> bool {
        let upcoming = self.node.upcoming(&UpcomingQuery::new(Duration::ZERO, 10)).unwrap();
        for (row, _) in &upcoming.schedules {
            let at = row.next.unwrap();
            let rule = row.rule().unwrap();
            let timer = NewTimer::occurrence(row, &rule.policies, at);
            let advance = Advance {
                schedule: row.id,
                version: row.version,
                from: at,
                next: rule.schedule.next_after(at),
                wall: None,
                timers: &[timer],
                skipped: &[],
                only_idle: false,
            };
            self.node.advance(&advance).unwrap();
        }
        !upcoming.schedules.is_empty()
    }

    /// Claims due timers, and ends them.
    fn claim(&mut self, now: Time, calls: &mut Vec<(Row, Outcome)>) -> bool {
        let kinds = ["http.default".to_owned()];
        let (ahead, shards) = (Duration::ZERO, Shards::ALL);
        let scan = Scan {
            ahead,
            back: None,
            shards,
            grace: None,
            kinds: &kinds,
            kind_limit: 1_000,
            pulse: None,
        };
        let window = self.node.scan(&scan).unwrap();
        let mut ids: Vec<_> = window.timers.iter().map(|waiting| waiting.id).collect();
        ids.sort();
        let claimed = self.node.claim(self.lease, &ids).unwrap();
        // Runs of one moment share their fate, because the seed does not decide their order.
        let outcome = if self.rng.u32(..3) == 0 { Outcome::Dead } else { Outcome::Succeeded };
        let reason = (outcome == Outcome::Dead).then_some(Reason::Failed);
        for row in &claimed.timers {
            let detail = detail(row);
            let how = How::Done(outcome, reason, detail);
            let end = End { timer: row.new.id, attempt: row.attempt, how };
            self.node.finish(self.lease, &[end]).unwrap();
        }
        assert!(claimed.now >= now);
        calls.extend(claimed.timers.iter().cloned().map(|row| (row, outcome)));
        !claimed.timers.is_empty()
    }

    /// Every run that was acknowledged is called or has a record that says why not.
    async fn check_end(&mut self) {
        self.pass(HOUR * 9);
        let Promised { called, gone, .. } = &self.promised;
        for run in called.iter().chain(gone) {
            let path = format!("/v1/apps/default/runs/{run}");
            let answer = self.api.call(Method::GET, &path, json!(null)).await;
            let shown = answer.expect(200);
            let state = shown["state"].as_str().unwrap().to_owned();
            let expected: &[&str] =
                if called.contains(run) { &["succeeded", "dead"] } else { &["cancelled"] };
            assert!(expected.contains(&state.as_str()), "{shown}");
        }
    }
}

fn stored(row: &Row) -> Stored {
    serde_json::from_slice(&row.new.payload).unwrap()
}

fn body(row: &Row) -> String {
    stored(row).definition.callback.body
}

/// Returns the detail that the last attempt at it leaves.
fn detail(row: &Row) -> String {
    tourbillond::callback::ended("", &stored(row).definition)
}

async fn run(seed: u64, store: impl FnOnce(&Timer) -> Box<dyn Store>) {
    struct Seed(u64);
    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("PROMISE_SEEDS={}..{}", self.0, self.0 + 1);
            }
        }
    }
    let _seed = Seed(seed);
    let mut world = World::new(seed, store).await;
    for _ in 0..STEPS {
        world.step().await;
    }
    world.check_end().await;
}

fn seeds(default: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("PROMISE_SEEDS") else { return default };
    let ends = text.split_once("..").map(|(first, end)| (first.parse(), end.parse()));
    let Some((Ok(first), Ok(end))) = ends else { panic!("PROMISE_SEEDS={text}") };
    first..end
}

#[tokio::test]
async fn what_was_acknowledged_is_called_or_recorded() {
    for seed in seeds(0..100) {
        run(seed, |timer| Box::new(Memory::new(timer))).await;
    }
}

#[tokio::test]
async fn what_was_acknowledged_is_called_or_recorded_on_sqlite() {
    for seed in seeds(0..4) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("timers.db");
        run(seed, |timer| Box::new(Sqlite::with_clock(path, timer).unwrap())).await;
    }
}
