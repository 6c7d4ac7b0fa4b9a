//! [`Model`]: clients' requests, handlers' attempts, and everything that follows from these alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::faulty::Faulty;
use super::world::{KINDS, World};
use crate::client::{self, Backfilled, Revival, ScheduleUpdate, Upsert, Wanted};
use crate::id::{Fence, ScheduleId, TimerId};
use crate::node::{Ended, Fire};
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::{Outcome, Reason, Record};
use crate::schedule::{Excluded, Schedule};
use crate::store::{NewTimer, RecordQuery, Reschedule, State, Store, TimerQuery, TimerUpdate};
use crate::time::Time;

/// The number of the clients' connection, which never dies.
const CLIENT: usize = 63;

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

/// Lanes of timers without a schedule; the first is that of a schedule too.
const LANES: [&str; 2] = ["north", "south"];

const RETRY: Retry =
    Retry { attempts: 3, first: Duration::from_millis(500), longest: Duration::from_secs(2) };

#[derive(Default)]
pub(super) struct Model {
    onces: BTreeMap<TimerId, Once>,
    schedules: BTreeMap<String, Every>,
    /// Timers of a schedule that are scheduled for until then no longer start, except for these.
    barriers: HashMap<ScheduleId, (Time, Vec<(TimerId, u32)>)>,
    /// Completions whose answer has not come.
    pub(super) ends: Vec<(Fence, Ended)>,
    /// Attempts whose completion was accepted.
    completed: HashMap<TimerId, Fence>,
    /// Revived timers, and past occurrences that were made later; each with its schedule and the
    /// last attempt that may start.
    beside: BTreeMap<TimerId, (Option<ScheduleId>, u32)>,
    /// Attempts that started.
    started: BTreeSet<(TimerId, u32)>,
}

#[derive(Default)]
struct Once {
    /// Whether it is certain that it was made.
    is_made: bool,
    is_cancelled: bool,
    /// When it was last known to be scheduled for.
    at: Time,
    /// Times to which it may have been rescheduled, now or later.
    maybe: Vec<Time>,
    /// How often it was to be rescheduled.
    calls: u32,
    /// How many of these calls are not answered.
    open: u32,
}

#[derive(Default)]
struct Every {
    /// The row in the database; `None` if it was removed.
    now: Option<(Schedule, Policies, bool)>,
    /// The times that it had, each after one time and until another.
    periods: Vec<(Schedule, Time, Option<Time>)>,
    /// True if its policy ever allowed an overlap.
    may_overlap: bool,
}

impl Every {
    fn close(&mut self, now: Time) {
        if let Some((_, _, end @ None)) = self.periods.last_mut() {
            *end = Some(now);
        }
    }
}

impl Model {
    /// One call of a client.
    pub(super) fn act(world: &World) {
        match world.below(24) {
            0..8 => Self::insert(world),
            8..12 => Self::cancel(world),
            12..14 => Self::reschedule(world),
            14..18 => Self::upsert(world),
            18 => Self::stop(world, world.chance(300)),
            19 => Self::revive(world),
            20 => Self::backfill(world),
            21 => Self::pause(world),
            _ => Self::enable(world),
        }
    }

    fn insert(world: &World) {
        let now = world.db().now().unwrap();
        let at = now + Duration::from_micros(world.below(4_000_000)) - Duration::from_millis(500);
        let lane = world.chance(300).then(|| LANES[world.below(2) as usize].to_owned());
        let timer = NewTimer {
            retry: RETRY,
            lane,
            ..NewTimer::new(TimerId::new(now), KINDS[world.below(2) as usize], at)
        };
        let once = Once { at, ..Once::default() };
        world.model.borrow_mut().onces.insert(timer.id, once);
        let mut store = Faulty { number: CLIENT };
        if client::insert_all(&mut store, std::slice::from_ref(&timer)).is_ok() {
            world.model.borrow_mut().once(timer.id).is_made = true;
            if let Some(lane) = timer.lane.filter(|_| world.chance(500)) {
                let _ = store.promote(&[lane]);
            }
            world.tell();
        }
    }

    fn once(&mut self, timer: TimerId) -> &mut Once {
        self.onces.get_mut(&timer).expect("it is one of ours")
    }

    /// One of the timers made last.
    fn some_once(world: &World) -> Option<TimerId> {
        let model = world.model.borrow();
        let back = world.below(12) as usize;
        model.onces.keys().rev().nth(back).copied()
    }

    fn cancel(world: &World) {
        let Some(timer) = Self::some_once(world) else { return };
        if let Ok(TimerUpdate::Done) = (Faulty { number: CLIENT }).cancel(timer) {
            let mut model = world.model.borrow_mut();
            assert!(!model.once(timer).is_cancelled, "{timer} was cancelled twice");
            model.once(timer).is_cancelled = true;
        }
    }

    fn reschedule(world: &World) {
        let Some(timer) = Self::some_once(world) else { return };
        let now = world.db().now().unwrap();
        let to = now + Duration::from_micros(world.below(3_000_000));
        let (number, is_alone) = {
            let mut model = world.model.borrow_mut();
            let once = model.once(timer);
            once.maybe.push(to);
            once.calls += 1;
            once.open += 1;
            (once.calls, once.open == 1)
        };
        let answer = (Faulty { number: CLIENT }).reschedule(&Reschedule::new(timer, to));
        let mut model = world.model.borrow_mut();
        let once = model.once(timer);
        once.open -= 1;
        let is_certain =
            !answer.as_ref().is_err_and(|error| error.kind() == crate::StoreErrorKind::Uncertain);
        // The order of two concurrent calls is unknown.
        if is_alone && once.calls == number && is_certain {
            once.maybe.retain(|at| *at != to);
            if let Ok(TimerUpdate::Done) = answer {
                once.at = to;
            }
        }
    }

    fn upsert(world: &World) {
        let name = NAMES[world.below(4) as usize];
        let period = [130, 700, 1_000, 2_500][world.below(4) as usize];
        let missed = match world.below(3) {
            0 => Missed::Skip,
            1 => Missed::Coalesce,
            _ => Missed::CatchUp { max_count: 3, max_age: Duration::from_secs(20) },
        };
        let overlap = match name {
            "one" => Overlap::Skip,
            "two" => Overlap::Queue { at_most: 3 },
            _ => Overlap::Allow,
        };
        let policies = Policies {
            missed,
            overlap,
            on_time_within: Duration::from_secs(2),
            jitter: Duration::from_millis(world.below(2) * 400),
            retry: RETRY,
        };
        let mut db = world.db();
        let now = db.now().unwrap();
        let old = db.schedule(name).unwrap().1;
        // It keeps its lane, because attempts in two lanes may overlap. An occurrence that is
        // skipped while another waits does not fill the lane.
        let lane = match &old {
            Some(old) => old.lane.clone(),
            None => (name == "one" && world.chance(500)).then(|| LANES[0].to_owned()),
        };
        let kind = KINDS[world.below(2) as usize];
        let schedule = limited(world, Schedule::every(Duration::from_millis(period)));
        let wanted = Wanted { policies, lane, ..Wanted::new(name, kind, schedule) };
        let running = running(world, name);
        let upserted = client::upsert(&mut db, &wanted).unwrap();
        let mut model = world.model.borrow_mut();
        let every = model.schedules.entry(name.to_owned()).or_default();
        every.may_overlap |= overlap == Overlap::Allow;
        let is_enabled = every.now.as_ref().is_none_or(|(_, _, enabled)| *enabled);
        let is_new = upserted == Upsert::Created;
        assert_eq!(is_new, every.now.is_none());
        let begins_anew = old.as_ref().is_some_and(|old| {
            old.rule().unwrap().schedule != wanted.schedule || old.kind != wanted.kind
        });
        if begins_anew && is_enabled {
            every.close(now);
        }
        let barrier = old.filter(|_| begins_anew && is_enabled).map(|old| old.id);
        if is_new || begins_anew && is_enabled {
            every.periods.push((wanted.schedule.clone(), now, None));
        }
        every.now = Some((wanted.schedule, policies, is_enabled));
        if let Some(id) = barrier {
            model.take_back(id, now, running);
        }
    }

    fn stop(world: &World, is_removal: bool) {
        Self::stop_one(world, NAMES[world.below(4) as usize], is_removal);
    }

    fn stop_one(world: &World, name: &str, is_removal: bool) {
        let reason = if is_removal { Reason::Removed } else { Reason::Disabled };
        let now = world.db().now().unwrap();
        let old = world.db().schedule(name).unwrap().1;
        let stopped = client::stop(&mut world.db(), name, reason).unwrap();
        let mut model = world.model.borrow_mut();
        let every = model.schedules.entry(name.to_owned()).or_default();
        match stopped {
            ScheduleUpdate::Gone => assert!(every.now.is_none()),
            ScheduleUpdate::Unchanged => assert!(matches!(every.now, Some((_, _, false)))),
            ScheduleUpdate::Done { running } => {
                every.close(now);
                match &mut every.now {
                    Some((_, _, enabled)) if !is_removal => *enabled = false,
                    now => *now = None,
                }
                if let Some(old) = old {
                    model.take_back(old.id, now, running);
                }
            }
        }
    }

    fn enable(world: &World) {
        let name = NAMES[world.below(4) as usize];
        let now = world.db().now().unwrap();
        let enabled = client::enable(&mut world.db(), name).unwrap();
        let mut model = world.model.borrow_mut();
        if let (ScheduleUpdate::Done { .. }, Some(every)) = (enabled, model.schedules.get_mut(name))
        {
            if let Some((schedule, _, enabled)) = &mut every.now {
                if std::mem::replace(enabled, true) {
                    // It was paused: a period from now on replaces the one from then on.
                    every.periods.pop();
                }
                every.periods.push((schedule.clone(), now, None));
            }
        }
    }

    fn pause(world: &World) {
        let name = NAMES[world.below(4) as usize];
        let now = world.db().now().unwrap();
        let until = now + Duration::from_millis(world.below(6_000)) - Duration::from_secs(1);
        let old = world.db().schedule(name).unwrap().1;
        let paused = client::pause(&mut world.db(), name, until).unwrap();
        let mut model = world.model.borrow_mut();
        let every = model.schedules.entry(name.to_owned()).or_default();
        match (paused, old) {
            (ScheduleUpdate::Done { running }, Some(old)) => {
                let after = until - Duration::from_micros(1);
                every.close(now);
                every.periods.push((old.rule().unwrap().schedule.clone(), after, None));
                model.take_back(old.id, now, running);
            }
            (ScheduleUpdate::Gone, None) => assert!(every.now.is_none()),
            (other, _) => {
                assert_eq!(other, ScheduleUpdate::Unchanged);
                assert!(until <= now || matches!(every.now, Some((_, _, false))));
            }
        }
    }

    /// Revives one of the timers that died last.
    fn revive(world: &World) {
        let newest = RecordQuery::new().outcome(Outcome::Dead).newest_first().limit(4);
        let dead = world.db().records(&newest).unwrap();
        let Some(record) = dead.get(world.below(4) as usize) else { return };
        let (revived, made) = client::revive(&mut world.db(), record.timer).unwrap();
        let mut model = world.model.borrow_mut();
        match (revived, made) {
            (Revival::Done(id), Some(timer)) => {
                let known = model.beside.insert(id, (timer.schedule, u32::MAX));
                assert!(known.is_none() || timer.schedule.is_none(), "{id} was made twice");
            }
            (Revival::Done(id), None) => assert!(model.beside.contains_key(&id)),
            (Revival::Disabled | Revival::Busy | Revival::Removed, None) => {}
            other => panic!("{} died, and revived so: {other:?}", record.timer),
        }
    }

    /// Backfills a schedule's occurrences of the last seconds; then again, when all exist.
    fn backfill(world: &World) {
        let name = NAMES[world.below(4) as usize];
        let now = world.db().now().unwrap();
        let [from, end] = [20_000, 4_000].map(|ago| now - Duration::from_millis(world.below(ago)));
        let limit = 1 + world.below(8) as u32;
        let all = || world.db().timers(&TimerQuery::new().limit(u32::MAX)).unwrap();
        let before: BTreeSet<TimerId> = all().iter().map(|timer| timer.new.id).collect();
        let filled = client::backfill(&mut world.db(), name, &(from..end), limit).unwrap();
        let new: Vec<_> =
            all().into_iter().filter(|timer| !before.contains(&timer.new.id)).collect();
        let mut model = world.model.borrow_mut();
        let every = model.schedules.get(name).and_then(|every| every.now.as_ref());
        match filled {
            Backfilled::Gone => assert!(every.is_none()),
            Backfilled::Disabled => assert!(matches!(every, Some((_, _, false)))),
            Backfilled::Done { made, existed, rest } => {
                assert_eq!((made, made <= limit.into()), (new.len() as u64, true));
                let end = rest.unwrap_or(end);
                let again = client::backfill(&mut world.db(), name, &(from..end), limit).unwrap();
                let (made, existed) = (0, made + existed);
                assert_eq!(again, Backfilled::Done { made, existed, rest: None });
            }
        }
        for timer in new {
            assert!(timer.new.name.as_deref() == Some(name) && timer.new.scheduled_for < end);
            let known = model.beside.insert(timer.new.id, (timer.new.schedule, u32::MAX));
            assert!(known.is_none(), "{timer:?} was made twice");
        }
    }

    /// Pending timers of a schedule that are scheduled until now no longer start.
    fn take_back(&mut self, schedule: ScheduleId, now: Time, running: Vec<(TimerId, u32)>) {
        let of_it = self.beside.iter_mut().filter(|(_, (of, _))| *of == Some(schedule));
        for (timer, (_, last)) in of_it {
            let runs = running.iter().find(|(running, _)| running == timer);
            *last = (*last).min(runs.map_or(0, |(_, attempt)| *attempt));
        }
        self.barriers.insert(schedule, (now, running));
    }

    pub(super) fn may_overlap(&self, name: &str) -> bool {
        self.schedules.get(name).is_some_and(|every| every.may_overlap)
    }

    pub(super) fn check_start(&mut self, fire: &Fire) {
        let attempt = (fire.id(), fire.attempt());
        assert!(self.started.insert(attempt), "{attempt:?} started twice");
        assert!(!self.completed.contains_key(&fire.id()), "{fire:?} was completed before");
        assert_eq!(fire.failures() == 0, fire.detail().is_empty(), "{fire:?}");
        if let Some((_, last)) = self.beside.get(&fire.id()) {
            assert!(fire.attempt() <= *last, "{fire:?} was taken back");
            return;
        }
        if let Some(once) = self.onces.get(&fire.id()) {
            assert!(!once.is_cancelled, "{fire:?} was cancelled");
            let at = fire.scheduled_for();
            assert!(once.at == at || once.maybe.contains(&at), "{fire:?} was rescheduled");
            return;
        }
        let name = fire.name().expect("it is a schedule's");
        let every = &self.schedules[name];
        let barrier = fire.schedule().and_then(|schedule| self.barriers.get(&schedule));
        if let Some((until, except)) = barrier {
            let is_past = fire.scheduled_for() > *until;
            assert!(is_past || except.contains(&attempt), "{fire:?} was taken back");
        }
        let is_ours = |(schedule, after, until): &(Schedule, Time, Option<Time>)| {
            is_within(fire.scheduled_for(), *after, *until)
                && schedule.occurrences_from(fire.scheduled_for()).next()
                    == Some(fire.scheduled_for())
        };
        assert!(every.periods.iter().any(is_ours), "{fire:?} is no occurrence");
    }

    /// Takes note of the answers that have come.
    pub(super) fn see_ends(&mut self) {
        let mut cx = Context::from_waker(Waker::noop());
        let mut completed = Vec::new();
        self.ends.retain_mut(|(fence, ended)| match Pin::new(ended).poll(&mut cx) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => {
                completed.push(*fence);
                false
            }
            Poll::Ready(Err(_)) => false,
        });
        for fence in completed {
            self.completed.insert(fence.timer, fence);
        }
    }

    /// Ends every schedule.
    pub(super) fn stop_all(world: &World) {
        NAMES.iter().for_each(|name| Self::stop_one(world, name, true));
    }

    /// Checks that everything has ended once.
    pub(super) fn check_end(&self, world: &World) {
        let left = world.db().timers(&TimerQuery::new().limit(u32::MAX)).unwrap();
        assert!(left.is_empty(), "{left:?} are left");
        let mut by_timer = BTreeMap::<TimerId, Vec<Record>>::new();
        let mut by_name = BTreeMap::<String, Vec<Time>>::new();
        let mut beside = BTreeSet::new();
        for record in world.db().records(&RecordQuery::new().limit(u32::MAX)).unwrap() {
            if let (Some(_), Some(name)) = (record.schedule, &record.name) {
                if self.beside.contains_key(&record.timer) {
                    beside.insert((name.clone(), record.scheduled_for));
                } else {
                    by_name.entry(name.clone()).or_default().push(record.scheduled_for);
                }
            }
            by_timer.entry(record.timer).or_default().push(record);
        }
        for (timer, records) in &by_timer {
            assert_eq!(records.len(), 1, "{timer} ended so: {records:?}");
        }
        for (timer, once) in &self.onces {
            let record = by_timer.get(timer).map(|records| &records[0]);
            assert!(record.is_some() || !once.is_made, "{timer} is lost");
            let is_cancelled = record.is_some_and(|end| end.outcome == Outcome::Cancelled);
            assert!(is_cancelled || !once.is_cancelled, "{record:?}, but it was cancelled");
        }
        for timer in self.beside.keys() {
            assert!(by_timer.contains_key(timer), "{timer} was made, and is lost");
        }
        for (timer, fence) in &self.completed {
            let record = &by_timer[timer][0];
            let of = (record.attempts, record.node);
            assert_eq!(of, (fence.attempt, Some(fence.lease.node)), "{record:?} and {fence:?}");
        }
        for record in by_timer.values().map(|records| &records[0]) {
            if record.reason == Some(Reason::Excluded) {
                assert!(self.excludes(record), "{record:?} is not excluded");
            }
        }
        for (name, every) in &self.schedules {
            let mut found = by_name.remove(name).unwrap_or_default();
            found.sort();
            let mut expected: Vec<Time> = every.periods.iter().flat_map(occurrences).collect();
            // A timer that was revived at the very time of an occurrence replaces it.
            let is_beside = |at: &Time| beside.contains(&(name.clone(), *at));
            expected.retain(|at| !is_beside(at) || found.binary_search(at).is_ok());
            assert_eq!(found, expected, "the occurrences of {name}");
        }
        assert!(by_name.is_empty(), "{by_name:?}");
    }

    fn excludes(&self, record: &Record) -> bool {
        let every = record.name.as_ref().and_then(|name| self.schedules.get(name));
        let at = record.scheduled_for;
        let excludes = |(schedule, after, until): &(Schedule, Time, Option<Time>)| {
            is_within(at, *after, *until) && schedule.excludes(at)
        };
        every.is_some_and(|every| every.periods.iter().any(excludes))
    }

    /// How much has happened.
    pub(super) fn events(&self) -> usize {
        self.started.len()
    }
}

fn is_within(at: Time, after: Time, until: Option<Time>) -> bool {
    at > after && until.is_none_or(|until| at <= until)
}

/// The schedule, one time in three with a start, an end and a window within the next seconds.
fn limited(world: &World, schedule: Schedule) -> Schedule {
    if !world.chance(333) {
        return schedule;
    }
    let now = world.db().now().unwrap();
    let [first, from, until, last] =
        [2_000, 4_000, 8_000, 40_000].map(|end| now + Duration::from_millis(world.below(end)));
    let then = if world.chance(500) { Excluded::Skip } else { Excluded::RunAtEnd };
    schedule.starting_at(first).ending_at(last).excluding(from..until, then)
}

/// Occurrences that run, and excluded ones.
fn occurrences((schedule, after, until): &(Schedule, Time, Option<Time>)) -> Vec<Time> {
    let all = schedule.all_from(schedule.next_of_all(*after));
    all.take_while(|at| is_within(*at, *after, *until)).collect()
}

/// Returns the running timers of the schedule of that name.
fn running(world: &World, name: &str) -> Vec<(TimerId, u32)> {
    // A schedule that was removed is not found by its name.
    let all = TimerQuery::new().state(State::Running).limit(u32::MAX);
    let timers = world.db().timers(&all).unwrap().into_iter();
    let running = timers.filter(|timer| timer.new.name.as_deref() == Some(name));
    running.map(|timer| (timer.new.id, timer.attempt)).collect()
}
