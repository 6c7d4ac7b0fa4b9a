//! Wheels turned by hand, on one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

#[test]
fn turns_fire_what_is_due_and_the_hook_hears_of_earlier_timers() {
    let (clock, calls) = (VirtualClock::new(), Arc::new(AtomicUsize::new(0)));
    let hook = {
        let calls = Arc::clone(&calls);
        move || _ = calls.fetch_add(1, Ordering::Relaxed)
    };
    let (timer, mut driver) =
        Timer::builder().shards(2).virtual_clock(&clock).build_manual(hook).expect("it is valid");
    driver.turn();
    let [mut later, mut earlier, mut cancelled] = [3, 2, 1].map(|secs| timer.sleep(secs * SECOND));
    assert!(poll(&mut later).is_pending());
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(driver.turn().next, Some(later.deadline()));
    assert!(poll(&mut earlier).is_pending());
    assert!(poll(&mut cancelled).is_pending());
    drop(cancelled);
    clock.jump(2 * SECOND);
    let turn = driver.turn();
    assert_eq!((turn.fired, turn.next), (1, Some(later.deadline())));
    later.reset_after(2 * SECOND);
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, 0, "it was moved to later, without the wheel");
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, 1);
    assert!(poll(&mut later).is_ready() && poll(&mut earlier).is_ready());
}

/// More than fit in two batches, so that the lock is released with a slot half emptied.
#[test]
fn a_turn_in_parts_fires_all() {
    const CROWD: usize = 2 * 32 + 1;
    let clock = VirtualClock::new();
    let (timer, mut driver) =
        Timer::builder().shards(1).virtual_clock(&clock).build_manual(|| {}).expect("it is valid");
    let mut sleeps: Vec<_> = (0..CROWD).map(|_| timer.sleep(SECOND)).collect();
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, CROWD);
    drop(driver);
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
}

#[test]
fn sleeps_outlive_their_driver_and_every_handle() {
    let (timer, driver) = Timer::builder().shards(1).build_manual(|| {}).expect("it is valid");
    let mut armed = timer.sleep(3600 * SECOND);
    assert!(poll(&mut armed).is_pending());
    drop((timer, driver));
    armed.reset_after(ms(0));
    assert!(poll(&mut armed).is_ready());
}
