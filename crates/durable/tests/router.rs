//! One client for several stores in memory.

use std::time::{Duration, SystemTime};

use tourbillon::Timer;
use tourbillon_durable::store::{
    Memory, NewTimer, RecordQuery, Result, ScheduleQuery, TimerQuery, TimerUpdate,
};
use tourbillon_durable::{
    Backfilled, Client, Created, Engine, Lease, Mover, NodeId, Place, Places, Progress,
    Replacement, Revival, Router, RunNow, Schedule, ScheduleUpdate, Store, StoreError,
    StoreErrorKind, Time, TimerId, Upsert,
};

const STORES: [&str; 3] = ["east", "north", "west"];

/// Long enough for no timer to be due.
const LATER: Duration = Duration::from_secs(3_600);

fn memory() -> Memory {
    Memory::new(&Timer::global())
}

fn router() -> Router {
    let clients = STORES.map(|name| (name, Client::new(Box::new(memory())).unwrap()));
    Router::new(Places::evenly(STORES).unwrap(), clients).unwrap()
}

fn later() -> SystemTime {
    SystemTime::now() + LATER
}

/// Returns the names of the stores that have the timer.
async fn stores_with(router: &Router, id: TimerId) -> Vec<String> {
    let mut found = Vec::new();
    for (name, client) in router.clients() {
        if !client.timers(TimerQuery::new().timer(id)).await.unwrap().is_empty() {
            found.push(name.to_owned());
        }
    }
    found
}

fn id(created: Created) -> TimerId {
    let Created::Created(id) = created else { panic!("it was there before") };
    id
}

#[test]
fn a_timer_is_on_the_store_of_its_place_alone() {
    let router = router();
    pollster::block_on(async {
        for n in 0..50 {
            let (name, key) = (format!("name-{n}"), format!("key-{n}"));
            let named = id(router.once("mail", later()).name(&name).create().await.unwrap());
            assert_eq!(named.place(), Place::of(&name));
            let keyed = router.at(&key).once("mail", later()).name(format!("other-{n}"));
            let keyed = id(keyed.create().await.unwrap());
            assert_eq!(keyed.place(), Place::of(&key));
            let drawn = id(router.once("mail", later()).create().await.unwrap());
            for id in [named, keyed, drawn] {
                assert_eq!(stores_with(&router, id).await, [router.places().store(id.place())]);
            }
            assert_eq!(router.find(&name).await.unwrap().unwrap().new.id, named);
            let again = router.once("mail", later()).name(&name).create().await.unwrap();
            assert_eq!(again, Created::Exists(named));
        }
    });
}

#[test]
fn a_client_of_one_store_gives_the_places_that_a_router_gives() {
    let client = Client::new(Box::new(memory())).unwrap();
    pollster::block_on(async {
        let made = id(client.once("mail", later()).name("invoice-42").create().await.unwrap());
        assert_eq!(made.place().number(), 102);
        client.every("nightly", Schedule::every(LATER)).upsert().await.unwrap();
        let row = client.schedules(ScheduleQuery::new()).await.unwrap().remove(0);
        assert_eq!(row.id.place(), Place::of("nightly"));
    });
}

#[test]
fn an_id_says_which_store_a_timer_is_on() {
    let router = router();
    pollster::block_on(async {
        for n in 0..20 {
            let once = router.at(&format!("tenant-{n}")).once("mail", later());
            let id = id(once.create().await.unwrap());
            assert_eq!(router.reschedule(id, later()).await.unwrap(), TimerUpdate::Done);
            let replaced = Replacement::at(later()).payload("new").expect(2);
            assert_eq!(router.replace(id, replaced).await.unwrap(), TimerUpdate::Done);
            assert_eq!(router.revive(id).await.unwrap(), Revival::NotDead);
            assert_eq!(router.cancel(id).await.unwrap(), TimerUpdate::Done);
            assert_eq!(router.cancel(id).await.unwrap(), TimerUpdate::Gone);
        }
    });
}

#[test]
fn an_id_of_ones_own_is_of_the_place_that_the_caller_gave_it() {
    let router = router();
    pollster::block_on(async {
        let own = TimerId::from_bits(0x77).at(Place::of("tenant-42"));
        let once = router.at("tenant-42").once("mail", later()).name("x").id(own);
        assert_eq!(once.create().await.unwrap(), Created::Created(own));
        let other = own.at(Place::of("tenant-43"));
        let refused = router.at("tenant-42").once("mail", later()).id(other).create().await;
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
        // Without a key, the id says where it is.
        for once in [router.once("mail", later()).id(other), router.once("mail", later()).id(own)] {
            let made = once.name("y").into_timer();
            assert_eq!(made.id.place(), if made.id == own { own.place() } else { other.place() });
        }
        router.once("mail", later()).id(other).name("y").create().await.unwrap();
        assert_eq!(stores_with(&router, other).await, [router.places().store(other.place())]);
    });
}

#[test]
fn schedules_and_their_occurrences_are_on_the_store_of_the_name_or_the_key() {
    let router = router();
    pollster::block_on(async {
        for n in 0..20 {
            let name = format!("schedule-{n}");
            router.every(&name, Schedule::every(LATER)).upsert().await.unwrap();
            let RunNow::Done(made) = router.run_now(&name).await.unwrap() else { panic!("{name}") };
            assert_eq!(made.place(), Place::of(&name));
            assert_eq!(stores_with(&router, made).await, [router.places().store(made.place())]);
            assert_eq!(router.upcoming(&name, 3).await.unwrap().len(), 3);
            let disabled = router.disable(&name).await.unwrap();
            assert_eq!(disabled, ScheduleUpdate::Done { running: Vec::new() });
            assert_eq!(router.enable(&name).await.unwrap(), disabled);
            assert_eq!(router.remove(&name).await.unwrap(), disabled);
            assert_eq!(router.remove(&name).await.unwrap(), ScheduleUpdate::Gone);

            let keyed = router.at("tenant-42");
            keyed.every(&name, Schedule::every(LATER)).upsert().await.unwrap();
            let rows = keyed.schedules(ScheduleQuery::new().name(&name)).await.unwrap();
            assert_eq!(rows[0].id.place(), Place::of("tenant-42"));
        }
    });
}

#[test]
fn lists_of_all_stores_come_in_pages_of_one_order() {
    let router = router();
    pollster::block_on(async {
        let first = later();
        for n in 0..40_u64 {
            // Several are due at the same time.
            let due = first + Duration::from_secs(n % 7);
            let once = router.once("mail", due).name(format!("name-{n:02}"));
            let timer = id(once.create().await.unwrap());
            if n % 2 == 0 {
                router.cancel(timer).await.unwrap();
            }
            let schedule = router.every(&format!("schedule-{n:02}"), Schedule::every(LATER));
            schedule.upsert().await.unwrap();
        }
        let all = router.timers(TimerQuery::new()).await.unwrap();
        assert_eq!(all.len(), 20);
        assert!(all.is_sorted_by_key(|timer| (timer.new.due, timer.new.id)));
        let mut paged = Vec::new();
        let mut query = TimerQuery::new().limit(3);
        while let page @ [.., _] = &router.timers(query.clone()).await.unwrap()[..] {
            paged.extend_from_slice(page);
            let last = &paged[paged.len() - 1].new;
            query = query.after(last.due, last.id);
        }
        assert_eq!(paged, all);

        let mut names = Vec::new();
        let mut query = TimerQuery::new().by_name("name-", None).limit(3);
        while let page @ [.., _] = &router.timers(query.clone()).await.unwrap()[..] {
            names.extend(page.iter().filter_map(|timer| timer.new.name.clone()));
            query = query.by_name("name-", names.last().cloned());
        }
        let odd: Vec<_> = (0..40).filter(|n| n % 2 == 1).map(|n| format!("name-{n:02}")).collect();
        assert_eq!(names, odd);

        for newest_first in [false, true] {
            let mut query = RecordQuery::new();
            query.newest_first = newest_first;
            let all = router.records(query.clone()).await.unwrap();
            assert_eq!(all.len(), 20);
            let mut paged = Vec::new();
            query = query.limit(3);
            while let page @ [.., _] = &router.records(query.clone()).await.unwrap()[..] {
                paged.extend_from_slice(page);
                let last = &paged[paged.len() - 1];
                query = query.after(last.recorded, last.timer);
            }
            assert_eq!(paged, all);
        }

        let (mut names, mut query) = (Vec::new(), ScheduleQuery::new().limit(3));
        while let page @ [.., _] = &router.schedules(query.clone()).await.unwrap()[..] {
            names.extend(page.iter().map(|row| row.name.clone()));
            query = query.after(&names[names.len() - 1]);
        }
        assert_eq!(names, (0..40).map(|n| format!("schedule-{n:02}")).collect::<Vec<_>>());
    });
}

#[test]
fn a_name_that_another_key_has_on_the_store_is_refused() {
    let clients = [("only", Client::new(Box::new(memory())).unwrap())];
    let router = Router::new(Places::evenly(["only"]).unwrap(), clients).unwrap();
    let (one, other) = (router.at("tenant-42"), router.at("tenant-43"));
    let invalid = |error: StoreError| assert_eq!(error.kind(), StoreErrorKind::Invalid);
    pollster::block_on(async {
        one.every("nightly", Schedule::every(LATER)).upsert().await.unwrap();
        let made = one.schedules(ScheduleQuery::new()).await.unwrap();
        for expect in [None, Some(None), Some(Some(1))] {
            let mut every = other.every("nightly", Schedule::every(LATER * 2));
            if let Some(expect) = expect {
                every = every.expect(expect);
            }
            invalid(every.upsert().await.unwrap_err());
        }
        assert_eq!(one.schedules(ScheduleQuery::new()).await.unwrap(), made);
        let again = one.every("nightly", Schedule::every(LATER)).upsert().await.unwrap();
        assert_eq!(again, Upsert::Unchanged);
        // A client that was given no key takes what has the name.
        let (_, keyless) = router.clients().next().unwrap();
        let changed = keyless.every("nightly", Schedule::every(LATER * 2)).upsert().await.unwrap();
        assert_eq!(changed, Upsert::Changed);

        let timer = id(one.once("mail", later()).name("reminder").create().await.unwrap());
        invalid(other.once("mail", later()).name("reminder").create().await.unwrap_err());
        for client in [&one, keyless] {
            let again = client.once("mail", later()).name("reminder").create().await.unwrap();
            assert_eq!(again, Created::Exists(timer));
            assert_eq!(client.find("reminder").await.unwrap().unwrap().new.id, timer);
        }
        invalid(other.find("reminder").await.unwrap_err());
        for name in ["nightly", "reminder"] {
            invalid(other.named(name).await.unwrap_err());
            one.named(name).await.unwrap();
        }
        assert_eq!(one.cancel(timer).await.unwrap(), TimerUpdate::Done);
        assert_eq!(other.find("reminder").await.unwrap(), None);
        invalid(other.named("reminder").await.unwrap_err());
        assert!(one.named("reminder").await.unwrap().1.record.is_some());
    });
}

#[test]
fn a_schedule_of_another_key_is_not_switched_removed_or_run() {
    let clients = [("only", Client::new(Box::new(memory())).unwrap())];
    let router = Router::new(Places::evenly(["only"]).unwrap(), clients).unwrap();
    let (one, other) = (router.at("tenant-42"), router.at("tenant-43"));
    fn refused<T: std::fmt::Debug>(answer: Result<T>) {
        assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Invalid);
    }
    pollster::block_on(async {
        one.every("nightly", Schedule::every(LATER)).upsert().await.unwrap();
        let now = one.now().await.unwrap();
        for is_enabled in [true, false] {
            let made = one.schedules(ScheduleQuery::new()).await.unwrap();
            assert_eq!(made[0].enabled, is_enabled);
            refused(other.enable("nightly").await);
            refused(other.disable("nightly").await);
            refused(other.pause("nightly", now + 2 * LATER).await);
            refused(other.remove("nightly").await);
            refused(other.run_now("nightly").await);
            refused(other.backfill("nightly", now - 3 * LATER..now).create().await);
            refused(other.upcoming("nightly", 1).await);
            assert_eq!(one.schedules(ScheduleQuery::new()).await.unwrap(), made);
            assert_eq!(one.timers(TimerQuery::new()).await.unwrap(), []);
            one.disable("nightly").await.unwrap();
        }
        let done = ScheduleUpdate::Done { running: Vec::new() };
        assert_eq!(one.remove("nightly").await.unwrap(), done);
        assert_eq!(other.remove("nightly").await.unwrap(), ScheduleUpdate::Gone);
    });
}

#[test]
fn a_timer_of_another_key_is_not_changed_by_its_id() {
    let clients = [("only", Client::new(Box::new(memory())).unwrap())];
    let router = Router::new(Places::evenly(["only"]).unwrap(), clients).unwrap();
    let (one, other) = (router.at("tenant-42"), router.at("tenant-43"));
    pollster::block_on(async {
        let due = Time::from(later());
        let timer = id(one.once("mail", due).create().await.unwrap());
        let made = one.timers(TimerQuery::new()).await.unwrap();
        let refused = [
            other.amend(&made[0], "other", Duration::ZERO).await.map(drop),
            other.cancel(timer).await.map(drop),
            other.reschedule(timer, due).await.map(drop),
            other.replace(timer, Replacement::at(due).payload("other")).await.map(drop),
            other.revive(timer).await.map(drop),
        ];
        for (n, refused) in refused.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{n}");
            assert!(error.to_string().contains(&timer.to_string()), "{error}");
        }
        assert_eq!(one.timers(TimerQuery::new()).await.unwrap(), made);
        // A client that was given no key takes any id.
        let (_, keyless) = router.clients().next().unwrap();
        for client in [&one, keyless] {
            assert_eq!(client.reschedule(timer, due).await.unwrap(), TimerUpdate::Done);
        }
        let found = one.timers(TimerQuery::new()).await.unwrap().remove(0);
        let amended = router.amend(&found, "by its id", LATER).await.unwrap();
        assert_eq!(amended, TimerUpdate::Done);
        assert_eq!(router.cancel(timer).await.unwrap(), TimerUpdate::Done);
    });
}

#[test]
fn a_page_by_names_does_not_end_between_two_of_one_name() {
    let router = router();
    pollster::block_on(async {
        // Each store has all of these names.
        for (_, client) in router.clients() {
            for name in ["a", "b", "c"] {
                client.once("mail", later()).name(name).create().await.unwrap();
                client.every(name, Schedule::every(LATER)).upsert().await.unwrap();
            }
        }
        for limit in 1..=10 {
            let (mut names, mut query) = (Vec::new(), TimerQuery::new().by_name("", None));
            query = query.limit(limit);
            while let page @ [.., _] = &router.timers(query.clone()).await.unwrap()[..] {
                names.extend(page.iter().filter_map(|timer| timer.new.name.clone()));
                query = query.by_name("", names.last().cloned());
            }
            assert_eq!(names.concat(), "aaabbbccc", "{limit}");

            let (mut names, mut query) = (Vec::new(), ScheduleQuery::new().limit(limit));
            while let page @ [.., _] = &router.schedules(query.clone()).await.unwrap()[..] {
                names.extend(page.iter().map(|row| row.name.clone()));
                query = query.after(&names[names.len() - 1]);
            }
            assert_eq!(names.concat(), "aaabbbccc", "{limit}");
        }
        assert_eq!(router.schedules(ScheduleQuery::new().limit(0)).await.unwrap(), []);
    });
}

#[test]
fn a_place_is_moved_by_hand_as_the_document_says() {
    let clients = ["old", "new"].map(|name| (name, Client::new(Box::new(memory())).unwrap()));
    let place = Place::of("tenant-42");
    let mut places: Places = "0-1023=old".parse().unwrap();
    let router = Router::new(places.clone(), clients.clone()).unwrap();
    places.put(place, "new").unwrap();
    let moved = Router::new(places, clients.clone()).unwrap();
    let [(_, old), _] = clients;
    let nightly =
        |router: &Router| router.at("tenant-42").every("nightly", Schedule::every(LATER)).upsert();
    let own = TimerId::from_bits(0x77).at(place);
    let once = |router: &Router| router.once("mail", later()).id(own).create();
    pollster::block_on(async {
        nightly(&router).await.unwrap();
        once(&router).await.unwrap();
        let before = router.schedules(ScheduleQuery::new()).await.unwrap();

        old.disable("nightly").await.unwrap();
        old.cancel(own).await.unwrap();
        let left = old.timers(TimerQuery::new()).await.unwrap();
        assert!(left.iter().all(|timer| timer.new.id.place() != place), "{left:?}");
        assert_eq!(nightly(&moved).await.unwrap(), Upsert::Created);
        assert_eq!(moved.schedules(ScheduleQuery::new()).await.unwrap().len(), 2);
        old.remove("nightly").await.unwrap();
        let after = moved.schedules(ScheduleQuery::new()).await.unwrap();
        assert_eq!((after.len(), after[0].id.place()), (1, place));
        assert_ne!(after[0].id, before[0].id);

        // Records stay where they are.
        assert_eq!(moved.records(RecordQuery::new().timer(own)).await.unwrap().len(), 1);
        assert_eq!(old.revive(own).await.unwrap(), Revival::NotDead);
        assert_eq!(moved.revive(own).await.unwrap(), Revival::Gone);
        assert_eq!(once(&router).await.unwrap(), Created::Exists(own));
        assert_eq!(once(&moved).await.unwrap(), Created::Created(own));
    });
}

#[test]
fn each_engine_fires_what_is_of_its_places() {
    let (mut engines, mut clients) = (Vec::new(), Vec::new());
    for name in STORES {
        let engine = Engine::builder().start(Box::new(memory())).unwrap();
        clients.push((name, engine.client().unwrap()));
        engines.push((name, engine.worker("mail", 8), engine));
    }
    let router = Router::new(Places::evenly(STORES).unwrap(), clients).unwrap();
    pollster::block_on(async {
        let mut of = [const { Vec::new() }; STORES.len()];
        for n in 0..24 {
            let once = router.once("mail", SystemTime::now()).name(format!("name-{n}"));
            let id = id(once.create().await.unwrap());
            let store = router.places().store(id.place());
            of[STORES.iter().position(|name| *name == store).unwrap()].push(id);
        }
        for ((name, worker, engine), mut ids) in engines.into_iter().zip(of) {
            let mut worker = worker;
            let mut fired = Vec::new();
            for _ in &ids {
                let fire = worker.next().await.unwrap();
                fired.push(fire.id());
                fire.complete().await.unwrap();
            }
            fired.sort();
            ids.sort();
            assert_eq!(fired, ids, "{name}");
            engine.stop().await;
        }
        assert_eq!(router.timers(TimerQuery::new()).await.unwrap(), []);
    });
}

/// A store that is away.
struct Away;

impl Away {
    fn refuse<T>(
        &mut self,
        name: &'static str,
        _work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        Err(StoreError::new(StoreErrorKind::Unavailable, name))
    }
}

impl Store for Away {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self))
    }

    tourbillon_durable::forward! { self.refuse;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule confirm
        amend find timers schedule schedules upcoming change advance insert_occurrence records
        backfill failing overview prune promote
    }
}

#[test]
fn a_store_that_is_away_holds_up_its_own_keys_and_no_others() {
    let client = |store: Box<dyn Store>| Client::new(store).unwrap();
    let clients = [("east", client(Box::new(memory()))), ("west", client(Box::new(Away)))];
    let router = Router::new(Places::evenly(["east", "west"]).unwrap(), clients).unwrap();
    pollster::block_on(async {
        for n in 0..20 {
            let name = format!("name-{n}");
            let made = router.once("mail", later()).name(&name).create().await;
            match router.places().store(Place::of(&name)) {
                "east" => assert_eq!(id(made.unwrap()).place(), Place::of(&name)),
                _ => assert_eq!(made.unwrap_err().kind(), StoreErrorKind::Unavailable),
            }
        }
        let listed = router.timers(TimerQuery::new()).await;
        assert_eq!(listed.unwrap_err().kind(), StoreErrorKind::Unavailable);
    });
}

#[test]
fn a_router_has_one_client_for_each_store_of_its_map() {
    let client = || Client::new(Box::new(memory())).unwrap();
    let places = || Places::evenly(["east", "west"]).unwrap();
    for names in [&["east"][..], &["east", "west", "west"], &[]] {
        let error = Router::new(places(), names.iter().map(|name| (*name, client()))).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Invalid);
    }
    // A store without a place is one that places are moved to, or were.
    let clients = ["east", "north", "west"].map(|name| (name, client()));
    let router = Router::new(places(), clients).unwrap();
    assert_eq!(router.clients().count(), 3);
    assert!(format!("{router:?}").contains("0-511=east 512-1023=west"));
    let _: Time = pollster::block_on(router.at("a").now()).unwrap();
}

#[test]
fn nothing_of_a_place_on_its_way_is_written_and_what_is_there_is_read() {
    let stores = STORES.map(|name| (name, memory()));
    let router = |places: &Places| {
        let clients = stores
            .each_ref()
            .map(|(name, store)| (*name, Client::new(store.connect().unwrap()).unwrap()));
        Router::new(places.clone(), clients).unwrap()
    };
    let mut places = Places::evenly(["east", "north"]).unwrap();
    let name = "invoice-42";
    let place = Place::of(name);
    assert_eq!(places.store(place), "east");
    pollster::block_on(async {
        let before = router(&places);
        let due = Time::from(later());
        let timer = id(before.once("mail", due).name(name).create().await.unwrap());
        let schedule = Schedule::every(LATER);
        before.at(name).every("hourly", schedule.clone()).upsert().await.unwrap();
        let times = before.at(name).upcoming("hourly", 2).await.unwrap();

        places.begin_move(place, "west").unwrap();
        let moving = router(&places);
        let hourly = moving.at(name).every("hourly", schedule);
        let refused = [
            moving.once("mail", due).name(name).create().await.map(drop),
            moving.at(name).once("mail", due).create().await.map(drop),
            moving.cancel(timer).await.map(drop),
            moving.reschedule(timer, due).await.map(drop),
            moving.revive(timer).await.map(drop),
            hourly.upsert().await.map(drop),
            moving.at(name).enable("hourly").await.map(drop),
            moving.at(name).disable("hourly").await.map(drop),
            moving.at(name).pause("hourly", due).await.map(drop),
            moving.at(name).remove("hourly").await.map(drop),
            moving.at(name).run_now("hourly").await.map(drop),
            moving.at(name).backfill("hourly", due..due).create().await.map(drop),
        ];
        for (n, refused) in refused.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Moving, "{n}");
            let text = "the place is on its way to another store: nothing of the place 102 is made";
            assert!(error.to_string().starts_with(text), "{error}");
        }
        // Another place of the same store is no matter.
        let other = moving.at("tenant-42").once("mail", due).create().await.unwrap();
        moving.cancel(id(other)).await.unwrap();

        let found = moving.find(name).await.unwrap().unwrap();
        assert_eq!((found.new.id, found.new.due), (timer, due));
        let mut mover =
            Mover::new(place, Box::new(stores[0].1.clone()), Box::new(stores[2].1.clone()));
        assert_eq!(mover.step().unwrap(), Progress::Done);
        assert_eq!(stores_with(&moving, timer).await, ["west"]);
        places.put(place, "west").unwrap();
        let after = router(&places);
        for router in [moving, after.clone()] {
            assert_eq!(router.find(name).await.unwrap().as_ref(), Some(&found));
        }
        assert_eq!(after.at(name).upcoming("hourly", 2).await.unwrap(), times);
        assert_eq!(after.cancel(timer).await.unwrap(), TimerUpdate::Done);
    });
}

#[test]
fn what_was_over_before_a_move_is_made_again_after_it() {
    let (east, west) = (memory(), memory());
    let clients = [("east", &east), ("west", &west)]
        .map(|(name, store)| (name, Client::new(store.connect().unwrap()).unwrap()));
    let place = Place::of("hourly");
    let router = |places: &Places| Router::new(places.clone(), clients.clone()).unwrap();
    let mut places: Places = "0-1023=east".parse().unwrap();
    let own = TimerId::from_bits(0x77).at(place);
    let hour = Duration::from_secs(3_600);
    pollster::block_on(async {
        let before = router(&places);
        before.every("hourly", Schedule::every(hour)).upsert().await.unwrap();
        let now = before.at("hourly").now().await.unwrap();
        let range = now - 3 * hour..now - hour;
        let made = async |router: &Router| {
            let created = router.once("mail", later()).id(own).create().await.unwrap();
            let hourly =
                router.at("hourly").backfill("hourly", range.clone()).create().await.unwrap();
            (created, hourly)
        };
        let filled = |made, existed| Backfilled::Done { made, existed, rest: None };
        assert_eq!(made(&before).await, (Created::Created(own), filled(2, 0)));
        for timer in before.timers(TimerQuery::new()).await.unwrap() {
            assert_eq!(before.cancel(timer.new.id).await.unwrap(), TimerUpdate::Done);
        }
        assert_eq!(made(&before).await, (Created::Exists(own), filled(0, 2)));
        places.begin_move(place, "west").unwrap();
        let mut mover = Mover::new(place, east.connect().unwrap(), west.connect().unwrap());
        assert_eq!(mover.step().unwrap(), Progress::Done);
        places.put(place, "west").unwrap();
        assert_eq!(made(&router(&places)).await, (Created::Created(own), filled(2, 0)));
    });
}

#[test]
fn a_place_that_waits_on_its_way_is_found_as_it_is() {
    let (east, west) = (memory(), memory());
    let clients = [("east", &east), ("west", &west)]
        .map(|(name, store)| (name, Client::new(store.connect().unwrap()).unwrap()));
    let place = Place::of("hourly");
    let mut places: Places = "0=west 1-1023=east".parse().unwrap();
    places.begin_move(place, "west").unwrap();
    let router = Router::new(places, clients).unwrap();
    pollster::block_on(async {
        let client = router.clients().next().unwrap().1.clone();
        client.every("hourly", Schedule::every(LATER)).upsert().await.unwrap();
        let due = Time::from(later());
        let timer = client.once("mail", due).name("hourly").create().await.unwrap();
        let times = router.upcoming("hourly", 2).await.unwrap();
        // It runs, so the mover waits for it.
        let mut store = east.connect().unwrap();
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        store.join(lease, LATER).unwrap().unwrap();
        let now = store.now().unwrap();
        let runs = NewTimer::new(TimerId::new(now).at(place), "mail", now);
        store.insert(std::slice::from_ref(&runs)).unwrap();
        assert_eq!(store.claim(lease, &[runs.id]).unwrap().timers.len(), 1);
        let mut mover = Mover::new(place, east.connect().unwrap(), west.connect().unwrap());
        for _ in 0..2 {
            assert_eq!(mover.step().unwrap(), Progress::Waits(vec![runs.id]));
            assert_eq!(stores_with(&router, id(timer)).await, ["west"]);
            let found = router.find("hourly").await.unwrap().unwrap();
            assert_eq!((found.new.id, found.new.due), (id(timer), due));
            assert_eq!(router.upcoming("hourly", 2).await.unwrap(), times);
            // Nor does a key that has been on the new store all the time reach it there.
            let key = router.at_place(Place::new(0).unwrap());
            for refused in [key.cancel(id(timer)).await, key.reschedule(id(timer), due).await] {
                assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Invalid);
            }
        }
        store.leave(lease).unwrap();
        assert_eq!(mover.step().unwrap(), Progress::Done);
        assert_eq!(stores_with(&router, runs.id).await, ["west"]);
        assert_eq!(router.upcoming("hourly", 2).await.unwrap(), times);
    });
}
