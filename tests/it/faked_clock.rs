//! Timers on clocks that libfaketime moves. Run by `ci/faketime.sh`, in the repository, once for
//! each of its modes. The script ends a test that hangs.

use std::time::{Duration, Instant, SystemTime};

use tourbillon::Timer;

use crate::support::*;

/// A fresh driver parks without a limit, and a driver with a far timer until an instant.
fn drivers() -> [(Timer, tourbillon::Sleep); 2] {
    [Duration::MAX, 3600 * SECOND].map(|far| {
        let timer = Timer::builder().build().expect("the options are valid");
        let far = polled(timer.sleep(far));
        timer.start().expect("a thread");
        (timer, far)
    })
}

#[test]
#[ignore = "run by ci/faketime.sh under libfaketime"]
fn sleeps_end_and_not_before_their_time_by_the_faked_clock() {
    for (timer, _far) in &drivers() {
        for span in [ms(1), ms(20), ms(150), ms(400)] {
            let start = Instant::now();
            pollster::block_on(timer.sleep(span));
            assert!(start.elapsed() >= span, "early: {:?} of {span:?}", start.elapsed());
        }
    }
}

#[test]
#[ignore = "run by ci/faketime.sh under libfaketime"]
fn sleeps_until_a_wall_time_end_and_not_before_it() {
    for span in [ms(1), ms(300)] {
        let target = SystemTime::now() + span;
        pollster::block_on(tourbillon::wall::sleep_until_wall(target));
        assert!(SystemTime::now() >= target, "early");
    }
}

/// If a kernel timer cannot be set, the thread ends; if it fires, the sleep is woken.
#[test]
#[ignore = "run by ci/faketime.sh under libfaketime"]
fn steps_of_the_wall_clock_are_watched_for() {
    let counter = Counter::new();
    let mut sleep = tourbillon::wall::sleep_until_wall(SystemTime::now() + 30 * 86_400 * SECOND);
    assert!(poll_with(&mut sleep, &counter.clone().into()).is_pending());
    std::thread::sleep(ms(300));
    assert!(has_thread("tourbillon-wall"), "it has ended, or never begun");
    assert_eq!(counter.wakes(), 0, "there was no step");
}

#[test]
#[ignore = "run by ci/faketime.sh under libfaketime"]
fn a_cancel_beside_a_parked_driver_leaves_the_others() {
    for (timer, _far) in &drivers() {
        let start = Instant::now();
        let mut others = [ms(50), ms(150)].map(|span| timer.sleep(span));
        let mut cancelled = timer.sleep(ms(100));
        for sleep in others.iter_mut().chain([&mut cancelled]) {
            assert!(poll(sleep).is_pending());
        }
        eventually("it parks", || is_parked(timer));
        drop(cancelled);
        for (sleep, span) in others.iter_mut().zip([ms(50), ms(150)]) {
            pollster::block_on(sleep);
            assert!(start.elapsed() >= span, "early");
        }
    }
}

#[test]
#[ignore = "run by ci/faketime.sh under libfaketime"]
fn a_thousand_arms_that_each_unpark_the_driver_end() {
    for (timer, _far) in &drivers() {
        let before = timer.stats().unparks;
        for _ in 0..1_000 {
            let (start, span) = (Instant::now(), ms(1));
            pollster::block_on(timer.sleep(span));
            assert!(start.elapsed() >= span, "early");
        }
        assert!(timer.stats().unparks > before, "none did");
    }
}
