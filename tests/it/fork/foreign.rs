//! Functions and wakers that fork, and return in the child as well.

use std::sync::atomic::{AtomicI32, AtomicUsize};
use std::sync::mpsc::{Sender, channel};

use tourbillon::driver::Budget;

use super::*;

/// The status of a child that ends as a program that panics in `main`.
const PANICKED: libc::c_int = 101 << 8;

#[test]
fn a_child_that_returns_on_a_thread_of_ours_ends() {
    alone!();

    /// A function that forks once, and tells the child's number.
    fn forking(tell: Sender<libc::pid_t>, in_child: impl Fn() + Send) -> impl FnMut() + Send {
        let mut tell = Some(tell);
        move || {
            let Some(tell) = tell.take() else { return };
            match fork() {
                0 => in_child(),
                child => tell.send(child).expect("the test waits"),
            }
        }
    }

    let timer = Timer::builder().build().expect("the options are valid");
    let (tell, told) = channel();
    let status = || status_of(told.recv().expect("it is called"));

    let calls = Arc::new(AtomicUsize::new(0));
    let callback = every(&timer, ms(1), {
        let (mut function, calls) = (forking(tell.clone(), || {}), Arc::clone(&calls));
        move || {
            function();
            calls.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!(status(), 0);
    // The parent's calls continue.
    while calls.load(Ordering::Relaxed) < 2 {
        std::thread::sleep(ms(1));
    }
    drop(callback);
    let callback = timer.sleep(ms(1)).call(forking(tell.clone(), || panic!("in the child")));
    assert_eq!(status(), PANICKED);
    drop(callback);

    // The due timers beside it are the parent's.
    let deadline = timer.now() + ms(5);
    let callback = timer.sleep_until(deadline).call({
        let mut function = forking(tell.clone(), || {});
        move || function()
    });
    let parent = std::process::id();
    let beside = self::callback(move || assert_eq!(std::process::id(), parent));
    let mut sleep = timer.sleep_until(deadline);
    // On a slow machine it may be due by now.
    let _ = poll_with(&mut sleep, &beside);
    assert_eq!(status(), 0);
    drop(callback);

    let function = Mutex::new(forking(tell, || {}));
    let waker = self::callback(move || (function.lock().unwrap())());
    let mut sleep = timer.sleep(ms(1));
    while poll_with(&mut sleep, &waker).is_ready() {
        sleep = timer.sleep(ms(1));
    }
    assert_eq!(status(), 0);
    pollster::block_on(timer.sleep(ms(1)));
}

#[test]
fn a_child_that_returns_within_a_turn_goes_on_in_its_loop() {
    alone!();
    for budget in [None, Some(Budget::Until(std::time::Instant::now()))] {
        let builder = Timer::builder().shards(1);
        let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
        let forked = Arc::new(AtomicI32::new(-1));
        let number = Arc::clone(&forked);
        let callback = every(&timer, Duration::from_nanos(1), move || {
            if number.load(Ordering::Relaxed) < 0 {
                number.store(fork(), Ordering::Relaxed);
            }
        });
        // More than are taken out of the wheel at once.
        let (counter, waker) = counting();
        let mut wait = ms(200);
        let crowd = loop {
            let mut crowd: Vec<_> = (0..2_000).map(|_| timer.sleep(wait)).collect();
            if crowd.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()) {
                break crowd;
            }
            // Too slow a machine for that.
            wait *= 2;
        };
        std::thread::sleep(wait);
        let turn = match budget {
            None => driver.turn(),
            Some(budget) => driver.turn_within(budget),
        };
        let child = forked.load(Ordering::Relaxed);
        if child == 0 {
            end_child_with(|| {
                assert!(turn.more, "{turn:?}");
                assert!(counter.wakes() < 1_000, "the rest are the parent's: {}", counter.wakes());
                let turn = driver.turn();
                assert_eq!((turn.fired, turn.next, turn.more), (0, None, false));
                assert_eq!(timer.stats().armed, 0, "nothing is called again");
                assert!(!callback.cancel());
                let (waker, told) = telling();
                let own = pending_for(ms(1), &waker, |span| timer.sleep(span));
                while !own.is_elapsed() {}
                assert_eq!(driver.turn().fired, 1);
                told.recv().expect("it is woken");
            });
        }
        assert_eq!(status_of(child), 0);
        drop(callback);
        while driver.turn().more {}
        assert_eq!(counter.wakes(), crowd.len());
    }
}

#[test]
fn a_child_that_returns_within_a_move_of_a_clock_moves_it_on() {
    alone!();
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let is_child = Arc::new(AtomicBool::new(false));
    let (of_child, told) = (Arc::clone(&is_child), Arc::new(Mutex::new(None)));
    let (own, seen) = (timer.clone(), Arc::clone(&told));
    let (number, forked) = channel();
    let callback = timer.sleep(SECOND).call(move || {
        let child = fork();
        number.send(child).expect("the test waits");
        if child == 0 {
            of_child.store(true, Ordering::Relaxed);
            let (timer, seen) = (own.clone(), Arc::clone(&seen));
            own.sleep(SECOND).call(move || *seen.lock().unwrap() = Some(timer.now())).detach();
        }
    });
    let (mut parents, counter) = counted(timer.sleep(5 * SECOND));
    clock.advance(10 * SECOND);
    let child = forked.recv().expect("it was called");
    if is_child.load(Ordering::Relaxed) {
        end_child_with(|| {
            assert_eq!(clock.now(), start + 10 * SECOND);
            assert_eq!(*told.lock().unwrap(), Some(start + 2 * SECOND));
            assert_eq!((counter.wakes(), clock.pending()), (0, 0));
            assert!(poll(&mut parents).is_ready());
            clock.block_on(timer.sleep(SECOND));
            assert_eq!(clock.now(), start + 11 * SECOND);
        });
    }
    assert_eq!(status_of(child), 0);
    assert_eq!((clock.now(), counter.wakes()), (start + 10 * SECOND, 1));
    drop(callback);
}
