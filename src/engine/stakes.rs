//! References of sleeps to an engine, counted apart for each shard, so that threads of different
//! shards count on different cache lines.
//!
//! Not done: a count beside the shard's lock, a protocol of its own in unsafe code; and a count
//! under that lock, since a sleep that was never armed may be the last to hold the engine.

use crate::engine::SharedEngine;
use crate::platform::{PerShard, per_shard, position};
use crate::sync::{Arc, CachePadded, Home, SetOnce, with_home};

/// An engine, and a stake in it for each shard.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Stakes {
    /// On a line apart from the count that clones of a handle write, and as far from its beginning
    /// as in a stake: a sleep gets to the engine by the same load from either.
    pub(crate) engine: CachePadded<SharedEngine>,
    /// Each is made with the first sleep that a thread of that shard makes.
    of: PerShard<SetOnce<Stake>>,
}

/// A counted reference to a counted reference to an engine. Threads that call the same shard home
/// clone the same one. The engine's own count changes only with the first and the last of these.
#[derive(Clone, Debug)]
pub(crate) struct Stake(Arc<CachePadded<SharedEngine>>);

impl Stakes {
    pub(crate) fn new(engine: SharedEngine) -> Self {
        let of = per_shard(engine.shards(), SetOnce::new);
        Self { engine: CachePadded::new(engine), of }
    }

    #[inline]
    pub(crate) fn engine(&self) -> &SharedEngine {
        &self.engine
    }

    /// A stake that is counted in the calling thread's shard.
    #[inline]
    pub(crate) fn take(&self) -> Stake {
        let of_home = &self.of[position(with_home(Home::number) & (self.of.len() - 1))];
        match of_home.get() {
            Some(stake) => stake.clone(),
            None => self.make(of_home),
        }
    }

    #[cold]
    fn make(&self, of_home: &SetOnce<Stake>) -> Stake {
        let stake = Stake(Arc::new(CachePadded::new(Arc::clone(&self.engine))));
        // If another thread has set one meanwhile, this one is the caller's alone.
        let _ = of_home.set(stake.clone());
        stake
    }
}

impl Stake {
    #[inline]
    pub(crate) fn engine(&self) -> &SharedEngine {
        &self.0
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use std::iter;
    use std::thread;

    use super::*;
    use crate::clock::{Clock, VirtualTime};
    use crate::engine::{DrivenBy, Engine};
    use crate::sync::thread_index;

    fn stakes(shards: usize) -> Stakes {
        let clock = Clock::Virtual(Arc::new(VirtualTime::new()));
        Stakes::new(Engine::new(clock, shards, DrivenBy::Clock).shared())
    }

    /// Takes a stake in a thread of its own, whose number is the next. Returns its shard too.
    fn taken_elsewhere(stakes: &Stakes) -> (usize, Stake) {
        let take = || (thread_index() % stakes.of.len(), stakes.take());
        thread::scope(|scope| scope.spawn(take).join().expect("it ends"))
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "there are no threads")]
    fn threads_count_together_if_they_have_the_same_home_and_on_other_lines_if_not() {
        let stakes = stakes(2);
        let mut of: [Vec<Stake>; 2] = [Vec::new(), Vec::new()];
        // Tests beside this one take numbers as well.
        while of.iter().any(|of| of.len() < 2) {
            let (home, stake) = taken_elsewhere(&stakes);
            of[home].push(stake);
        }
        let [even, odd] = of.map(|of| {
            assert!(of.iter().all(|stake| Arc::ptr_eq(&stake.0, &of[0].0)));
            Arc::as_ptr(&of[0].0).addr()
        });
        assert!(even.abs_diff(odd) >= align_of::<CachePadded<u8>>());
    }

    #[test]
    fn the_count_of_an_engine_changes_with_the_first_and_the_last_stake_of_a_shard_alone() {
        let stakes = stakes(1);
        let engine = Arc::clone(stakes.engine());
        let count = || Arc::strong_count(&engine);
        assert_eq!(count(), 2);
        let mut taken = Vec::from_iter(iter::repeat_with(|| stakes.take()).take(10));
        assert_eq!(count(), 3);
        taken.clear();
        assert_eq!(count(), 3);
        taken.push(stakes.take());
        drop(stakes);
        assert_eq!(count(), 2);
        assert!(Arc::ptr_eq(taken[0].engine(), &engine));
        drop(taken);
        assert_eq!(count(), 1);
    }
}
