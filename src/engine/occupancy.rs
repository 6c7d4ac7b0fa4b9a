//! The set of occupied shards, a bit to each, so that a scan does not lock the others.
//!
//! `PROTOCOL.md` argues that a scan that passes over a shard misses no timer.

use alloc::boxed::Box;

use crate::engine::MAX_SHARDS;
use crate::sync::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;
const WORDS: usize = MAX_SHARDS / BITS;

/// A shard's bit is written under its lock only. While it is clear, the shard is
/// [idle](super::Shard::is_idle).
#[derive(Debug)]
pub(crate) struct Occupancy(Box<[AtomicU64]>);

impl Occupancy {
    /// Makes a set of so many shards, all idle.
    pub(crate) fn new(shards: usize) -> Self {
        Self((0..shards.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Makes later scans visit the shard, which is locked by the caller. If a scan that passes it
    /// over is under way, all that its thread did before the scan is seen from here on.
    pub(crate) fn enter(&self, shard: usize) {
        let (word, bit) = (&self.0[shard / BITS], 1 << (shard % BITS));
        // ORDERING: Relaxed; the bit is the lock's, so this reads the latest.
        if word.load(Ordering::Relaxed) & bit == 0 {
            // ORDERING: Acquire, the partner of the Release in `scan`. Of the two
            // read-modify-writes the later reads the earlier, or one that follows on it: either
            // the scan has our bit, or we see the alarm as it was set before the scan. Loom
            // `an_insert_into_an_idle_shard_races_park`.
            word.fetch_or(bit, Ordering::Acquire);
        }
    }

    /// Makes later scans pass over the shard, which is idle, and locked by the caller.
    pub(crate) fn leave(&self, shard: usize) {
        // ORDERING: Release, the partner of the Acquire in `scan`: a thread that passes over the
        // shard sees what was done to empty it, as if it had taken the lock after us. A thread that
        // enters the shard next has taken it.
        self.0[shard / BITS].fetch_and(!(1 << (shard % BITS)), Ordering::Release);
    }

    /// The shards to be visited.
    pub(crate) fn scan(&self) -> Occupied {
        let mut words = [0; WORDS];
        for (seen, word) in words.iter_mut().zip(&self.0) {
            // A read-modify-write, although it changes nothing: a load may read what was there
            // before an `enter` that does not see it either.
            // ORDERING: AcqRel, the partner of `enter`, `leave` and `pass_on`.
            *seen = word.fetch_or(0, Ordering::AcqRel);
        }
        Occupied { words, at: 0 }
    }

    /// Shows scans that are still to come what the caller did before. If one is under way, what its
    /// thread did before it is seen from here on.
    pub(crate) fn pass_on(&self) {
        // ORDERING: AcqRel, the partner of that in `scan`, as in `enter`. Loom
        // `the_end_of_one_timer_races_arm_on_another`.
        self.0[0].fetch_or(0, Ordering::AcqRel);
    }
}

/// Shards that were occupied when they were asked for, in order.
#[derive(Clone, Debug)]
pub(crate) struct Occupied {
    words: [u64; WORDS],
    /// The words before have none left.
    at: usize,
}

impl Occupied {
    /// Takes those before the shard `first` out.
    pub(crate) fn split_before(&mut self, first: usize) -> Self {
        let mut before = Self { words: [0; WORDS], at: 0 };
        while let Some(shard) = self.clone().next().filter(|shard| *shard < first) {
            before.words[shard / BITS] |= 1 << (shard % BITS);
            self.next();
        }
        before
    }
}

impl Iterator for Occupied {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        while self.at < WORDS {
            let word = &mut self.words[self.at];
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.at * BITS + bit);
            }
            self.at += 1;
        }
        None
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    #[test]
    fn scans_visit_what_was_entered_and_not_left_in_order() {
        let occupancy = Occupancy::new(MAX_SHARDS);
        let shards = [255, 0, 63, 64, 128, 5, 191, 192];
        shards.into_iter().for_each(|shard| occupancy.enter(shard));
        [128, 63].into_iter().for_each(|shard| occupancy.leave(shard));
        occupancy.enter(5);
        assert_eq!(occupancy.scan().collect::<Vec<_>>(), [0, 5, 64, 191, 192, 255]);
        assert_eq!(Occupancy::new(1).scan().next(), None);
    }

    #[test]
    fn a_scan_may_begin_with_any_shard() {
        let occupancy = Occupancy::new(MAX_SHARDS);
        let shards = [0, 5, 63, 64, 191, 192, 255];
        shards.into_iter().for_each(|shard| occupancy.enter(shard));
        for first in 0..MAX_SHARDS {
            let mut from = occupancy.scan();
            let before = from.split_before(first);
            assert!(before.clone().all(|shard| shard < first));
            assert!(from.clone().all(|shard| shard >= first));
            assert_eq!(before.chain(from).collect::<Vec<_>>(), shards);
        }
    }
}
