//! Synchronous replication keeps its meaning: acknowledged writes are on the standby.

use std::slice::from_ref;
use std::thread;
use std::time::Duration;

use pollster::block_on;
use tourbillon_durable::store::calls::{Amendment, ManualRun, NewOccurrence, Reschedule};
use tourbillon_durable::store::{Finished, Inserted, RecordQuery, TimerQuery, TimerUpdate};
use tourbillon_durable::store::{NewTimer, Postgres, Store};
use tourbillon_durable::{Backfilled, Client, Lease, Schedule, StoreError, StoreErrorKind};

use crate::replica::Pair;
use crate::{first_done, join, timer};

/// Number of times that a call is repeated while the standby is away.
const REPEATS: usize = 2;

/// A call that can answer yes without writing, if it was carried out before.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Create,
    Complete,
    Cancel,
    Replace,
    Amend,
    Upsert,
    Disable,
    Remove,
    RunNow,
    Backfill,
    Confirm,
}

const WISHES: [Wish; 11] = [
    Wish::Create,
    Wish::Complete,
    Wish::Cancel,
    Wish::Replace,
    Wish::Amend,
    Wish::Upsert,
    Wish::Disable,
    Wish::Remove,
    Wish::RunNow,
    Wish::Backfill,
    Wish::Confirm,
];

/// Rows that wishes are about, prepared on the primary and its standby.
struct Scene {
    wish: Wish,
    store: Postgres,
    client: Client,
    /// Store whose commits wait for no standby.
    hasty: Postgres,
    lease: Lease,
    timer: NewTimer,
    name: String,
}

impl Scene {
    fn new(wish: Wish, address: &str) -> Self {
        let mut store = Postgres::connect(address).unwrap();
        let lease = join(&mut store);
        let now = store.now().unwrap();
        let mut timer = timer(now);
        let name = format!("{wish:?}");
        let client = Client::new(store.connect().unwrap()).unwrap();
        let hasty = format!("{address}&options=-c%20synchronous_commit%3Dlocal");
        let hasty = Postgres::connect(&hasty).unwrap();
        match wish {
            Wish::Create | Wish::Upsert | Wish::Confirm => {}
            Wish::Complete => {
                store.insert(from_ref(&timer)).unwrap();
                assert_eq!(store.claim(lease, &[timer.id]).unwrap().timers.len(), 1);
            }
            Wish::Cancel | Wish::Replace | Wish::Amend => {
                assert_eq!(store.insert(from_ref(&timer)).unwrap(), [Inserted::Created]);
            }
            Wish::Disable | Wish::Remove | Wish::RunNow | Wish::Backfill => {
                let every = client.every(&name, daily()).kind("mail");
                block_on(every.upsert()).unwrap();
            }
        }
        if let Wish::RunNow = wish {
            timer.schedule = Some(store.schedule(&name).unwrap().1.unwrap().id);
            timer.name = Some(name.clone());
        }
        Self { wish, store, client, hasty, lease, timer, name }
    }

    /// Makes the call once. Says whether it was acknowledged.
    fn try_once(&mut self) -> Result<bool, StoreError> {
        let Self { store, client, hasty, timer, name, .. } = self;
        Ok(match self.wish {
            Wish::Create => {
                let inserted = store.insert(from_ref(timer))?;
                inserted == [Inserted::Created] || inserted == [Inserted::Exists(timer.id)]
            }
            Wish::Complete => {
                store.finish(self.lease, &first_done(timer.id))? == [Finished::Accepted]
            }
            Wish::Cancel => {
                matches!(store.cancel(timer.id)?, TimerUpdate::Done | TimerUpdate::Gone)
            }
            Wish::Replace => {
                let to = timer.due + Duration::from_secs(3_600);
                let replaced = store
                    .reschedule(&Reschedule { expect: Some(1), ..Reschedule::new(timer.id, to) })?;
                matches!(replaced, TimerUpdate::Done | TimerUpdate::Stale)
            }
            Wish::Amend => {
                let (timer, pause, detail) = (timer.id, Duration::ZERO, DECIDED);
                let amendment = Amendment { timer, attempt: 0, version: 1, pause, detail };
                matches!(store.amend(&amendment)?, TimerUpdate::Done | TimerUpdate::Stale)
            }
            Wish::Upsert => {
                block_on(client.every(name, daily()).kind("mail").upsert())?;
                true
            }
            Wish::Disable => {
                block_on(client.disable(name))?;
                true
            }
            Wish::Remove => {
                block_on(client.remove(name))?;
                true
            }
            Wish::RunNow => {
                let occurrence = NewOccurrence { timer, version: 1, queue: None };
                matches!(
                    store.insert_occurrence(&occurrence)?,
                    ManualRun::Done { .. } | ManualRun::Exists
                )
            }
            Wish::Backfill => {
                let range = timer.due - DAY * PAST..timer.due;
                let filled = block_on(client.backfill(name, range).create())?;
                let Backfilled::Done { made, existed, .. } = filled else { return Ok(false) };
                made + existed == u64::from(PAST)
            }
            Wish::Confirm => {
                // Another has written it, and waited for nobody.
                hasty.insert(from_ref(timer))?;
                block_on(client.confirm())?;
                true
            }
        })
    }

    /// Makes the call while the standby is away. Returns whether it was acknowledged all the same;
    /// it is uncertain otherwise.
    fn is_acknowledged_alone(&mut self) -> bool {
        let answer = self.try_once();
        let kind = answer.as_ref().map_err(StoreError::kind);
        assert!(
            matches!(kind, Ok(true) | Err(StoreErrorKind::Uncertain)),
            "{:?}: {answer:?}",
            self.wish
        );
        answer.is_ok()
    }

    /// Returns whether the wish has come true in `store`.
    fn is_true(&self, store: &mut Postgres) -> bool {
        let id = self.timer.id;
        let mut timers = store.timers(&TimerQuery::new().timer(id)).unwrap();
        let schedule = store.schedule(&self.name).unwrap().1;
        match self.wish {
            Wish::Create | Wish::RunNow | Wish::Confirm => timers.len() == 1,
            Wish::Complete => store.records(&RecordQuery::new().timer(id)).unwrap().len() == 1,
            Wish::Cancel => timers.is_empty(),
            Wish::Replace => timers.pop().unwrap().version == 2,
            Wish::Amend => timers.pop().unwrap().detail == DECIDED,
            Wish::Upsert => schedule.is_some(),
            Wish::Disable => !schedule.unwrap().enabled,
            Wish::Remove => schedule.is_none(),
            Wish::Backfill => {
                let made = store.timers(&TimerQuery::new().name(&self.name)).unwrap();
                made.len() == PAST as usize
            }
        }
    }
}

const DAY: Duration = Duration::from_secs(86_400);
/// Text that a timer is amended with.
const DECIDED: &str = "decided";
/// Days of the past that are filled.
const PAST: u32 = 3;

fn daily() -> Schedule {
    Schedule::every(DAY)
}

/// Ends the processes that wait for the standby, as an administrator does to repair a server that
/// hangs: their writes are committed without the standby, and seen by all.
const END_WAITING: &str = "
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'";

/// Lets every wish be given up while the standby is away, repeats it, and makes the standby the
/// primary.
fn acknowledged_is_kept(is_ended: bool) {
    let pair = Pair::new();
    let scenes = WISHES.map(|wish| Scene::new(wish, &pair.primary()));
    pair.cut();
    let given_up = thread::scope(|scope| {
        scenes
            .map(|mut scene| {
                scope.spawn(move || {
                    let is_acknowledged = scene.is_acknowledged_alone();
                    (scene, is_acknowledged)
                })
            })
            .map(|thread| thread.join().unwrap())
    });
    if is_ended {
        assert!(!pair.client().query(END_WAITING, &[]).unwrap().is_empty());
    }
    let repeated = thread::scope(|scope| {
        given_up
            .map(|(mut scene, was_acknowledged)| {
                scope.spawn(move || {
                    let is_acknowledged = was_acknowledged
                        || (0..REPEATS).any(|_| scene.try_once().is_ok_and(|yes| yes));
                    (scene, is_acknowledged)
                })
            })
            .map(|thread| thread.join().unwrap())
    });
    pair.promote();
    let mut standby = Postgres::connect(&pair.standby()).unwrap();
    let lost = repeated
        .iter()
        .filter(|(scene, is_acknowledged)| *is_acknowledged && !scene.is_true(&mut standby));
    let lost: Vec<_> = lost.map(|(scene, _)| scene.wish).collect();
    assert!(lost.is_empty(), "acknowledged, and gone with the primary: {lost:?}");
}

#[test]
fn what_is_acknowledged_survives_the_primary() {
    acknowledged_is_kept(false);
}

#[test]
fn what_is_acknowledged_survives_the_primary_if_waiting_processes_are_ended() {
    acknowledged_is_kept(true);
}

/// Makes the server give up waiting for the standby, and answer as if all were well.
const CANCEL_WAITING: &str = "
    SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE wait_event = 'SyncRep' AND backend_type = 'client backend'";

#[test]
fn a_commit_whose_wait_is_cancelled_is_uncertain() {
    let pair = Pair::new();
    let mut scene = Scene::new(Wish::Create, &pair.primary());
    pair.cut();
    let mut client = pair.client();
    let answer = thread::scope(|scope| {
        let call = scope.spawn(|| scene.try_once());
        while client.query(CANCEL_WAITING, &[]).unwrap().is_empty() {
            thread::sleep(Duration::from_millis(10));
        }
        call.join().unwrap()
    });
    assert_eq!(answer.unwrap_err().kind(), StoreErrorKind::Uncertain);
    pair.mend();
    assert!(scene.try_once().unwrap());
}

#[test]
fn what_was_given_up_is_acknowledged_once_the_standby_is_back() {
    let pair = Pair::new();
    let mut scenes = WISHES.map(|wish| Scene::new(wish, &pair.primary()));
    pair.cut();
    thread::scope(|scope| {
        for scene in &mut scenes {
            scope.spawn(|| scene.try_once().unwrap_err());
        }
    });
    pair.mend();
    for scene in &mut scenes {
        assert!(scene.try_once().unwrap(), "{:?}", scene.wish);
    }
    pair.promote();
    let mut standby = Postgres::connect(&pair.standby()).unwrap();
    for scene in &scenes {
        assert!(scene.is_true(&mut standby), "{:?}", scene.wish);
    }
}

#[test]
fn a_repeat_of_what_the_standby_has_is_not_acknowledged_while_it_is_away() {
    let pair = Pair::new();
    let mut scenes = WISHES.map(|wish| Scene::new(wish, &pair.primary()));
    for scene in &mut scenes {
        assert!(scene.try_once().unwrap(), "{:?}", scene.wish);
    }
    pair.cut();
    thread::scope(|scope| {
        for scene in &mut scenes {
            scope.spawn(|| assert!(!scene.is_acknowledged_alone(), "{:?}", scene.wish));
        }
    });
    pair.promote();
    let mut standby = Postgres::connect(&pair.standby()).unwrap();
    for scene in &scenes {
        assert!(scene.is_true(&mut standby), "{:?}", scene.wish);
    }
}
