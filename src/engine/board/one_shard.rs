//! A set of shards, where there is one.

/// The shard, or none.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    has_shard: bool,
}

impl Shards {
    pub(super) const NONE: Self = Self { has_shard: false };

    /// Returns the set of all.
    pub(crate) fn first(_count: usize) -> Self {
        Self { has_shard: true }
    }

    pub(super) fn insert(&mut self, _shard: usize) {
        self.has_shard = true;
    }

    /// There is none before the first.
    pub(crate) fn split_before(&mut self, _first: usize) -> Self {
        Self::NONE
    }
}

impl Iterator for Shards {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        core::mem::take(&mut self.has_shard).then_some(0)
    }
}
