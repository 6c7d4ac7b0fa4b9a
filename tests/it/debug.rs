//! `Debug` output: short, and in the words of somebody who looks for a bug.

use std::time::SystemTime;

use tourbillon::Timer;
use tourbillon::driver::Driver;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

#[test]
fn deadlines_are_shown_as_seen_from_now() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(5 * SECOND);
    assert_eq!(format!("{sleep:?}"), r#"Sleep { deadline: in 5s, state: "unarmed", .. }"#);
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(format!("{sleep:?}"), r#"Sleep { deadline: in 5s, state: "armed", .. }"#);
    clock.block_on(&mut sleep);
    clock.advance(2 * SECOND);
    assert_eq!(format!("{sleep:?}"), r#"Sleep { deadline: 2s ago, state: "completed", .. }"#);
    let never = timer.never();
    assert_eq!(format!("{never:?}"), r#"Sleep { deadline: never, state: "unarmed", .. }"#);
    let interval = timer.interval_at(clock.now() + SECOND, 3 * SECOND);
    assert_eq!(
        format!("{interval:?}"),
        "Interval { next_tick: in 1s, period: 3s, missed_tick_behavior: Burst, .. }"
    );
    clock.set_wall(SystemTime::UNIX_EPOCH);
    let wall = timer.sleep_until_wall(SystemTime::UNIX_EPOCH + SECOND);
    assert_eq!(format!("{wall:?}"), r#"WallSleep { target: in 1s, state: "idle", .. }"#);
}

#[test]
fn a_clock_shows_how_far_it_was_moved_and_what_holds_it() {
    let clock = VirtualClock::new();
    clock.advance(90 * SECOND);
    let _hold = clock.hold();
    assert_eq!(format!("{clock:?}"), "VirtualClock { elapsed: 90s, holds: 1, .. }");
}

#[test]
fn a_timer_shows_what_drives_it() {
    let builder = || Timer::builder().shards(2);
    let timer = builder().thread_name("mine").build().unwrap();
    assert_eq!(
        format!("{timer:?}"),
        "Timer { engine: Engine { clock: monotonic, shards: 2, drive: thread `mine`, \
         alarm: absent, .. }, .. }"
    );
    let (_, driver): (Timer, Driver) = builder().build_manual(|| {}).unwrap();
    assert_eq!(
        format!("{driver:?}"),
        "Driver { timer: Timer { engine: Engine { clock: monotonic, shards: 2, drive: by hand, \
         alarm: awake, .. }, .. }, .. }"
    );
}
