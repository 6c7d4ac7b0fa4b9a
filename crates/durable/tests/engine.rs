//! An engine, its workers and its clients, on the store in memory and in real time.

use std::time::{Duration, SystemTime};

use tourbillon::Timer;
use tourbillon_durable::store::{
    Memory, RecordQuery, ScheduleQuery, ScheduleRow, Store, TimerQuery, TimerUpdate,
};
use tourbillon_durable::{
    Client, Created, EndError, Engine, Excluded, Outcome, Overlap, Reason, Retry, Revival, Rule,
    RunNow, Schedule, ScheduleId, ScheduleUpdate, StoreErrorKind, Time, TimerId, Upsert, Worker,
};

fn memory() -> Memory {
    Memory::new(&Timer::global())
}

fn start(store: &Memory) -> Engine {
    let fast = Duration::from_millis(20);
    let builder = Engine::builder()
        .scan(fast)
        .schedule_interval(fast)
        .maintenance_interval(fast)
        .heartbeat(fast);
    builder.start(Box::new(store.clone())).unwrap()
}

/// A node on a store of its own, a client of it, and a worker.
fn with_worker(kind: &str, prefetch: usize) -> (Engine, Client, Worker) {
    let engine = start(&memory());
    let (client, worker) = (engine.client().unwrap(), engine.worker(kind, prefetch));
    (engine, client, worker)
}

fn at(ahead: Duration) -> SystemTime {
    SystemTime::now() + ahead
}

const MOMENT: Duration = Duration::from_millis(30);
const LONG: Duration = Duration::from_secs(600);

/// Gives up on what never comes, so that no test hangs.
async fn limited(test: impl Future<Output = ()>) {
    let limit = Duration::from_secs(120);
    tourbillon::timeout(limit, test).await.expect("the test waits for what does not come");
}

fn run(test: impl Future<Output = ()>) {
    pollster::block_on(limited(test));
}

/// Waits until a record of that kind is there, and returns all.
async fn records(client: &Client, count: usize) -> Vec<tourbillon_durable::Record> {
    loop {
        let records = client.records(RecordQuery::new()).await.unwrap();
        if records.len() >= count {
            return records;
        }
        tourbillon::sleep(Duration::from_millis(5)).await;
    }
}

async fn fires_once_and_never_early() {
    let (engine, client, mut mails) = with_worker("mail", 4);
    let due = at(MOMENT);
    let made = client.once("mail", due).name("inv-42").payload("hi").create().await.unwrap();
    let Created::Created(id) = made else { panic!("{made:?}") };
    let again = client.once("mail", due).name("inv-42").create().await.unwrap();
    assert_eq!(again, Created::Exists(id));

    let fire = mails.next().await.unwrap();
    assert!(SystemTime::now() >= due && fire.claimed() >= fire.due());
    assert_eq!((fire.id(), fire.attempt(), fire.payload()), (id, 1, &b"hi"[..]));
    assert_eq!((fire.name(), fire.scheduled_for()), (Some("inv-42"), due.into()));
    assert_eq!(client.cancel(id).await.unwrap(), TimerUpdate::Running { attempt: 1 });
    fire.complete().await.unwrap();
    let records = client.records(RecordQuery::new()).await.unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].timer, records[0].outcome), (id, Outcome::Succeeded));
    assert_eq!(client.cancel(id).await.unwrap(), TimerUpdate::Gone);
    engine.stop().await;
}

#[test]
fn runs_on_smol() {
    smol::block_on(limited(fires_once_and_never_early()));
}

#[test]
fn runs_on_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(limited(fires_once_and_never_early()));
}

#[test]
fn a_failed_attempt_is_followed_by_another_until_the_last() {
    run(async {
        let (_engine, client, mut mails) = with_worker("mail", 1);
        let retry = Retry::new(2, MOMENT, LONG);
        client.once("mail", at(Duration::ZERO)).retry(retry).create().await.unwrap();
        let first = mails.next().await.unwrap();
        let failed = first.claimed();
        first.fail("rain").await.unwrap();
        let second = mails.next().await.unwrap();
        assert!(second.claimed() >= failed + MOMENT);
        assert_eq!((second.attempt(), second.failures()), (2, 1));
        second.fail("snow").await.unwrap();
        let record = &records(&client, 1).await[0];
        assert_eq!((record.outcome, record.reason), (Outcome::Dead, Some(Reason::Failed)));
        assert_eq!((record.failures, &record.detail[..]), (2, "snow"));

        client.once("mail", at(Duration::ZERO)).create().await.unwrap();
        mails.next().await.unwrap().give_up("moved").await.unwrap();
        let records = records(&client, 2).await;
        assert_eq!(records[1].reason, Some(Reason::GivenUp));
    });
}

#[test]
fn a_postponed_attempt_is_followed_by_another_and_counts_as_no_failure() {
    run(async {
        let (engine, client, mut mails) = with_worker("mail", 1);
        let retry = Retry::NEVER;
        client.once("mail", at(Duration::ZERO)).retry(retry).create().await.unwrap();
        let first = mails.next().await.unwrap();
        let postponed = first.claimed();
        first.postpone(MOMENT).await.unwrap();
        let second = mails.next().await.unwrap();
        assert!(second.claimed() >= postponed + MOMENT);
        assert_eq!((second.attempt(), second.failures()), (2, 0));
        second.complete().await.unwrap();
        assert_eq!((engine.stats().postponed, engine.stats().retried), (1, 0));
    });
}

#[test]
fn an_attempt_finds_what_the_one_before_left() {
    pollster::block_on(async {
        let (_engine, client, mut mails) = with_worker("mail", 1);
        let retry = Retry::new(3, LONG, LONG);
        client.once("mail", at(Duration::ZERO)).retry(retry).create().await.unwrap();
        let first = mails.next().await.unwrap();
        assert_eq!(first.detail(), "");
        let failed = first.claimed();
        first.fail_after("rain\0", MOMENT).await.unwrap();
        let second = mails.next().await.unwrap();
        assert!(second.claimed() >= failed + MOMENT);
        assert_eq!((second.detail(), second.failures()), ("rain\u{fffd}", 1));
        second.complete_with("sun").await.unwrap();
        let record = &records(&client, 1).await[0];
        assert_eq!((record.outcome, &record.detail[..]), (Outcome::Succeeded, "sun"));
    });
}

#[test]
fn what_died_is_made_again_once() {
    pollster::block_on(async {
        let (_engine, client, mut mails) = with_worker("mail", 1);
        let once = client.once("mail", at(Duration::ZERO)).name("inv-42").payload("hi");
        let Created::Created(id) = once.create().await.unwrap() else { panic!() };
        let unknown = client.revive(TimerId::from_bits(7)).await.unwrap();
        assert_eq!((unknown, client.revive(id).await.unwrap()), (Revival::Gone, Revival::NotDead));
        mails.next().await.unwrap().give_up("rain").await.unwrap();
        let Revival::Done(again) = client.revive(id).await.unwrap() else { panic!() };
        let fire = mails.next().await.unwrap();
        assert_eq!((fire.id(), fire.payload(), fire.name()), (again, &b"hi"[..], Some("inv-42")));
        assert_eq!((fire.attempt(), fire.detail()), (1, ""));
        fire.complete().await.unwrap();
        assert_eq!(client.revive(id).await.unwrap(), Revival::Done(again));
        assert_eq!(client.revive(again).await.unwrap(), Revival::NotDead);
        assert_eq!(records(&client, 2).await.len(), 2);
    });
}

#[test]
fn what_died_is_made_again_without_a_name_that_another_has() {
    pollster::block_on(async {
        let (_engine, client, mut mails) = with_worker("mail", 1);
        client.once("mail", at(Duration::ZERO)).name("inv-42").create().await.unwrap();
        let fire = mails.next().await.unwrap();
        let dead = fire.id();
        fire.give_up("rain").await.unwrap();
        client.once("mail", at(LONG)).name("inv-42").create().await.unwrap();
        let Revival::Done(again) = client.revive(dead).await.unwrap() else { panic!() };
        let fire = mails.next().await.unwrap();
        assert_eq!((fire.id(), fire.name()), (again, None));
        assert_eq!(client.revive(dead).await.unwrap(), Revival::Done(again));
    });
}

#[test]
fn what_died_of_a_schedule_is_made_again_by_its_rules() {
    pollster::block_on(async {
        let (_engine, client, mut ticks) = with_worker("t", 2);
        let every = client.every("t", Schedule::every(MOMENT)).overlap(Overlap::Skip);
        every.payload("hi").upsert().await.unwrap();
        let fire = ticks.next().await.unwrap();
        let dead = fire.id();
        fire.give_up("rain").await.unwrap();
        let other = ticks.next().await.unwrap();
        assert_eq!(client.revive(dead).await.unwrap(), Revival::Busy);
        client.disable("t").await.unwrap();
        assert_eq!(client.revive(dead).await.unwrap(), Revival::Disabled);
        other.complete().await.unwrap();

        let every = client.every("t", Schedule::every(LONG * 100_000)).overlap(Overlap::Skip);
        every.enabled(true).upsert().await.unwrap();
        let Revival::Done(again) = client.revive(dead).await.unwrap() else { panic!() };
        let fire = ticks.next().await.unwrap();
        assert_eq!((fire.id(), fire.payload(), fire.name()), (again, &b"hi"[..], Some("t")));
        assert!(fire.schedule().is_some() && fire.scheduled_for() <= fire.claimed());
        fire.give_up("rain").await.unwrap();

        client.remove("t").await.unwrap();
        assert_eq!(client.revive(again).await.unwrap(), Revival::Removed);
        // Nor as an occurrence of another schedule that has its name.
        client.every("t", Schedule::every(LONG * 100_000)).upsert().await.unwrap();
        assert_eq!(client.revive(again).await.unwrap(), Revival::Removed);
    });
}

#[test]
fn an_occurrence_is_made_now_by_the_rules_of_its_schedule() {
    run(async {
        let (_engine, client, mut ticks) = with_worker("t", 9);
        let every = || client.every("t", Schedule::every(LONG * 100_000)).payload("hi");
        let made = async || match client.run_now("t").await.unwrap() {
            RunNow::Done(id) => id,
            other => panic!("{other:?}"),
        };
        assert_eq!(client.run_now("t").await.unwrap(), RunNow::Gone);
        every().upsert().await.unwrap();
        let first = made().await;
        let fire = ticks.next().await.unwrap();
        assert_eq!((fire.id(), fire.payload(), fire.name()), (first, &b"hi"[..], Some("t")));
        assert!(fire.schedule().is_some() && fire.scheduled_for() <= fire.claimed());
        // They may overlap.
        let second = made().await;
        let beside = ticks.next().await.unwrap();
        assert!(first != second && beside.id() == second);
        assert!(beside.scheduled_for() > fire.scheduled_for());
        beside.complete().await.unwrap();

        every().overlap(Overlap::Skip).upsert().await.unwrap();
        assert_eq!(client.run_now("t").await.unwrap(), RunNow::Busy);
        every().overlap(Overlap::Queue { at_most: 1 }).upsert().await.unwrap();
        let queued = made().await;
        assert_eq!(client.run_now("t").await.unwrap(), RunNow::Busy);
        fire.complete().await.unwrap();
        let fire = ticks.next().await.unwrap();
        assert_eq!(fire.id(), queued);

        let running = vec![(queued, 1)];
        assert_eq!(client.disable("t").await.unwrap(), ScheduleUpdate::Done { running });
        assert_eq!(client.run_now("t").await.unwrap(), RunNow::Disabled);
        fire.complete().await.unwrap();
    });
}

#[test]
fn prefetch_bounds_what_is_running() {
    run(async {
        let (engine, client, mut mails) = with_worker("mail", 3);
        for _ in 0..10 {
            client.once("mail", at(Duration::ZERO)).create().await.unwrap();
        }
        let running = |timers: Vec<tourbillon_durable::store::Timer>| {
            timers.iter().filter(|timer| timer.running.is_some()).count()
        };
        for left in (1..=10).rev() {
            let fire = mails.next().await.unwrap();
            tourbillon::sleep(Duration::from_millis(10)).await;
            let count = running(client.timers(TimerQuery::new()).await.unwrap());
            assert!(count <= 3.min(left), "{count} of {left} run");
            fire.complete().await.unwrap();
        }
        assert_eq!(engine.stats().succeeded, 10);
    });
}

#[test]
fn a_schedule_fires_at_each_occurrence() {
    run(async {
        let (_engine, client, mut ticks) = with_worker("tick", 4);
        let every = || client.every("t", Schedule::every(MOMENT * 2)).kind("tick");
        assert_eq!(every().upsert().await.unwrap(), Upsert::Created);
        assert_eq!(every().upsert().await.unwrap(), Upsert::Unchanged);
        let mut last = None;
        for _ in 0..5 {
            let fire = ticks.next().await.unwrap();
            assert!(fire.claimed() >= fire.scheduled_for());
            let period = last.map(|last| fire.scheduled_for().since(last));
            assert!(period.is_none_or(|period| period == MOMENT * 2), "{period:?}");
            assert_eq!(fire.key().to_string(), format!("t@{}", fire.scheduled_for()));
            last = Some(fire.scheduled_for());
            fire.complete().await.unwrap();
        }
        assert!(matches!(every().payload("x").upsert().await.unwrap(), Upsert::Changed { .. }));
        let ScheduleUpdate::Done { .. } = client.disable("t").await.unwrap() else { panic!() };
        assert_eq!(client.disable("t").await.unwrap(), ScheduleUpdate::Unchanged);
        let timers = client.timers(TimerQuery::new()).await.unwrap();
        assert!(timers.iter().all(|timer| timer.running.is_some()), "{timers:?}");
        assert_eq!(client.upcoming("t", 3).await.unwrap(), []);
        assert!(matches!(client.enable("t").await.unwrap(), ScheduleUpdate::Done { .. }));
        assert_eq!(client.upcoming("t", 3).await.unwrap().len(), 3);
        assert!(matches!(client.remove("t").await.unwrap(), ScheduleUpdate::Done { .. }));
        assert_eq!(client.enable("t").await.unwrap(), ScheduleUpdate::Gone);
    });
}

#[test]
fn a_schedule_is_paused_until_an_instant() {
    run(async {
        let client = Client::new(Box::new(memory())).unwrap();
        let every = || client.every("t", Schedule::every(MOMENT));
        let until = client.now().await.unwrap() + LONG;
        assert_eq!(client.pause("t", until).await.unwrap(), ScheduleUpdate::Gone);
        every().upsert().await.unwrap();
        let ScheduleUpdate::Done { .. } = client.pause("t", until).await.unwrap() else { panic!() };
        assert_eq!(client.pause("t", until).await.unwrap(), ScheduleUpdate::Unchanged);
        // An instant that is past takes nothing back.
        let past = until - LONG;
        assert_eq!(client.pause("t", past).await.unwrap(), ScheduleUpdate::Unchanged);
        // One in 60,000 years is that of a schedule on its way to another store.
        let far = until + Duration::from_secs(60_000 * 365 * 86_400);
        let error = client.pause("t", far).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
        let late = client.every("late", Schedule::every(MOMENT).starting_at(far));
        assert_eq!(late.upsert().await.unwrap_err().kind(), StoreErrorKind::Invalid);
        let row = async || client.schedules(ScheduleQuery::new()).await.unwrap().remove(0);
        let paused = row().await;
        assert!(paused.enabled && paused.next >= Some(until), "{paused:?}");
        assert!(paused.next < Some(until + MOMENT) && paused.paused == Some(until), "{paused:?}");
        assert_eq!(client.upcoming("t", 1).await.unwrap(), [paused.next.unwrap()]);
        // A change of anything but its times leaves it paused.
        assert!(matches!(every().payload("x").upsert().await.unwrap(), Upsert::Changed { .. }));
        assert_eq!((row().await.next, row().await.paused), (paused.next, Some(until)));
        let ScheduleUpdate::Done { .. } = client.enable("t").await.unwrap() else { panic!() };
        assert!(row().await.next < Some(until) && row().await.paused.is_none());
        assert_eq!(client.enable("t").await.unwrap(), ScheduleUpdate::Unchanged);
        client.disable("t").await.unwrap();
        assert_eq!(client.pause("t", until).await.unwrap(), ScheduleUpdate::Unchanged);
    });
}

#[test]
fn a_schedule_and_what_is_made_again_run_in_their_lane() {
    run(async {
        let (engine, client, mut blocking) = with_worker("block", 1);
        let mut ticks = engine.worker("t", 2);
        let block = client.once("block", at(Duration::ZERO)).lane("a").create().await.unwrap();
        let Created::Created(block) = block else { panic!("{block:?}") };
        let fire = blocking.next().await.unwrap();
        let every = || client.every("t", Schedule::every(LONG)).retry(Retry::NEVER);
        every().lane("a").upsert().await.unwrap();
        let RunNow::Done(timer) = client.run_now("t").await.unwrap() else { panic!() };
        let row = async || client.timers(TimerQuery::new().timer(timer)).await.unwrap().remove(0);
        assert_eq!(
            (row().await.new.due, row().await.new.lane.as_deref()),
            (Time::NEVER, Some("a"))
        );
        fire.give_up("snow").await.unwrap();
        let tick = ticks.next().await.unwrap();
        assert_eq!((tick.id(), tick.lane()), (timer, Some("a")));
        let Revival::Done(again) = client.revive(block).await.unwrap() else { panic!() };
        let waiting = client.timers(TimerQuery::new().timer(again)).await.unwrap().remove(0);
        assert_eq!(waiting.new.due, Time::NEVER);
        tick.complete().await.unwrap();
        let fire = blocking.next().await.unwrap();
        assert_eq!((fire.id(), fire.lane()), (again, Some("a")));
        // Another lane takes back what waits in the old one.
        let RunNow::Done(timer) = client.run_now("t").await.unwrap() else { panic!() };
        assert!(matches!(every().lane("b").upsert().await.unwrap(), Upsert::Changed { .. }));
        let ended = client.records(RecordQuery::new().timer(timer)).await.unwrap().remove(0);
        assert_eq!(ended.reason, Some(Reason::Replaced));
        fire.complete().await.unwrap();
        engine.stop().await;
    });
}

#[test]
fn a_lane_that_no_store_takes_is_refused() {
    run(async {
        let client = Client::new(Box::new(memory())).unwrap();
        let every = || client.every("t", Schedule::every(LONG));
        let is_invalid = |error: StoreErrorKind| assert_eq!(error, StoreErrorKind::Invalid);
        for lane in ["", "\0", &"x".repeat(201)] {
            let once = client.once("mail", at(LONG)).lane(lane).create().await;
            is_invalid(once.unwrap_err().kind());
            is_invalid(every().lane(lane).upsert().await.unwrap_err().kind());
        }
        let queue = every().overlap(Overlap::Queue { at_most: 3 });
        is_invalid(queue.lane("a").upsert().await.unwrap_err().kind());
    });
}

#[test]
fn a_preview_leaves_out_what_is_excluded() {
    run(async {
        let client = Client::new(Box::new(memory())).unwrap();
        let now = client.now().await.unwrap();
        let times = Schedule::every_from(LONG, now).ending_at(now + LONG * 5);
        let upcoming = async |times: Schedule| {
            client.every("t", times).upsert().await.unwrap();
            client.upcoming("t", 9).await.unwrap()
        };
        let nth = |n: u32| now + LONG * n;
        assert_eq!(upcoming(times.clone()).await, [1, 2, 3, 4, 5].map(nth));
        let half = LONG / 2;
        let skipping = times.clone().excluding(nth(1)..nth(2) + half, Excluded::Skip);
        assert_eq!(upcoming(skipping.clone()).await, [3, 4, 5].map(nth));
        // The next occurrence will be recorded.
        let row = client.schedules(ScheduleQuery::new()).await.unwrap().remove(0);
        assert_eq!(row.next, Some(nth(1)));
        let once = skipping.excluding(nth(4)..nth(4) + half, Excluded::RunAtEnd);
        assert_eq!(upcoming(once.starting_at(nth(2))).await, [nth(3), nth(4) + half, nth(5)]);
    });
}

#[test]
fn a_schedule_changes_only_from_what_is_expected() {
    run(async {
        let store = memory();
        let client = Client::new(Box::new(store)).unwrap();
        let every = || client.every("t", Schedule::every(MOMENT * 2)).kind("tick");
        let row = async || client.schedules(ScheduleQuery::new()).await.unwrap().remove(0);
        assert_eq!(every().expect(Some(1)).upsert().await.unwrap(), Upsert::Stale);
        let made = every().expect(None).enabled(false).upsert().await.unwrap();
        assert_eq!((made, row().await.enabled), (Upsert::Created, false));
        assert_eq!(every().expect(None).upsert().await.unwrap(), Upsert::Stale);
        assert!(matches!(every().payload("x").upsert().await.unwrap(), Upsert::Changed { .. }));
        assert_eq!((row().await.enabled, row().await.version), (false, 2));
        let stale = every().expect(Some(1)).enabled(true).upsert().await.unwrap();
        assert_eq!((stale, row().await.enabled), (Upsert::Stale, false));
        let changed = every().expect(Some(2)).enabled(true).upsert().await.unwrap();
        assert_eq!((changed, row().await.enabled), (Upsert::Changed { claimed: Vec::new() }, true));
        assert!(row().await.next.is_some());
        assert!(matches!(every().enabled(false).upsert().await.unwrap(), Upsert::Changed { .. }));
        assert_eq!((row().await.enabled, client.upcoming("t", 1).await.unwrap()), (false, vec![]));
    });
}

#[test]
fn what_takes_the_times_of_a_schedule_that_cannot_be_read_is_refused() {
    run(async {
        let mut store = memory();
        let now = store.now().unwrap();
        let rule = Rule::from_text("at dawn", "as ever");
        let strange = ScheduleRow::new(ScheduleId::new(now), "strange", "t", rule, Some(now));
        assert_eq!(store.create_schedules(&[strange]).unwrap(), [true]);
        let client = Client::new(Box::new(store)).unwrap();
        let run_now = client.run_now("strange").await.map(drop);
        let upcoming = client.upcoming("strange", 1).await.map(drop);
        client.disable("strange").await.unwrap();
        let enable = client.enable("strange").await.map(drop);
        for error in [run_now, upcoming, enable].map(Result::unwrap_err) {
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
            let why = "the schedule `strange` cannot be read: `at dawn` is not a schedule";
            assert!(error.to_string().ends_with(why), "{error}");
        }
    });
}

#[test]
fn a_schedule_of_another_kind_leaves_nothing_of_the_old_one() {
    run(async {
        let store = memory();
        let engine = start(&store);
        let client = engine.client().unwrap();
        let every = |kind| {
            let every = client.every("t", Schedule::every(MOMENT * 2));
            every.kind(kind).overlap(Overlap::Skip).upsert()
        };
        assert_eq!(every("old").await.unwrap(), Upsert::Created);
        // Due, with no worker of its kind, it keeps all that follow from being made.
        while client.timers(TimerQuery::new()).await.unwrap().is_empty() {
            tourbillon::sleep(MOMENT).await;
        }
        let mut ticks = engine.worker("new", 1);
        assert_eq!(every("new").await.unwrap(), Upsert::Changed { claimed: Vec::new() });
        ticks.next().await.unwrap().complete().await.unwrap();
        ticks.next().await.unwrap().complete().await.unwrap();
    });
}

#[test]
fn a_node_that_is_dropped_leaves_its_timers_to_others() {
    run(async {
        let store = memory();
        let (first, second) = (start(&store), start(&store));
        let client = Client::new(store.connect().unwrap()).unwrap();
        let mut mails = first.worker("mail", 4);
        client.once("mail", at(Duration::ZERO)).create().await.unwrap();
        let fire = mails.next().await.unwrap();
        assert!(fire.is_current());
        drop(first);
        let mut others = second.worker("mail", 4);
        let again = others.next().await.unwrap();
        assert_eq!((again.id(), again.attempt()), (fire.id(), 2));
        assert!(!fire.is_current());
        assert!(matches!(fire.complete().await, Err(EndError::Stopped | EndError::Fenced)));
        again.complete().await.unwrap();
        assert_eq!(records(&client, 1).await.len(), 1);
        assert!(mails.next().await.is_none());
        second.stop().await;
    });
}

#[test]
fn a_stopped_engine_waits_for_what_handlers_have() {
    run(async {
        let (engine, client, mut mails) = with_worker("mail", 2);
        for _ in 0..2 {
            client.once("mail", at(Duration::ZERO)).create().await.unwrap();
        }
        let fire = mails.next().await.unwrap();
        let handler = std::thread::spawn(move || {
            std::thread::sleep(MOMENT);
            pollster::block_on(fire.complete())
        });
        engine.stop().await;
        handler.join().unwrap().unwrap();
        assert!(mails.next().await.is_none());
        let left = client.timers(TimerQuery::new()).await.unwrap();
        assert_eq!((left.len(), left[0].running), (1, None));
    });
}

#[test]
fn what_another_process_inserts_or_moves_waits_for_no_scan() {
    run(async {
        let store = memory();
        let engine = Engine::builder().scan(LONG).start(Box::new(store.clone())).unwrap();
        let mut mails = engine.worker("mail", 4);
        // Without an engine, as in another process.
        let client = Client::new(Box::new(store)).unwrap();
        // The first may be found by the scan that the engine begins with.
        for _ in 0..3 {
            client.once("mail", at(Duration::ZERO)).create().await.unwrap();
            mails.next().await.unwrap().complete().await.unwrap();
        }
        let made = client.once("mail", at(LONG)).create().await.unwrap();
        let Created::Created(id) = made else { panic!("{made:?}") };
        let moved = client.reschedule(id, at(Duration::ZERO)).await.unwrap();
        assert_eq!(moved, TimerUpdate::Done);
        mails.next().await.unwrap().complete().await.unwrap();
        engine.stop().await;
    });
}
