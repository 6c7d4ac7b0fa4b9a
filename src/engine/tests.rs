//! What only the engine's own parts show.

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;
use crate::clock::VirtualTime;
use crate::driver::Budget;
use crate::sleep::Sleep;
use crate::sync::{PATIENCE, thread_index};
use crate::timer::{Builder, Timer};
use crate::virtual_time::VirtualClock;

fn poll(sleep: &mut Sleep) -> Poll<()> {
    std::pin::Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop()))
}

/// Arms a sleep in one of two shards, wherever this thread is at home.
fn arm_in(timer: &Timer, index: usize, sleep: &mut Sleep) {
    let home = thread_index() % 2;
    let _held = (home != index).then(|| timer.engine().shards.at(home).lock());
    assert!(poll(sleep).is_pending());
}

#[test]
fn a_timer_armed_in_a_neighbour_fires_and_is_cancelled_there() {
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(4);
    let timer = builder.build().expect("the options are valid");
    let mut sleeps = [1, 2, 3].map(|n| timer.sleep(Duration::from_nanos(n)));
    {
        let engine = timer.engine();
        let _held = engine.shards.at(thread_index() % 4).lock();
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    }
    assert_eq!((timer.stats().pending, timer.stats().shards_used), (3, 1));
    let [mut first, second, mut third] = sleeps;
    drop(second);
    third.reset_after(Duration::from_nanos(1));
    assert_eq!((timer.stats().pending, clock.advance(Duration::from_nanos(1))), (2, 2));
    assert!(poll(&mut first).is_ready() && poll(&mut third).is_ready());
}

/// Arms at home, which another thread has locked or not, while the driver is parked or not.
#[test]
fn a_thread_that_finds_its_shard_taken_in_a_row_moves_unless_the_driver_is_awake() {
    let builder = Builder::default().virtual_clock(&VirtualClock::new()).shards(4);
    let timer = builder.build().expect("the options are valid");
    let engine = timer.engine();
    let first = thread_index();
    let arms = |is_taken: bool, times: u32| {
        for _ in 0..times {
            let _held = is_taken.then(|| engine.shards.at(thread_index() % 4).lock());
            assert!(poll(&mut timer.sleep(Duration::from_secs(1))).is_pending());
        }
        thread_index() - first
    };
    assert_eq!(arms(true, 100 * PATIENCE), 0, "the driver is awake");
    engine.alarm().begin_scan();
    assert_eq!(arms(true, 100 * PATIENCE), 0, "it scans");
    let park = || {
        engine.alarm().begin_scan();
        assert!(engine.alarm().commit(Plan::ParkUntil(Tick::PAST)));
    };
    park();
    for _ in 0..10 {
        assert_eq!((arms(true, PATIENCE - 1), arms(false, 1)), (0, 0), "not in a row");
    }
    assert_eq!(arms(true, PATIENCE), 1);
    let mut sleep = timer.sleep(Duration::from_secs(1));
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(engine.shards.at((first + 1) % 4).lock().pending(), 1, "it has a new home");
    assert_eq!(arms(true, PATIENCE), 2, "and moves again");
}

/// The alarm is set as a driver leaves it that oversleeps, and there is none.
#[test]
fn a_first_poll_trusts_a_parked_driver_if_the_sleep_was_made_with_a_delay() {
    const DELAY: Duration = Duration::from_micros(100);
    let time = Arc::new(VirtualTime::new());
    let thread = DriverThread::new(DriverThread::NAME.into(), None);
    let clock = Clock::Virtual(Arc::clone(&time));
    let timer = Timer::of(Engine::new(clock, 1, DrivenBy::Thread(thread)).shared());
    let engine = timer.engine();
    let after = |delay| Sleep::after(timer.engine_ref(), delay);
    let until = |tick| Sleep::new(timer.engine_ref(), tick);
    let first_polls = |alarm: Plan| {
        engine.alarm().begin_scan();
        assert!(engine.alarm().commit(alarm));
        let present = time.now();
        let mut sleeps = [
            after(DELAY),
            after(DELAY).with_tolerance(DELAY),
            after(DELAY - Duration::from_nanos(1)),
            until(present.saturating_add(DELAY)),
            after(DELAY),
            after(DELAY).with_tolerance(DELAY),
        ];
        sleeps[4..].iter_mut().for_each(|sleep| sleep.reset_to(present.saturating_add(DELAY)));
        time.move_to(present.saturating_add(DELAY));
        sleeps.each_mut().map(|sleep| poll(sleep).is_pending())
    };
    let next = time.now().saturating_add(DELAY);
    assert_eq!(first_polls(Plan::ParkUntil(next)), [true, true, false, false, false, false]);
    let within_tolerance = time.now().saturating_add(DELAY + Duration::from_nanos(1));
    let later = [within_tolerance, Tick::LAST].map(Plan::ParkUntil);
    for later in later.into_iter().chain([Plan::Park]) {
        assert_eq!(first_polls(later), [false; 6], "{later:?}");
    }
}

/// A park stops in suspend, so the driver may be late by as much as that clock counts of it.
#[test]
fn no_poll_trusts_a_parked_driver_if_the_clock_counts_suspend() {
    const DELAY: Duration = Duration::from_micros(100);
    for clock in [Some(Clock::monotonic()), Clock::boottime()].into_iter().flatten() {
        let counts_suspend = clock.counts_suspend();
        let thread = DriverThread::new(DriverThread::NAME.into(), None);
        let timer = Timer::of(Engine::new(clock, 1, DrivenBy::Thread(thread)).shared());
        let engine = timer.engine();
        let mut sleep = Sleep::after(timer.engine_ref(), DELAY);
        engine.alarm().begin_scan();
        assert!(engine.alarm().commit(Plan::ParkUntil(sleep.deadline_tick())));
        while !engine.clock().has_passed(sleep.deadline_tick()) {
            std::hint::spin_loop();
        }
        assert_eq!(engine.driver_covers(sleep.deadline_tick()), !counts_suspend);
        assert_eq!(poll(&mut sleep).is_ready(), counts_suspend);
    }
}

/// Two shards have more due than the parts of a pass, and the second less than the first.
#[test]
fn passes_cut_short_take_the_shards_in_turn() {
    const MANY: usize = 4 * wake_batch::BATCH;
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let timer = builder.build().expect("the options are valid");
    let engine = timer.engine();
    let mut sleeps = [MANY, MANY - 1]
        .map(|count| (0..count).map(|_| timer.sleep(Duration::from_nanos(1))).collect::<Vec<_>>());
    for (index, sleeps) in sleeps.iter_mut().enumerate() {
        sleeps.iter_mut().for_each(|sleep| arm_in(&timer, index, sleep));
    }
    let now = engine.clock().now().saturating_add(Duration::from_nanos(1));
    let mut batch = WakeBatch::new();
    let pass = |first, batch: &mut WakeBatch| {
        engine.pass(first, now, batch, Limits { until: None, parts: 2 })
    };
    let left = || [0, 1].map(|index| engine.shards.at(index).lock().pending());
    let cut = pass(0, &mut batch);
    assert_eq!((cut.cut_short, cut.reached, left()), (true, 0, [MANY / 2, MANY - 1]));
    let cut = pass(1, &mut batch);
    assert_eq!((cut.cut_short, cut.reached, left()), (true, 1, [MANY / 2, MANY / 2 - 1]));
    let cut = pass(0, &mut batch);
    assert_eq!((cut.cut_short, cut.reached), (true, 1), "and the other");
    assert_eq!(left(), [0, wake_batch::BATCH - 1]);
    let last = pass(1, &mut batch);
    assert_eq!((last.cut_short, last.next, left()), (false, Tick::NEVER, [0, 0]));
}

#[test]
fn turns_cut_short_take_the_shards_in_turn() {
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let mut sleeps = [0, 1, 0, 1].map(|index| (index, timer.sleep(Duration::from_nanos(1))));
    sleeps.iter_mut().for_each(|(index, sleep)| arm_in(&timer, *index, sleep));
    clock.jump(Duration::from_nanos(1));
    for left in [3, 2] {
        assert!(driver.turn_within(Budget::Timers(1)).more);
        assert_eq!(timer.stats().pending, left);
    }
    assert_eq!([0, 1].map(|index| timer.engine().shards.at(index).lock().pending()), [1, 1]);
}

/// A crowd of one slot that begins long before they are due, and two that are due meanwhile: one
/// is armed as the last of them, and the other while they are filed again.
#[test]
fn passes_in_parts_fire_what_is_due_before_all_of_its_slot_is_filed_again() {
    const BEGINS: Duration = Duration::from_nanos(1 << 30);
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let timer = builder.build().expect("the options are valid");
    let engine = timer.engine();
    let armed = |after| {
        let mut sleep = timer.sleep(BEGINS + after);
        assert!(poll(&mut sleep).is_pending());
        sleep
    };
    let crowd: Vec<_> = (0..2_000).map(|n| armed(Duration::from_micros(1_000 + n))).collect();
    let mut batch = WakeBatch::new();
    let begins = engine.clock().now().saturating_add(BEGINS);
    let mut pass = |micros| {
        let now = begins.saturating_add(Duration::from_micros(micros));
        let pass = engine.pass(0, now, &mut batch, Limits { until: None, parts: 1 });
        (pass.fired, pass.cut_short)
    };
    let _last = armed(Duration::from_micros(1));
    assert_eq!([pass(1), pass(1)], [(0, true), (1, true)]);
    let _during = armed(Duration::from_micros(2));
    assert_eq!([pass(1), pass(2)], [(0, true), (1, true)]);
    assert!((0..100).any(|_| pass(2) == (0, false)), "the crowd is in finer slots");
    assert_eq!(pass(1_000), (1, false));
    drop(crowd);
}

/// More than is filed again in a part, and more than is fired in one.
#[test]
fn passes_in_parts_fire_equal_deadlines_of_a_single_shard_in_order() {
    const BEGINS: Duration = Duration::from_nanos(1 << 30);
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(1);
    let timer = builder.build().expect("the options are valid");
    let mut sleeps: Vec<_> = (0..1_000).map(|_| timer.sleep(BEGINS * 3 / 2)).collect();
    let mut before = timer.sleep(BEGINS);
    assert!(sleeps.iter_mut().chain([&mut before]).all(|sleep| poll(sleep).is_pending()));
    let limits = Limits { until: None, parts: 1 };
    let pass = |now| timer.engine().pass(0, now, &mut WakeBatch::new(), limits);
    let begins = timer.engine().clock().now().saturating_add(BEGINS);
    assert!(pass(begins).cut_short);
    while pass(begins).cut_short {}
    let due = sleeps[0].deadline_tick();
    for part in sleeps.chunks_mut(wake_batch::BATCH) {
        pass(due);
        assert!(part.iter_mut().all(|sleep| poll(sleep).is_ready()));
    }
}

#[test]
fn a_pass_in_one_go_keeps_the_order_of_equal_deadlines() {
    const BEGINS: Duration = Duration::from_nanos(1 << 30);
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let timer = builder.build().expect("the options are valid");
    let mut sleeps: Vec<_> = (0..1_000).map(|_| timer.sleep(BEGINS * 3 / 2)).collect();
    sleeps.iter_mut().for_each(|sleep| arm_in(&timer, 0, sleep));
    let pass = |now, limits| timer.engine().pass(0, now, &mut WakeBatch::new(), limits);
    // Files all of their slot again.
    pass(timer.engine().clock().now().saturating_add(BEGINS), Limits::NONE);
    let due = sleeps[0].deadline_tick();
    for part in sleeps.chunks_mut(wake_batch::BATCH) {
        pass(due, Limits { until: None, parts: 1 });
        assert!(part.iter_mut().all(|sleep| poll(sleep).is_ready()));
    }
}

/// Arms a timer in one shard of four, then fires it.
#[test]
fn a_pass_locks_no_shard_that_is_idle() {
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(4);
    let timer = builder.build().expect("the options are valid");
    let engine = timer.engine();
    let home = thread_index() % 4;
    let pass_beside = |held: &dyn Fn(usize) -> bool| {
        let shards = engine.shards.iter().enumerate();
        let _held: Vec<_> =
            shards.filter(|(index, _)| held(*index)).map(|(_, shard)| shard.lock()).collect();
        engine.pass(0, engine.clock().now(), &mut WakeBatch::new(), Limits::NONE).next
    };
    assert_eq!(pass_beside(&|_| true), Tick::NEVER);
    let mut sleep = timer.sleep(Duration::from_nanos(1));
    assert!(poll(&mut sleep).is_pending());
    assert_eq!(pass_beside(&|index| index != home), sleep.deadline_tick());
    assert_eq!(clock.advance(Duration::from_nanos(1)), 1);
    assert_eq!(pass_beside(&|_| true), Tick::NEVER);
}

#[test]
fn a_pass_locks_no_shard_in_which_nothing_is_due() {
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let (timer, _driver) = builder.build_manual(|| {}).expect("the options are valid");
    let engine = timer.engine();
    let mut sleeps = [5, 3].map(|nanos| timer.sleep(Duration::from_nanos(nanos)));
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        arm_in(&timer, index, sleep);
    }
    let pass_beside = |held: usize| {
        let _held = engine.shards.at(held).lock();
        let pass = engine.pass(0, engine.clock().now(), &mut WakeBatch::new(), Limits::NONE);
        (pass.fired, pass.next)
    };
    assert_eq!(pass_beside(0), (0, sleeps[1].deadline_tick()));
    clock.jump(Duration::from_nanos(4));
    assert_eq!(pass_beside(0), (1, sleeps[0].deadline_tick()));
    clock.jump(Duration::from_nanos(1));
    assert_eq!(pass_beside(1), (1, Tick::NEVER));
}

#[test]
fn a_clock_finds_the_next_deadline_beside_shards_that_cancels_left_low() {
    for first in [0, 1] {
        let clock = VirtualClock::new();
        let builder = Builder::default().virtual_clock(&clock).shards(2);
        let timer = builder.build().expect("the options are valid");
        let armed_in = |index: usize, nanos| {
            let mut sleep = timer.sleep(Duration::from_nanos(nanos));
            arm_in(&timer, index, &mut sleep);
            sleep
        };
        let next = armed_in(first, 5);
        let _later = armed_in(1 - first, 10);
        drop(armed_in(1 - first, 3));
        assert_eq!(clock.next_deadline(), Some(next.deadline()));
    }
}

/// The first shard has nothing that is due, though a cancel left it low, and the next one has.
#[test]
fn a_turn_until_an_instant_that_is_past_fires_a_batch_wherever_it_is() {
    let clock = VirtualClock::new();
    let builder = Builder::default().virtual_clock(&clock).shards(2);
    let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
    let (mut far, mut due) = (timer.sleep(Duration::from_secs(60)), timer.sleep(Duration::ZERO));
    let mut cancelled = timer.sleep(Duration::from_nanos(1));
    arm_in(&timer, 0, &mut far);
    arm_in(&timer, 0, &mut cancelled);
    drop(cancelled);
    due.reset_after(Duration::from_secs(1));
    arm_in(&timer, 1, &mut due);
    clock.jump(Duration::from_secs(1));
    let turn = driver.turn_within(Budget::Until(clock.now()));
    assert_eq!((turn.fired, timer.stats().shards_used), (1, 2));
    assert!(poll(&mut due).is_ready());
}
