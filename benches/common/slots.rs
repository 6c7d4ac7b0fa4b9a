//! Many futures at fixed places, without an allocation for each.

use std::pin::Pin;

/// A pinned list of a capacity that is set once.
pub(crate) struct Slots<F> {
    /// Never grows past the capacity it was made with, so nothing in it moves.
    futures: Vec<F>,
}

impl<F> Slots<F> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self { futures: Vec::with_capacity(capacity) }
    }

    pub(crate) fn push(&mut self, future: F) -> Pin<&mut F> {
        assert!(self.futures.len() < self.futures.capacity(), "the slots are full");
        self.futures.push(future);
        self.at(self.futures.len() - 1)
    }

    pub(crate) fn at(&mut self, index: usize) -> Pin<&mut F> {
        // SAFETY: the vector never reallocates (see `push`), and gives out its elements as pinned
        // references only until it drops them where they are.
        unsafe { Pin::new_unchecked(&mut self.futures[index]) }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Pin<&mut F>> {
        // SAFETY: as in `at`.
        self.futures.iter_mut().map(|future| unsafe { Pin::new_unchecked(future) })
    }

    pub(crate) fn len(&self) -> usize {
        self.futures.len()
    }

    /// Drops all futures and keeps their places.
    pub(crate) fn clear(&mut self) {
        self.futures.clear();
    }
}
