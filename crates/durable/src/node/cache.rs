//! [`Cache`]: the timers of one kind that a node intends to claim, and their states.

use std::collections::{BTreeSet, HashMap};

use crate::id::{Shards, TimerId};
use crate::time::Time;

/// Part of the timers that a scan reads. Later ones are read once the earlier are known to leave
/// nothing.
///
/// Timers of other nodes' shards are left to those nodes until they are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Timers that became due within the last seconds, of the node's shards and late ones of all
    /// shards.
    Recent,
    /// All timers of the node's shards.
    Own,
    /// All timers of the node's shards, and all late ones.
    All,
}

/// Timers by the time of their claim. A guess about the database; claims correct it.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// Timers that wait, by due time.
    by_due: BTreeSet<(Time, TimerId)>,
    /// Due times of the same timers, by id.
    due: HashMap<TimerId, Time>,
    /// Timers in a claim under way.
    claiming: HashMap<TimerId, Time>,
    /// Timers that a claim has settled, with the number of scans begun by then: these may have read
    /// the state before the claim.
    settled: HashMap<TimerId, u64>,
    /// Number of scans that have begun.
    scans: u64,
    /// True if the node's shards may have a backlog that no scan has read.
    left_own: bool,
    /// True if late timers of any shard may have been left out.
    left_all: bool,
    /// True if the last scan for a backlog failed: recent ones do not wait for it.
    is_unreadable: bool,
    /// The backlog is read once no more timers than this wait: each scan from the beginning finds
    /// the waiting ones again.
    low: usize,
    /// True if a further scan would find the same as the last.
    is_paused: bool,
}

impl Cache {
    /// Returns how many timers wait.
    pub(crate) fn len(&self) -> usize {
        self.by_due.len()
    }

    /// When the first is due.
    pub(crate) fn first(&self) -> Option<Time> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Returns the reach of a read due at once: scans have left timers out, and there is room.
    pub(crate) fn wants(&self) -> Option<Reach> {
        let left = [(self.left_own, Reach::Own), (self.left_all, Reach::All)];
        let first = left.into_iter().find(|(is_left, _)| *is_left);
        let is_meant = self.len() <= self.low && !self.is_paused;
        first.filter(|_| is_meant).map(|(_, reach)| reach)
    }

    /// Allows a read of the backlog while at most `low` timers wait.
    pub(crate) fn allow(&mut self, low: usize) {
        self.low = self.low.max(low);
        self.is_paused = false;
    }

    /// Leaves the backlog unread until a claim is answered, or the next period begins.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Begins a scan, unless the cache has no room for its result; then a later scan reads that.
    /// The number goes to [`end_scan`](Self::end_scan).
    pub(crate) fn begin_scan(&mut self, reach: Reach) -> Option<u64> {
        let is_meant = match reach {
            Reach::Recent => !self.left_own || self.is_unreadable,
            Reach::Own => self.wants() == Some(Reach::Own),
            Reach::All => !self.left_own && !self.left_all || self.wants().is_some(),
        };
        if !is_meant {
            self.left_all |= reach == Reach::All;
            return None;
        }
        self.scans += 1;
        Some(self.scans)
    }

    /// Takes a timer that a scan has found. Returns whether it is new.
    pub(crate) fn take(&mut self, scan: u64, id: TimerId, due: Time) -> bool {
        let is_settled = self.settled.get(&id).is_some_and(|begun| *begun >= scan);
        !is_settled && !self.claiming.contains_key(&id) && self.put(id, due)
    }

    /// Notes that the store did not answer a scan.
    pub(crate) fn fail_scan(&mut self, reach: Reach) {
        self.is_unreadable |= reach != Reach::Recent;
    }

    /// Forgets settled timers that later scans cannot have read before their claim, and remembers
    /// whether this scan left timers out.
    pub(crate) fn end_scan(&mut self, scan: u64, reach: Reach, is_cut: bool) {
        self.settled.retain(|_, begun| *begun >= scan);
        self.is_paused = false;
        self.is_unreadable &= reach == Reach::Recent;
        if is_cut {
            self.left_own = true;
            self.left_all |= reach != Reach::Own;
            self.low = self.len() / 2;
        } else {
            self.left_own &= reach == Reach::Recent;
            self.left_all &= reach != Reach::All;
        }
    }

    /// Makes a timer wait until `due`. Returns whether it did not wait before.
    pub(crate) fn put(&mut self, id: TimerId, due: Time) -> bool {
        let old = self.due.insert(id, due);
        if let Some(old) = old {
            self.by_due.remove(&(old, id));
        }
        self.by_due.insert((due, id));
        old.is_none()
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

    /// Notes a claim's answer on a timer, given at `now`. A timer that was not due waits again.
    pub(crate) fn settle(&mut self, id: TimerId, is_claimed: bool, now: Time) {
        self.is_paused = false;
        match self.claiming.remove(&id) {
            Some(due) if !is_claimed && due > now => _ = self.put(id, due),
            _ => {
                self.settled.insert(id, self.scans);
            }
        }
    }

    /// Makes a timer wait again that a claim has not settled.
    pub(crate) fn retry(&mut self, id: TimerId) {
        if let Some(due) = self.claiming.remove(&id) {
            self.put(id, due);
        }
    }

    /// Returns whether a claim of this timer is under way.
    pub(crate) fn is_claiming(&self, id: TimerId) -> bool {
        self.claiming.contains_key(&id)
    }

    /// Forgets waiting timers outside `shards`.
    pub(crate) fn keep(&mut self, shards: Shards) {
        self.by_due.retain(|(_, id)| shards.contains(id.shard()));
        self.due.retain(|id, _| shards.contains(id.shard()));
    }

    /// Forgets all waiting timers.
    pub(crate) fn clear(&mut self) {
        self.by_due.clear();
        self.due.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, Reach};
    use crate::id::{Shards, TimerId};
    use crate::time::Time;

    const ID: TimerId = TimerId::from_bits(1);

    fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    fn scan(cache: &mut Cache) {
        let number = cache.begin_scan(Reach::Recent).unwrap();
        cache.take(number, ID, at(5));
        cache.end_scan(number, Reach::Recent, false);
    }

    /// A scan that finds the timers of these numbers.
    fn read(cache: &mut Cache, reach: Reach, found: std::ops::Range<u128>, is_cut: bool) {
        let number = cache.begin_scan(reach).unwrap();
        for id in found {
            cache.take(number, TimerId::from_bits(id), at(5));
        }
        cache.end_scan(number, reach, is_cut);
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
    fn a_scan_that_began_before_the_claim_was_answered_brings_nothing_back() {
        let mut cache = Cache::default();
        scan(&mut cache);
        let reading = cache.begin_scan(Reach::Recent).unwrap();
        assert_eq!(cache.pop(at(5)), Some(ID));
        cache.take(reading, ID, at(5));
        assert_eq!(cache.len(), 0);
        cache.settle(ID, true, at(5));
        cache.take(reading, ID, at(5));
        cache.end_scan(reading, Reach::Recent, false);
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

    #[test]
    fn what_a_scan_has_left_is_read_once_half_of_what_waits_is_gone() {
        let mut cache = Cache::default();
        read(&mut cache, Reach::Recent, 0..100, true);
        assert_eq!((cache.wants(), cache.begin_scan(Reach::Recent)), (None, None));
        while cache.len() > 51 {
            cache.pop(at(5));
        }
        assert_eq!(cache.wants(), None);
        cache.pop(at(5));
        assert_eq!(cache.wants(), Some(Reach::Own));
        read(&mut cache, Reach::Own, 50..100, false);
        // It may have left out late timers in the shards of others.
        assert_eq!(cache.wants(), Some(Reach::All));
        read(&mut cache, Reach::All, 50..100, false);
        assert_eq!(cache.wants(), None);
        assert!(cache.begin_scan(Reach::Recent).is_some());
    }

    #[test]
    fn what_others_have_now_waits_no_longer() {
        let mut cache = Cache::default();
        for id in [0, 1, 64, 65] {
            cache.put(TimerId::from_bits(id), at(5));
        }
        assert_eq!(cache.pop(at(5)), Some(TimerId::from_bits(0)));
        cache.keep(Shards::from_mask(1));
        assert_eq!((cache.len(), cache.pop(at(5))), (1, Some(TimerId::from_bits(64))));
        // The claim under way is answered as any other.
        assert!(cache.is_claiming(TimerId::from_bits(0)));
    }

    #[test]
    fn what_other_shards_have_is_read_after_what_the_nodes_own_have() {
        let mut cache = Cache::default();
        read(&mut cache, Reach::All, 0..0, true);
        assert_eq!(cache.wants(), Some(Reach::Own));
        read(&mut cache, Reach::Own, 0..0, true);
        assert_eq!(cache.wants(), Some(Reach::Own));
        read(&mut cache, Reach::Own, 0..0, false);
        assert_eq!(cache.wants(), Some(Reach::All));
        read(&mut cache, Reach::All, 0..0, false);
        assert_eq!(cache.wants(), None);
    }

    #[test]
    fn what_a_scan_of_all_was_not_asked_for_is_read_later() {
        let mut cache = Cache::default();
        read(&mut cache, Reach::Recent, 0..4, true);
        assert_eq!(cache.begin_scan(Reach::All), None);
        cache.allow(4);
        read(&mut cache, Reach::Own, 0..4, false);
        assert_eq!(cache.wants(), Some(Reach::All));
    }
}
