//! The stream: deliveries and their times, and missed occurrences.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use futures::stream::FusedStream;
use futures::{FutureExt, StreamExt};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_cron::{Missed, Schedule, Tick, Ticks};

use super::{cron, shown, utc};
use crate::support::{Counter, SECOND, WALL_GRAIN, poll_next, virtual_timer};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A timer whose wall clock shows the beginning of 2026.
fn in_2026() -> (Timer, VirtualClock) {
    let (timer, clock) = virtual_timer();
    clock.set_wall(utc("2026-01-01"));
    (timer, clock)
}

fn now<S: Schedule>(ticks: &mut Ticks<S>) -> Option<Tick> {
    ticks.tick().now_or_never().map(|tick| tick.expect("the schedule goes on"))
}

/// Returns the ready ticks: each time, and the number missed before it.
fn all_now<S: Schedule>(ticks: &mut Ticks<S>) -> Vec<(String, u64)> {
    std::iter::from_fn(|| now(ticks))
        .map(|tick| (shown(tick.scheduled()).split_off("2026-01-".len()), tick.missed()))
        .collect()
}

fn ready(expected: &[(&str, u64)]) -> Vec<(String, u64)> {
    expected.iter().map(|(at, missed)| ((*at).to_owned(), *missed)).collect()
}

#[test]
fn an_hour_takes_one_wake_up_and_one_armed_sleep_for_each_occurrence() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("*/5 * * * *", "UTC"), &timer);
    let counter = Counter::new();
    let waker = Waker::from(counter.clone());
    assert!(poll_next(&mut ticks, &waker).is_pending());
    let mut delivered = 0;
    for second in 1..=3600 {
        clock.advance(Duration::from_secs(1));
        assert_eq!(clock.pending(), usize::from(second % 300 != 0));
        if second % 300 == 0 {
            delivered += 1;
            assert_eq!(counter.wakes(), delivered);
            let Poll::Ready(Some(tick)) = poll_next(&mut ticks, &waker) else {
                panic!("a tick is due")
            };
            assert_eq!(tick.scheduled(), utc("2026-01-01") + Duration::from_secs(second));
            assert_eq!((tick.woke(), tick.missed()), (tick.scheduled(), 0));
            assert!(poll_next(&mut ticks, &waker).is_pending());
        }
    }
    assert_eq!((delivered, counter.wakes()), (12, 12));
    assert_eq!(timer.stats().fired, 12);
}

#[test]
fn nothing_comes_early_by_a_nanosecond() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer);
    clock.advance(HOUR - Duration::from_nanos(1));
    assert_eq!(now(&mut ticks), None);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(now(&mut ticks).unwrap().scheduled(), utc("2026-01-01T01:00"));
}

#[test]
fn a_tick_tells_when_it_was_due_and_when_it_came() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "Europe/Berlin"), &timer);
    clock.advance(HOUR + 7 * MINUTE);
    let tick = now(&mut ticks).unwrap();
    assert_eq!(tick.scheduled(), utc("2026-01-01T01:00"));
    assert_eq!(tick.woke(), utc("2026-01-01T01:07"));
    assert_eq!((tick.missed(), &*tick.to_string()), (0, "2026-01-01T01:00:00Z"));
}

#[test]
fn every_period_ticks_from_when_the_stream_was_made_and_from_tick_to_tick() {
    let (timer, clock) = in_2026();
    clock.advance(7 * SECOND);
    let mut ticks = Ticks::with_timer(cron("@every 90s", "UTC"), &timer);
    clock.advance(90 * SECOND);
    assert_eq!(all_now(&mut ticks), ready(&[("01T00:01:37", 0)]));
    clock.advance(200 * SECOND);
    assert_eq!(all_now(&mut ticks), ready(&[("01T00:04:37", 1)]));
    clock.advance(70 * SECOND);
    assert_eq!(all_now(&mut ticks), ready(&[("01T00:06:07", 0)]));
}

#[test]
fn skipped_are_those_that_are_not_on_time() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(Missed::Skip);
    clock.advance(HOUR + MINUTE);
    assert_eq!(all_now(&mut ticks), ready(&[("01T01:00", 0)]));
    // A little more than a minute late.
    clock.advance(HOUR + WALL_GRAIN);
    assert_eq!(all_now(&mut ticks), []);
    // The last of four is on time.
    clock.advance(4 * HOUR - MINUTE);
    assert_eq!(all_now(&mut ticks), ready(&[("01T06:00", 4)]));
    let mut patient = Ticks::with_timer(cron("@hourly", "UTC"), &timer)
        .missed(Missed::Skip)
        .on_time_within(30 * MINUTE);
    clock.advance(90 * MINUTE - Duration::from_nanos(1));
    assert_eq!(all_now(&mut patient), ready(&[("01T07:00", 0)]));
}

#[test]
fn coalesced_come_as_the_last_of_them() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer);
    for (slept, expected) in [(90, ("01T01:00", 0)), (180, ("01T04:00", 2)), (35, ("01T05:00", 0))]
    {
        clock.advance(slept * MINUTE);
        assert_eq!(all_now(&mut ticks), ready(&[expected]));
    }
}

#[test]
fn caught_up_with_are_the_newest_and_not_too_old() {
    let after_a_day = |max_count, max_age, past: Duration| {
        let (timer, clock) = in_2026();
        let policy = Missed::CatchUp { max_count, max_age };
        let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(policy);
        clock.advance(DAY + past);
        all_now(&mut ticks)
    };
    let on_time = Duration::ZERO;
    assert_eq!(after_a_day(0, Duration::MAX, on_time), ready(&[("02T00:00", 23)]));
    assert_eq!(after_a_day(0, Duration::MAX, 5 * MINUTE), []);
    assert_eq!(
        after_a_day(2, Duration::MAX, on_time),
        ready(&[("01T22:00", 21), ("01T23:00", 0), ("02T00:00", 0)])
    );
    assert_eq!(
        after_a_day(2, Duration::MAX, 5 * MINUTE),
        ready(&[("01T23:00", 22), ("02T00:00", 0)])
    );
    assert_eq!(
        after_a_day(u64::MAX, 2 * HOUR, on_time),
        ready(&[("01T22:00", 21), ("01T23:00", 0), ("02T00:00", 0)])
    );
    assert_eq!(after_a_day(u64::MAX, Duration::ZERO, 5 * MINUTE), []);
    assert_eq!(after_a_day(u64::MAX, Duration::MAX, on_time).len(), 24);
    assert_eq!(after_a_day(1, Duration::ZERO, on_time), ready(&[("02T00:00", 23)]));
}

#[test]
fn what_a_slow_consumer_catches_up_with_too_late_is_given_up() {
    let (timer, clock) = in_2026();
    let policy = Missed::CatchUp { max_count: 10, max_age: 5 * HOUR };
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(policy);
    clock.advance(4 * HOUR);
    assert_eq!(now(&mut ticks).unwrap().scheduled(), utc("2026-01-01T01:00"));
    clock.advance(4 * HOUR);
    let found = all_now(&mut ticks);
    let expected = ["01T03:00", "01T04:00", "01T05:00", "01T06:00", "01T07:00", "01T08:00"];
    assert_eq!(found.iter().map(|(at, _)| at.as_str()).collect::<Vec<_>>(), expected);
    assert_eq!(found.iter().map(|(_, missed)| missed).sum::<u64>(), 1);
}

#[test]
fn the_newest_is_on_time_if_it_was_as_the_sleep_ended_however_slow_the_consumer() {
    let (timer, clock) = in_2026();
    let policy = Missed::CatchUp { max_count: 1, max_age: HOUR };
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(policy);
    clock.advance(2 * HOUR);
    assert_eq!(now(&mut ticks).unwrap().scheduled(), utc("2026-01-01T01:00"));
    clock.advance(90 * MINUTE);
    let tick = now(&mut ticks).unwrap();
    assert_eq!((tick.scheduled(), tick.missed()), (utc("2026-01-01T02:00"), 0));
}

#[test]
fn no_occurrence_is_lost_or_doubled_whatever_the_policy_and_the_clock() {
    for policy in [
        Missed::Skip,
        Missed::Coalesce,
        Missed::CatchUp { max_count: 3, max_age: 7 * HOUR },
        Missed::CatchUp { max_count: u64::MAX, max_age: Duration::MAX },
    ] {
        let (timer, clock) = in_2026();
        let hourly = cron("@hourly", "UTC");
        let mut ticks = Ticks::with_timer(hourly.clone(), &timer).missed(policy);
        let (mut last, mut latest) = (utc("2026-01-01"), utc("2026-01-01"));
        let mut state = 7_u64;
        for _ in 0..4000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let span = Duration::from_secs(state >> 33 & 0x7fff);
            match state >> 60 {
                0 => clock.suspend(span),
                1 => clock.set_wall(timer.wall_now() + span * 3),
                2 | 3 => clock.set_wall(timer.wall_now() - span * 2),
                _ => drop(clock.advance(span / 4)),
            }
            latest = latest.max(timer.wall_now());
            let allowed = 1 + state % 3;
            for _ in 0..allowed {
                let Some(tick) = now(&mut ticks) else { break };
                assert!(tick.scheduled() > last && tick.woke() >= tick.scheduled());
                assert_eq!(tick.woke(), timer.wall_now());
                let passed = hourly.occurrences(last).take_while(|at| *at <= tick.scheduled());
                assert_eq!(passed.count() as u64, tick.missed() + 1, "{policy:?}");
                last = tick.scheduled();
            }
        }
        assert!(last <= latest && last > utc("2026-01-20"), "{}", shown(last));
    }
}

#[test]
fn a_clock_set_back_makes_nothing_due_again() {
    for back in [MINUTE, HOUR, 3 * DAY] {
        let (timer, clock) = in_2026();
        let mut ticks = Ticks::with_timer(cron("*/30 * * * *", "UTC"), &timer);
        let counter = Counter::new();
        let waker = Waker::from(counter.clone());
        clock.advance(HOUR);
        assert!(poll_next(&mut ticks, &waker).is_ready());
        assert!(poll_next(&mut ticks, &waker).is_pending());
        clock.set_wall(timer.wall_now() - back);
        assert!(poll_next(&mut ticks, &waker).is_pending());
        clock.advance(back + 30 * MINUTE - Duration::from_nanos(1));
        assert!(poll_next(&mut ticks, &waker).is_pending());
        clock.advance(Duration::from_nanos(1));
        let tick = now(&mut ticks).unwrap();
        assert_eq!((tick.scheduled(), tick.missed()), (utc("2026-01-01T01:30"), 0));
    }
}

#[test]
fn a_clock_set_forward_makes_due_what_it_passes_and_wakes_the_task() {
    for (forward, missed) in [(30 * MINUTE, 0), (6 * HOUR, 5), (3 * DAY, 71)] {
        for suspended in [false, true] {
            let (timer, clock) = in_2026();
            let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer);
            let counter = Counter::new();
            let waker = Waker::from(counter.clone());
            clock.advance(30 * MINUTE);
            assert!(poll_next(&mut ticks, &waker).is_pending());
            if suspended {
                clock.suspend(forward);
            } else {
                clock.set_wall(timer.wall_now() + forward);
            }
            assert_eq!(counter.wakes(), 1);
            assert_eq!(clock.block_on(ticks.tick()).unwrap().missed(), missed);
        }
    }
}

#[test]
fn a_clock_set_back_while_a_backlog_is_delivered_holds_back_the_rest() {
    let (timer, clock) = in_2026();
    let policy = Missed::CatchUp { max_count: 9, max_age: Duration::MAX };
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(policy);
    clock.advance(4 * HOUR);
    assert_eq!(now(&mut ticks).unwrap().scheduled(), utc("2026-01-01T01:00"));
    clock.set_wall(utc("2026-01-01T02:30"));
    assert_eq!(all_now(&mut ticks), ready(&[("01T02:00", 0)]));
    // The rest is waited for, and not asked for again and again.
    let counter = Counter::new();
    assert!(poll_next(&mut ticks, &Waker::from(counter.clone())).is_pending());
    assert_eq!((counter.wakes(), clock.pending()), (0, 1));
    clock.advance(30 * MINUTE);
    assert_eq!(all_now(&mut ticks), ready(&[("01T03:00", 0)]));
}

#[test]
fn years_of_seconds_are_counted_in_many_polls_between_which_others_run() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("* * * * * *", "UTC"), &timer);
    clock.suspend(3 * HOUR);
    let counter = Counter::new();
    let waker = Waker::from(counter.clone());
    let mut polls = 0;
    let tick = loop {
        polls += 1;
        if let Poll::Ready(tick) = poll_next(&mut ticks, &waker) {
            break tick.unwrap();
        }
        assert_eq!(counter.wakes(), polls);
    };
    assert!(polls > 100);
    assert_eq!((tick.scheduled(), tick.missed()), (utc("2026-01-01T03:00"), 3 * 3600 - 1));
}

#[test]
fn restart_goes_on_from_anywhere() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer);
    clock.advance(5 * HOUR);
    assert_eq!(now(&mut ticks).unwrap().missed(), 4);
    ticks.restart(utc("2026-01-01T02:30"));
    assert_eq!(ticks.next_scheduled(), Some(utc("2026-01-01T03:00")));
    assert_eq!(now(&mut ticks).unwrap().missed(), 2);
    ticks.restart(utc("2026-02-01T00:30"));
    assert_eq!(now(&mut ticks), None);
    assert_eq!(ticks.next_scheduled(), Some(utc("2026-02-01T01:00")));
}

#[test]
fn a_restart_forgets_what_was_missed() {
    let (timer, clock) = in_2026();
    let mut ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(Missed::Skip);
    clock.advance(HOUR + 2 * MINUTE);
    assert_eq!(all_now(&mut ticks), [], "it is too late for the first");
    ticks.restart(timer.wall_now());
    clock.advance(HOUR - 2 * MINUTE);
    assert_eq!(all_now(&mut ticks), ready(&[("01T02:00", 0)]));
}

/// A schedule of some times that can go wrong.
struct Times(Vec<SystemTime>, Cell<bool>);

impl Schedule for Times {
    fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
        assert!(!self.1.get(), "a schedule that panics");
        self.0.iter().copied().find(|at| *at > after)
    }
}

#[test]
fn the_stream_ends_with_the_schedule_and_leaves_nothing_armed() {
    let (timer, clock) = in_2026();
    let times = Times(vec![utc("2026-01-01T01:00"), utc("2026-01-01T02:00")], Cell::default());
    let mut ticks = Ticks::with_timer(times, &timer);
    assert!(!ticks.is_terminated());
    let found =
        clock.block_on((&mut ticks).map(|tick| shown(tick.scheduled())).collect::<Vec<_>>());
    assert_eq!(found, ["2026-01-01T01:00", "2026-01-01T02:00"]);
    assert!(ticks.is_terminated());
    assert_eq!(ticks.tick().now_or_never(), Some(None));
    assert_eq!(clock.pending(), 0);
    ticks.restart(utc("2025-01-01"));
    assert!(now(&mut ticks).is_some());
    let mut none = Ticks::with_timer(Times(Vec::new(), Cell::default()), &timer);
    assert_eq!(none.tick().now_or_never(), Some(None));
}

#[test]
fn a_schedule_that_stands_still_has_ended() {
    struct Still;

    impl Schedule for Still {
        fn next_after(&self, _: SystemTime) -> Option<SystemTime> {
            Some(utc("2026-01-01T01:00"))
        }
    }

    let (timer, clock) = in_2026();
    assert_eq!(Still.occurrences(utc("2026-01-01")).count(), 1);
    let ticks = Ticks::with_timer(Still, &timer);
    assert_eq!(clock.block_on(ticks.collect::<Vec<_>>()).len(), 1);
}

#[test]
fn a_schedule_that_panics_loses_no_tick() {
    let (timer, clock) = in_2026();
    let hours = (1..9).map(|hour| utc("2026-01-01") + hour * HOUR).collect();
    let policy = Missed::CatchUp { max_count: 2, max_age: Duration::MAX };
    let mut ticks = Ticks::with_timer(Times(hours, Cell::default()), &timer).missed(policy);
    clock.advance(6 * HOUR);
    for _ in 0..3 {
        ticks.schedule().1.set(true);
        let panicked = catch_unwind(AssertUnwindSafe(|| now(&mut ticks)));
        assert!(panicked.is_err());
        ticks.schedule().1.set(false);
        assert!(now(&mut ticks).is_some());
    }
    assert_eq!(now(&mut ticks), None);
    assert_eq!(ticks.next_scheduled(), Some(utc("2026-01-01T07:00")));
}

#[test]
fn any_span_is_taken() {
    let (timer, clock) = in_2026();
    for span in [Duration::ZERO, Duration::MAX] {
        for policy in [Missed::Skip, Missed::CatchUp { max_count: u64::MAX, max_age: span }] {
            let ticks = Ticks::with_timer(cron("@hourly", "UTC"), &timer).missed(policy);
            let mut ticks = ticks.on_time_within(span);
            clock.advance(HOUR);
            assert!(now(&mut ticks).is_some());
        }
    }
}

#[test]
fn pointers_to_schedules_are_schedules() {
    let hourly = cron("@hourly", "UTC");
    let boxed: Box<dyn Schedule + Send> = Box::new(hourly.clone());
    let shared = std::sync::Arc::new(hourly.clone());
    let after = utc("2026-01-01");
    for schedule in [&hourly as &dyn Schedule, &boxed, &shared, &&hourly] {
        assert_eq!((&schedule).occurrences(after).next(), Some(after + HOUR));
    }
}

#[test]
fn a_stream_on_the_real_clock_is_never_early() {
    let mut seconds = cron("* * * * * *", "UTC").ticks();
    let tick = pollster::block_on(seconds.tick()).expect("a tick");
    assert!(tick.woke() >= tick.scheduled());
    assert!(SystemTime::now() >= tick.scheduled());
}

#[test]
fn a_schedules_times_are_shown_as_dates() {
    let (timer, clock) = virtual_timer();
    let mut ticks = Ticks::with_timer(cron("0 2 * * *", "UTC"), &timer);
    let tick = clock.block_on(ticks.tick()).unwrap();
    assert_eq!(
        format!("{tick:?}"),
        "Tick { scheduled: 2000-01-01T02:00:00Z, woke: 2000-01-01T02:00:00Z, missed: 0 }"
    );
    assert!(format!("{ticks:?}").contains("next_scheduled: Some(2000-01-02T02:00:00Z)"));
}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + std::panic::UnwindSafe>() {}
    unpin_send_sync::<Ticks<tourbillon_cron::Cron>>();
};
