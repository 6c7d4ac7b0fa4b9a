//! `Tap`: a store that counts its calls, and that has a bug if it is to. A node on a store with a
//! bug breaks a promise, and the checker is to say which.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tourbillon_durable::store::calls::{
    Batch, Beat, Claimed, Heard, Listening, Pulsed, Scan, Waiting, Window,
};
use tourbillon_durable::store::{End, Finished, Inserted, NewTimer, Store, TimerQuery};
use tourbillon_durable::{Lease, StoreError};

use crate::Result as Outcome;
use crate::checker::Verdict;
use crate::log::{Line, Log, STALL_US, Stamp};

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Multiple of its lease that a faulty node trusts: past the longest freeze. After that it joins
/// again.
const TRUST: u32 = 4;

/// Beats for which such a node does not notice that its lease has ended.
const UNNOTICED: u32 = 16;

/// Time from a floor that is trusted to now: a frozen node has not lost its lease by then.
const FLOOR: Duration = Duration::from_secs(2);

macro_rules! bugs {
    ($($(#[$doc:meta])* $variant:ident = $name:literal with $faults:literal
        shows $($verdict:ident)|*,)*) => {
        /// A bug.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[$doc])* $variant,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The faults that it shows under.
            pub const fn faults(self) -> &'static str {
                match self { $(Self::$variant => $faults,)* }
            }

            /// The checker's verdicts on it, at least one.
            pub const fn verdicts(self) -> &'static [Verdict] {
                match self { $(Self::$variant => &[$(Verdict::$verdict,)*],)* }
            }
        }
    };
}

bugs! {
    /// An end counts for whatever attempt runs.
    FenceRemoved = "fence-removed" with "freeze-long"
        shows CompletedTwice | WrongRecord | SecondStart,
    /// A node continues after its lease has ended.
    LeaseIgnored = "lease-ignored" with "freeze-long"
        shows OutOfOrder | SecondStart | AfterDone | AfterRecord | AfterCancel | AfterDisable,
    /// A scan continues from where the one before ended, and does not come back.
    CursorInsteadOfSet = "cursor-instead-of-set" with "" shows Unfinished,
    /// Timers are read only after a notice.
    NotifyTrusted = "notify-trusted" with "" shows Unfinished,
    /// Scans begin at a floor, and forget timers due before it.
    FloorTrusted = "floor-trusted" with "freeze-long" shows Unfinished,
    /// A repeat that finds its write done does not wait for the standby.
    WaitLeftOut = "wait-left-out" with "" shows Lost,
}

impl Bug {
    /// The bug of this name.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn named(name: &str) -> Outcome<Self> {
        let bug = Self::ALL.iter().find(|bug| bug.name() == name);
        bug.copied().ok_or_else(|| format!("there is no bug `{name}`").into())
    }

    /// Returns whether it shows only where a standby becomes the primary.
    pub fn needs_standby(self) -> bool {
        self == Self::WaitLeftOut
    }

    /// Returns the engine's trust in a lease of this length.
    pub(crate) fn trust(self, lease: Duration) -> Duration {
        if self == Self::LeaseIgnored { lease * TRUST } else { lease }
    }
}

/// State that the connections of a node share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    /// Number of calls.
    calls: Arc<AtomicU64>,
    /// The last that a scan was answered with.
    cursor: Arc<Mutex<Option<Waiting>>>,
    /// Number of beats in a row of a life that had ended.
    unnoticed: Arc<Mutex<u32>>,
    /// True if a notice came since the last scan.
    is_notified: Arc<AtomicBool>,
    /// The node's log and number, if it has one.
    log: Option<(Arc<Log>, u32)>,
}

impl Marks {
    /// Returns the marks of a node that logs the answers to its beats.
    pub(crate) fn logged(log: &Arc<Log>, node: u32) -> Self {
        Self { log: Some((log.clone(), node)), ..Self::default() }
    }

    /// Logs a call that the database did not answer in time: a beat waits behind it. The nemesis
    /// reads the clock, and may be answered all the time while writers wait.
    fn log_wait(&self, from: Stamp) {
        let (Some((log, node)), to) = (&self.log, Stamp::now()) else { return };
        if to.0 - from.0 > STALL_US {
            log.write(&Line::Stall { from, to, node: Some(*node) });
        }
    }

    /// Logs a beat that had no answer in time, or whose lease was over.
    fn log_beat(&self, from: Stamp, answer: Result<Option<&Beat>, &StoreError>) {
        let (Some((log, node)), to) = (&self.log, Stamp::now()) else { return };
        if answer.is_err() {
            log.write(&Line::Stall { from, to, node: Some(*node) });
        } else {
            self.log_wait(from);
        }
        if matches!(answer, Ok(None)) {
            log.write(&Line::Unleased { at: to, node: *node });
        }
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        // ORDERING: Relaxed; it publishes nothing but itself.
        self.calls.load(Ordering::Relaxed)
    }
}

/// A store whose calls are counted, and that may have a bug.
pub(crate) struct Tap {
    store: Box<dyn Store>,
    bug: Option<Bug>,
    marks: Marks,
}

impl Tap {
    pub(crate) fn new(store: Box<dyn Store>, bug: Option<Bug>, marks: &Marks) -> Self {
        Self { store, bug, marks: marks.clone() }
    }

    /// The store, for one call.
    fn store(&mut self) -> &mut dyn Store {
        // ORDERING: Relaxed; it publishes nothing but itself.
        self.marks.calls.fetch_add(1, Ordering::Relaxed);
        &mut *self.store
    }

    fn pass<T>(
        &mut self,
        _: &'static str,
        call: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        let from = Stamp::now();
        let answer = call(self.store());
        self.marks.log_wait(from);
        answer
    }

    /// The engine sees longer leases than there are, if it ignores them.
    fn span(&self, span: Duration) -> Duration {
        if self.bug == Some(Bug::LeaseIgnored) { span / TRUST } else { span }
    }

    /// Ends the attempt that runs, without a check of the fence.
    fn finish_any(&mut self, lease: Lease, end: &End) -> Result<Finished> {
        let running = self.store().timers(&TimerQuery::new().timer(end.timer))?.pop();
        let running = running.and_then(|timer| Some((timer.running?, timer.attempt)));
        let (lease, attempt) = running.unwrap_or((lease, end.attempt));
        let end = End { attempt, ..end.clone() };
        Ok(self.store().finish(lease, &[end])?.remove(0))
    }
}

impl tourbillon_durable::store::calls::Sealed for Tap {}

impl Store for Tap {
    fn connect(&self) -> Result<Box<dyn Store>> {
        let (store, marks) = (self.store.connect()?, self.marks.clone());
        Ok(Box::new(Self { store, bug: self.bug, marks }))
    }

    fn schema(&self) -> Option<&str> {
        self.store.schema()
    }

    fn lock_timeouts(&mut self) -> u64 {
        self.store.lock_timeouts()
    }

    fn listen(&self, heard: Heard) -> Result<Option<Listening>> {
        let is_notified = self.marks.is_notified.clone();
        self.store.listen(Arc::new(move |notice| {
            // ORDERING: Relaxed; the data behind a notice is in the database.
            is_notified.store(true, Ordering::Relaxed);
            heard(notice);
        }))
    }

    fn disconnect(&mut self) {
        self.store().disconnect();
    }

    fn join(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let span = self.span(span);
        self.store().join(lease, span)
    }

    fn beat(&mut self, lease: Lease, span: Duration) -> Result<Option<Beat>> {
        let span = self.span(span);
        let from = Stamp::now();
        let beat = self.store().beat(lease, span);
        self.marks.log_beat(from, beat.as_ref().map(Option::as_ref));
        let beat = beat?;
        // The node does not even notice at once that it has ended.
        let unnoticed = &mut *self.marks.unnoticed.lock().unwrap_or_else(PoisonError::into_inner);
        if beat.is_some() || self.bug != Some(Bug::LeaseIgnored) || *unnoticed >= UNNOTICED {
            *unnoticed = 0;
            return Ok(beat);
        }
        *unnoticed += 1;
        let now = self.store.now()?;
        Ok(Some(Beat::new(lease, now, vec![(lease.node, now)])))
    }

    fn scan(&mut self, scan: &Scan<'_>) -> Result<Window> {
        // A node with a bug beats by itself.
        let pulse = scan.pulse.filter(|_| self.bug.is_none());
        let from = Stamp::now();
        let window = self.store().scan(&Scan { pulse, ..*scan });
        match &window {
            Ok(Window { pulsed: Some(Pulsed { beat, .. }), .. }) => {
                self.marks.log_beat(from, Ok(beat.as_ref()));
            }
            Err(error) if pulse.is_some() => self.marks.log_beat(from, Err(error)),
            _ => {}
        }
        let mut window = window?;
        match self.bug {
            Some(Bug::CursorInsteadOfSet) => {
                let mut cursor = self.marks.cursor.lock().unwrap_or_else(PoisonError::into_inner);
                window.timers.retain(|waiting| cursor.is_none_or(|cursor| cursor < *waiting));
                *cursor = window.timers.last().copied().or(*cursor);
            }
            Some(Bug::NotifyTrusted) => {
                // ORDERING: Relaxed; as above.
                if !self.marks.is_notified.swap(false, Ordering::Relaxed) {
                    window.timers.clear();
                }
            }
            Some(Bug::FloorTrusted) => {
                let floor = window.now - FLOOR;
                window.timers.retain(|waiting| waiting.due >= floor);
            }
            Some(Bug::FenceRemoved | Bug::LeaseIgnored | Bug::WaitLeftOut) | None => {}
        }
        Ok(window)
    }

    fn insert(&mut self, timers: &[NewTimer]) -> Result<Vec<Inserted>> {
        if self.bug == Some(Bug::WaitLeftOut) {
            let mut known = Vec::new();
            for timer in timers {
                let found = self.store().timers(&TimerQuery::new().timer(timer.id))?;
                known.extend(found.iter().map(|timer| Inserted::Exists(timer.new.id)));
            }
            if known.len() == timers.len() {
                return Ok(known);
            }
        }
        self.store().insert(timers)
    }

    fn confirm(&mut self) -> Result<()> {
        if self.bug == Some(Bug::WaitLeftOut) {
            return Ok(());
        }
        self.store().confirm()
    }

    fn finish(&mut self, lease: Lease, ends: &[End]) -> Result<Vec<Finished>> {
        if self.bug == Some(Bug::FenceRemoved) {
            return ends.iter().map(|end| self.finish_any(lease, end)).collect();
        }
        self.store().finish(lease, ends)
    }

    fn finish_and_claim(&mut self, batch: &Batch<'_>) -> Result<(Vec<Finished>, Claimed)> {
        if self.bug == Some(Bug::FenceRemoved) {
            let finished = self.finish(batch.lease, batch.ends)?;
            return Ok((finished, self.claim(batch.lease, batch.timers)?));
        }
        self.store().finish_and_claim(batch)
    }

    tourbillon_durable::forward! { self.pass;
        notify now leave maintain held claim cancel reschedule nodes overview find timers schedule
        amend schedules upcoming zoned rezone change advance advance_batch backfill
        insert_occurrence records prune promote
    }
}

#[cfg(test)]
mod tests {
    use tourbillon_durable::{NodeId, Time};

    use super::*;
    use crate::database::Address;
    use crate::log;

    #[test]
    fn calls_without_an_answer_and_beats_of_a_lease_that_is_over_are_logged() {
        let folder = std::env::temp_dir().join(format!("harness-beats-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("store.db");
        let log = Arc::new(Log::open(&folder.join("node-3.log")).unwrap());
        let store = Address::new(&format!("sqlite:{}", file.display())).unwrap().open().unwrap();
        let mut tap = Tap::new(store, None, &Marks::logged(&log, 3));
        let lease = Lease { node: NodeId::new(), epoch: 1 };
        let lines = || log::read(&folder).unwrap();
        assert!(tap.join(lease, FLOOR).unwrap().is_some());
        assert!(tap.beat(Lease { epoch: 2, ..lease }, FLOOR).unwrap().is_none());
        assert!(matches!(lines()[..], [Line::Unleased { node: 3, .. }]), "{:?}", lines());
        // A reader of the clock is answered meanwhile.
        let other = rusqlite::Connection::open(&file).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        tap.now().unwrap();
        tap.prune(Time::NEVER, 1).unwrap_err();
        assert!(matches!(lines()[..], [_, Line::Stall { node: Some(3), .. }]), "{:?}", lines());
        tap.beat(lease, FLOOR).unwrap_err();
        assert!(matches!(lines()[..], [_, _, Line::Stall { node: Some(3), .. }]), "{:?}", lines());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
