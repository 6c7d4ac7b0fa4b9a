//! Races of several threads for one timer. Each is run under many seeds, which choose where a
//! thread is interrupted.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use tourbillon::Timer;
use tourbillon::queue::DelayQueue;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// A timer with a driver thread, and as few shards as make threads meet.
fn timer(shards: usize) -> Timer {
    Timer::builder().shards(shards).build().expect("it is a power of two")
}

#[test]
fn a_driver_thread_wakes_sleepers_of_three_threads() {
    let timer = timer(2);
    thread::scope(|scope| {
        for thread in 1..=3 {
            let timer = &timer;
            scope.spawn(move || {
                for round in 1..=3 {
                    let deadline = Instant::now() + ms(3 * thread * round);
                    pollster::block_on(timer.sleep_until(deadline));
                    assert!(Instant::now() >= deadline, "early");
                }
            });
        }
    });
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn a_fire_races_drops_resets_and_new_wakers() {
    let timer = timer(1);
    thread::scope(|scope| {
        for thread in 0..3 {
            let timer = &timer;
            scope.spawn(move || {
                for round in 0..3 {
                    let mut sleep = timer.sleep(ms(4));
                    let _ = poll_with(&mut sleep, &Counter::new().into());
                    match thread {
                        0 => sleep.reset_after(ms(1)),
                        1 => sleep.reset_after(ms(5)),
                        _ => _ = poll_with(&mut sleep, &Counter::new().into()),
                    }
                    thread::sleep(ms(2 * round));
                    if round < 2 {
                        drop(sleep);
                    } else {
                        pollster::block_on(sleep);
                    }
                }
            });
        }
    });
}

#[test]
fn sleeps_armed_on_one_thread_are_dropped_on_another() {
    let timer = timer(1);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for mut sleep in receive {
                let _ = poll(&mut sleep);
                drop(sleep);
            }
        });
        for round in 0..20 {
            let mut sleep = timer.sleep(ms(round));
            let _ = poll_with(&mut sleep, &Counter::new().into());
            send.send(sleep).expect("the receiver waits");
        }
        drop(send);
    });
}

#[test]
fn the_last_handle_goes_while_another_thread_arms() {
    for _ in 0..3 {
        let timer = timer(1);
        let mut sleep = timer.sleep(ms(4));
        let armed = thread::spawn(move || {
            let _ = poll(&mut sleep);
            pollster::block_on(sleep);
        });
        drop(timer);
        armed.join().expect("it completes");
    }
}

#[test]
fn a_waker_on_the_driver_thread_takes_another_threads_sleep() {
    let timer = timer(2);
    let victim = Arc::new(Mutex::new(Some(timer.sleep(ms(8)))));
    let waker = callback({
        let victim = Arc::clone(&victim);
        move || drop(victim.lock().unwrap().take())
    });
    let mut first = timer.sleep(ms(4));
    let _ = poll_with(&mut first, &waker);
    thread::scope(|scope| {
        scope.spawn(|| {
            if let Some(sleep) = &mut *victim.lock().unwrap() {
                let _ = poll(sleep);
                sleep.reset_after(ms(2));
            }
        });
    });
    pollster::block_on(first);
    pollster::block_on(timer.sleep(ms(10)));
}

#[test]
fn threads_move_a_virtual_clock_and_arm_on_it() {
    let (timer, clock) = virtual_timer();
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                start.wait();
                for _ in 0..3 {
                    clock.advance(SECOND);
                }
            });
        }
        scope.spawn(|| {
            start.wait();
            for n in 0..4 {
                let mut sleep = timer.sleep(n * SECOND);
                let _ = poll_with(&mut sleep, &Counter::new().into());
                sleep.reset_after(SECOND);
                let _ = poll_with(&mut sleep, Waker::noop());
            }
        });
    });
    let mut left = timer.sleep(SECOND);
    assert!(poll(&mut left).is_pending());
    assert_eq!(clock.advance(SECOND), 1);
}

#[test]
fn a_loop_turned_by_hand_serves_sleepers_of_other_threads() {
    let (unpark, unparked) = mpsc::channel();
    let (timer, mut driver) =
        Timer::builder().shards(2).build_manual(move || _ = unpark.send(())).expect("it is valid");
    thread::scope(|scope| {
        let sleepers: Vec<_> = (1..=2)
            .map(|n| {
                let timer = &timer;
                scope.spawn(move || (0..3).for_each(|_| pollster::block_on(timer.sleep(ms(4 * n)))))
            })
            .collect();
        while !sleepers.iter().all(|sleeper| sleeper.is_finished()) {
            driver.turn();
            let _ = unparked.recv_timeout(driver.max_wait().unwrap_or(ms(20)));
        }
    });
}

#[test]
fn a_turn_by_hand_races_a_jump_of_its_clock_and_an_arm() {
    let clock = VirtualClock::new();
    let (timer, mut driver) =
        Timer::builder().shards(1).virtual_clock(&clock).build_manual(|| {}).expect("it is valid");
    thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|_| clock.jump(SECOND)));
        scope.spawn(|| {
            for _ in 0..3 {
                let mut sleep = timer.sleep(SECOND);
                let _ = poll_with(&mut sleep, &Counter::new().into());
            }
        });
        for _ in 0..3 {
            driver.turn();
        }
    });
    clock.jump(9 * SECOND);
    driver.turn();
    assert_eq!(timer.stats().pending, 0);
}

#[test]
fn threads_that_ask_for_the_first_entry_of_a_queue_find_the_same() {
    let mut queue = DelayQueue::with_timer(&timer(1));
    let keys: Vec<_> = (0..20).map(|n| queue.insert(n, SECOND * (1_000 + n))).collect();
    for first in &keys[..5] {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| assert_eq!(queue.peek(), Some(*first)));
            }
        });
        queue.remove(first);
    }
}
