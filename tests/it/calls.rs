//! Durations of wakers and callbacks in the counters.

use std::sync::mpsc::channel;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;

const MICROSECOND: Duration = Duration::from_micros(1);

/// A waker that takes so long by the clock that it is given.
fn taking(span: Duration, clock: &VirtualClock) -> Waker {
    let clock = clock.clone();
    callback(move || clock.jump(span))
}

/// Arms one sleep for each waker, all with one deadline.
fn arm_together(timer: &Timer, wakers: impl IntoIterator<Item = Waker>) -> Vec<Sleep> {
    let deadline = timer.now() + SECOND;
    let arm = |waker| {
        let mut sleep = timer.sleep_until(deadline);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        sleep
    };
    wakers.into_iter().map(arm).collect()
}

fn timer_with_limit(limit: Duration) -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).slow_call_limit(limit);
    (builder.build().expect("the options are valid"), clock)
}

#[test]
fn the_longest_call_is_kept_whatever_comes_after_it() {
    let (timer, clock) = virtual_timer();
    assert_eq!(timer.stats().longest_call, Duration::ZERO);
    for (span, longest) in [(ms(7), ms(7)), (ms(3), ms(7)), (ms(9), ms(9)), (ms(0), ms(9))] {
        let _sleeps = arm_together(&timer, [taking(span, &clock)]);
        assert_eq!(clock.advance(SECOND), 1);
        assert_eq!(timer.stats().longest_call, longest);
    }
    let slow = clock.clone();
    let callback = timer.sleep(SECOND).call(move || slow.jump(ms(20)));
    assert_eq!(clock.advance(SECOND), 1);
    assert_eq!(timer.stats().longest_call, ms(20));
    assert!(!callback.cancel());
}

#[test]
fn a_call_is_slow_that_takes_longer_than_the_limit() {
    for (limit, slow) in [(None, ms(100)), (Some(ms(20)), ms(20)), (Some(MICROSECOND), MICROSECOND)]
    {
        let (timer, clock) = limit.map_or_else(virtual_timer, timer_with_limit);
        let spans = [slow, slow + NANOSECOND, slow / 2, slow * 3];
        let _sleeps = arm_together(&timer, spans.map(|span| taking(span, &clock)));
        assert_eq!(clock.advance(SECOND), 4);
        let stats = timer.stats();
        assert_eq!((stats.slow_calls, stats.longest_call), (2, slow * 3));
    }
}

#[test]
fn with_a_limit_that_no_call_exceeds_none_is_slow() {
    let (timer, clock) = timer_with_limit(Duration::MAX);
    let _sleeps = arm_together(&timer, [taking(3600 * SECOND, &clock)]);
    assert_eq!(clock.advance(SECOND), 1);
    let stats = timer.stats();
    assert_eq!((stats.slow_calls, stats.longest_call), (0, 3600 * SECOND));
}

/// The crowd is several batches.
#[test]
fn slow_calls_of_a_crowd_are_measured_one_by_one() {
    let (timer, clock) = virtual_timer();
    let _sleeps = arm_together(&timer, (0..1000).map(|_| taking(ms(101), &clock)));
    assert_eq!(clock.advance(SECOND), 1000);
    let stats = timer.stats();
    assert_eq!((stats.slow_calls, stats.longest_call), (1000, ms(101)));

    let (timer, clock) = virtual_timer();
    let span = |n| if n < 300 { MICROSECOND } else { ms(101) };
    let _sleeps = arm_together(&timer, (0..500).map(|n| taking(span(n), &clock)));
    assert_eq!(clock.advance(SECOND), 500);
    let stats = timer.stats();
    assert_eq!((stats.slow_calls, stats.longest_call), (200, ms(101)));
}

/// The clock has a coarse one beside it. On a busy machine another call may be slow as well.
#[test]
fn in_a_crowd_two_calls_are_not_one() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let mut wait = ms(200);
    let sleeps = loop {
        let deadline = timer.now() + wait;
        let waker = |n| {
            callback(move || {
                if n / 2 == 150 {
                    thread::sleep(ms(110))
                }
            })
        };
        let mut sleeps: Vec<_> =
            (0..512).map(|n| (timer.sleep_until(deadline), waker(n))).collect();
        if sleeps.iter_mut().all(|(sleep, waker)| poll_with(sleep, waker).is_pending()) {
            break sleeps;
        }
        // Too slow a machine for that.
        wait *= 2;
    };
    thread::sleep(wait);
    assert_eq!(driver.turn().fired, sleeps.len());
    assert!(timer.stats().slow_calls >= 2, "{:?}", timer.stats());
}

#[test]
fn a_call_that_does_not_return_shows_while_it_lasts() {
    let (timer, clock) = virtual_timer();
    let (say, heard) = channel();
    let (release, released) = channel::<()>();
    let stuck = clock.clone();
    let callback = timer.sleep(SECOND).call(move || {
        stuck.jump(ms(5));
        say.send(()).expect("the test waits");
        released.recv().expect("the test lets it go on");
    });
    let mover = {
        let clock = clock.clone();
        thread::spawn(move || clock.advance(SECOND))
    };
    heard.recv().expect("it is called");
    let stats = || (timer.stats().longest_call, timer.stats().slow_calls);
    assert_eq!(stats(), (ms(5), 0));
    clock.jump(3600 * SECOND);
    assert_eq!(stats(), (3600 * SECOND + ms(5), 0));
    release.send(()).expect("it waits");
    mover.join().expect("no panic");
    assert_eq!(stats(), (3600 * SECOND + ms(5), 1));
    drop(callback);
}

/// A waker within a turn by hand moves the clock, which makes passes of the same timer.
#[test]
fn a_pass_within_a_call_is_a_part_of_that_call() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let (tell, told) = channel();
    let (moved, seen) = (clock.clone(), timer.clone());
    let outer = timer.sleep(SECOND).call(move || {
        let longest = || seen.stats().longest_call;
        moved.jump(SECOND);
        assert_eq!(longest(), SECOND);
        assert_eq!(moved.advance(4 * SECOND), 2);
        moved.jump(10 * SECOND);
        tell.send(longest()).expect("the test waits");
    });
    let _inner = [3, 5].map(|secs| timer.sleep(secs * SECOND).call(|| {}));
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, 1);
    assert!(!outer.cancel(), "it was called");
    assert_eq!(told.recv().expect("it was called"), 15 * SECOND, "with all within it");
    let stats = timer.stats();
    assert_eq!((stats.slow_calls, stats.longest_call), (1, 15 * SECOND));
    clock.jump(3600 * SECOND);
    assert_eq!(timer.stats().longest_call, 15 * SECOND, "none is under way");
}

#[test]
fn a_callback_may_poll_sleeps_of_its_own_driver_and_wait_for_another_driver() {
    let [timer, other] = [(); 2].map(|()| Timer::builder().build().expect("valid options"));
    let own = timer.clone();
    let (say, heard) = channel();
    let callback = timer.sleep(Duration::ZERO).call(move || {
        let mut sleep = polled(own.sleep(3600 * SECOND));
        pollster::block_on(other.sleep(ms(1)));
        assert!(poll_with(&mut sleep, &Waker::from(Counter::new())).is_pending());
        say.send(()).expect("the test waits");
    });
    heard.recv_timeout(60 * SECOND).expect("it waits for ever");
    callback.cancel_and_wait();
    assert_eq!(timer.stats().waker_panics, 0);
}

/// Panics that the timer catches: of a waker, a function, and the hook of a loop.
#[test]
fn the_first_panic_of_each_kind_calls_the_hook_once_and_one_of_the_hook_harms_nobody() {
    let (tell, told) = channel();
    let builder = || {
        let tell = tell.clone();
        Timer::builder().on_waker_panic(move || {
            tell.send(()).expect("the test waits");
            panic!("a hook that panics");
        })
    };
    for kind in ["waker", "function"] {
        let clock = VirtualClock::new();
        let timer = builder().virtual_clock(&clock).build().expect("the options are valid");
        for n in 1..=2 {
            let sleep = timer.sleep(SECOND);
            if kind == "waker" {
                let mut sleep = sleep;
                assert!(poll_with(&mut sleep, &callback(move || panic!("a {kind}"))).is_pending());
                assert_eq!(clock.advance(SECOND), 1);
            } else {
                let _callback = sleep.call(move || panic!("a {kind}"));
                assert_eq!(clock.advance(SECOND), 1);
            }
            assert_eq!((told.try_iter().count(), timer.stats().waker_panics), (2 - n, n as u64));
        }
    }
    let hook = || panic!("the hook of a loop");
    let (timer, mut driver) = builder().build_manual(hook).expect("the options are valid");
    driver.turn();
    let _sleeps = arm_together(&timer, [Waker::noop().clone()]);
    assert_eq!((told.try_iter().count(), timer.stats().waker_panics), (1, 1));
}

#[test]
fn a_panic_on_a_driver_thread_calls_the_hook_there() {
    let (tell, told) = channel();
    let name = move || tell.send(thread::current().name().map(str::to_owned));
    let builder = Timer::builder().thread_name("loud");
    let builder = builder.on_waker_panic(move || name().expect("the test waits"));
    let timer = builder.build().expect("the options are valid");
    let _callback = timer.sleep(Duration::ZERO).call(|| panic!("a function that panics"));
    assert_eq!(told.recv().expect("it is called").as_deref(), Some("loud"));
}
