//! `Driver`: turn, next deadline, hook.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use tourbillon::{Driver, Timer, VirtualClock};

use crate::support::*;

struct Rig {
    timer: Timer,
    driver: Driver,
    clock: VirtualClock,
    calls: Arc<AtomicUsize>,
}

fn rig() -> Rig {
    let clock = VirtualClock::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = {
        let calls = calls.clone();
        move || _ = calls.fetch_add(1, Ordering::SeqCst)
    };
    let (timer, driver) =
        Timer::builder().virtual_clock(&clock).build_manual(hook).expect("the options are valid");
    Rig { timer, driver, clock, calls }
}

impl Rig {
    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[test]
fn a_turn_fires_what_is_due_and_says_what_comes_next() {
    let mut rig = rig();
    assert_eq!((rig.driver.turn().fired, rig.driver.turn().next), (0, None));
    let mut sleeps = [1, 2, 2, 5].map(|n| rig.timer.sleep(n * SECOND));
    for sleep in &mut sleeps {
        assert!(poll(sleep).is_pending());
    }
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next), (0, Some(sleeps[0].deadline())));
    rig.clock.jump(2 * SECOND);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next), (3, Some(sleeps[3].deadline())));
    assert_eq!(rig.driver.next_deadline(), Some(sleeps[3].deadline()));
    drop(sleeps);
    assert_eq!(rig.driver.next_deadline(), None);
}

#[test]
fn one_turn_fires_all_that_is_due_however_many() {
    let mut rig = rig();
    let mut sleeps: Vec<_> = (0..1_000).map(|n| rig.timer.sleep(ms(n % 10 + 1))).collect();
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    rig.clock.jump(ms(5));
    let turn = rig.driver.turn();
    assert_eq!(turn.fired, 500);
    assert_eq!(turn.next, Some(sleeps[5].deadline()), "exactly, as nothing was cancelled");
    rig.clock.jump(ms(5));
    assert_eq!((rig.driver.turn().fired, rig.driver.turn().next), (500, None));
}

#[test]
fn a_turn_fires_and_counts_what_its_wakers_make_due() {
    let mut rig = rig();
    let (mut first, mut second) = (rig.timer.sleep(SECOND), rig.timer.sleep(3600 * SECOND));
    let counter = Counter::new();
    assert!(poll_with(&mut second, &Waker::from(counter.clone())).is_pending());
    let (clock, second) = (rig.clock.clone(), std::sync::Mutex::new(second));
    let waker = callback(move || {
        second.lock().unwrap().reset_after(SECOND);
        clock.jump(SECOND);
    });
    assert!(poll_with(&mut first, &waker).is_pending());
    rig.clock.jump(SECOND);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next, counter.wakes()), (2, None, 1));
}

#[test]
fn the_hook_is_called_once_by_an_earlier_insert_until_the_next_turn() {
    let mut rig = rig();
    rig.driver.turn();
    let mut sleeps = [5, 6, 4, 3].map(|n| rig.timer.sleep(n * SECOND));
    for sleep in &mut sleeps {
        assert!(poll(sleep).is_pending());
    }
    assert_eq!(rig.calls(), 1, "called for the first; the loop has yet to turn");
    rig.driver.turn();
    let mut later = rig.timer.sleep(4 * SECOND);
    assert!(poll(&mut later).is_pending());
    assert_eq!(rig.calls(), 1, "not earlier than what the turn reported");
    let mut earlier = rig.timer.sleep(2 * SECOND);
    assert!(poll(&mut earlier).is_pending());
    assert_eq!(rig.calls(), 2);
    assert_eq!(rig.timer.stats().unparks, 2);
}

#[test]
fn a_reset_to_earlier_calls_the_hook_and_a_cancel_does_not() {
    let mut rig = rig();
    let (mut first, mut second) = (rig.timer.sleep(5 * SECOND), rig.timer.sleep(9 * SECOND));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    rig.driver.turn();
    drop(first);
    assert_eq!(rig.calls(), 0);
    second.reset_after(SECOND);
    assert_eq!(rig.calls(), 1);
}

#[test]
fn the_hook_may_come_back_into_the_timer() {
    let clock = VirtualClock::new();
    let (send, handles) = std::sync::mpsc::channel::<Timer>();
    let handles = std::sync::Mutex::new(handles);
    let hook = move || {
        let timer = handles.lock().unwrap().recv().expect("the handle is sent first");
        let mut sleep = timer.sleep(SECOND / 2);
        assert!(poll(&mut sleep).is_pending());
    };
    let (timer, mut driver) =
        Timer::builder().virtual_clock(&clock).build_manual(hook).expect("the options are valid");
    driver.turn();
    send.send(timer.clone()).expect("the hook is alive");
    let mut sleep = timer.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(timer.stats().cancelled, 1);
}

#[test]
fn no_lock_is_held_while_the_hook_runs() {
    for on_a_virtual_clock in [false, true] {
        let handle = Arc::new(std::sync::OnceLock::<Timer>::new());
        let hook = {
            let handle = handle.clone();
            move || {
                let timer = handle.get().expect("there is one before it is called").clone();
                // Takes every lock, and hangs where this thread has one.
                let (say, heard) = std::sync::mpsc::channel();
                std::thread::spawn(move || say.send(timer.stats().pending));
                assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(1));
            }
        };
        let builder = Timer::builder();
        let clock = VirtualClock::new();
        let builder = if on_a_virtual_clock { builder.virtual_clock(&clock) } else { builder };
        let (timer, mut driver) = builder.build_manual(hook).expect("the options are valid");
        driver.turn();
        handle.set(timer.clone()).expect("once");
        let mut sleep = timer.sleep(3600 * SECOND);
        assert!(poll(&mut sleep).is_pending());
        assert_eq!((timer.stats().unparks, timer.stats().waker_panics), (1, 0));
    }
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    let clock = VirtualClock::new();
    let (timer, mut driver) = Timer::builder()
        .virtual_clock(&clock)
        .build_manual(|| panic!("as the test wants it"))
        .expect("the options are valid");
    driver.turn();
    let mut sleep = timer.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, 1);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(timer.stats().waker_panics, 1);
}

#[test]
fn a_sleep_without_a_driver_completes_when_it_is_polled() {
    let Rig { timer, driver, clock, .. } = rig();
    let mut sleep = timer.sleep(SECOND);
    assert!(poll(&mut sleep).is_pending());
    drop(driver);
    clock.jump(SECOND);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn the_cached_time_is_that_of_the_last_turn() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    driver.turn();
    let cached = timer.cached_now();
    while timer.now() <= cached {}
    assert_eq!(timer.cached_now(), cached);
    driver.turn();
    assert!(timer.cached_now() > cached);
}

#[test]
fn a_driver_moves_between_threads() {
    let Rig { timer, mut driver, clock, .. } = rig();
    let counter = Counter::new();
    let mut sleep = timer.sleep(SECOND);
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    clock.jump(SECOND);
    let fired = std::thread::spawn(move || driver.turn().fired).join().expect("it ends");
    assert_eq!((fired, counter.wakes()), (1, 1));
}

#[test]
fn a_loop_between_two_waits_serves_remote_sleepers() {
    // The shape of an event loop: wait no longer than until the next timer, or until unparked.
    let (unpark, unparked) = std::sync::mpsc::channel();
    let (timer, mut driver) =
        Timer::builder().build_manual(move || _ = unpark.send(())).expect("the options are valid");
    let sleepers: Vec<_> = (1..=5u64)
        .map(|n| {
            let timer = timer.clone();
            std::thread::spawn(move || {
                for _ in 0..5 {
                    let deadline = Instant::now() + Duration::from_micros(300 * n);
                    pollster::block_on(timer.sleep_until(deadline));
                    assert!(Instant::now() >= deadline, "early");
                }
            })
        })
        .collect();
    while !sleepers.iter().all(|sleeper| sleeper.is_finished()) {
        let wait = match driver.turn().next {
            Some(next) => next.saturating_duration_since(Instant::now()),
            None => ms(1),
        };
        let _ = unparked.recv_timeout(wait);
    }
    for sleeper in sleepers {
        sleeper.join().expect("no sleep was early");
    }
}
