//! [`Memory`]: a store for tests, on the clock of any timer, a virtual one too.

mod tables;

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::tables::{Life, Node, Tables};
use super::{
    Advance, Advanced, Amendment, Beat, Change, Changed, Claimed, End, Filled, Finished, Heard,
    Held, Inserted, Listening, Maintained, ManualRun, NewOccurrence, NewTimer, NodeInfo,
    Notification, Overview, OverviewOf, Past, Promoted, RecordQuery, Reschedule, Result, Scan,
    ScheduleQuery, ScheduleRow, Store, Timer, TimerOrder, TimerQuery, TimerUpdate, Upcoming,
    UpcomingQuery, Waiting, Window, ZonedQuery,
};
use crate::id::{Lease, NodeId, Shards, TimerId};
use crate::record::{Reason, Record};
use crate::time::Time;

/// Most timers in an answer to [`Store::held`], so few that tests see several parts.
const PART: usize = 100;

/// A database in memory, which ends with its last connection.
///
/// Its clock is the wall clock of a [`tourbillon::Timer`].
#[derive(Clone)]
pub struct Memory {
    clock: tourbillon::Timer,
    tables: Arc<Mutex<Tables>>,
}

impl Memory {
    /// An empty database, on the wall clock of `clock`.
    ///
    /// # Examples
    ///
    /// ```
    /// use tourbillon::Timer;
    /// use tourbillon::virtual_time::VirtualClock;
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

impl crate::store::Sealed for Memory {}

impl Store for Memory {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(self.clone()))
    }

    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        let (_, mut tables) = self.begin();
        tables.listeners.push(Arc::downgrade(&heard));
        Ok(Some(Box::new(heard)))
    }

    fn notify(&mut self, shards: Shards) -> Result<bool> {
        let (_, mut tables) = self.begin();
        tables.listeners.retain(|heard| heard.strong_count() > 0);
        let listeners: Vec<_> = tables.listeners.iter().filter_map(Weak::upgrade).collect();
        drop(tables);
        listeners.iter().for_each(|heard| heard(Notification::Due(shards)));
        Ok(true)
    }

    fn now(&mut self) -> Result<Time> {
        Ok(self.begin().0)
    }

    fn confirm(&mut self) -> Result<()> {
        // Its timers last as long as the process.
        Ok(())
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let (now, mut tables) = self.begin();
        let entry = tables.nodes.entry(lease.node).or_insert(Node { epoch: 0, life: None });
        if entry.epoch >= lease.epoch {
            return Ok(None);
        }
        let life = Some(Life { expires: now + span, beat: now });
        *entry = Node { epoch: lease.epoch, life };
        Ok(Some(Beat { lease, now, nodes: tables.alive() }))
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let (now, mut tables) = self.begin();
        Ok(tables.beat(lease, span, now))
    }

    fn leave(&mut self, lease: Lease) -> Result<()> {
        let (_, mut tables) = self.begin();
        if tables.lives(lease) {
            tables.nodes.entry(lease.node).and_modify(|node| node.life = None);
            tables.free_all(|_, running| running == lease);
        }
        Ok(())
    }

    fn maintain(&mut self) -> Result<Maintained> {
        let (now, mut tables) = self.begin();
        let mut maintained = Maintained::default();
        for node in tables.nodes.values_mut() {
            if node.life.as_ref().is_some_and(|life| life.expires < now) {
                node.life = None;
                maintained.nodes += 1;
            }
        }
        maintained.orphans = tables.free_all(|tables, lease| !tables.lives(lease));
        let stopped = tables.stopped.iter().filter(|(id, _)| tables.timers[id].running.is_none());
        let stopped: Vec<_> = stopped.map(|(id, reason)| (*id, *reason)).collect();
        for (id, reason) in stopped {
            tables.withdraw(id, reason, now);
        }
        let queued = tables.by_due.range((Time::NEVER, TimerId::from_bits(0))..);
        let queued = queued.map(|(_, id)| &tables.timers[id].new);
        let queued = queued.filter(|new| new.lane.is_none()).filter_map(|new| new.schedule);
        for schedule in queued.collect::<BTreeSet<_>>() {
            if tables.occupied(schedule).unfinished == 0 {
                let first = tables.of_schedule(schedule).next().map(|timer| timer.new.id);
                if let Some(first) = first {
                    tables.free(first, Some(now));
                    maintained.promoted += 1;
                }
            }
        }
        let lanes: Vec<_> = tables.lanes.keys().cloned().collect();
        let promoted = lanes.iter().filter_map(|lane| tables.promote(lane, now));
        maintained.promoted += promoted.count() as u64;
        Ok(maintained)
    }

    fn promote(&mut self, lanes: &[String]) -> Result<Vec<Promoted>> {
        let (now, mut tables) = self.begin();
        Ok(lanes.iter().filter_map(|lane| tables.promote(lane, now)).collect())
    }

    fn nodes(&mut self) -> Result<Vec<NodeInfo>> {
        let (_, tables) = self.begin();
        let info = |(id, node): (&NodeId, &Node)| {
            let life = node.life.as_ref()?;
            Some(NodeInfo { id: *id, epoch: node.epoch, beat: life.beat, expires: life.expires })
        };
        Ok(tables.nodes.iter().filter_map(info).collect())
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        let (now, mut tables) = self.begin();
        let insert = |new: &NewTimer| {
            let named = new.name.as_ref().filter(|_| new.schedule.is_none());
            if let Some(id) = named.and_then(|name| tables.by_name.get(name)) {
                return Inserted::Exists(*id);
            }
            if tables.knows(new.id) {
                return Inserted::Exists(new.id);
            }
            tables.add(NewTimer { due: new.due.max(now), ..new.clone() });
            Inserted::Created
        };
        Ok(timers.iter().map(insert).collect())
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        let (now, mut tables) = self.begin();
        let pulsed = scan.pulse.map(|pulse| tables.pulse(&pulse, now));
        let floor = scan.back.map_or(Time::from_micros(i64::MIN), |back| now - back);
        let (least, most) = (TimerId::from_bits(0), TimerId::from_bits(u128::MAX));
        let end = (now + scan.ahead).min(Time::NEVER - Duration::from_micros(1));
        let late = scan.grace.map(|grace| now - grace);
        let mut left = vec![scan.kind_limit; scan.kinds.len()];
        let range = tables.by_due.range((floor, least)..=(end.max(floor), most));
        let waiting = range.filter_map(|(due, id)| {
            let timer = &tables.timers[id];
            let kind = scan.kinds.iter().position(|kind| *kind == timer.new.kind)?;
            let is_pending = timer.running.is_none() && !tables.stopped.contains_key(id);
            let is_late = late.is_some_and(|late| *due <= late);
            let is_meant = is_pending && (is_late || scan.shards.contains(id.shard()));
            left[kind] = left[kind].checked_sub(u32::from(is_meant))?;
            is_meant.then_some(Waiting { due: *due, id: *id, kind: kind as u32 })
        });
        Ok(Window { now, timers: waiting.collect(), pulsed })
    }

    fn held(&mut self, lease: Lease, after: Option<(Time, TimerId)>) -> Result<Held> {
        let (_, tables) = self.begin();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let part: Vec<_> = tables.by_due.range((from, Bound::Unbounded)).take(PART).collect();
        let running = part.iter().map(|(_, id)| &tables.timers[id]);
        let held = running.filter(|timer| timer.running == Some(lease));
        let rest = (part.len() == PART).then(|| *part[PART - 1]);
        Ok(Held::new(held.map(|timer| (timer.new.id, timer.attempt)).collect(), rest))
    }

    fn claim(&mut self, lease: Lease, timers: &[TimerId]) -> Result<Claimed> {
        let (now, mut tables) = self.begin();
        let lives = tables.lives(lease);
        let mut claimed = Vec::new();
        for id in timers {
            if tables.stopped.contains_key(id) {
                continue;
            }
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

    fn cancel(&mut self, timer: TimerId) -> Result<TimerUpdate> {
        let (now, mut tables) = self.begin();
        match tables.timers.get(&timer) {
            None => Ok(TimerUpdate::Gone),
            Some(Timer { running: Some(_), attempt, .. }) => {
                Ok(TimerUpdate::Running { attempt: *attempt })
            }
            Some(_) => {
                tables.withdraw(timer, Reason::Cancelled, now);
                Ok(TimerUpdate::Done)
            }
        }
    }

    fn reschedule(&mut self, reschedule: &Reschedule<'_>) -> Result<TimerUpdate> {
        let Reschedule { timer, to, payload, expect, attempt } = *reschedule;
        let (now, mut tables) = self.begin();
        match tables.timers.get_mut(&timer) {
            Some(row) if expect.is_some_and(|expect| expect != row.version) => {
                Ok(TimerUpdate::Stale)
            }
            Some(Timer { running: Some(_), attempt, .. }) => {
                Ok(TimerUpdate::Running { attempt: *attempt })
            }
            Some(row) if attempt.is_some_and(|expect| expect != row.attempt) => {
                Ok(TimerUpdate::Stale)
            }
            Some(row) if row.new.schedule.is_none() => {
                row.version += 1;
                let old = std::mem::replace(&mut row.new.scheduled_for, to);
                if let Some(payload) = payload {
                    row.new.payload = payload.to_vec();
                }
                let waits = row.new.lane.is_some() && row.new.due == Time::NEVER;
                let due = if waits { Time::NEVER } else { to.max(now) };
                tables.move_in_lane(timer, old);
                tables.free(timer, Some(due));
                Ok(TimerUpdate::Done)
            }
            _ => Ok(TimerUpdate::Gone),
        }
    }

    fn amend(&mut self, amendment: &Amendment<'_>) -> Result<TimerUpdate> {
        let (now, mut tables) = self.begin();
        let Amendment { timer, attempt, version, pause, detail } = *amendment;
        let is_stopped = tables.stopped.contains_key(&timer);
        match tables.timers.get_mut(&timer) {
            Some(row) if row.version != version => Ok(TimerUpdate::Stale),
            Some(Timer { running: Some(_), attempt, .. }) => {
                Ok(TimerUpdate::Running { attempt: *attempt })
            }
            Some(row) if row.attempt != attempt => Ok(TimerUpdate::Stale),
            Some(row) if !is_stopped => {
                row.version += 1;
                detail.clone_into(&mut row.detail);
                let waits = row.new.lane.is_some() || row.new.schedule.is_some();
                let waits = waits && row.new.due == Time::NEVER;
                let due = now.after_pause(pause).max(row.new.scheduled_for);
                let due = if waits { Time::NEVER } else { due };
                tables.free(timer, Some(due));
                Ok(TimerUpdate::Done)
            }
            _ => Ok(TimerUpdate::Gone),
        }
    }

    fn find(&mut self, name: &str) -> Result<Option<Timer>> {
        let (_, tables) = self.begin();
        Ok(tables.by_name.get(name).map(|id| tables.timers[id].clone()))
    }

    fn timers(&mut self, query: &TimerQuery) -> Result<Vec<Timer>> {
        let (_, tables) = self.begin();
        let schedule = query.name.as_ref().and_then(|name| tables.schedules.get(name));
        let is_meant = |timer: &&Timer| query.takes(timer, schedule.map(|row| row.id));
        let timer = |id: &TimerId| &tables.timers[id];
        let limit = query.limit as usize;
        Ok(match &query.order {
            TimerOrder::Name { prefix, after } => {
                let names = tables.by_name.range(prefix.clone()..);
                let names = names.take_while(|(name, _)| name.starts_with(prefix));
                let names = names.filter(|(name, _)| after.as_ref() < Some(*name));
                names.map(|(_, id)| timer(id)).filter(is_meant).take(limit).cloned().collect()
            }
            TimerOrder::Due { after } => {
                let places = tables.by_due.iter().filter(|place| after.as_ref() < Some(*place));
                places.map(|(_, id)| timer(id)).filter(is_meant).take(limit).cloned().collect()
            }
        })
    }

    fn schedule(&mut self, name: &str) -> Result<(Time, Option<ScheduleRow>)> {
        let (now, tables) = self.begin();
        Ok((now, tables.schedules.get(name).cloned()))
    }

    fn schedules(&mut self, query: &ScheduleQuery) -> Result<Vec<ScheduleRow>> {
        let (_, tables) = self.begin();
        let rows = tables.schedules.values().filter(|row| query.takes(row));
        Ok(rows.take(query.limit as usize).cloned().collect())
    }

    fn upcoming(&mut self, query: &UpcomingQuery) -> Result<Upcoming> {
        let (now, tables) = self.begin();
        let rows = tables.schedules.values().filter(|row| {
            let comes = row.next.is_some_and(|next| {
                next <= now + query.ahead && query.after.is_none_or(|after| (next, row.id) > after)
            });
            row.enabled && comes && query.shards.contains(row.id.shard())
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| (row.next, row.id));
        rows.truncate(query.limit as usize);
        let occupied = |row: &ScheduleRow| (row.clone(), tables.occupied(row.id));
        Ok(Upcoming { now, schedules: rows.into_iter().map(occupied).collect() })
    }

    fn zoned(&mut self, query: &ZonedQuery) -> Result<Vec<ScheduleRow>> {
        let (_, tables) = self.begin();
        let rows = tables.schedules.values().filter(|row| {
            let is_other =
                row.wall.as_ref().is_some_and(|wall| Some(wall.data()) != query.but.as_deref());
            row.enabled && is_other && query.after.is_none_or(|after| row.id > after)
        });
        let mut rows: Vec<_> = rows.cloned().collect();
        rows.sort_by_key(|row| row.id);
        rows.truncate(query.limit as usize);
        rows.iter_mut().for_each(|row| row.payload.clear());
        Ok(rows)
    }

    fn rezone(&mut self, row: &ScheduleRow) -> Result<Advanced> {
        let (now, mut tables) = self.begin();
        Ok(tables.rezone(row, now))
    }

    fn change(&mut self, change: &Change<'_>) -> Result<Changed> {
        let (now, mut tables) = self.begin();
        Ok(tables.change(change, now))
    }

    fn advance(&mut self, advance: &Advance<'_>) -> Result<Advanced> {
        let (now, mut tables) = self.begin();
        let is_meant = |row: &&mut ScheduleRow| row.id == advance.schedule;
        let is_busy = tables.occupied(advance.schedule).unfinished > 0;
        let Some(row) = tables.schedules.values_mut().find(is_meant) else {
            return Ok(Advanced::Stale);
        };
        let is_as_read = row.version == advance.version && row.next == Some(advance.from);
        if !row.enabled || !is_as_read {
            return Ok(Advanced::Stale);
        }
        if advance.only_idle && is_busy {
            return Ok(Advanced::Busy);
        }
        row.next = advance.next;
        row.wall = advance.wall.cloned();
        let row = row.clone();
        for new in advance.timers {
            if !tables.has(row.id, new.scheduled_for) {
                tables.add(NewTimer { due: new.due.max(now), ..new.clone() });
            }
        }
        tables.skip(advance.skipped, &row, now);
        Ok(Advanced::Done)
    }

    fn backfill(&mut self, past: &Past<'_>) -> Result<Filled> {
        let (now, mut tables) = self.begin();
        let is_as_read = |row: &ScheduleRow| {
            row.id == past.schedule && row.enabled && row.version == past.version
        };
        if !tables.schedules.values().any(is_as_read) {
            return Ok(Filled::Stale);
        }
        let (mut made, mut existed) = (0, 0);
        for new in past.timers {
            if made == past.limit {
                break;
            }
            tables.forget_skip(past.schedule, new.scheduled_for);
            if tables.has(past.schedule, new.scheduled_for) {
                existed += 1;
            } else {
                tables.add(NewTimer { due: new.due.max(now), ..new.clone() });
                made += 1;
            }
        }
        Ok(Filled::Done { made, existed })
    }

    fn insert_occurrence(&mut self, occurrence: &NewOccurrence<'_>) -> Result<ManualRun> {
        let (now, mut tables) = self.begin();
        if tables.knows(occurrence.timer.id) {
            return Ok(ManualRun::Exists);
        }
        let is_as_read = |row: &&ScheduleRow| {
            Some(row.id) == occurrence.timer.schedule
                && row.enabled
                && row.version == occurrence.version
        };
        let Some(schedule) = tables.schedules.values().find(is_as_read).map(|row| row.id) else {
            return Ok(ManualRun::Stale);
        };
        let Some(due) = occurrence.due(tables.occupied(schedule), now) else {
            return Ok(ManualRun::Busy);
        };
        let mut scheduled_for = now;
        while tables.has(schedule, scheduled_for) {
            scheduled_for = scheduled_for - Duration::from_micros(1);
        }
        tables.add(NewTimer { scheduled_for, due, ..occurrence.timer.clone() });
        Ok(ManualRun::Done { due })
    }

    fn records(&mut self, query: &RecordQuery) -> Result<Vec<Record>> {
        let (_, tables) = self.begin();
        let rows = tables.records.values().filter(|record| query.takes(record));
        let limit = query.limit as usize;
        Ok(if query.newest_first {
            rows.rev().take(limit).cloned().collect()
        } else {
            rows.take(limit).cloned().collect()
        })
    }

    fn overview(&mut self, of: &OverviewOf) -> Result<Overview> {
        let (now, tables) = self.begin();
        let mut overview = Overview::new(now);
        let part = of.part();
        for kind in &of.kinds {
            tables.count(kind, part, &mut overview);
        }
        Ok(overview)
    }

    fn prune(&mut self, before: Time, limit: u32) -> Result<u64> {
        let (_, mut tables) = self.begin();
        let old = tables.records.range(..(before, TimerId::from_bits(0)));
        let old: Vec<_> = old.map(|(place, _)| *place).take(limit as usize).collect();
        for place in &old {
            tables.forget(*place);
        }
        Ok(old.len() as u64)
    }
}
