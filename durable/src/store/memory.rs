//! [`Memory`]: a store for tests, on the clock of any timer, a virtual one too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{
    Advance, Advanced, Beat, Change, Changed, Claimed, End, Filter, Finished, How, Inserted,
    NewTimer, Occupied, Result, Scan, ScheduleRow, Skip, Store, Tended, Timer, Upcoming, Waiting,
    Window, Withdrawn,
};
use crate::canary::{Bug, seeded};
use crate::id::{Lease, NodeId, ScheduleId, Shards, TimerId};
use crate::record::{Outcome, Reason, Record};
use crate::time::Time;

/// A database in memory, which ends with its last connection.
///
/// Its clock is the wall clock of a [`tourbillon::Timer`].
#[derive(Clone)]
pub struct Memory {
    clock: tourbillon::Timer,
    tables: Arc<Mutex<Tables>>,
}

#[derive(Default)]
struct Tables {
    nodes: BTreeMap<NodeId, Node>,
    timers: BTreeMap<TimerId, Timer>,
    /// All timers, running ones too.
    by_due: BTreeSet<(Time, TimerId)>,
    /// Timers with a name and no schedule.
    by_name: HashMap<String, TimerId>,
    /// The timers of each schedule, in their order.
    by_schedule: BTreeMap<ScheduleId, BTreeMap<Time, TimerId>>,
    schedules: BTreeMap<String, ScheduleRow>,
    records: BTreeMap<(Time, TimerId), Record>,
    /// The occurrences in `records`.
    recorded: HashSet<(ScheduleId, Time)>,
    /// The timers in `records`, and where.
    ended: HashMap<TimerId, Time>,
}

struct Node {
    epoch: u64,
    /// `None` once the life under `epoch` has ended.
    life: Option<Life>,
}

struct Life {
    expires: Time,
    beat: Time,
}

impl Memory {
    /// An empty database, on the wall clock of `clock`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::{Timer, VirtualClock};
    /// use tourbillon_durable::store::{Memory, Store};
    ///
    /// let clock = VirtualClock::new();
    /// let mut store = Memory::new(&Timer::builder().virtual_clock(&clock).build()?);
    /// assert_eq!(store.now()?, clock.wall_now().into());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(clock: &tourbillon::Timer) -> Self {
        Self { clock: clock.clone(), tables: Arc::default() }
    }

    /// The tables and the time. One transaction lasts until the guard is dropped.
    fn begin(&self) -> (Time, MutexGuard<'_, Tables>) {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        (self.clock.wall_now().into(), tables)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (now, tables) = self.begin();
        f.debug_struct("Memory")
            .field("now", &now)
            .field("timers", &tables.timers.len())
            .field("schedules", &tables.schedules.len())
            .field("records", &tables.records.len())
            .finish_non_exhaustive()
    }
}

impl Tables {
    fn lives(&self, lease: Lease) -> bool {
        let node = self.nodes.get(&lease.node);
        node.is_some_and(|node| node.epoch == lease.epoch && node.life.is_some())
    }

    fn alive(&self) -> Vec<(NodeId, Time)> {
        let beat = |(id, node): (&NodeId, &Node)| Some((*id, node.life.as_ref()?.beat));
        self.nodes.iter().filter_map(beat).collect()
    }

    fn add(&mut self, new: NewTimer) {
        self.by_due.insert((new.due, new.id));
        match (new.schedule, &new.name) {
            (Some(schedule), _) => {
                self.by_schedule.entry(schedule).or_default().insert(new.scheduled_for, new.id);
            }
            (None, Some(name)) => {
                self.by_name.insert(name.clone(), new.id);
            }
            (None, None) => {}
        }
        self.timers.insert(new.id, Timer { new, attempt: 0, failures: 0, running: None });
    }

    fn take(&mut self, id: TimerId) -> Option<Timer> {
        let timer = self.timers.remove(&id)?;
        self.by_due.remove(&(timer.new.due, id));
        match (timer.new.schedule, &timer.new.name) {
            (Some(schedule), _) => {
                let timers = self.by_schedule.entry(schedule).or_default();
                timers.remove(&timer.new.scheduled_for);
            }
            (None, Some(name)) => {
                self.by_name.remove(name);
            }
            (None, None) => {}
        }
        Some(timer)
    }

    /// Makes a timer pending.
    fn free(&mut self, id: TimerId, due: Option<Time>) {
        if let Some(timer) = self.timers.get_mut(&id) {
            timer.running = None;
            if let Some(due) = due {
                self.by_due.remove(&(timer.new.due, id));
                self.by_due.insert((due, id));
                timer.new.due = due;
            }
        }
    }

    fn free_all(&mut self, is_freed: impl Fn(&Self, Lease) -> bool) -> u64 {
        let running = self.timers.iter().filter_map(|(id, timer)| Some((*id, timer.running?)));
        let freed: Vec<_> =
            running.filter(|(_, lease)| is_freed(self, *lease)).map(|(id, _)| id).collect();
        for id in &freed {
            self.free(*id, None);
        }
        freed.len() as u64
    }

    fn record(&mut self, record: Record) {
        if let Some(schedule) = record.schedule {
            self.recorded.insert((schedule, record.scheduled_for));
        }
        self.ended.insert(record.timer, record.recorded);
        self.records.insert((record.recorded, record.timer), record);
    }

    /// Ends a timer that is not running.
    fn withdraw(&mut self, id: TimerId, reason: Reason, now: Time) {
        if let Some(timer) = self.take(id) {
            let how = (Outcome::Cancelled, Some(reason), String::new());
            self.record(record(timer, how, None, now));
        }
    }

    fn has(&self, schedule: ScheduleId, scheduled_for: Time) -> bool {
        self.recorded.contains(&(schedule, scheduled_for))
            || self.of_schedule(schedule).any(|timer| timer.new.scheduled_for == scheduled_for)
    }

    fn of_schedule(&self, schedule: ScheduleId) -> impl Iterator<Item = &Timer> {
        let ids = self.by_schedule.get(&schedule).into_iter().flat_map(BTreeMap::values);
        ids.filter_map(|id| self.timers.get(id))
    }

    fn occupied(&self, schedule: ScheduleId) -> Occupied {
        let mut occupied = Occupied::default();
        for timer in self.of_schedule(schedule) {
            if timer.running.is_none() && timer.new.due == Time::NEVER {
                occupied.queued += 1;
            } else {
                occupied.unfinished += 1;
            }
        }
        occupied
    }

    fn skip(&mut self, skipped: &[Skip], row: &ScheduleRow, now: Time) {
        for skip in skipped {
            if !self.has(row.id, skip.scheduled_for) {
                self.record(Record {
                    timer: skip.id,
                    schedule: Some(row.id),
                    name: Some(row.name.clone()),
                    kind: row.kind.clone(),
                    scheduled_for: skip.scheduled_for,
                    attempts: 0,
                    failures: 0,
                    outcome: skip.outcome,
                    reason: Some(skip.reason),
                    detail: String::new(),
                    node: None,
                    recorded: now,
                });
            }
        }
    }

    fn finish(&mut self, lease: Lease, end: &End, now: Time) -> Finished {
        let timer = self.timers.get_mut(&end.timer);
        let Some(timer) = timer.filter(|timer| {
            let is_fenced = timer.running == Some(lease) && timer.attempt == end.attempt;
            is_fenced || seeded(Bug::FenceRemoved) && timer.running.is_some()
        }) else {
            let record = self.ended.get(&end.timer).map(|at| &self.records[&(*at, end.timer)]);
            let is_ours = record.is_some_and(|record| {
                record.attempts == end.attempt && record.node == Some(lease.node)
            });
            let is_repeated = matches!(end.how, How::Done(..)) && is_ours;
            return if is_repeated { Finished::Accepted } else { Finished::Fenced };
        };
        match &end.how {
            How::Done(outcome, reason, detail) => {
                timer.failures += u32::from(*outcome == Outcome::Dead);
                if let Some(timer) = self.take(end.timer) {
                    let how = (*outcome, *reason, detail.clone());
                    self.record(record(timer, how, Some(lease.node), now));
                }
            }
            How::Retry(pause) => {
                timer.failures += 1;
                self.free(end.timer, Some(now + *pause));
            }
            How::HandBack => self.free(end.timer, None),
        }
        Finished::Accepted
    }
}

fn record(
    timer: Timer,
    (outcome, reason, detail): (Outcome, Option<Reason>, String),
    node: Option<NodeId>,
    recorded: Time,
) -> Record {
    Record {
        timer: timer.new.id,
        schedule: timer.new.schedule,
        name: timer.new.name,
        kind: timer.new.kind,
        scheduled_for: timer.new.scheduled_for,
        attempts: timer.attempt,
        failures: timer.failures,
        outcome,
        reason,
        detail,
        node,
        recorded,
    }
}

impl Store for Memory {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.clone()))
    }

    fn now(&mut self) -> Result<Time> {
        Ok(self.begin().0)
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let (now, mut tables) = self.begin();
        let entry = tables.nodes.entry(lease.node).or_insert(Node { epoch: 0, life: None });
        if entry.epoch >= lease.epoch && !seeded(Bug::EpochRepeated) {
            return Ok(None);
        }
        let life = Some(Life { expires: now + span, beat: now });
        *entry = Node { epoch: lease.epoch, life };
        Ok(Some(Beat { lease, now, nodes: tables.alive() }))
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let (now, mut tables) = self.begin();
        let node = tables.nodes.get_mut(&lease.node).filter(|node| node.epoch == lease.epoch);
        let Some(life) = node.and_then(|node| node.life.as_mut()) else { return Ok(None) };
        *life = Life { expires: now + span, beat: now };
        Ok(Some(Beat { lease, now, nodes: tables.alive() }))
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        let (_, mut tables) = self.begin();
        if tables.lives(lease) {
            tables.nodes.entry(lease.node).and_modify(|node| node.life = None);
            tables.free_all(|_, running| running == lease);
        }
        Ok(())
    }

    fn tend(&mut self) -> Result<Tended> {
        let (now, mut tables) = self.begin();
        let mut tended = Tended::default();
        for node in tables.nodes.values_mut() {
            if node.life.as_ref().is_some_and(|life| life.expires < now) {
                node.life = None;
                tended.nodes += 1;
            }
        }
        tended.orphans =
            tables.free_all(|tables, lease| !tables.lives(lease) || seeded(Bug::LeaseIgnored));
        let queued = tables.by_due.range((Time::NEVER, TimerId::from_bits(0))..);
        let queued = queued.filter_map(|(_, id)| tables.timers[id].new.schedule);
        for schedule in queued.collect::<BTreeSet<_>>() {
            if tables.occupied(schedule).unfinished == 0 {
                let first = tables.of_schedule(schedule).next().map(|timer| timer.new.id);
                if let Some(first) = first {
                    tables.free(first, Some(now));
                    tended.promoted += 1;
                }
            }
        }
        Ok(tended)
    }

    fn insert(&mut self, timers: &[NewTimer], repeated: bool) -> Result<Vec<Inserted>> {
        let (now, mut tables) = self.begin();
        let insert = |new: &NewTimer| {
            let named = new.name.as_ref().filter(|_| new.schedule.is_none());
            if let Some(id) = named.and_then(|name| tables.by_name.get(name)) {
                return Inserted::Exists(*id);
            }
            if tables.timers.contains_key(&new.id) || repeated && tables.ended.contains_key(&new.id)
            {
                return Inserted::Exists(new.id);
            }
            tables.add(NewTimer { due: new.due.max(now), ..new.clone() });
            Inserted::Created
        };
        Ok(timers.iter().map(insert).collect())
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        let (now, tables) = self.begin();
        let floor = scan.back.map_or(Time::from_micros(i64::MIN), |back| now - back);
        let (least, most) = (TimerId::from_bits(0), TimerId::from_bits(u128::MAX));
        let end = (now + scan.ahead).min(Time::NEVER - Duration::from_micros(1));
        let range = tables.by_due.range((floor, least)..=(end.max(floor), most));
        let waiting = range.filter_map(|(due, id)| {
            let timer = &tables.timers[id];
            let kind = scan.kinds.iter().position(|kind| *kind == timer.new.kind)?;
            let is_meant = timer.running.is_none() && scan.shards.contains(id.shard());
            is_meant.then_some(Waiting { due: *due, id: *id, kind: kind as u32 })
        });
        Ok(Window { now, timers: waiting.take(scan.limit as usize).collect() })
    }

    fn held(&mut self, lease: Lease) -> Result<Vec<(TimerId, u32)>> {
        let (_, tables) = self.begin();
        let held = tables.timers.values().filter(|timer| timer.running == Some(lease));
        Ok(held.map(|timer| (timer.new.id, timer.attempt)).collect())
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        let (now, mut tables) = self.begin();
        let lives = tables.lives(lease);
        let mut claimed = Vec::new();
        for id in timers {
            let timer = tables.timers.get_mut(id);
            let timer = timer.filter(|timer| timer.running.is_none() && timer.new.due <= now);
            if let Some(timer) = timer.filter(|_| lives) {
                timer.attempt += 1;
                timer.running = Some(lease);
                claimed.push(timer.clone());
            }
        }
        claimed.sort_by_key(|timer| (timer.new.due, timer.new.id));
        Ok(Claimed { now, timers: claimed })
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        let (now, mut tables) = self.begin();
        Ok(ends.iter().map(|end| tables.finish(lease, end, now)).collect())
    }

    fn cancel(&mut self, timer: TimerId) -> Result<Withdrawn> {
        let (now, mut tables) = self.begin();
        match tables.timers.get(&timer) {
            None => Ok(Withdrawn::Gone),
            Some(Timer { running: Some(_), attempt, .. }) => {
                Ok(Withdrawn::Running { attempt: *attempt })
            }
            Some(_) => {
                tables.withdraw(timer, Reason::Cancelled, now);
                Ok(Withdrawn::Done)
            }
        }
    }

    fn reschedule(&mut self, timer: TimerId, to: Time) -> Result<Withdrawn> {
        let (now, mut tables) = self.begin();
        match tables.timers.get_mut(&timer) {
            Some(Timer { running: Some(_), attempt, .. }) => {
                Ok(Withdrawn::Running { attempt: *attempt })
            }
            Some(row) if row.new.schedule.is_none() => {
                row.new.scheduled_for = to;
                tables.free(timer, Some(to.max(now)));
                Ok(Withdrawn::Done)
            }
            _ => Ok(Withdrawn::Gone),
        }
    }

    fn find(&mut self, name: &str) -> Result<Option<Timer>> {
        let (_, tables) = self.begin();
        Ok(tables.by_name.get(name).map(|id| tables.timers[id].clone()))
    }

    fn timers(&mut self, filter: &Filter) -> Result<Vec<Timer>> {
        let (_, tables) = self.begin();
        let rows = tables.timers.values().filter(|timer| {
            let new = &timer.new;
            filter.takes(&new.kind, new.name.as_deref(), new.schedule, Some(new.id))
                && filter.after.is_none_or(|after| new.id.bits() > after)
        });
        Ok(rows.take(filter.limit()).cloned().collect())
    }

    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)> {
        let (now, tables) = self.begin();
        Ok((now, tables.schedules.get(name).cloned()))
    }

    fn schedules(&mut self, filter: &Filter) -> Result<Vec<ScheduleRow>> {
        let (_, tables) = self.begin();
        let rows = tables.schedules.values().filter(|row| {
            filter.takes(&row.kind, Some(&row.name), filter.schedule, filter.timer)
                && filter.after.is_none_or(|after| row.id.bits() > after)
        });
        let mut rows: Vec<_> = rows.cloned().collect();
        rows.sort_by_key(|row| row.id);
        rows.truncate(filter.limit());
        Ok(rows)
    }

    fn upcoming(&mut self, ahead: Duration, shards: Shards, limit: u32) -> Result<Upcoming> {
        let (now, tables) = self.begin();
        let rows = tables.schedules.values().filter(|row| {
            let comes = row.next.is_some_and(|next| next <= now + ahead);
            row.enabled && comes && shards.contains(row.id.shard())
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (row.next, row.id));
        rows.truncate(limit as usize);
        let occupied = |row: &ScheduleRow| (row.clone(), tables.occupied(row.id));
        Ok(Upcoming { now, schedules: rows.into_iter().map(occupied).collect() })
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        let (now, mut tables) = self.begin();
        let old = tables.schedules.get(change.name).cloned();
        if old.as_ref().map(|row| row.version) != change.expect {
            return Ok(Changed::Stale);
        }
        let version = change.expect.unwrap_or(0) + 1;
        match change.row {
            Some(row) => {
                let row = ScheduleRow { version, ..row.clone() };
                tables.schedules.insert(change.name.to_owned(), row);
            }
            None => {
                tables.schedules.remove(change.name);
            }
        }
        let Some(row) = old.as_ref().or(change.row) else {
            return Ok(Changed::Done { version, running: Vec::new() });
        };
        let timers: Vec<_> = tables.of_schedule(row.id).cloned().collect();
        if let Some(reason) = change.withdraw {
            for timer in timers.iter().filter(|timer| timer.running.is_none()) {
                if timer.new.scheduled_for > change.as_of && timer.attempt == 0 {
                    tables.take(timer.new.id);
                } else {
                    tables.withdraw(timer.new.id, reason, now);
                }
            }
        }
        tables.skip(change.skipped, row, now);
        let running = timers.iter().filter(|timer| timer.running.is_some());
        let running = running.map(|timer| (timer.new.id, timer.attempt)).collect();
        Ok(Changed::Done { version, running })
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        let (now, mut tables) = self.begin();
        let is_meant = |row: &&mut ScheduleRow| row.id == advance.schedule;
        let is_busy = tables.occupied(advance.schedule).unfinished > 0;
        let Some(row) = tables.schedules.values_mut().find(is_meant) else {
            return Ok(Advanced::Stale);
        };
        let is_as_read = row.version == advance.version && row.next == Some(advance.from)
            || seeded(Bug::AdvanceUnchecked);
        if !row.enabled || !is_as_read {
            return Ok(Advanced::Stale);
        }
        if advance.only_idle && is_busy {
            return Ok(Advanced::Busy);
        }
        row.next = advance.next;
        let row = row.clone();
        for new in advance.timers {
            if !tables.has(row.id, new.scheduled_for) {
                tables.add(NewTimer { due: new.due.max(now), ..new.clone() });
            }
        }
        tables.skip(advance.skipped, &row, now);
        Ok(Advanced::Done)
    }

    fn records(&mut self, filter: &Filter) -> Result<Vec<Record>> {
        let (_, tables) = self.begin();
        let rows = tables.records.iter().filter(|(place, record)| {
            let (schedule, timer) = (record.schedule, Some(record.timer));
            filter.takes(&record.kind, record.name.as_deref(), schedule, timer)
                && filter.after_record.is_none_or(|after| **place > after)
        });
        Ok(rows.map(|(_, record)| record.clone()).take(filter.limit()).collect())
    }

    fn prune(&mut self, before: Time, limit: u32) -> Result<u64> {
        let (_, mut tables) = self.begin();
        let old = tables.records.range(..(before, TimerId::from_bits(0)));
        let old: Vec<_> = old.map(|(place, _)| *place).take(limit as usize).collect();
        for place in &old {
            if let Some(record) = tables.records.remove(place) {
                tables.ended.remove(&record.timer);
                if let Some(schedule) = record.schedule {
                    tables.recorded.remove(&(schedule, record.scheduled_for));
                }
            }
        }
        Ok(old.len() as u64)
    }
}

impl Filter {
    fn takes(
        &self,
        kind: &str,
        name: Option<&str>,
        schedule: Option<ScheduleId>,
        timer: Option<TimerId>,
    ) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted == kind)
            && self.name.as_deref().is_none_or(|wanted| Some(wanted) == name)
            && self.schedule.is_none_or(|wanted| Some(wanted) == schedule)
            && self.timer.is_none_or(|wanted| Some(wanted) == timer)
    }
}
