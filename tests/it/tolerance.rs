//! Tolerance: the timers that may be late, and by how much.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use tourbillon::Timer;
use tourbillon::queue::{DelayQueue, Key};
use tourbillon::timer::Tolerance;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// A timer whose sleeps have this tolerance.
fn tolerant_timer(tolerance: impl Into<Tolerance>) -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).tolerance(tolerance);
    (builder.build().expect("the options are valid"), clock)
}

/// Numbers that look random, the same each time.
fn scattered() -> impl Iterator<Item = u64> {
    let seeds = std::iter::successors(Some(15_u64), |seed| {
        Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    });
    seeds.map(|seed| seed >> 24)
}

/// An exact timer is a wake-up too, and so is the hook of a loop.
#[test]
fn every_turn_fires_the_windows_that_are_open() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let [first, second] = [Counter::new(), Counter::new()];
    let mut tolerant = timer.sleep(SECOND).with_tolerance(SECOND);
    let mut exact = timer.sleep(ms(1_500));
    assert!(poll_with(&mut tolerant, &Waker::from(first.clone())).is_pending());
    assert!(poll_with(&mut exact, &Waker::from(second.clone())).is_pending());
    assert_eq!(clock.advance_to_next(), Some(start + ms(1_500)));
    assert_eq!((first.wakes(), second.wakes(), clock.pending()), (1, 1, 0));

    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let sleep =
        pending_for(ms(1), Waker::noop(), |span| timer.sleep(span).with_tolerance(64 * SECOND));
    let deadline = sleep.deadline();
    while timer.now() < deadline + ms(30) {
        assert!(driver.turn().next.is_none_or(|next| next == deadline + 64 * SECOND));
        std::thread::sleep(ms(1));
    }
    driver.turn();
    assert_eq!(timer.stats().fired, 1);
}

/// A wake-up that is left would be for nothing.
#[test]
fn windows_that_have_been_fired_bring_about_no_turn() {
    for shards in [1, 2] {
        let clock = VirtualClock::new();
        let builder = Timer::builder().virtual_clock(&clock).shards(shards);
        let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
        let windows = [(10, 10), (11, 7), (100, 0)];
        let mut sleeps =
            windows.map(|(delay, tolerance)| timer.sleep(ms(delay)).with_tolerance(ms(tolerance)));
        let deadline = sleeps[2].deadline();
        for sleep in &mut sleeps {
            assert!(poll(sleep).is_pending());
        }
        clock.advance(ms(13));
        let turn = driver.turn();
        assert_eq!((turn.fired, turn.next), (2, Some(deadline)));
    }
}

#[test]
fn a_turn_reports_the_first_end_of_a_window_and_the_hook_is_called_for_an_earlier_one() {
    let (clock, calls) = (VirtualClock::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let builder = Timer::builder().virtual_clock(&clock);
    let hook = move || _ = counted.fetch_add(1, Ordering::Relaxed);
    let (timer, mut driver) = builder.build_manual(hook).expect("the options are valid");
    let start = clock.now();
    let mut sleeps = Vec::new();
    // Delay, tolerance, whether the hook is called, and the end that the next turn reports.
    for (delay, tolerance, called, end) in
        [(10, 10, 0, 20), (9, 11, 0, 20), (11, 10, 0, 20), (12, 7, 1, 19), (18, 0, 1, 18)]
    {
        let mut sleep = timer.sleep(delay * SECOND).with_tolerance(tolerance * SECOND);
        if sleeps.is_empty() {
            assert!(poll(&mut sleep).is_pending());
            driver.turn();
            calls.store(0, Ordering::Relaxed);
        }
        assert!(poll(&mut sleep).is_pending());
        assert_eq!(calls.swap(0, Ordering::Relaxed), called, "{delay} s and {tolerance} s");
        assert_eq!(driver.turn().next, Some(start + end * SECOND));
        assert_eq!(driver.max_wait(), Some(end * SECOND));
        sleeps.push(sleep);
    }
}

/// Times since the beginning: a timer's arming, its deadline, and its tolerance.
type Window = [Duration; 3];

/// The fewest instants such that each window has one: the end of the first window to end, again and
/// again, of the windows left.
fn least_wake_ups(windows: &[Window]) -> usize {
    let mut windows: Vec<_> = windows
        .iter()
        .map(|[_, deadline, tolerance]| (*deadline + *tolerance, *deadline))
        .collect();
    windows.sort_unstable();
    let mut last = None;
    let is_missed = |(end, deadline): &(Duration, Duration)| {
        let is_missed = last.is_none_or(|last| last < *deadline);
        last = if is_missed { Some(*end) } else { last };
        is_missed
    };
    windows.iter().copied().filter(is_missed).count()
}

/// Arms timers with these windows as their time comes, spread over so many threads, and returns the
/// number of instants that fired some.
fn wake_ups(windows: &mut [Window], threads: usize) -> usize {
    windows.sort_unstable();
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(threads);
    let timer = builder.build().expect("the options are valid");
    let start = clock.now();
    let instants = Arc::new(Mutex::new(BTreeSet::new()));
    let arm = |[_, deadline, tolerance]: Window| {
        let mut sleep = timer.sleep_until(start + deadline).with_tolerance(tolerance);
        let (instants, clock) = (instants.clone(), clock.clone());
        let waker = callback(move || {
            let now = clock.now() - start;
            assert!(deadline <= now && now <= deadline + tolerance);
            instants.lock().unwrap().insert(now);
        });
        assert!(poll_with(&mut sleep, &waker).is_pending());
        sleep
    };
    let sleeps: Vec<_> = std::thread::scope(|scope| {
        let (arm, clock) = (&arm, &clock);
        // All live until the end, so each has a number of its own. Threads of other tests have some
        // between, so two of ours may have the same shard.
        let armers: Vec<_> = (0..threads)
            .map(|_| {
                let (send, windows) = std::sync::mpsc::channel::<Window>();
                let (armed, sleeps) = std::sync::mpsc::channel();
                scope.spawn(move || windows.iter().try_for_each(|window| armed.send(arm(window))));
                (send, sleeps)
            })
            .collect();
        windows
            .iter()
            .zip(armers.iter().cycle())
            .map(|(window, (send, sleeps))| {
                clock.advance((start + window[0]).saturating_duration_since(clock.now()));
                send.send(*window).expect("the thread lives");
                sleeps.recv().expect("it has armed that")
            })
            .collect()
    });
    assert!((threads.min(2)..=threads).contains(&timer.stats().shards_used));
    while clock.advance_to_next().is_some() {}
    assert_eq!(timer.stats().fired, sleeps.len() as u64);
    instants.lock().unwrap().len()
}

#[test]
fn wake_ups_are_the_least_possible_or_a_twentieth_more() {
    let mut numbers = scattered();
    let mut up_to = |span: Duration| {
        let number = numbers.next().expect("there is no end");
        Duration::from_nanos(number % span.as_nanos() as u64)
    };
    let mut windows = |count, over, shortest: Duration, longest, tolerance: fn(Duration) -> _| {
        let mut window = || {
            let (at, delay) = (up_to(over), shortest + up_to(longest - shortest + NANOSECOND));
            [at, at + delay, tolerance(delay)]
        };
        (0..count).map(|_| window()).collect::<Vec<Window>>()
    };
    let minute = 60 * SECOND;
    let mut keep_alives = windows(100, 30 * SECOND, 30 * SECOND, 30 * SECOND, |_| 5 * SECOND);
    for round in 1..10 {
        let later = |at: Duration| at + round * 30 * SECOND;
        let next: Vec<_> =
            keep_alives[..100].iter().map(|[at, due, by]| [later(*at), later(*due), *by]).collect();
        keep_alives.extend(next);
    }
    for (name, mut windows) in [
        ("10,000 limits of 60 s with 1 s", windows(10_000, minute, minute, minute, |_| SECOND)),
        (
            "1,000 of 50-250 ms over 10 s with 10 %",
            windows(1_000, 10 * SECOND, ms(50), ms(250), |delay| delay / 10),
        ),
        (
            "200 of 1-10 s over 100 s with 5 %",
            windows(200, 100 * SECOND, SECOND, 10 * SECOND, |delay| delay / 20),
        ),
        ("100 keep-alives of 30 s over 300 s with 5 s", keep_alives),
        (
            "1,000 retransmits of 200 ms over 10 s with 20 ms",
            windows(1_000, 10 * SECOND, ms(200), ms(200), |_| ms(20)),
        ),
    ] {
        let least = least_wake_ups(&windows);
        for threads in [1, 4] {
            let wake_ups = wake_ups(&mut windows, threads);
            println!("{name}, {threads} threads: {wake_ups} wake-ups, {least} at least");
            assert!(
                wake_ups >= least && wake_ups * 20 <= least * 21,
                "{name}: {wake_ups}, {least}"
            );
        }
    }
}

/// A store in a reset is not to be taken for a fire that is too early.
#[test]
fn a_hand_driven_sleep_that_was_postponed_within_its_window_is_fired_once() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let (counter, waker) = counting();
    let mut sleep = pending_for(ms(1), &waker, |span| timer.sleep(span).with_tolerance(ms(1)));
    let deadline = sleep.deadline();
    for later in 0..4 {
        sleep.reset(deadline + ms(1) / 4 * later);
    }
    while counter.wakes() == 0 {
        driver.turn();
    }
    assert!(timer.now() >= sleep.deadline());
    assert!(poll_with(&mut sleep, &waker).is_ready());
    assert!(!sleep.cancel(), "too late");
}

#[test]
fn a_cancel_within_the_window_is_in_time_and_one_after_the_fire_is_not() {
    let (timer, clock) = tolerant_timer(SECOND);
    for (elapsed, in_time) in [(ms(1_500), true), (ms(2_100), false)] {
        let mut sleep = polled(timer.sleep_until(clock.now() + ms(1_100)));
        clock.advance(elapsed);
        assert_eq!(sleep.cancel(), in_time);
        clock.advance(ms(4_000) - elapsed);
    }
}

#[test]
fn an_interval_does_not_drift_by_its_tolerance() {
    let (timer, clock) = tolerant_timer(ms(40));
    let start = clock.now();
    let period = ms(99);
    for mut interval in
        [timer.interval_at(start + period, period), timer.interval(period).with_tolerance(ms(70))]
    {
        interval.reset_at(start + period);
        for n in 1..=1_000 {
            let tolerance = ms(70);
            let at = clock.block_on(interval.tick());
            assert_eq!(at, start + n * period);
            clock.advance(Duration::ZERO);
            if n > 1 && clock.now() < start + 1_000 * period {
                assert!(clock.now() >= at && clock.now() <= at + tolerance);
            }
        }
    }
}

/// Each way for an entry to be due as it comes, while the task waits for the end of a window.
#[test]
fn what_is_due_as_it_comes_wakes_the_task_of_a_queue_whatever_its_tolerance() {
    let hour = 3600 * SECOND;
    let due_inserted = |queue: &mut DelayQueue<u32>, _: &Key| _ = queue.insert(2, Duration::ZERO);
    let of_the_past = |queue: &mut DelayQueue<u32>, now| _ = queue.insert_at(2, now - ms(500));
    let due_reset = |queue: &mut DelayQueue<u32>, key: &Key| queue.reset(key, Duration::ZERO);
    let (fixed, share) = (Tolerance::from(hour), Tolerance::percent_of_delay(1_000_000, hour));
    for (way, tolerance) in (0..3).flat_map(|way| [(way, fixed), (way, share)]) {
        let (timer, clock) = tolerant_timer(tolerance);
        let (counter, waker) = counting();
        let mut queue = DelayQueue::with_timer(&timer);
        queue.insert(1, SECOND);
        let end = clock.now() + SECOND + hour;
        let key = queue.insert(3, 3 * hour);
        assert!(poll_next(&mut queue, &waker).is_pending());
        clock.advance(2 * SECOND);
        queue.insert(4, SECOND);
        queue.insert(5, Duration::MAX);
        assert_eq!(counter.wakes(), 0, "none of these is due");
        assert_eq!(clock.next_deadline(), Some(end), "nor puts anything off");
        match way {
            0 => due_inserted(&mut queue, &key),
            1 => of_the_past(&mut queue, timer.now()),
            _ => due_reset(&mut queue, &key),
        }
        assert_eq!(counter.wakes(), 1, "{way} {tolerance:?}");
        let first = pollster::block_on(queue.next()).expect("it is due");
        assert_eq!(first.into_inner(), 1);
    }
}

#[test]
fn a_callback_moves_by_its_share() {
    let (timer, clock) = tolerant_timer(Tolerance::percent_of_delay(10, Duration::MAX));
    let start = clock.now();
    let callback = timer.sleep(ms(9_500)).call(|| ());
    for (deadline, tolerance) in [(19_500, 1_950), (950, 95)] {
        assert!(callback.reset(start + ms(deadline)));
        assert_eq!(clock.next_deadline(), Some(start + ms(deadline + tolerance)));
    }
}

#[test]
fn all_that_sleeps_has_a_share() {
    let (timer, clock) = tolerant_timer(Tolerance::percent_of_delay(50, Duration::MAX));
    let start = clock.now();
    let expect = |fire: Duration| assert_eq!(clock.next_deadline(), Some(start + fire));
    {
        let mut timeout = pin!(timer.timeout(ms(700), std::future::pending::<()>()));
        assert!(poll(&mut timeout).is_pending());
        expect(ms(1_050));
        timeout.as_mut().reset_after(ms(1_400));
        expect(ms(2_100));
    }
    {
        let timeout = timer.timeout(ms(700), std::future::pending::<()>());
        let mut timeout = pin!(timeout.with_tolerance(Duration::ZERO));
        assert!(poll(&mut timeout).is_pending());
        expect(ms(700));
    }
    {
        let callback = timer.sleep(ms(700)).call(|| ());
        expect(ms(1_050));
        drop(callback);
        let callback = timer.sleep_until(start + ms(1_400)).call(|| ());
        expect(ms(2_100));
        drop(callback);
        let callback = every(&timer, ms(700), || ());
        expect(ms(1_050));
        drop(callback);
    }
    {
        let _sleep = polled(timer.sleep_until_wall(timer.wall_now() + ms(700)));
        expect(ms(1_050));
    }
    // Of the entry that is waited for, from when it is.
    let mut queue = DelayQueue::with_timer(&timer);
    queue.insert(2, ms(1_990));
    queue.insert(1, ms(700));
    assert!(poll_next(&mut queue, Waker::noop()).is_pending());
    expect(ms(1_050));
    clock.advance(ms(1_050));
    assert!(matches!(poll_next(&mut queue, Waker::noop()), Poll::Ready(Some(_))));
    assert!(poll_next(&mut queue, Waker::noop()).is_pending());
    expect(ms(2_460));
    clock.advance(ms(900));
    queue.insert(3, ms(20));
    let next = clock.next_deadline().expect("it is armed");
    assert!(next >= start + ms(1_970) && next <= start + ms(1_980), "a share of 20 ms");
    let _queue = queue.with_tolerance(Duration::ZERO);
    expect(ms(1_970));
}

#[test]
fn an_interval_has_a_share_of_its_period() {
    let (timer, clock) = tolerant_timer(Tolerance::percent_of_delay(10, Duration::MAX));
    let start = clock.now();
    let mut interval = timer.interval_at(start + ms(95), ms(950));
    for n in 0..100 {
        assert!(poll_next(&mut interval, Waker::noop()).is_pending());
        let tick = start + ms(95) + n * ms(950);
        assert_eq!(interval.next_tick(), tick);
        let tolerance = if n == 0 { ms(95) / 10 } else { ms(95) };
        let fire = clock.advance_to_next().expect("it is armed");
        assert_eq!(fire, tick + tolerance);
        // However late the tick before was polled.
        clock.advance(ms(8) * n);
        assert_eq!(poll_next(&mut interval, Waker::noop()), Poll::Ready(Some(tick)));
    }
}

#[test]
fn a_share_without_bounds_stops_at_the_end_of_the_time_line() {
    let (timer, clock) = tolerant_timer(Tolerance::percent_of_delay(u32::MAX, Duration::MAX));
    for delay in [NANOSECOND, SECOND, Duration::from_secs(430 * 365 * 86_400)] {
        let sleep = polled(timer.sleep(delay));
        assert!(clock.next_deadline().is_some_and(|fire| fire >= sleep.deadline()));
    }
    let _sleep = polled(timer.sleep(Duration::MAX));
    assert_eq!(clock.next_deadline(), None);
    let (timer, clock) = tolerant_timer(Tolerance::percent_of_delay(0, Duration::MAX));
    let exact = polled(timer.sleep(ms(1_500)));
    assert_eq!(clock.next_deadline(), Some(exact.deadline()));
}

#[test]
fn the_share_of_a_real_delay_is_not_less_than_that() {
    let timer = Timer::builder().tolerance(Tolerance::percent_of_delay(50, SECOND));
    let timer = timer.build().expect("the options are valid");
    for delay in [ms(1), 20 * ms(1), 60 * SECOND].map(|delay| delay + NANOSECOND) {
        assert_eq!(timer.sleep(delay).tolerance(), SECOND.min(delay / 2));
        let deadline = timer.now() + delay;
        let mut sleep = timer.sleep_until(deadline);
        let at_least = |left: Duration| SECOND.min(left / 2);
        assert!(sleep.tolerance() >= at_least(deadline - timer.now()));
        sleep.reset(deadline);
        assert!(sleep.tolerance() >= at_least(deadline - timer.now()));
        assert!(sleep.tolerance() <= SECOND);
    }
    let start = Instant::now();
    pollster::block_on(timer.sleep(ms(1)));
    assert!(start.elapsed() >= ms(1));
}

#[test]
fn a_wall_sleep_with_a_tolerance_follows_steps_and_is_not_early() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let target = timer.wall_now() + ms(9_500);
    let mut sleep = timer.sleep_until_wall(target).with_tolerance(SECOND);
    let (counter, waker) = counting();
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(clock.next_deadline(), Some(start + ms(10_500)));
    clock.set_wall(timer.wall_now() + 5 * SECOND);
    assert_eq!(counter.wakes(), 1);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(clock.next_deadline(), Some(start + ms(5_500)));
    clock.advance(ms(5_500));
    assert_eq!((counter.wakes(), timer.wall_now() >= target), (2, true));
    assert!(poll_with(&mut sleep, &waker).is_ready());
    sleep.reset(timer.wall_now() + ms(1_500));
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!(clock.next_deadline(), Some(start + 8 * SECOND));
}

#[test]
fn a_callback_is_called_within_the_window_of_its_sleep() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let called = Arc::new(Mutex::new(Vec::new()));
    let note = || {
        let (called, clock) = (called.clone(), clock.clone());
        move || called.lock().unwrap().push(clock.now() - start)
    };
    let sleep = timer.sleep(ms(1_500)).with_tolerance(SECOND);
    let once = sleep.call(note());
    let interval = timer.interval_at(start + ms(1_700), 2 * SECOND);
    let note_tick = note();
    let every = interval.with_tolerance(SECOND).call(move |_| note_tick());
    clock.advance(6 * SECOND);
    assert_eq!(*called.lock().unwrap(), [2_500, 2_500, 4_700].map(ms));
    assert!(!once.cancel() && every.cancel());
}

#[test]
fn a_sleep_that_was_polled_or_has_completed_can_become_a_callback() {
    let (timer, clock) = virtual_timer();
    let calls = Arc::new(AtomicUsize::new(0));
    let (counter, waker) = counting();
    for (advance, expected) in [(ms(0), 0), (SECOND, 1)] {
        let mut sleep = timer.sleep(SECOND);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        clock.advance(advance);
        assert_eq!(poll_with(&mut sleep, &waker).is_ready(), expected == 1);
        assert_eq!(counter.wakes(), expected);
        let before = calls.load(Ordering::Relaxed);
        let count = calls.clone();
        let callback = sleep.call(move || _ = count.fetch_add(1, Ordering::Relaxed));
        assert_eq!((clock.pending(), calls.load(Ordering::Relaxed)), (1, before));
        clock.advance(SECOND - advance);
        assert_eq!(calls.load(Ordering::Relaxed), before + 1);
        assert_eq!(counter.wakes(), expected, "its waker is gone");
        drop(callback);
    }
}

#[test]
fn a_real_sleep_with_a_tolerance_is_not_early() {
    for n in 0..5 {
        let start = Instant::now();
        let sleep = tourbillon::sleep(ms(1)).with_tolerance(ms(n));
        pollster::block_on(sleep);
        assert!(start.elapsed() >= ms(1));
    }
}
