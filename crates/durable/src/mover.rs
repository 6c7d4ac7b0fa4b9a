//! [`Mover`]: moves a place from one store to another.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};

use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Place, TimerId};
use crate::record::Reason;
use crate::store::transfer::{AWAY, receive, received, send, sent};
use crate::store::{
    Change, Changed, NewTimer, RecordQuery, Result, ScheduleQuery, ScheduleRow, State, Store,
    Timer, TimerOrder, TimerQuery, Transfer,
};
use crate::time::Time;

/// Timers of one step; few in tests, so that they see several.
const PART: usize = if cfg!(test) { 8 } else { 500 };

/// Rows of a page of a list.
const PAGE: u32 = if cfg!(test) { 20 } else { 1_000 };

/// Moves a place from one store to another: its schedules, and its timers that are not over.
///
/// Before it begins, all processes have the [map](crate::Places) in which the place is on its way
/// (`512=east>west`), and no transaction of a caller's is open that makes a timer of the place.
/// What makes timers of the place without a router stops until the move is done: `tourbillon.once`,
/// an insert of [`into_timer`](crate::Once::into_timer), and a client of one store. A client of the
/// old store alone changes no schedule of the place meanwhile.
/// [`step`](Self::step) is then called until it says [`Done`](Progress::Done), and all processes
/// get the map with the new store. Nodes run on both stores meanwhile. A place has one mover at a
/// time.
///
/// # Guarantees
///
/// - Nothing is lost, and nothing runs on both stores. A timer that runs ends where it runs; one
///   that has failed and is tried again moves with its attempts, its detail and the time of its
///   next attempt.
/// - Timers of one lane, or of the queue of one schedule, run in their order, as long as all of
///   them are of the place.
/// - A schedule continues with the occurrence that is next. What was due meanwhile is late, and its
///   policies decide on it as after an outage. Its version is a later one, and its dead runs are
///   forgotten: [`disable_after`](crate::Policies::disable_after) counts from zero.
/// - A mover that was killed, or whose call has failed, has left nothing to repair: another one
///   continues. Nothing but the two stores says how far it came.
///
/// A move only goes forward: once a timer was taken from the old store, the place cannot stay
/// there.
/// When the move is done it can be moved back.
///
/// # Time
///
/// No timer of the place starts between its last moment on the old store and the end of the step.
/// The step reads the list of all timers of the old store four times at least, as no query takes a
/// place. So it takes minutes where there are a hundred million timers. What runs as it begins is
/// waited for, with all else of the place taken already: one long attempt holds up the whole place,
/// so begin when none is under way.
///
/// # What others see
///
/// While a place moves, a client of the new store alone finds its timers due 100,000 years later
/// than they are, those of a lane in a lane of their own, and with all else as it was. One that it
/// cancels stays cancelled there; do that only with a timer that an error of the mover names. Lists
/// of a router may have a timer of the place twice. Records stay on the old store, where a timer
/// that was taken from it is recorded as [moved](Reason::Moved).
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_durable::store::{Memory, Store};
/// use tourbillon_durable::{Client, Mover, Place, Places, Progress, Router};
///
/// # pollster::block_on(async {
/// let [east, west] = [0; 2].map(|_| Memory::new(&tourbillon::Timer::global()));
/// let clients = [("east", &east), ("west", &west)].map(|(name, store)| {
///     (name, Client::new(store.connect().unwrap()).unwrap())
/// });
/// let place = Place::of("invoice-42");
/// let mut places: Places = "0-1023=east".parse()?;
/// let router = Router::new(places.clone(), clients.clone())?;
/// let in_an_hour = SystemTime::now() + Duration::from_secs(3_600);
/// router.once("mail", in_an_hour).name("invoice-42").create().await?;
///
/// places.begin_move(place, "west")?;
/// // Here each process makes its router anew, with this map.
/// let router = Router::new(places.clone(), clients.clone())?;
/// router.once("mail", in_an_hour).name("invoice-42").create().await.unwrap_err();
///
/// let mut mover = Mover::new(place, east.connect()?, west.connect()?);
/// while let Progress::Waits(_) = mover.step()? {
///     std::thread::sleep(Duration::from_secs(1));
/// }
///
/// places.put(place, "west")?;
/// // And here, with this one.
/// let router = Router::new(places, clients)?;
/// assert!(router.find("invoice-42").await?.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
pub struct Mover {
    place: Place,
    from: Box<dyn Store>,
    to: Box<dyn Store>,
    /// Timers that the last step was to wait for.
    left: Vec<TimerId>,
    /// True once it is known that the stores are two.
    is_checked: bool,
}

/// Result of [`Mover::step`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// These timers are on the old store still, most of them as they run, or others changed what
    /// was moved: call again in a while.
    Waits(Vec<TimerId>),
    /// All of the place is on the new store.
    Done,
}

impl Mover {
    /// Makes a mover of `place`, from the store that has it to another one.
    pub fn new(place: Place, from: Box<dyn Store>, to: Box<dyn Store>) -> Self {
        Self { place, from, to, left: Vec::new(), is_checked: false }
    }

    /// Goes as far as it can without waiting for what runs. Blocks for as long.
    ///
    /// # Errors
    ///
    /// Those of the kinds `Unavailable`, `Uncertain` and `Conflict` as any call of a store: call
    /// again.
    /// An error of the kind [`Invalid`](StoreErrorKind::Invalid) names what is in the way, and
    /// nothing is decided about it:
    ///
    /// - a timer or a schedule whose name something else has on the new store, or a timer that is
    ///   recorded there;
    /// - a timer that was taken from the old store, and whose record was deleted there meanwhile:
    ///   prune nothing while a place moves;
    /// - a timer that is due in 50,000 years or later, or that is on its way to the old store, as
    ///   an earlier move to it was not ended;
    /// - both stores are the same one.
    pub fn step(&mut self) -> Result<Progress> {
        self.check_stores()?;
        if self.is_running()? {
            return Ok(Progress::Waits(self.left.clone()));
        }
        self.stop_schedules()?;
        // A timer that left a queue while it was read may be passed over, but not a second time.
        let mut times_empty = 0;
        while times_empty < 2 {
            let (found, surrendered) = self.take_over()?;
            times_empty = if found.is_empty() { times_empty + 1 } else { 0 };
            self.left = found.difference(&surrendered).copied().collect();
            if !self.left.is_empty() {
                // What runs under a lease that is over, and what is stopped.
                self.from.maintain()?;
                return Ok(Progress::Waits(self.left.clone()));
            }
        }
        if let Some(left) = self.settle(true)? {
            return Ok(Progress::Waits(vec![left]));
        }
        if !self.carry_schedules()? {
            return Ok(Progress::Waits(Vec::new()));
        }
        // What somebody has made there since the list was read.
        let mut pages = Pages::new(TimerQuery::new());
        while let Some(page) = pages.next(&mut *self.from, self.place)? {
            if !page.is_empty() {
                self.left = page.iter().map(|timer| timer.new.id).collect();
                return Ok(Progress::Waits(self.left.clone()));
            }
        }
        Ok(Progress::Done)
    }

    /// Refuses to move a place from a store to itself, which would delete its schedules.
    fn check_stores(&mut self) -> Result<()> {
        if self.is_checked {
            return Ok(());
        }
        // The same each time, so that one that a killed mover left is dropped by the next.
        let probe = NewTimer::new(TimerId::from_bits(0).at(self.place), "mover", Time::NEVER);
        let probe: Vec<Timer> = sent(Timer::new(probe)).into_iter().collect();
        self.to.transfer(Transfer::Hold, &probe)?;
        let is_one = !self.from.timers(&TimerQuery::new().timer(probe[0].new.id))?.is_empty();
        self.to.transfer(Transfer::Drop, &probe)?;
        if is_one {
            return Err(invalid("both stores are the same one".to_owned()));
        }
        self.is_checked = true;
        Ok(())
    }

    /// Returns whether one of the timers that the last step was to wait for runs still. Spares the
    /// next step to read the list of all timers.
    fn is_running(&mut self) -> Result<bool> {
        for id in &self.left {
            let running = TimerQuery::new().timer(*id).state(State::Running);
            if !self.from.timers(&running)?.is_empty() {
                self.from.maintain()?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Puts off the next occurrences of the schedules on the old store, so far that none is made.
    /// They stay enabled or not, as they are.
    fn stop_schedules(&mut self) -> Result<()> {
        for row in schedules(&mut *self.from, self.place)? {
            self.check_name(&row)?;
            let mut row = Some(row);
            while let Some(found) = row.take() {
                let Some(away) = found.next.and_then(send) else { break };
                if !self.from.shift(&found, away)? {
                    // A node was first.
                    row = self.from.schedule(&found.name)?.1.filter(|row| row.id == found.id);
                }
            }
        }
        self.from.confirm()
    }

    /// Refuses a schedule whose name another one has on the new store.
    fn check_name(&mut self, row: &ScheduleRow) -> Result<()> {
        match self.to.schedule(&row.name)?.1 {
            Some(other) if other.id != row.id => {
                let name = &row.name;
                Err(invalid(format!("another schedule `{name}` is on the new store already")))
            }
            _ => Ok(()),
        }
    }

    /// Copies what is pending on the old store to the new one, and takes it from the old one.
    /// Returns what was found there, and what was taken.
    fn take_over(&mut self) -> Result<(BTreeSet<TimerId>, BTreeSet<TimerId>)> {
        let (mut found, mut held) = (BTreeSet::new(), Vec::new());
        let mut pages = Pages::new(TimerQuery::new());
        while let Some(page) = pages.next(&mut *self.from, self.place)? {
            found.extend(page.iter().map(|timer| timer.new.id));
            for part in page.chunks(PART) {
                let pending = part.iter().filter(|timer| timer.running.is_none());
                let pending: Vec<Timer> = pending.cloned().collect();
                self.hold(&pending)?;
                held.extend(pending.into_iter().map(stripped));
            }
        }
        self.to.confirm()?;
        // The last first: then nothing that waits for another takes its turn.
        held.sort_by_key(turn);
        held.reverse();
        let mut surrendered = BTreeSet::new();
        for part in held.chunks(PART) {
            surrendered.extend(self.from.transfer(Transfer::Surrender, part)?);
        }
        Ok((found, surrendered))
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
            // The name may be that of a timer that has ended on the old store since it was held.
            self.settle(false)?;
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

    /// Goes by the old store's records of what the new one holds: drops what has ended there. With
    /// `is_over`, releases the others, which have been taken from it. Returns one that is on the
    /// old store after all.
    fn settle(&mut self, is_over: bool) -> Result<Option<TimerId>> {
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
                    None if !is_over => {}
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
        for part in ended.chunks(PART) {
            self.to.transfer(Transfer::Drop, part)?;
        }
        if is_over {
            self.release(released)?;
        }
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

    /// Carries the schedules over, as they are, and lets them continue. Returns false if one of
    /// them was changed meanwhile.
    fn carry_schedules(&mut self) -> Result<bool> {
        let rows = schedules(&mut *self.from, self.place)?;
        for row in &rows {
            if row.next.is_some_and(|next| receive(next).is_none()) {
                return Ok(false);
            }
            self.check_name(row)?;
            match self.to.schedule(&row.name)?.1 {
                Some(copy) if copy == *row => continue,
                // The old store's row was changed since.
                Some(copy) => drop(self.to.change(&removal(&copy))?),
                None => {}
            }
            if !self.to.adopt(row)? {
                return Ok(false);
            }
        }
        self.to.confirm()?;
        for row in &rows {
            if self.from.change(&removal(row))? == Changed::Stale {
                return Ok(false);
            }
        }
        self.from.confirm()?;
        for row in schedules(&mut *self.to, self.place)? {
            if let Some(next) = row.next.and_then(receive) {
                if !self.to.shift(&row, next)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl std::fmt::Debug for Mover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mover")
            .field("place", &self.place)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

/// The pages of a list of timers, without those of other places.
struct Pages {
    /// Query of the next page; `None` after the last.
    query: Option<TimerQuery>,
}

impl Pages {
    fn new(query: TimerQuery) -> Self {
        Self { query: Some(query.limit(PAGE)) }
    }

    fn next(&mut self, store: &mut dyn Store, place: Place) -> Result<Option<Vec<Timer>>> {
        let Some(query) = self.query.take() else { return Ok(None) };
        let mut page = store.timers(&query)?;
        if let (PAGE, Some(last)) = (page.len() as u32, page.last()) {
            let after = Some((last.new.due, last.new.id));
            self.query = Some(TimerQuery { order: TimerOrder::Due { after }, ..query });
        }
        page.retain(|timer| timer.new.id.place() == place);
        Ok(Some(page))
    }
}

/// All schedules of a place.
fn schedules(store: &mut dyn Store, place: Place) -> Result<Vec<ScheduleRow>> {
    let (mut of_place, mut query) = (Vec::new(), ScheduleQuery::new().limit(PAGE));
    loop {
        let page = store.schedules(&query)?;
        let last = page.last().map(|row| row.name.clone());
        let is_last = page.len() < PAGE as usize;
        of_place.extend(page.into_iter().filter(|row| row.id.place() == place));
        match last {
            Some(last) if !is_last => query = query.after(last),
            _ => return Ok(of_place),
        }
    }
}

/// A change that removes a schedule and leaves its timers.
fn removal(row: &ScheduleRow) -> Change<'_> {
    let expect = Some(row.version);
    Change { name: &row.name, expect, row: None, withdraw: None, skipped: &[] }
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

fn invalid(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}
