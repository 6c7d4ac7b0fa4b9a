//! Small numbers for threads, so that those that run at the same time have different ones.

use crate::sync::Ordering;
use crate::sync::unmodelled::AtomicU32;

const BITS: usize = u32::BITS as usize;

/// As many as a timer has shards at most.
const COUNT: usize = 256;

/// The numbers below [`COUNT`], a bit for each that is taken.
pub(crate) struct Numbers([AtomicU32; COUNT / BITS]);

impl Numbers {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; COUNT / BITS])
    }

    /// Takes the lowest that is free; `None` if all are taken.
    pub(crate) fn take(&self) -> Option<usize> {
        self.0.iter().enumerate().find_map(|(index, word)| {
            // ORDERING: Relaxed, as in the whole file; only the numbers' distinctness matters, and
            // the read-modify-writes of one word give that.
            let mut taken = word.load(Ordering::Relaxed);
            loop {
                let bit = taken.trailing_ones();
                if bit == u32::BITS {
                    return None;
                }
                // ORDERING: as above.
                let before = word.fetch_or(1 << bit, Ordering::Relaxed);
                if before & (1 << bit) == 0 {
                    return Some(index * BITS + bit as usize);
                }
                taken = before;
            }
        })
    }

    /// Gives back a number that was taken.
    pub(crate) fn give_back(&self, number: usize) {
        // ORDERING: Relaxed; see `take`.
        self.0[number / BITS].fetch_and(!(1 << (number % BITS)), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_lowest_free_number_is_taken_until_there_is_none() {
        let numbers = Numbers::new();
        assert!((0..COUNT).all(|number| numbers.take() == Some(number)));
        assert_eq!(numbers.take(), None);
        [200, 40, 3].into_iter().for_each(|number| numbers.give_back(number));
        assert_eq!([(); 4].map(|()| numbers.take()), [Some(3), Some(40), Some(200), None]);
    }

    #[test]
    fn threads_take_different_numbers() {
        let numbers = Numbers::new();
        let mut taken = thread::scope(|scope| {
            let take = || (0..COUNT / 4).filter_map(|_| numbers.take()).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("it ends");
            threads.into_iter().flat_map(join).collect::<Vec<_>>()
        });
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..COUNT));
    }
}
