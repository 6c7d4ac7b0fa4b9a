//! Turns of a driver.

use std::hint::black_box;
use std::pin::Pin;
use std::sync::Barrier;
use std::time::Instant;
use std::{iter, thread};

use tourbillon::driver::Driver;
use tourbillon::{Sleep, Timer};

use super::wakers::{Count, poll};
use super::work::{FAR, Work, timed};

pub(crate) fn driven_by_hand(shards: usize) -> (Timer, Driver) {
    Timer::builder().shards(shards).build_manual(|| {}).expect("the options are valid")
}

/// Arms a sleep until each of `deadlines`.
pub(crate) fn armed(timer: &Timer, deadlines: impl Iterator<Item = Instant>) -> Vec<Sleep> {
    let waker = Count::new().waker();
    let mut sleeps: Vec<_> = deadlines.map(|deadline| timer.sleep_until(deadline)).collect();
    for sleep in &mut sleeps {
        assert!(poll(Pin::new(sleep), &waker).is_pending());
    }
    sleeps
}

/// A turn with nothing due, while each shard holds one far timer.
pub(crate) fn occupied_turn(shards: usize) -> Work {
    let (timer, mut driver) = driven_by_hand(shards);
    // A thread that lives has a number, and so a shard, of its own.
    let begun = &Barrier::new(shards);
    let armed = || {
        let mut sleeps = armed(&timer, iter::once(Instant::now() + FAR));
        begun.wait();
        sleeps.pop()
    };
    let sleeps: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..shards).map(|_| scope.spawn(armed)).collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    let used = timer.stats().shards_used;
    assert!(used * 10 >= shards * 9, "{used} of {shards} shards are occupied");
    Box::new(move |times| {
        let _kept = &sleeps;
        timed(|| {
            for _ in 0..times {
                assert_eq!(black_box(driver.turn()).fired, 0);
            }
        })
    })
}
