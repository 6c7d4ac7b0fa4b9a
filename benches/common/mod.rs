//! Parts that the benches share: the peers, and the work that each of them is given.

#![allow(dead_code, unused_macros, unused_imports, reason = "each bench uses a part")]

pub(crate) mod entries;
pub(crate) mod peers;
pub(crate) mod slots;
pub(crate) mod turns;
pub(crate) mod wakers;
pub(crate) mod work;

/// One criterion group: `work::<name>::<P>(...)` for every peer `P`.
macro_rules! compare {
    ($criterion:expr, $name:expr, $function:ident($($argument:expr),*)) => {{
        use $crate::common::peers::{AsyncIo, FuturesTimer, Peer, Tokio, Tourbillon};
        use $crate::common::work;

        let mut group = $criterion.benchmark_group($name);
        compare!(@ group, $function($($argument),*), Tourbillon, Tokio, AsyncIo, FuturesTimer);
        group.finish();
    }};
    (@ $group:ident, $function:ident $arguments:tt, $($peer:ty),+) => {$(
        // Prepared when it runs: a filter on the command line saves that, too.
        $group.bench_function(<$peer>::NAME, |bencher| {
            let mut work = compare!(@@ $function, $peer, $arguments);
            bencher.iter_custom(&mut work);
        });
    )+};
    (@@ $function:ident, $peer:ty, ($($argument:expr),*)) => {
        work::$function::<$peer>($($argument),*)
    };
}
pub(crate) use compare;

/// Checks of each peer that the timers of the benches really fire.
pub(crate) fn prove_that_sleeps_fire() {
    use peers::{AsyncIo, FuturesTimer, Tokio, Tourbillon};

    peers::prove_that_sleeps_fire::<Tourbillon>();
    peers::prove_that_sleeps_fire::<Tokio>();
    peers::prove_that_sleeps_fire::<AsyncIo>();
    peers::prove_that_sleeps_fire::<FuturesTimer>();
}
