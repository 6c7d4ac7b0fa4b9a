//! [`Cache`]: the timers of one kind that a node means to ask for, and what it does with them.

use std::collections::{BTreeSet, HashMap};

use crate::id::TimerId;
use crate::time::Time;

/// Timers by when to ask for them. A guess about the database, which is put right by asking.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Those that wait.
    by_due: BTreeSet<(Time, TimerId)>,
    /// Those that wait, too.
    due: HashMap<TimerId, Time>,
    /// Those that were taken to be claimed.
    claiming: HashMap<TimerId, Time>,
    /// Those of which a claim has told; with the number of scans begun by then, which may have read
    /// what was before the claim.
    settled: HashMap<TimerId, u64>,
    /// How many scans have begun.
    scans: u64,
}

impl Cache {
    /// How many timers wait.
    pub(crate) fn len(&self) -> usize {
        self.by_due.len()
    }

    /// When the first is due.
    pub(crate) fn first(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Begins a scan; its number goes to [`end_scan`](Self::end_scan).
    pub(crate) fn begin_scan(&mut self) -> u64 {
        self.scans += 1;
        self.scans
    }

    /// Takes what a scan has found.
    pub(crate) fn take(&mut self, scan: u64, id: TimerId, due: Time) {
        let is_old_news = self.settled.get(&id).is_some_and(|begun| *begun >= scan);
        if !is_old_news && !self.claiming.contains_key(&id) {
            self.put(id, due);
        }
    }

    /// Forgets what later scans cannot have read.
    pub(crate) fn end_scan(&mut self, scan: u64) {
        self.settled.retain(|_, begun| *begun >= scan);
    }

    /// Has a timer wait until `due`.
    pub(crate) fn put(&mut self, id: TimerId, due: Time) {
        if let Some(old) = self.due.insert(id, due) {
            self.by_due.remove(&(old, id));
        }
        self.by_due.insert((due, id));
    }

    /// Takes the first timer that is due until `now`, to be claimed.
    pub(crate) fn pop(&mut self, now: Time) -> Option<TimerId> {
        let (due, id) = *self.by_due.first()?;
        if due > now {
            return None;
        }
        self.by_due.pop_first();
        self.due.remove(&id);
        self.claiming.insert(id, due);
        Some(id)
    }

    /// Takes note that a claim has told of a timer at `now`. One that was not due waits again.
    pub(crate) fn settle(&mut self, id: TimerId, is_claimed: bool, now: Time) {
        match self.claiming.remove(&id) {
            Some(due) if !is_claimed && due > now => self.put(id, due),
            _ => {
                self.settled.insert(id, self.scans);
            }
        }
    }

    /// Has a timer wait again of which a claim has told nothing.
    pub(crate) fn retry(&mut self, id: TimerId) {
        if let Some(due) = self.claiming.remove(&id) {
            self.put(id, due);
        }
    }

    /// Whether a claim of this timer is under way.
    pub(crate) fn is_claiming(&self, id: TimerId) -> bool {
        self.claiming.contains_key(&id)
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.by_due.clear();
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;
    use crate::id::TimerId;
    use crate::time::Time;

    const ID: TimerId = TimerId::from_bits(1);

    fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    fn scan(cache: &mut Cache) {
        let number = cache.begin_scan();
        cache.take(number, ID, at(5));
        cache.end_scan(number);
    }

    #[test]
    fn nothing_is_taken_before_it_is_due() {
        let mut cache = Cache::default();
        cache.put(ID, at(5));
        assert_eq!((cache.pop(at(4)), cache.first()), (None, Some(at(5))));
        assert_eq!((cache.pop(at(5)), cache.len()), (Some(ID), 0));
    }

    #[test]
    fn a_timer_that_moved_is_taken_once() {
        let mut cache = Cache::default();
        cache.put(ID, at(9));
        cache.put(ID, at(5));
        assert_eq!((cache.len(), cache.pop(at(9))), (1, Some(ID)));
        assert_eq!(cache.pop(at(9)), None);
    }

    #[test]
    fn a_scan_that_began_before_the_claim_was_told_brings_nothing_back() {
        let mut cache = Cache::default();
        scan(&mut cache);
        let reading = cache.begin_scan();
        assert_eq!(cache.pop(at(5)), Some(ID));
        cache.take(reading, ID, at(5));
        assert_eq!(cache.len(), 0);
        cache.settle(ID, true, at(5));
        cache.take(reading, ID, at(5));
        cache.end_scan(reading);
        assert_eq!(cache.len(), 0);
        scan(&mut cache);
        assert_eq!(cache.pop(at(5)), Some(ID));
    }

    #[test]
    fn a_timer_refused_as_early_waits_again() {
        let mut cache = Cache::default();
        cache.put(ID, at(5));
        cache.pop(at(6));
        cache.settle(ID, false, at(4));
        assert_eq!(cache.first(), Some(at(5)));
        cache.pop(at(6));
        cache.settle(ID, false, at(5));
        assert_eq!(cache.first(), None);
    }

    #[test]
    fn a_claim_without_an_answer_is_made_again() {
        let mut cache = Cache::default();
        cache.put(ID, at(5));
        cache.pop(at(5));
        assert!(cache.is_claiming(ID));
        cache.retry(ID);
        assert_eq!((cache.is_claiming(ID), cache.pop(at(5))), (false, Some(ID)));
    }
}
