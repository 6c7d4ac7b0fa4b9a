//! Wakers that panic, come back in, or take other timers with them, on a virtual clock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};

use tourbillon::{Sleep, Timer};

use crate::support::*;

/// A waker that panics when its last clone is dropped.
struct PanicsInDrop;

impl Wake for PanicsInDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("a drop that panics");
    }
}

/// Polls with a waker that panics in its drop, and that the sleep holds the only clone of.
fn poll_with_panicking(sleep: &mut Sleep) {
    let waker = Waker::from(Arc::new(PanicsInDrop));
    assert!(poll_with(sleep, &waker).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(move || drop(waker))).is_ok());
}

/// Armed sleeps that fill a chunk of entries, take part of the next, and leave room in that for
/// others.
fn crowd(timer: &Timer) -> Vec<Sleep> {
    let mut crowd: Vec<_> = (0..80).map(|_| timer.sleep(SECOND)).collect();
    assert!(crowd.iter_mut().all(|sleep| poll(sleep).is_pending()));
    crowd
}

#[test]
fn a_waker_that_panics_as_its_sleep_completes_leaves_no_claim_on_freed_memory() {
    let (timer, clock) = virtual_timer();
    let before = crowd(&timer);
    let mut sleep = timer.sleep(SECOND);
    poll_with_panicking(&mut sleep);
    let after = crowd(&timer);
    // Found past by its own poll: a jump fires nothing.
    clock.jump(SECOND);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sleep))).is_err());
    drop((before, after));
    let _ = poll(&mut sleep);
}

/// The entry's memory goes while the sleep that held it is still being dropped.
#[test]
fn a_waker_takes_a_crowd_with_it_as_its_sleep_is_dropped() {
    let (timer, _clock) = virtual_timer();
    let before = crowd(&timer);
    let mut sleep = timer.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending());
    let crowds = (before, crowd(&timer));
    let waker = callback(move || _ = &crowds);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    drop(waker);
    drop(sleep);
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_waker_that_panics_as_its_sleep_is_dropped_or_its_waker_replaced_harms_nobody() {
    let (timer, clock) = virtual_timer();
    let mut replaced = timer.sleep(SECOND);
    poll_with_panicking(&mut replaced);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut replaced))).is_err());
    let mut cancelled = timer.sleep(SECOND);
    poll_with_panicking(&mut cancelled);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(cancelled))).is_err());
    assert_eq!(clock.advance(SECOND), 1);
    assert!(poll(&mut replaced).is_ready());
}

#[test]
fn a_waker_arms_resets_and_drops_timers() {
    let (timer, clock) = virtual_timer();
    let others: Vec<_> = (0..3).map(|_| timer.sleep(2 * SECOND)).collect();
    let others = Arc::new(Mutex::new(others));
    for other in others.lock().unwrap().iter_mut() {
        assert!(poll(other).is_pending());
    }
    let mut sleep = timer.sleep(SECOND);
    let waker = callback({
        let (timer, others) = (timer.clone(), Arc::clone(&others));
        move || {
            let mut others = others.lock().unwrap();
            others.pop();
            others[0].reset_after(SECOND / 2);
            let mut new = timer.sleep(SECOND / 4);
            assert!(poll(&mut new).is_pending());
            others.push(new);
        }
    });
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(clock.advance(2 * SECOND), 4);
}

#[test]
fn a_waker_drops_a_sleep_of_the_batch_that_it_is_woken_in() {
    let (timer, clock) = virtual_timer();
    let last = Arc::new(Mutex::new(Some(timer.sleep(SECOND))));
    let mut first = timer.sleep(SECOND);
    let waker = callback({
        let last = Arc::clone(&last);
        move || drop(last.lock().unwrap().take())
    });
    assert!(poll_with(&mut first, &waker).is_pending());
    assert!(poll(last.lock().unwrap().as_mut().unwrap()).is_pending());
    assert_eq!(clock.advance(SECOND), 2);
}

#[test]
fn a_waker_that_panics_in_wake_is_counted() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(SECOND);
    assert!(
        poll_with(&mut sleep, &callback(|| std::panic::resume_unwind(Box::new(())))).is_pending()
    );
    assert_eq!(clock.advance(SECOND), 1);
    assert_eq!(timer.stats().waker_panics, 1);
}
