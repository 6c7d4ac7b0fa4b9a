//! Tables in memory, and the effect of one statement on them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Weak;
use std::time::Duration;

use crate::id::{Lease, NodeId, ScheduleId, TimerId};
use crate::record::{Outcome, Reason, Record};
use crate::store::overview::HOUR;
use crate::store::{
    Advanced, Beat, Change, Changed, End, Finished, How, NewTimer, Notification, Overview,
    Promoted, Pulse, Pulsed, ScheduleRow, Skip, Timer, Unfinished,
};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Tables {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    pub(super) timers: BTreeMap<TimerId, Timer>,
    /// All timers, running ones too.
    pub(super) by_due: BTreeSet<(Time, TimerId)>,
    /// Timers that ran when their schedule was stopped, and do not run again.
    pub(super) stopped: BTreeMap<TimerId, Reason>,
    /// Timers with a name and no schedule.
    pub(super) by_name: BTreeMap<String, TimerId>,
    /// The timers of each lane, in their order.
    pub(super) lanes: BTreeMap<String, BTreeSet<(Time, TimerId)>>,
    /// The timers of each schedule, in their order.
    pub(super) by_schedule: BTreeMap<ScheduleId, BTreeMap<Time, TimerId>>,
    pub(super) schedules: BTreeMap<String, ScheduleRow>,
    pub(super) records: BTreeMap<(Time, TimerId), Record>,
    /// The occurrences in `records`.
    pub(super) recorded: HashSet<(ScheduleId, Time)>,
    /// The timers in `records`, and where.
    pub(super) ended: HashMap<TimerId, Time>,
    pub(super) listeners: Vec<Weak<dyn Fn(Notification) + Send + Sync>>,
}

pub(super) struct Node {
    pub(super) epoch: u64,
    /// `None` once the life under `epoch` has ended.
    pub(super) life: Option<Life>,
}

pub(super) struct Life {
    pub(super) expires: Time,
    pub(super) beat: Time,
}

impl Tables {
    pub(super) fn lives(&self, lease: Lease) -> bool {
        let node = self.nodes.get(&lease.node);
        node.is_some_and(|node| node.epoch == lease.epoch && node.life.is_some())
    }

    pub(super) fn alive(&self) -> Vec<(NodeId, Time)> {
        let beat = |(id, node): (&NodeId, &Node)| Some((*id, node.life.as_ref()?.beat));
        self.nodes.iter().filter_map(beat).collect()
    }

    pub(super) fn beat(&mut self, lease: Lease, span: Duration, now: Time) -> Option<Beat> {
        let node = self.nodes.get_mut(&lease.node).filter(|node| node.epoch == lease.epoch);
        *node?.life.as_mut()? = Life { expires: now + span, beat: now };
        Some(Beat { lease, now, nodes: self.alive() })
    }

    pub(super) fn pulse(&mut self, pulse: &Pulse, now: Time) -> Pulsed {
        let beat = self.beat(pulse.lease, pulse.span, now);
        let comes = |row: &ScheduleRow| row.next.is_some_and(|next| next <= now + pulse.ahead);
        let mut schedules = self.schedules.values().filter(|row| row.enabled && comes(row));
        let is_upcoming = schedules.any(|row| pulse.shards.contains(row.id.shard()));
        let mut lives = self.nodes.values().filter_map(|node| node.life.as_ref());
        let mut waiting = self.by_due.range((Time::NEVER, TimerId::from_bits(0))..);
        let is_queued = |new: &NewTimer| new.schedule.is_some() || new.lane.is_some();
        let has_work = !pulse.asks_for_work
            || lives.any(|life| life.expires < now)
            || self.by_due.first().is_some_and(|(due, _)| *due <= now)
            || !self.stopped.is_empty()
            || waiting.any(|(_, id)| is_queued(&self.timers[id].new));
        Pulsed { beat, is_upcoming, has_work }
    }

    /// Inserts a timer. In a lane, it waits.
    pub(super) fn add(&mut self, mut new: NewTimer) {
        if new.lane.is_some() {
            new.due = Time::NEVER;
        }
        self.put(Timer::new(new));
    }

    /// Inserts a timer as it is.
    fn put(&mut self, timer: Timer) {
        let new = &timer.new;
        if let Some(lane) = &new.lane {
            let place = (new.scheduled_for, new.id);
            self.lanes.entry(lane.clone()).or_default().insert(place);
        }
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
        self.timers.insert(new.id, timer);
    }

    pub(super) fn take(&mut self, id: TimerId) -> Option<Timer> {
        let timer = self.timers.remove(&id)?;
        self.stopped.remove(&id);
        if let Some(lane) = &timer.new.lane {
            self.leave_lane(lane, (timer.new.scheduled_for, id));
        }
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

    fn leave_lane(&mut self, lane: &str, place: (Time, TimerId)) {
        if let Some(timers) = self.lanes.get_mut(lane) {
            timers.remove(&place);
            if timers.is_empty() {
                self.lanes.remove(lane);
            }
        }
    }

    /// Puts a timer that was scheduled for `old` where its lane has it now.
    pub(super) fn move_in_lane(&mut self, id: TimerId, old: Time) {
        let timer = self.timers.get(&id);
        let place =
            timer.and_then(|timer| Some((timer.new.lane.clone()?, timer.new.scheduled_for)));
        if let Some((lane, new)) = place {
            self.leave_lane(&lane, (old, id));
            self.lanes.entry(lane).or_default().insert((new, id));
        }
    }

    /// Chooses the front of a lane, if that is another than now.
    pub(super) fn promote(&mut self, lane: &str, now: Time) -> Option<Promoted> {
        let timers = self.lanes.get(lane)?;
        let is_front = |(_, id): &&(Time, TimerId)| self.timers[id].new.due < Time::NEVER;
        let front = timers.iter().find(is_front).copied();
        let is_waiting = |place: &&(Time, TimerId)| !is_front(place) && place.0 < Time::NEVER;
        let first = *timers.iter().find(is_waiting)?;
        if let Some(front) = front {
            let timer = &self.timers[&front.1];
            if front < first || timer.attempt > 0 || timer.running.is_some() {
                return None;
            }
            self.free(front.1, Some(Time::NEVER));
        }
        let (id, due) = (first.1, first.0.max(now));
        self.free(id, Some(due));
        Some(Promoted { id, kind: self.timers[&id].new.kind.clone(), due })
    }

    /// Makes a timer pending.
    pub(super) fn free(&mut self, id: TimerId, due: Option<Time>) {
        if let Some(timer) = self.timers.get_mut(&id) {
            timer.running = None;
            if let Some(due) = due {
                self.by_due.remove(&(timer.new.due, id));
                self.by_due.insert((due, id));
                timer.new.due = due;
            }
        }
    }

    pub(super) fn free_all(&mut self, is_freed: impl Fn(&Self, Lease) -> bool) -> u64 {
        let running = self.timers.iter().filter_map(|(id, timer)| Some((*id, timer.running?)));
        let freed: Vec<_> =
            running.filter(|(_, lease)| is_freed(self, *lease)).map(|(id, _)| id).collect();
        for id in &freed {
            self.free(*id, None);
        }
        freed.len() as u64
    }

    pub(super) fn record(&mut self, record: Record) {
        if let Some(schedule) = record.schedule {
            self.recorded.insert((schedule, record.scheduled_for));
        }
        self.ended.insert(record.timer, record.recorded);
        self.records.insert((record.recorded, record.timer), record);
    }

    /// Deletes the record at that place.
    pub(super) fn forget(&mut self, place: (Time, TimerId)) {
        if let Some(record) = self.records.remove(&place) {
            self.ended.remove(&record.timer);
            if let Some(schedule) = record.schedule {
                self.recorded.remove(&(schedule, record.scheduled_for));
            }
        }
    }

    /// Deletes the record of an occurrence that was skipped.
    pub(super) fn forget_skip(&mut self, schedule: ScheduleId, scheduled_for: Time) {
        if self.recorded.contains(&(schedule, scheduled_for)) {
            let is_it = |record: &&Record| {
                record.outcome == Outcome::Skipped
                    && record.schedule == Some(schedule)
                    && record.scheduled_for == scheduled_for
            };
            let found = self.records.values().find(is_it);
            if let Some(place) = found.map(|record| (record.recorded, record.timer)) {
                self.forget(place);
            }
        }
    }

    /// Ends a timer that is not running.
    pub(super) fn withdraw(&mut self, id: TimerId, reason: Reason, now: Time) {
        if let Some(timer) = self.take(id) {
            let record = Record::new(timer, Outcome::Cancelled, now);
            self.record(Record { reason: Some(reason), ..record });
        }
    }

    /// Returns whether a timer with this id is there, or was.
    pub(super) fn knows(&self, id: TimerId) -> bool {
        self.timers.contains_key(&id) || self.ended.contains_key(&id)
    }

    pub(super) fn has(&self, schedule: ScheduleId, scheduled_for: Time) -> bool {
        self.recorded.contains(&(schedule, scheduled_for))
            || self.of_schedule(schedule).any(|timer| timer.new.scheduled_for == scheduled_for)
    }

    pub(super) fn of_schedule(&self, schedule: ScheduleId) -> impl Iterator<Item = &Timer> {
        let ids = self.by_schedule.get(&schedule).into_iter().flat_map(BTreeMap::values);
        ids.filter_map(|id| self.timers.get(id))
    }

    pub(super) fn occupied(&self, schedule: ScheduleId) -> Unfinished {
        let mut occupied = Unfinished::default();
        for timer in self.of_schedule(schedule) {
            let waits = timer.running.is_none() && timer.new.due == Time::NEVER;
            if waits && timer.new.lane.is_none() {
                occupied.queued += 1;
            } else {
                occupied.unfinished += 1;
            }
        }
        occupied
    }

    pub(super) fn skip(&mut self, skipped: &[Skip], row: &ScheduleRow, now: Time) {
        for skip in skipped {
            if !self.has(row.id, skip.scheduled_for) {
                let (name, kind) = (Some(row.name.clone()), row.kind.clone());
                let new = NewTimer::new(skip.id, kind, skip.scheduled_for);
                let timer = Timer::new(NewTimer { schedule: Some(row.id), name, ..new });
                let reason = Some(skip.reason);
                self.record(Record { reason, ..Record::new(timer, skip.outcome, now) });
            }
        }
    }

    pub(super) fn change(&mut self, change: &Change<'_>, now: Time) -> Changed {
        let old = self.schedules.get(change.name).cloned();
        if old.as_ref().map(|row| row.version) != change.expect {
            return Changed::Stale;
        }
        let version = change.expect.unwrap_or(0) + 1;
        match change.row {
            Some(row) => {
                let row = ScheduleRow { version, ..row.clone() };
                self.schedules.insert(change.name.to_owned(), row);
            }
            None => {
                self.schedules.remove(change.name);
            }
        }
        let Some(row) = old.as_ref().or(change.row) else {
            return Changed::Done { claimed: Vec::new() };
        };
        let timers: Vec<_> = self.of_schedule(row.id).cloned().collect();
        if let Some(reason) = change.withdraw {
            for timer in timers.iter().filter(|timer| timer.running.is_none()) {
                if timer.new.scheduled_for > now && timer.attempt == 0 {
                    self.take(timer.new.id);
                } else {
                    self.withdraw(timer.new.id, reason, now);
                }
            }
            let running = timers.iter().filter(|timer| timer.running.is_some());
            self.stopped.extend(running.map(|timer| (timer.new.id, reason)));
        }
        if let Some(new) = change.occurrence() {
            timers.iter().for_each(|timer| self.renew(timer.new.id, &new));
        }
        self.skip(change.skipped, row, now);
        let claimed = self.of_schedule(row.id).filter(|timer| timer.attempt > 0);
        let claimed = claimed.map(|timer| (timer.new.id, timer.attempt)).collect();
        Changed::Done { claimed }
    }

    /// Gives a timer that was never claimed the values of a new definition.
    fn renew(&mut self, id: TimerId, new: &NewTimer) {
        let Some(timer) = self.timers.get_mut(&id).filter(|timer| timer.attempt == 0) else {
            return;
        };
        let old = &mut timer.new;
        let has_all = (&old.payload, old.retry, old.has_queue);
        if has_all != (&new.payload, new.retry, new.has_queue) {
            old.payload.clone_from(&new.payload);
            (old.retry, old.has_queue) = (new.retry, new.has_queue);
            timer.version += 1;
        }
    }

    pub(super) fn rezone(&mut self, read: &ScheduleRow, now: Time) -> Advanced {
        let to_come = |timer: &&Timer| timer.attempt == 0 && timer.new.scheduled_for > now;
        let to_come = self.of_schedule(read.id).filter(to_come);
        let taken: Vec<_> = to_come.map(|timer| (timer.new.scheduled_for, timer.new.id)).collect();
        let row = self.schedules.get_mut(&read.name).filter(|row| {
            row.enabled && (row.id, row.version, row.next) == (read.id, read.version, read.next)
        });
        let Some(row) = row else { return Advanced::Stale };
        let first = taken.iter().map(|(at, _)| *at).min();
        *row = row.clone().with_next(row.found_again(first, now));
        for (_, id) in taken {
            self.take(id);
        }
        Advanced::Done
    }

    /// Counts the rows of a kind, at most `part` of them for each count.
    pub(super) fn count(&self, kind: &str, part: u32, overview: &mut Overview) {
        let most = part as usize;
        let timers = self.by_due.iter().map(|(_, id)| &self.timers[id]);
        let timers = timers.filter(|timer| timer.new.kind == kind);
        let due = timers.clone().take_while(|timer| timer.new.due <= overview.now).take(most);
        let (running, pending): (Vec<_>, Vec<_>) = due.partition(|timer| timer.running.is_some());
        let oldest = pending.first().map(|timer| timer.new.due);
        overview.add_due(pending.len() as u64, oldest, running.len() as u64, part);

        let next = timers.map(|timer| timer.new.due).skip_while(|due| *due <= overview.now);
        let next = next.take_while(|due| *due <= overview.now + HOUR).take(most);
        let minute = |due: Time| (due.since(overview.now).as_micros() as u64 - 1) / 60_000_000;
        let minutes: Vec<_> = next.map(|due| (minute(due) as u32, 1, due)).collect();
        overview.add_next(&minutes, part);

        let schedules = |enabled| {
            let rows = self.schedules.values();
            rows.filter(|row| row.kind == kind && row.enabled == enabled).take(most).count() as u64
        };
        overview.add_schedules(schedules(true), schedules(false), part);

        let records = self.records.values().rev().filter(|record| record.kind == kind).take(most);
        let records = records.take_while(|record| record.recorded >= overview.now - HOUR);
        let outcomes: Vec<_> = records.map(|record| (record.outcome, 1, record.recorded)).collect();
        overview.add_outcomes(&outcomes, part);
    }

    pub(super) fn finish(&mut self, lease: Lease, end: &End, now: Time) -> Finished {
        let timer = self.timers.get_mut(&end.timer);
        let Some(timer) =
            timer.filter(|timer| timer.running == Some(lease) && timer.attempt == end.attempt)
        else {
            let record = self.ended.get(&end.timer).map(|at| &self.records[&(*at, end.timer)]);
            let is_repeated = record.is_some_and(|record| {
                record.attempts == end.attempt
                    && record.node == Some(lease.node)
                    && matches!(end.how, How::Done(outcome, ..) if outcome == record.outcome)
            });
            return if is_repeated { Finished::Accepted } else { Finished::Fenced };
        };
        match &end.how {
            How::Done(outcome, reason, detail) => {
                timer.failures += u32::from(*outcome == Outcome::Dead);
                if let Some(timer) = self.take(end.timer) {
                    let record = Record::new(timer, *outcome, now);
                    let (detail, node) = (detail.clone(), Some(lease.node));
                    self.record(Record { reason: *reason, detail, node, ..record });
                }
            }
            How::Retry(pause, detail) => {
                timer.failures += 1;
                timer.detail.clone_from(detail);
                self.free(end.timer, Some(now.after_pause(*pause)));
            }
            How::Postpone(pause, detail) => {
                if let Some(detail) = detail {
                    timer.detail.clone_from(detail);
                }
                self.free(end.timer, Some(now.after_pause(*pause)));
            }
            How::HandBack => self.free(end.timer, None),
        }
        Finished::Accepted
    }
}
