//! Stores that do something of their own beside the mover's calls, or note them.

use std::sync::{Arc, Mutex};

use tourbillon::Timer as Clock;
use tourbillon::virtual_time::VirtualClock;

use crate::id::TimerId;
use crate::store::{Memory, Result, Store, Timer, TimerQuery, Transfer, forward};

/// A store in which a lane gets its front before the third list of timers is read.
pub(super) struct Promoted {
    pub(super) store: Memory,
    pub(super) lists: usize,
}

impl Promoted {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        self.lists += usize::from(name == "timers");
        if (name, self.lists) == ("timers", 3) {
            assert_eq!(self.store.promote(&["a lane".to_owned()]).unwrap().len(), 1);
        }
        work(&mut self.store)
    }
}

impl Store for Promoted {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { store: self.store.clone(), lists: self.lists }))
    }

    forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming change advance backfill insert_occurrence
        records failing overview promote prune transfer shift adopt
    }
}

/// A store that does something of its own before the `at`th call of a method.
pub(super) struct Interrupted<F> {
    pub(super) store: Memory,
    pub(super) method: &'static str,
    pub(super) at: usize,
    pub(super) before: F,
}

impl<F: FnMut(&mut Memory) + Send> Interrupted<F> {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        if name == self.method && self.at > 0 {
            self.at -= 1;
            if self.at == 0 {
                (self.before)(&mut self.store);
            }
        }
        work(&mut self.store)
    }
}

impl<F: FnMut(&mut Memory) + Send> Store for Interrupted<F> {
    fn connect(&self) -> Result<Box<dyn Store>> {
        self.store.connect()
    }

    forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming change advance backfill insert_occurrence
        records failing overview promote prune transfer shift adopt
    }
}

pub(super) fn two_stores() -> [Memory; 2] {
    let clock = VirtualClock::new();
    let clock = Clock::builder().virtual_clock(&clock).build().unwrap();
    [0; 2].map(|_| Memory::new(&clock))
}

/// A store that keeps its records apart from its timers: it may have both of one.
pub(super) struct Apart {
    pub(super) timers: Memory,
    pub(super) records: Memory,
}

impl Apart {
    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        let is_of_records = matches!(name, "records" | "transfer");
        work(if is_of_records { &mut self.records } else { &mut self.timers })
    }
}

impl Store for Apart {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { timers: self.timers.clone(), records: self.records.clone() }))
    }

    forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find timers schedule schedules upcoming change advance backfill insert_occurrence
        records failing overview promote prune transfer shift adopt
    }
}

/// A call of the mover: its name, and the bytes of the payloads that it sends or brings.
pub(super) type Calls = Arc<Mutex<Vec<(&'static str, usize)>>>;

/// A store that notes the calls made of it.
pub(super) struct Noted {
    pub(super) store: Memory,
    calls: Calls,
}

impl Noted {
    pub(super) fn around(store: &Memory) -> (Box<dyn Store>, Calls) {
        let calls = Calls::default();
        (Box::new(Self { store: store.clone(), calls: calls.clone() }), calls)
    }

    fn note(&self, name: &'static str, timers: &[Timer]) {
        let bytes = timers.iter().map(|timer| timer.new.payload.len()).sum();
        self.calls.lock().unwrap().push((name, bytes));
    }

    fn pass<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn Store) -> Result<T>,
    ) -> Result<T> {
        self.note(name, &[]);
        work(&mut self.store)
    }
}

impl Store for Noted {
    fn connect(&self) -> Result<Box<dyn Store>> {
        Ok(Box::new(Self { store: self.store.clone(), calls: self.calls.clone() }))
    }

    fn timers(&mut self, query: &TimerQuery) -> Result<Vec<Timer>> {
        let page = self.store.timers(query)?;
        self.note("timers", &page);
        Ok(page)
    }

    fn transfer(&mut self, step: Transfer, timers: &[Timer]) -> Result<Vec<TimerId>> {
        self.note("transfer", timers);
        self.store.transfer(step, timers)
    }

    forward! { self.pass;
        now join beat leave maintain nodes insert scan held claim finish cancel reschedule amend
        confirm find schedule schedules upcoming change advance backfill insert_occurrence records
        failing overview promote prune shift adopt
    }
}
