//! [`Mover`]: moves a place from one store to another.

mod schedules;
#[cfg(test)]
mod tests;
mod timers;

use self::timers::{Pages, Taken};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Place, TimerId};
use crate::store::transfer::sent;
use crate::store::{NewTimer, Result, State, Store, Timer, TimerQuery, Transfer};
use crate::time::Time;

/// Most rows of a page of a list; few in tests.
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
/// - Nothing is lost, and nothing runs on both stores, unless it is made a second time: what was
///   over before the move is not known on the new store. So a timer with the
///   [id](crate::Once::id) of one that is over is made and runs again, and so is an occurrence
///   that is [backfilled](crate::Backfill).
/// - A timer that runs ends where it runs; one that has failed and is tried again moves with its
///   attempts, its detail and the time of its next attempt.
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
/// No other transaction is open for long on the old store meanwhile: while it is, entries of what
/// has ended stay in the index that the lists are read from, and a list may take longer than a call
/// may. Then each step is [`Unavailable`](StoreErrorKind::Unavailable) until that transaction ends.
///
/// # What others see
///
/// While a place moves, a client of the new store alone finds its timers due 100,000 years later
/// than they are, those of a lane in a lane of their own, and with all else as it was. It cannot
/// [reschedule](crate::Client::reschedule) them. One that it cancels stays cancelled there; do that
/// only with a timer that an error of the mover names. Lists of a router may have a timer of the
/// place twice. Records stay on the old store, where a timer that was taken from it is recorded as
/// [moved](crate::Reason::Moved).
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
    /// - a timer that is pending on the old store though it is recorded there, so that it was
    ///   inserted a second time;
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
            let Taken { found, left, refused } = self.take_over()?;
            times_empty = if found == 0 { times_empty + 1 } else { 0 };
            self.left = left.into_iter().collect();
            if !self.left.is_empty() {
                self.check_records(&refused)?;
                // What runs under a lease that is over, and what is stopped.
                self.from.maintain()?;
                return Ok(Progress::Waits(self.left.clone()));
            }
        }
        if let Some(left) = self.settle()? {
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
}

impl std::fmt::Debug for Mover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mover")
            .field("place", &self.place)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

fn invalid(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, why)
}
