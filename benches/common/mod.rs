//! Parts that the benches share: the peers, and the work that each of them is given.

#![allow(dead_code, reason = "each bench uses a part")]

pub(crate) mod peers;
pub(crate) mod slots;
pub(crate) mod turns;
pub(crate) mod wakers;
pub(crate) mod work;

/// Checks of each peer that the timers of the benches really fire.
pub(crate) fn prove_that_sleeps_fire() {
    use peers::{AsyncIo, FuturesTimer, Tokio, Tourbillon};

    peers::prove_that_sleeps_fire::<Tourbillon>();
    peers::prove_that_sleeps_fire::<Tokio>();
    peers::prove_that_sleeps_fire::<AsyncIo>();
    peers::prove_that_sleeps_fire::<FuturesTimer>();
}
