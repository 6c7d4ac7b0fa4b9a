//! Wake-ups by a step of the wall clock, and by a resume.

use std::task::Poll;
use std::time::Duration;

use loom::sync::Arc;
use loom::thread;

use super::check;
use crate::clock::{Need, Registration, Steps, Watch};
use crate::models::harness::{Harness, Signal, at, callback, poll, waker};
use crate::sync::{StdArc, refuse_threads};

/// Either the waker is in before the step and is woken, or it comes later and sees the clock after
/// it. Oracle: deadlock.
#[test]
fn a_step_races_a_new_waiter() {
    check(|| {
        let harness = Harness::new(1);
        let (time, signal) = (Arc::clone(&harness.time), Signal::new());
        let before = harness.time.wall_now();
        let setter = thread::spawn(move || {
            let stepped = time.wall_now() + Duration::from_secs(60);
            time.set_wall(|_| stepped);
        });
        let key = &mut Registration::new();
        let watch = harness.time.steps.watch(key, &waker(&signal), Need::Notices);
        assert_eq!(watch, Watch::New);
        if harness.time.wall_now() == before {
            signal.wait();
        }
        setter.join().unwrap();
        assert!(harness.time.wall_now() > before);
    });
}

/// There will be no more notices. Oracle: deadlock, of a waiter that counts on a notice.
#[test]
fn the_end_of_notices_races_a_new_waiter() {
    check(|| {
        let (steps, signal) = (StdArc::new(Steps::of_a_virtual_clock()), Signal::new());
        let watcher = thread::spawn({
            let steps = StdArc::clone(&steps);
            move || steps.stop_announcing()
        });
        let key = &mut Registration::new();
        // There is no watcher to be started.
        refuse_threads(true);
        if steps.watch(key, &waker(&signal), Need::Notices) != Watch::Unannounced {
            signal.wait();
        }
        assert_eq!(steps.watch(key, &waker(&signal), Need::Notices), Watch::Unannounced);
        watcher.join().unwrap();
    });
}

/// The notices end while a waker is cloned: that is foreign code. Oracle: as above.
#[test]
fn notices_end_while_a_waker_is_cloned() {
    check(|| {
        let steps = StdArc::new(Steps::of_a_virtual_clock());
        let (key, signal) = (&mut Registration::new(), Signal::new());
        // Of another task, and so not kept.
        assert_eq!(steps.watch(key, &callback(|| {}), Need::Notices), Watch::New);
        let watcher = thread::spawn({
            let steps = StdArc::clone(&steps);
            move || steps.stop_announcing()
        });
        refuse_threads(true);
        if steps.watch(key, &waker(&signal), Need::Notices) != Watch::Unannounced {
            signal.wait();
        }
        watcher.join().unwrap();
    });
}

/// The driver parks for a time that the clock passes while the machine is suspended; and once more.
/// Oracle: deadlock, since nothing else ends the park.
#[test]
fn resumes_race_park() {
    check(|| {
        let harness = Harness::counting_suspend();
        for nanos in [5, 10] {
            let (mut sleep, signal) = harness.armed(nanos);
            harness.suspend_until(nanos);
            signal.wait();
            assert_eq!(poll(&mut sleep, &signal), Poll::Ready(()));
            assert!(harness.time.now() >= at(nanos), "early");
        }
    });
}
