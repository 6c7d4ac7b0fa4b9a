//! Timers: held on the new store, taken from the old one, and released.

use std::collections::{BTreeSet, HashSet};

use super::{Mover, PAGE, invalid};
use crate::id::{Place, TimerId};
use crate::record::Reason;
use crate::store::transfer::{AWAY, is_away, receive, received, sent};
use crate::store::{RecordQuery, Result, State, Store, Timer, TimerOrder, TimerQuery, Transfer};
use crate::time::Time;

/// Timers of one step; few in tests, so that they see several.
const PART: usize = if cfg!(test) { 8 } else { 500 };

/// Bytes of payloads and details that a call carries at most, unless one timer has more; few in
/// tests.
pub(super) const BYTES: usize = if cfg!(test) { 4_096 } else { 4 << 20 };

/// Rows of the first page of a list: with the longest payloads they have [`BYTES`].
const FEW: u32 = if cfg!(test) { 1 } else { 64 };

/// Result of a look at the timers of the old store.
pub(super) struct Taken {
    /// Number of timers that were found.
    pub(super) found: usize,
    /// Timers that were not taken.
    pub(super) left: BTreeSet<TimerId>,
    /// Those of them that were pending.
    pub(super) refused: Vec<TimerId>,
}

impl Mover {
    /// Refuses a timer of these that the old store has twice: pending, and recorded. It is never
    /// taken from there.
    pub(super) fn check_records(&mut self, refused: &[TimerId]) -> Result<()> {
        for id in refused {
            let records = self.from.records(&RecordQuery::new().timer(*id).limit(1))?;
            let pending = TimerQuery::new().timer(*id).state(State::Pending);
            // Read after its record: one that has ended meanwhile is gone.
            if !records.is_empty() && !self.from.timers(&pending)?.is_empty() {
                let why = "is pending on the old store, which has a record of its end: cancel it \
                           on the old store";
                return Err(invalid(format!("the timer {id} {why}")));
            }
        }
        Ok(())
    }

    /// Copies what is pending on the old store to the new one, and takes it from the old one.
    pub(super) fn take_over(&mut self) -> Result<Taken> {
        let (mut found, mut held) = (BTreeSet::new(), Vec::new());
        let mut pages = Pages::new(TimerQuery::new());
        while let Some(page) = pages.next(&mut *self.from, self.place)? {
            found.extend(page.iter().map(|timer| timer.new.id));
            let pending = page.into_iter().filter(|timer| timer.running.is_none());
            let pending: Vec<Timer> = pending.collect();
            for part in parts(&pending) {
                self.hold(part)?;
            }
            held.extend(pending.into_iter().map(stripped));
        }
        self.to.confirm()?;
        // The last first: then nothing that waits for another takes its turn.
        held.sort_by_key(turn);
        held.reverse();
        let mut surrendered = BTreeSet::new();
        for part in held.chunks(PART) {
            surrendered.extend(self.from.transfer(Transfer::Surrender, part)?);
        }
        let refused = held.iter().map(|timer| timer.new.id).filter(|id| !surrendered.contains(id));
        let refused = refused.collect();
        Ok(Taken { found: found.len(), left: &found - &surrendered, refused })
    }

    fn hold(&mut self, pending: &[Timer]) -> Result<()> {
        let mut away = Vec::with_capacity(pending.len());
        for timer in pending {
            let (id, due) = (timer.new.id, timer.new.due);
            away.push(sent(timer.clone()).ok_or_else(|| {
                let why =
                    "an earlier move to the old store is not ended, or it is too late to move";
                invalid(format!("the timer {id} is due at {due}: {why}"))
            })?);
        }
        if away.is_empty() {
            return Ok(());
        }
        let mut held: HashSet<_> = self.to.transfer(Transfer::Hold, &away)?.into_iter().collect();
        if held.len() < away.len() {
            self.free_names(away.iter().filter(|timer| !held.contains(&timer.new.id)))?;
            held.extend(self.to.transfer(Transfer::Hold, &away)?);
        }
        match away.iter().find(|timer| !held.contains(&timer.new.id)) {
            None => Ok(()),
            Some(Timer { new, .. }) => {
                let name = new.name.as_deref().unwrap_or_default();
                let why = "is on the new store, or recorded there, or its name is taken";
                Err(invalid(format!("the timer {} `{name}` {why}", new.id)))
            }
        }
    }

    /// Drops those timers that have the names of these on the new store, are away there, and have
    /// ended on the old one since.
    fn free_names<'a>(&mut self, refused: impl Iterator<Item = &'a Timer>) -> Result<()> {
        let mut ended = Vec::new();
        for Timer { new, .. } in refused.filter(|timer| timer.new.schedule.is_none()) {
            let Some(name) = &new.name else { continue };
            let other = self.to.find(name)?.filter(is_away);
            let Some(other) = other.filter(|other| other.new.id.place() == self.place) else {
                continue;
            };
            let of_other = RecordQuery::new().timer(other.new.id).limit(1);
            let record = self.from.records(&of_other)?.pop();
            if record.is_some_and(|record| record.reason != Some(Reason::Moved)) {
                ended.push(stripped(other));
            }
        }
        self.from.confirm()?;
        self.drop_ended(&ended)
    }

    /// Drops timers from the new store that have ended on the old one.
    fn drop_ended(&mut self, ended: &[Timer]) -> Result<()> {
        for part in ended.chunks(PART) {
            self.to.transfer(Transfer::Drop, part)?;
        }
        Ok(())
    }

    /// Goes by the old store's records of what the new one holds: drops what has ended there, and
    /// releases the others, which have been taken from it. Returns one that is on the old store
    /// after all.
    pub(super) fn settle(&mut self) -> Result<Option<TimerId>> {
        let (mut released, mut ended) = (Vec::new(), Vec::new());
        let mut pages = Pages::new(TimerQuery::new().since(AWAY).until(Time::NEVER));
        while let Some(page) = pages.next(&mut *self.to, self.place)? {
            let moved = self.from.transfer(Transfer::Moved, &page)?;
            let moved: HashSet<_> = moved.into_iter().collect();
            for timer in page {
                let id = timer.new.id;
                if moved.contains(&id) {
                    released.push(stripped(timer));
                    continue;
                }
                let record = self.from.records(&RecordQuery::new().timer(id).limit(1))?.pop();
                match record {
                    Some(record) if record.reason == Some(Reason::Moved) => {
                        released.push(stripped(timer));
                    }
                    Some(_) => ended.push(stripped(timer)),
                    None if !self.from.timers(&TimerQuery::new().timer(id))?.is_empty() => {
                        return Ok(Some(id));
                    }
                    None => {
                        let why = "has no record on the old store, which was deleted: cancel it on \
                                   the new store";
                        return Err(invalid(format!("the timer {id} {why}")));
                    }
                }
            }
        }
        // What was read is concluded from.
        self.from.confirm()?;
        self.drop_ended(&ended)?;
        self.release(released)?;
        Ok(None)
    }

    /// Releases timers, the first of each lane first.
    fn release(&mut self, mut held: Vec<Timer>) -> Result<()> {
        held.sort_by_key(turn);
        let mut lanes = BTreeSet::new();
        for part in held.chunks(PART) {
            self.to.transfer(Transfer::Release, part)?;
            let of_part = part.iter().filter_map(|timer| received(timer)?.1.map(str::to_owned));
            lanes.extend(of_part);
        }
        let lanes: Vec<String> = lanes.into_iter().collect();
        for part in lanes.chunks(PART) {
            self.to.promote(part)?;
        }
        Ok(())
    }
}

/// The pages of a list of timers, without those of other places. A page has at most twice the rows
/// of the one before, and fewer where payloads are long.
pub(super) struct Pages {
    /// Query of the next page; `None` after the last.
    query: Option<TimerQuery>,
}

impl Pages {
    pub(super) fn new(query: TimerQuery) -> Self {
        Self { query: Some(query.limit(FEW)) }
    }

    pub(super) fn next(
        &mut self,
        store: &mut dyn Store,
        place: Place,
    ) -> Result<Option<Vec<Timer>>> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let mut page = store.timers(&query)?;
        if let Some(last) = page.last().filter(|_| page.len() == query.limit as usize) {
            let bytes = page.iter().map(size).sum::<usize>().max(1);
            let fit = u32::try_from(page.len() * BYTES / bytes).unwrap_or(u32::MAX);
            let limit = fit.clamp(FEW, PAGE.min(query.limit * 2));
            let after = Some((last.new.due, last.new.id));
            self.query = Some(TimerQuery { order: TimerOrder::Due { after }, limit, ..query });
        }
        page.retain(|timer| timer.new.id.place() == place);
        Ok(Some(page))
    }
}

/// Returns the bytes of what may be long.
fn size(timer: &Timer) -> usize {
    timer.new.payload.len() + timer.detail.len()
}

/// Splits timers into parts of a call each: of [`PART`] timers and of [`BYTES`] at most.
fn parts(timers: &[Timer]) -> impl Iterator<Item = &[Timer]> {
    let (mut count, mut bytes) = (0, 0);
    timers.chunk_by(move |one, next| {
        (count, bytes) = (count + 1, bytes + size(one));
        let fits = count < PART && bytes + size(next) <= BYTES;
        if !fits {
            (count, bytes) = (0, 0);
        }
        fits
    })
}

/// A timer without what may be long.
fn stripped(mut timer: Timer) -> Timer {
    timer.new.payload = Vec::new();
    timer.detail = String::new();
    timer
}

/// Order in which timers of one lane, or of the queue of one schedule, take their turns. It is the
/// same of those that are away.
fn turn(timer: &Timer) -> (bool, Time, TimerId) {
    let due = receive(timer.new.due).unwrap_or(timer.new.due);
    let has_turn = due < Time::NEVER && (timer.new.lane.is_none() || timer.attempt > 0);
    (!has_turn, timer.new.scheduled_for, timer.new.id)
}
