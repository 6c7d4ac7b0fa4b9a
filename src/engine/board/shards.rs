//! A set of shards.

use crate::engine::MAX_SHARDS;

/// A set of shards, taken out in order.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    words: [u64; WORDS],
    /// The words before have none left.
    at: usize,
}

const BITS: usize = u64::BITS as usize;
const WORDS: usize = MAX_SHARDS / BITS;

impl Shards {
    pub(super) const NONE: Self = Self { words: [0; WORDS], at: 0 };

    /// Returns the set of the first `count`.
    pub(crate) fn first(count: usize) -> Self {
        let mut shards = Self::NONE;
        (0..count).for_each(|shard| shards.insert(shard));
        shards
    }

    pub(super) fn insert(&mut self, shard: usize) {
        self.words[shard / BITS] |= 1 << (shard % BITS);
    }

    /// Takes those before the shard `first` out.
    pub(crate) fn split_before(&mut self, first: usize) -> Self {
        let mut before = Self::NONE;
        while let Some(shard) = self.clone().next().filter(|shard| *shard < first) {
            before.insert(shard);
            self.next();
        }
        before
    }
}

impl Iterator for Shards {
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
