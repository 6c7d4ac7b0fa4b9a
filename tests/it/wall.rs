//! Wall time: sleeps until a time of day, and clocks that are set.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::FusedFuture;
use tourbillon::Timer;
use tourbillon::timer::ClockKind;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::wall::WallSleep;

use crate::support::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A sleep that ends so long from now, polled with a waker that counts.
fn waiting(timer: &Timer, delay: Duration) -> (WallSleep, Arc<Counter>) {
    counted(timer.sleep_until_wall(timer.wall_now() + delay))
}

#[test]
fn steps_of_the_wall_are_followed_in_both_directions() {
    for step in [MINUTE, HOUR, DAY, 400 * DAY] {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let (counter, waker) = counting();
        let mut sleep = timer.sleep_until_wall(clock.wall_now() + 2 * step);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Forward, but not far enough.
        clock.set_wall(clock.wall_now() + step);
        assert_eq!(counter.wakes(), 1);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Back, so that it takes three times as long.
        clock.set_wall(clock.wall_now() - 2 * step);
        assert_eq!(counter.wakes(), 2);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        clock.advance(3 * step - NANOSECOND);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        assert_eq!(counter.wakes(), 2);
        // And forward, to the target.
        clock.set_wall(sleep.target());
        assert_eq!(counter.wakes(), 3);
        assert!(poll(&mut sleep).is_ready());
        assert_eq!(clock.now() - start, 3 * step - NANOSECOND);
    }
}

#[test]
fn a_suspend_moves_the_wall_alone() {
    let (timer, clock) = virtual_timer();
    let start = (clock.now(), clock.wall_now());
    let (mut by_clock, counter) = counted(timer.sleep(HOUR));
    let (mut due, woken) = waiting(&timer, 8 * HOUR);
    let (mut later, _) = waiting(&timer, 8 * HOUR + WALL_GRAIN);
    clock.suspend(8 * HOUR);
    assert_eq!((clock.now(), clock.wall_now()), (start.0, start.1 + 8 * HOUR));
    assert_eq!((woken.wakes(), counter.wakes()), (1, 0));
    assert!(poll(&mut due).is_ready() && poll(&mut later).is_pending());
    assert_eq!((clock.advance(WALL_GRAIN), clock.advance(HOUR - 2 * WALL_GRAIN)), (1, 0));
    assert!(poll(&mut later).is_ready() && poll(&mut by_clock).is_pending());
    assert_eq!(clock.advance(WALL_GRAIN), 1);
}

#[test]
fn the_clock_can_jump_with_the_wall_left_where_it_is() {
    let (timer, clock) = virtual_timer();
    let (start, wall) = (clock.now(), clock.wall_now());
    let (mut sleep, _) = waiting(&timer, HOUR);
    clock.jump(DAY);
    assert_eq!(timer.wall_now(), wall + DAY);
    clock.set_wall(wall);
    assert_eq!((clock.now() - start, clock.wall_now()), (DAY, wall));
    // The wheel has it as due; the wall has not.
    clock.advance(Duration::ZERO);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(HOUR - NANOSECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(NANOSECOND);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_target_in_the_past_is_ready_at_once_and_arms_nothing() {
    let (timer, clock) = virtual_timer();
    let now = clock.wall_now();
    for target in [now, now - NANOSECOND, UNIX_EPOCH, UNIX_EPOCH - 400 * DAY] {
        let mut sleep = timer.sleep_until_wall(target);
        assert!(sleep.is_elapsed() && !sleep.is_terminated());
        assert!(poll(&mut sleep).is_ready() && sleep.is_terminated());
    }
    assert_eq!(timer.stats().armed, 0);
    // Unless the wall is set to a time before that.
    clock.set_wall(UNIX_EPOCH - DAY);
    let mut sleep = polled(timer.sleep_until_wall(UNIX_EPOCH));
    clock.advance(DAY);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_target_too_far_to_come_waits_for_the_clock_to_be_set() {
    let (timer, clock) = virtual_timer();
    let year_9999 = UNIX_EPOCH + Duration::from_secs(253_402_300_799);
    let mut last = UNIX_EPOCH;
    for bit in (0..63).rev() {
        last = last.checked_add(Duration::from_secs(1 << bit)).unwrap_or(last);
    }
    for target in [year_9999, last] {
        let (mut sleep, counter) = (timer.sleep_until_wall(target), Counter::new());
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.suspend(400 * 365 * DAY);
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.set_wall(target - SECOND);
        assert_eq!(counter.wakes(), 2);
        assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
        clock.advance(SECOND);
        assert_eq!(counter.wakes(), 3);
        assert!(poll(&mut sleep).is_ready());
    }
    // Past the end of the platform's range, the wall stands still.
    clock.set_wall(last);
    clock.suspend(Duration::MAX);
    clock.advance(Duration::MAX);
    assert!(clock.wall_now() >= last);
}

#[test]
fn an_hour_of_minutes_wakes_once_for_each() {
    let (timer, clock) = virtual_timer();
    let start = clock.wall_now();
    let (counter, waker) = counting();
    let mut sleep = timer.sleep_until_wall(start + MINUTE);
    for minute in 1..=60 {
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Nothing happens between one and the next.
        assert_eq!(clock.advance(MINUTE - NANOSECOND), 0);
        assert_eq!((clock.advance(NANOSECOND), counter.wakes()), (1, minute));
        assert!(poll_with(&mut sleep, &waker).is_ready());
        sleep.reset(sleep.target() + MINUTE);
    }
    assert_eq!((timer.stats().fired, clock.wall_now()), (60, start + HOUR));
}

#[test]
fn a_step_wakes_each_of_many_once_and_in_order() {
    let (timer, clock) = virtual_timer();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let start = clock.wall_now();
    let mut sleeps: Vec<_> =
        (0..1000).map(|n| timer.sleep_until_wall(start + MINUTE + n * SECOND)).collect();
    let wakers: Vec<_> = (0..1000_u32)
        .map(|n| {
            let woken = woken.clone();
            callback(move || woken.lock().unwrap().push(n))
        })
        .collect();
    for (sleep, waker) in sleeps.iter_mut().zip(&wakers) {
        assert!(poll_with(sleep, waker).is_pending());
    }
    clock.set_wall(start + MINUTE + 499 * SECOND);
    assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), (0..1000).collect::<Vec<_>>());
    let ready = sleeps
        .iter_mut()
        .zip(&wakers)
        .filter_map(|(s, w)| poll_with(s, w).is_ready().then_some(()));
    assert_eq!(ready.count(), 500);
    assert_eq!((clock.advance(500 * SECOND), clock.pending()), (500, 0));
    assert_eq!(std::mem::take(&mut *woken.lock().unwrap()), (500..1000).collect::<Vec<_>>());
}

#[test]
fn a_reset_is_followed_without_a_poll() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, DAY);
    sleep.reset(clock.wall_now() + HOUR);
    assert_eq!((clock.advance(HOUR), counter.wakes()), (1, 1));
    assert!(poll(&mut sleep).is_ready());
    // After completion it waits again, from the next poll on.
    sleep.reset(clock.wall_now() + HOUR);
    assert!(!sleep.is_terminated());
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    // To later, and then into the past.
    sleep.reset(clock.wall_now() + DAY);
    assert_eq!((clock.advance(HOUR), counter.wakes()), (0, 1));
    sleep.reset(UNIX_EPOCH);
    clock.advance(Duration::ZERO);
    assert_eq!(counter.wakes(), 2);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn polled_again_after_completion_it_is_ready_though_the_clock_was_set_back() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, HOUR);
    clock.advance(HOUR);
    assert!(poll(&mut sleep).is_ready());
    clock.set_wall(UNIX_EPOCH);
    assert!(poll(&mut sleep).is_ready() && !sleep.is_elapsed());
    assert_eq!(counter.wakes(), 1);
}

#[test]
fn the_task_that_polled_last_is_woken_by_a_step() {
    let (timer, clock) = virtual_timer();
    let (mut sleep, first) = waiting(&timer, HOUR);
    let second = Counter::new();
    assert!(poll_with(&mut sleep, &Waker::from(second.clone())).is_pending());
    assert_eq!(Arc::strong_count(&first), 1);
    clock.suspend(MINUTE);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    // Woken, it is not notified again before it is polled.
    clock.suspend(MINUTE);
    assert_eq!(second.wakes(), 1);
}

#[test]
fn dropping_one_lets_go_of_its_wakers() {
    let (timer, clock) = virtual_timer();
    let (sleep, counter) = waiting(&timer, HOUR);
    drop(sleep);
    assert_eq!((Arc::strong_count(&counter), clock.pending()), (1, 0));
    let (mut sleep, counter) = waiting(&timer, HOUR);
    clock.advance(HOUR);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(Arc::strong_count(&counter), 1, "completion does too");
}

#[test]
fn a_waker_may_drop_others_that_are_being_woken_and_set_the_clock() {
    let (timer, clock) = virtual_timer();
    let victims: Vec<_> = (0..100).map(|_| waiting(&timer, HOUR)).collect();
    let victims = Arc::new(Mutex::new(victims));
    let start = clock.wall_now();
    let mut trigger = timer.sleep_until_wall(start + HOUR);
    let waker = {
        let (clock, victims) = (clock.clone(), victims.clone());
        callback(move || {
            clock.set_wall(start + 2 * HOUR);
            victims.lock().unwrap().truncate(1);
        })
    };
    assert!(poll_with(&mut trigger, &waker).is_pending());
    clock.set_wall(start + MINUTE);
    assert_eq!(clock.wall_now(), start + 2 * HOUR);
    let mut victims = victims.lock().unwrap();
    let (sleep, counter) = &mut victims[0];
    assert_eq!(counter.wakes(), 1);
    assert!(poll(sleep).is_ready() && poll(&mut trigger).is_ready());
    assert_eq!(clock.pending(), 0);
}

#[test]
fn a_waker_that_panics_at_a_step_harms_nobody_and_is_counted() {
    let (timer, clock) = virtual_timer();
    let mut sleeps: Vec<_> =
        (0..10).map(|_| timer.sleep_until_wall(clock.wall_now() + HOUR)).collect();
    let counter = Counter::new();
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        let waker = match index % 2 {
            0 => callback(|| panic!("a waker that panics, as the test wants it")),
            _ => Waker::from(counter.clone()),
        };
        assert!(poll_with(sleep, &waker).is_pending());
    }
    clock.suspend(HOUR);
    assert_eq!((counter.wakes(), timer.stats().waker_panics), (5, 5));
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
}

#[test]
fn a_waker_that_panics_in_clone_leaves_the_sleep_as_it_was() {
    let bad = hostile(&CLONE_PANICS);
    let (timer, clock) = virtual_timer();
    let (mut sleep, counter) = waiting(&timer, HOUR);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    clock.suspend(MINUTE);
    assert_eq!(counter.wakes(), 1);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    clock.advance(HOUR - MINUTE);
    assert_eq!(counter.wakes(), 2);
}

#[test]
fn two_walls_know_nothing_of_each_other() {
    let ((one, one_clock), (two, _clock)) = (virtual_timer(), virtual_timer());
    let ((mut a, _), (mut b, counter)) = (waiting(&one, HOUR), waiting(&two, HOUR));
    one_clock.suspend(HOUR);
    assert!(poll(&mut a).is_ready() && poll(&mut b).is_pending());
    assert_eq!(counter.wakes(), 0);
    let alone = VirtualClock::new();
    alone.suspend(HOUR);
    assert_eq!(alone.wall_now(), one_clock.wall_now());
}

#[test]
fn the_real_one_is_never_early() {
    for micros in [0, 1, 50, 3000] {
        let target = SystemTime::now() + Duration::from_micros(micros);
        pollster::block_on(tourbillon::wall::sleep_until_wall(target));
        assert!(SystemTime::now() >= target);
    }
}

#[test]
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
fn a_timer_that_counts_suspend_is_never_early_either() {
    let timer = Timer::builder().clock(ClockKind::Boottime).build().expect("there is such a clock");
    for delay in [Duration::ZERO, NANOSECOND, ms(3), ms(300)] {
        let deadline = timer.now() + delay;
        pollster::block_on(timer.sleep_until(deadline));
        assert!(timer.now() >= deadline);
    }
    let target = timer.wall_now() + ms(2);
    pollster::block_on(timer.sleep_until_wall(target));
    assert!(SystemTime::now() >= target);
}

/// Tests in processes whose clocks are shifted by `clock_shim.c`, which stands in for the kernel.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod shifted {
    use std::ffi::CStr;
    use std::time::Instant;

    use super::*;

    fn with_shifted_clocks(name: &str) {
        with_preloaded("clock_shim.c", "shifted clocks", name);
    }

    /// The shim's functions, in a process that it was loaded into.
    struct Shim {
        shift: extern "C" fn(libc::clockid_t, i64),
        refuse: extern "C" fn(libc::c_int),
        notify: extern "C" fn(),
        recheck: extern "C" fn(),
        /// Returns the seconds that the time to the recheck was set to; zero if it is not running.
        recheck_seconds: extern "C" fn() -> libc::c_int,
        rechecks: extern "C" fn() -> libc::c_int,
        waits: extern "C" fn() -> libc::c_int,
    }

    impl Shim {
        fn loaded() -> Self {
            fn find<F: Copy>(name: &CStr) -> F {
                // SAFETY: the functions in `clock_shim.c` have the types of the fields.
                unsafe { preloaded(name) }.expect("the shim is loaded")
            }
            Self {
                shift: find(c"shim_shift"),
                refuse: find(c"shim_refuse"),
                notify: find(c"shim_notify"),
                recheck: find(c"shim_recheck"),
                recheck_seconds: find(c"shim_recheck_seconds"),
                rechecks: find(c"shim_rechecks"),
                waits: find(c"shim_waits"),
            }
        }

        fn shift(&self, clock: libc::clockid_t, seconds: i64) {
            (self.shift)(clock, seconds * 1_000_000_000);
        }

        fn refuse(&self, refuse: bool) {
            (self.refuse)(refuse.into());
        }

        fn recheck_seconds(&self) -> i32 {
            (self.recheck_seconds)()
        }

        /// Ends the time to the recheck, and waits until the watcher is through with it.
        fn recheck(&self) {
            let before = (self.rechecks)();
            (self.recheck)();
            while (self.rechecks)() == before {
                std::thread::yield_now();
            }
        }

        /// Sets the wall clock forward or back, and notifies the watcher.
        fn step(&self, seconds: i64) {
            self.shift(libc::CLOCK_REALTIME, seconds);
            (self.notify)();
        }
    }

    #[test]
    fn a_step_of_the_systems_clock_is_followed_at_once() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        let (start, wall) = (Instant::now(), SystemTime::now());
        let mut sleep = tourbillon::wall::sleep_until_wall(wall + 2 * DAY);
        let (waker, told) = telling();
        for step in [86_400, -3 * 86_400, 60] {
            assert!(poll_with(&mut sleep, &waker).is_pending());
            shim.step(step);
            told.recv().expect("it is woken");
        }
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // 4 days are left. A sleep with nobody to poll it meanwhile, and an awaited one.
        let other = std::thread::spawn(move || {
            pollster::block_on(tourbillon::wall::sleep_until_wall(wall + 2 * DAY));
        });
        shim.step(4 * 86_400);
        told.recv().expect("it is woken");
        assert!(poll(&mut sleep).is_ready());
        other.join().expect("it completes");
        assert!(SystemTime::now() >= wall + 2 * DAY);
        assert!(start.elapsed() < HOUR, "the clock of instants was not stepped");
    }

    #[test]
    fn a_resume_is_noticed_by_sleeps_on_either_clock() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        let timer = Timer::builder().clock(ClockKind::Boottime).build().expect("Linux has it");
        let (waker, told) = telling();
        let mut by_clock = timer.sleep(8 * HOUR);
        assert!(poll_with(&mut by_clock, &waker).is_pending());
        let mut by_wall = tourbillon::wall::sleep_until_wall(SystemTime::now() + 8 * HOUR);
        assert!(poll_with(&mut by_wall, &waker).is_pending());
        let mut monotonic = tourbillon::sleep(8 * HOUR);
        assert!(poll_with(&mut monotonic, &waker).is_pending());
        let start = timer.now();
        let eventually_parked = Instant::now() + ms(50);
        while Instant::now() < eventually_parked {
            std::thread::yield_now();
        }
        shim.shift(libc::CLOCK_BOOTTIME, 8 * 3600);
        shim.step(8 * 3600);
        told.recv().expect("one is woken");
        told.recv().expect("the other too");
        assert!(poll(&mut by_clock).is_ready() && poll(&mut by_wall).is_ready());
        assert!(timer.now() - start >= 8 * HOUR);
        assert!(poll(&mut monotonic).is_pending());
    }

    #[test]
    fn a_step_without_a_notice_is_seen_by_the_next_recheck() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        let wall = SystemTime::now();
        let (mut sleep, counter) = waiting(&Timer::global(), 2 * DAY);
        let waker = Waker::from(counter.clone());
        for (wakes, step) in [(1, 86_400), (2, -3 * 86_400), (3, 1)] {
            assert_eq!(shim.recheck_seconds(), 30);
            shim.shift(libc::CLOCK_REALTIME, step);
            shim.recheck();
            assert_eq!(counter.wakes(), wakes);
            assert!(poll_with(&mut sleep, &waker).is_pending());
            // Nothing happens at the ones after it.
            for _ in 0..3 {
                assert_eq!(shim.recheck_seconds(), 30);
                shim.recheck();
            }
            assert_eq!(counter.wakes(), wakes);
        }
        // A step that had a notice is not seen again.
        shim.step(60);
        while counter.wakes() < 4 {
            std::thread::yield_now();
        }
        assert!(poll_with(&mut sleep, &waker).is_pending());
        shim.recheck();
        assert_eq!(counter.wakes(), 4);
        // 4 days are left, but for a minute and a second.
        shim.shift(libc::CLOCK_REALTIME, 4 * 86_400);
        shim.recheck();
        assert_eq!(counter.wakes(), 5);
        assert!(poll(&mut sleep).is_ready() && SystemTime::now() >= wall + 2 * DAY);
    }

    #[test]
    fn the_clocks_are_compared_only_while_a_wall_sleep_waits() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        // Its driver has the watcher tell it of resumes.
        let timer = Timer::builder().clock(ClockKind::Boottime).build().expect("Linux has it");
        let _by_clock = polled(timer.sleep(HOUR));
        while (shim.waits)() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(shim.recheck_seconds(), 0);
        let (first, _) = waiting(&Timer::global(), HOUR);
        let (second, _) = waiting(&Timer::global(), HOUR);
        assert_eq!(shim.recheck_seconds(), 30);
        drop(first);
        shim.recheck();
        assert_eq!(shim.recheck_seconds(), 30, "there is another");
        drop(second);
        shim.recheck();
        assert_eq!(shim.recheck_seconds(), 0);
        let third = waiting(&timer, HOUR);
        assert_eq!(shim.recheck_seconds(), 30);
        drop(third);
    }

    #[test]
    fn a_wall_clock_that_falls_behind_is_waited_for() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("good options");
        let (mut sleep, counter) = waiting(&timer, HOUR);
        let waker = Waker::from(counter.clone());
        driver.turn();
        let mut pass = |clocks: &[libc::clockid_t]| {
            clocks.iter().for_each(|clock| shim.shift(*clock, 3600));
            driver.turn().fired
        };
        // An hour by the clock that the sleep was aimed by, and no time at all by the wall.
        assert_eq!(pass(&[libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_COARSE]), 1);
        assert!(poll_with(&mut sleep, &waker).is_pending(), "early");
        let all = [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_COARSE, libc::CLOCK_REALTIME];
        assert_eq!((pass(&all), counter.wakes()), (1, 2));
        assert!(poll_with(&mut sleep, &waker).is_ready());
    }

    #[test]
    fn where_nobody_tells_of_steps_the_clock_is_looked_at_every_half_minute() {
        alone!(with_shifted_clocks);
        let shim = Shim::loaded();
        shim.refuse(true);
        let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("good options");
        let (mut sleep, counter) = waiting(&timer, DAY);
        let waker = Waker::from(counter.clone());
        let limit = timer.now() + 30 * SECOND;
        assert!(driver.turn().next.is_some_and(|next| next <= limit));
        // A reset of a sleep that gets no notices leaves it so.
        sleep.reset(sleep.target());
        let mut run = |seconds: i64| {
            for clock in [libc::CLOCK_MONOTONIC, libc::CLOCK_MONOTONIC_COARSE] {
                shim.shift(clock, seconds);
            }
            shim.shift(libc::CLOCK_REALTIME, seconds);
            driver.turn().fired
        };
        // Set forward, but not far enough; and far enough.
        shim.shift(libc::CLOCK_REALTIME, 3600);
        for (seconds, fired, wakes) in [(29, 0, 0), (1, 1, 1), (29, 0, 1), (1, 1, 2)] {
            assert_eq!((run(seconds), counter.wakes()), (fired, wakes));
            assert!(poll_with(&mut sleep, &waker).is_pending());
        }
        shim.shift(libc::CLOCK_REALTIME, 86_400);
        assert_eq!((run(30), counter.wakes()), (1, 3));
        assert!(poll(&mut sleep).is_ready());

        // The next asks for notices again, and gets them.
        shim.refuse(false);
        let woken = |counter: &Counter, times| {
            while counter.wakes() < times {
                std::thread::yield_now();
            }
        };
        let (mut sleep, counter) = waiting(&timer, DAY);
        let waker = Waker::from(counter.clone());
        assert!(driver.turn().next.is_some_and(|next| next > timer.now() + HOUR));
        shim.step(60);
        woken(&counter, 1);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        // Until the notices end, which wakes it as well.
        shim.refuse(true);
        shim.step(60);
        woken(&counter, 2);
        assert!(poll_with(&mut sleep, &waker).is_pending());
        let limit = timer.now() + 30 * SECOND;
        assert!(driver.turn().next.is_some_and(|next| next <= limit));
        shim.shift(libc::CLOCK_REALTIME, 86_400);
        assert!(poll(&mut sleep).is_ready());
    }

    #[test]
    fn after_fork_the_child_is_told_too() {
        alone!(with_shifted_clocks);

        fn in_child(mut inherited: WallSleep, shim: &Shim) {
            let (waker, told) = telling();
            assert!(poll_with(&mut inherited, &waker).is_pending());
            shim.step(86_400);
            told.recv().expect("it is woken");
            assert!(poll(&mut inherited).is_ready());
        }

        let shim = Shim::loaded();
        let mut parents = tourbillon::wall::sleep_until_wall(SystemTime::now() + DAY);
        let mut inherited = tourbillon::wall::sleep_until_wall(SystemTime::now() + DAY);
        let (waker, told) = telling();
        assert!(poll_with(&mut parents, &waker).is_pending() && poll(&mut inherited).is_pending());
        // SAFETY: the child calls only functions that the C library promises to a child of a
        // process with threads: it allocates and starts threads.
        let child = match unsafe { libc::fork() } {
            0 => {
                let run = AssertUnwindSafe(|| in_child(inherited, &shim));
                let failed = catch_unwind(run).is_err();
                // SAFETY: ends the child at once, because it is a copy of a test in the middle.
                unsafe { libc::_exit(i32::from(failed)) }
            }
            child => child,
        };
        let mut status = -1;
        // SAFETY: `status` is a valid place for the answer.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(told.try_recv().is_err(), "the child's clock is not the parent's");
        shim.step(86_400);
        told.recv().expect("it is woken");
        assert!(poll(&mut parents).is_ready());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn between_two_rechecks_nothing_wakes() {
    alone!();

    /// Counts how often the threads of that name have gone to sleep; `None` if there are none.
    fn rests(name: &str) -> Option<u64> {
        let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
        let ours = tasks.flatten().filter_map(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).ok()?;
            let field = |key| status.lines().find_map(|line| line.strip_prefix(key));
            let called = field("Name:")?.trim() == name;
            called.then(|| field("voluntary_ctxt_switches:")?.trim().parse().ok())?
        });
        ours.reduce(|all, one: u64| all + one)
    }

    let timer = Timer::builder().build().expect("the options are valid");
    let (sleep, counter) = waiting(&timer, DAY);
    while rests("tourbillon-wall").is_none() {
        std::thread::yield_now();
    }
    std::thread::sleep(ms(200));
    let before = (rests("tourbillon-wall"), timer.stats().driver_wakeups);
    std::thread::sleep(SECOND);
    assert_eq!((rests("tourbillon-wall"), timer.stats().driver_wakeups), before);
    assert_eq!(counter.wakes(), 0);
    drop(sleep);
}

/// Run by `ci/faketime.sh`, in the repository: libfaketime steps the wall clock, and the kernel
/// knows nothing of it.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "takes half a minute; run by ci/faketime.sh under libfaketime"]
fn a_faked_clock_steps_without_a_notice() {
    let file = std::env::var_os("FAKETIME_TIMESTAMP_FILE").expect("this is run under libfaketime");
    let (start, wall) = (std::time::Instant::now(), SystemTime::now());
    let (waker, told) = telling();
    let mut sleep = tourbillon::wall::sleep_until_wall(wall + 2 * HOUR);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    std::fs::write(file, "+7200").expect("the file can be written");
    told.recv().expect("it is woken");
    assert!(poll(&mut sleep).is_ready() && SystemTime::now() >= wall + 2 * HOUR);
    let waited = start.elapsed();
    assert!(waited < HOUR, "the monotonic clock was not stepped");
    println!("seen after {waited:?}");
}

/// Run by `ci/wall.sh` in a guest of user-mode Linux, whose clock may be set.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "sets the clock; run by ci/wall.sh on a machine of its own"]
fn guest_sets_its_clock() {
    use std::time::Instant;

    /// Sets the system's wall clock.
    fn set_wall(time: SystemTime) {
        let since = time.duration_since(UNIX_EPOCH).expect("after 1970");
        let tv_sec = since.as_secs().try_into().expect("a time that fits");
        let tv_nsec = since.subsec_nanos() as libc::c_long;
        let time = libc::timespec { tv_sec, tv_nsec };
        // SAFETY: `time` is a valid timespec.
        assert_eq!(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) }, 0);
    }

    let processor = std::fs::read_to_string("/proc/cpuinfo").expect("procfs is there");
    assert!(processor.contains("User Mode Linux"), "this machine's clock is to be left alone");

    let (waker, told) = telling();
    let start = Instant::now();
    let mut sleep = tourbillon::wall::sleep_until_wall(SystemTime::now() + 30 * DAY);
    for (back, step) in [(false, DAY), (true, 3 * DAY), (false, HOUR), (true, MINUTE)] {
        assert!(poll_with(&mut sleep, &waker).is_pending());
        let now = SystemTime::now();
        set_wall(if back { now - step } else { now + step });
        told.recv().expect("it is woken");
    }
    assert!(poll_with(&mut sleep, &waker).is_pending());
    set_wall(sleep.target());
    told.recv().expect("it is woken");
    assert!(poll(&mut sleep).is_ready() && start.elapsed() < HOUR);
}
