//! `Driver`: turn, next deadline, hook.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use tourbillon::driver::{Budget, Driver};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;

struct Rig {
    timer: Timer,
    driver: Driver,
    clock: VirtualClock,
    calls: Arc<AtomicUsize>,
}

fn rig() -> Rig {
    let clock = VirtualClock::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = {
        let calls = calls.clone();
        move || _ = calls.fetch_add(1, Ordering::SeqCst)
    };
    let (timer, driver) =
        Timer::builder().virtual_clock(&clock).build_manual(hook).expect("the options are valid");
    Rig { timer, driver, clock, calls }
}

impl Rig {
    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

#[test]
fn a_turn_fires_what_is_due_and_says_what_comes_next() {
    let mut rig = rig();
    assert_eq!((rig.driver.turn().fired, rig.driver.turn().next), (0, None));
    let sleeps = [1, 2, 2, 5].map(|n| polled(rig.timer.sleep(n * SECOND)));
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next), (0, Some(sleeps[0].deadline())));
    rig.clock.jump(2 * SECOND);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next), (3, Some(sleeps[3].deadline())));
    drop(sleeps);
    rig.clock.jump(3 * SECOND);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next), (0, None));
}

#[test]
fn a_timer_is_made_and_turned_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let thread = small.spawn(|| {
        let mut rig = rig();
        let _sleeps = [1, 100, 10_000, 1_000_000].map(|n| polled(rig.timer.sleep(n * SECOND)));
        rig.clock.jump(1_000_000 * SECOND);
        rig.driver.turn().fired
    });
    assert_eq!(thread.expect("the system starts a thread").join().ok(), Some(4));
}

/// A waker that makes `sleep` due.
fn making_due(sleep: Sleep, clock: &VirtualClock) -> Waker {
    let (sleep, clock) = (std::sync::Mutex::new(sleep), clock.clone());
    callback(move || {
        sleep.lock().unwrap().reset_after(SECOND);
        clock.jump(SECOND);
    })
}

#[test]
fn a_turn_fires_and_counts_what_its_wakers_make_due() {
    let mut rig = rig();
    let (mut first, mut second) = (rig.timer.sleep(SECOND), rig.timer.sleep(3600 * SECOND));
    let counter = Counter::new();
    assert!(poll_with(&mut second, &Waker::from(counter.clone())).is_pending());
    let waker = making_due(second, &rig.clock);
    assert!(poll_with(&mut first, &waker).is_pending());
    rig.clock.jump(SECOND);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.next, counter.wakes()), (2, None, 1));
}

#[test]
fn the_hook_is_called_once_by_an_earlier_insert_until_the_next_turn() {
    let mut rig = rig();
    rig.driver.turn();
    let _sleeps = [5, 6, 4, 3].map(|n| polled(rig.timer.sleep(n * SECOND)));
    assert_eq!(rig.calls(), 1, "called for the first; the loop has yet to turn");
    rig.driver.turn();
    let _later = polled(rig.timer.sleep(4 * SECOND));
    assert_eq!(rig.calls(), 1, "not earlier than what the turn reported");
    let _earlier = polled(rig.timer.sleep(2 * SECOND));
    assert_eq!(rig.calls(), 2);
    assert_eq!(rig.timer.stats().unparks, 2);
}

#[test]
fn a_reset_to_earlier_calls_the_hook_and_a_cancel_does_not() {
    let mut rig = rig();
    let (mut first, mut second) = (rig.timer.sleep(5 * SECOND), rig.timer.sleep(9 * SECOND));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    rig.driver.turn();
    drop(first);
    assert_eq!(rig.calls(), 0);
    second.reset_after(SECOND);
    assert_eq!(rig.calls(), 1);
}

#[test]
fn the_hook_may_come_back_into_the_timer() {
    let clock = VirtualClock::new();
    let (send, handles) = std::sync::mpsc::channel::<Timer>();
    let handles = std::sync::Mutex::new(handles);
    let hook = move || {
        let timer = handles.lock().unwrap().recv().expect("the handle is sent first");
        let _sleep = polled(timer.sleep(SECOND / 2));
    };
    let (timer, mut driver) =
        Timer::builder().virtual_clock(&clock).build_manual(hook).expect("the options are valid");
    driver.turn();
    send.send(timer.clone()).expect("the hook is alive");
    let _sleep = polled(timer.sleep(SECOND));
    assert_eq!(timer.stats().cancelled, 1);
}

#[test]
fn no_lock_is_held_while_the_hook_runs() {
    for on_a_virtual_clock in [false, true] {
        let handle = Arc::new(std::sync::Mutex::new(None::<Timer>));
        let hook = {
            let handle = handle.clone();
            move || {
                let timer = handle.lock().unwrap().clone().expect("it is there before a call");
                // Takes every lock, and hangs where this thread has one.
                let (say, heard) = std::sync::mpsc::channel();
                std::thread::spawn(move || say.send(timer.stats().pending));
                assert_eq!(heard.recv_timeout(Duration::from_secs(60)), Ok(1));
            }
        };
        let builder = Timer::builder();
        let clock = VirtualClock::new();
        let builder = if on_a_virtual_clock { builder.virtual_clock(&clock) } else { builder };
        let (timer, mut driver) = builder.build_manual(hook).expect("the options are valid");
        driver.turn();
        *handle.lock().unwrap() = Some(timer.clone());
        let _sleep = polled(timer.sleep(3600 * SECOND));
        assert_eq!((timer.stats().unparks, timer.stats().waker_panics), (1, 0));
        // The hook has it, and it the hook.
        *handle.lock().unwrap() = None;
    }
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    let clock = VirtualClock::new();
    let (timer, mut driver) = Timer::builder()
        .virtual_clock(&clock)
        .build_manual(|| panic!("as the test wants it"))
        .expect("the options are valid");
    driver.turn();
    let mut sleep = polled(timer.sleep(SECOND));
    clock.jump(SECOND);
    assert_eq!(driver.turn().fired, 1);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(timer.stats().waker_panics, 1);
}

#[test]
fn the_cached_time_is_that_of_the_last_turn() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    driver.turn();
    let cached = timer.cached_now();
    while timer.now() <= cached {}
    assert_eq!(timer.cached_now(), cached);
    driver.turn();
    assert!(timer.cached_now() > cached);
}

#[test]
fn a_driver_moves_between_threads() {
    let Rig { timer, mut driver, clock, .. } = rig();
    let (_sleep, counter) = counted(timer.sleep(SECOND));
    clock.jump(SECOND);
    let fired = std::thread::spawn(move || driver.turn().fired).join().expect("it ends");
    assert_eq!((fired, counter.wakes()), (1, 1));
}

#[test]
fn a_turn_fires_no_more_than_its_budget_and_says_so() {
    let mut rig = rig();
    let _sleeps: Vec<_> = (0..100).map(|n| polled(rig.timer.sleep(SECOND + ms(n % 3)))).collect();
    let later = polled(rig.timer.sleep(3 * SECOND));
    rig.clock.jump(2 * SECOND);
    let now = rig.clock.now();
    for (budget, fired) in [(0, 0), (1, 1), (33, 33), (60, 60)] {
        let turn = rig.driver.turn_within(Budget::Timers(budget));
        assert_eq!((turn.fired, turn.next, turn.more), (fired, Some(now), true));
        assert_eq!(rig.driver.max_wait(), Some(Duration::ZERO));
    }
    let turn = rig.driver.turn_within(Budget::Timers(6));
    assert_eq!((turn.fired, turn.next, turn.more), (6, Some(later.deadline()), false));
    assert_eq!(rig.driver.max_wait(), Some(SECOND));
    assert_eq!(rig.timer.stats().fired, 100);
}

/// All four lie in one slot. The first turn files the first one finely, fires the second, and stops
/// at the third; the clock moves on before the next turn comes to the fourth.
#[test]
fn turns_cut_short_keep_the_order_though_the_clock_moves_between_them() {
    for (first, last) in [(100, 100), (90, 100)] {
        let mut rig = rig();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut sleeps = [first, 70, 75, last].map(|n| rig.timer.sleep(Duration::from_nanos(n)));
        for (index, sleep) in sleeps.iter_mut().enumerate() {
            let order = order.clone();
            let waker = callback(move || order.lock().unwrap().push(index));
            assert!(poll_with(sleep, &waker).is_pending());
        }
        rig.clock.jump(Duration::from_nanos(80));
        assert_eq!(rig.driver.turn_within(Budget::Timers(1)).fired, 1);
        rig.clock.jump(Duration::from_nanos(20));
        while rig.driver.turn_within(Budget::Timers(1)).more {}
        assert_eq!(*order.lock().unwrap(), [1, 2, 0, 3]);
    }
}

#[test]
fn a_turn_until_an_instant_ends_with_the_batch_in_which_that_comes() {
    let mut rig = rig();
    let mut sleeps: Vec<_> = (0..100).map(|_| rig.timer.sleep(SECOND)).collect();
    let clock = rig.clock.clone();
    // Each wake-up takes a millisecond.
    let waker = callback(move || clock.jump(ms(1)));
    assert!(sleeps.iter_mut().all(|sleep| poll_with(sleep, &waker).is_pending()));
    rig.clock.jump(SECOND);
    let turn = rig.driver.turn_within(Budget::Until(rig.clock.now() + ms(33)));
    assert_eq!((turn.fired, turn.more), (64, true));
    let turn = rig.driver.turn_within(Budget::Until(rig.clock.now()));
    assert_eq!((turn.fired, turn.more), (32, true), "a batch, although the instant is past");
    let turn = rig.driver.turn_within(Budget::Until(rig.clock.now() + SECOND));
    assert_eq!((turn.fired, turn.more, turn.next), (4, false, None));
    let turn = rig.driver.turn_within(Budget::Until(rig.clock.now()));
    assert_eq!((turn.fired, turn.more, turn.next), (0, false, None), "nothing is to be done");
}

#[test]
fn after_a_turn_cut_short_the_hook_is_not_called_and_the_next_turn_sees_what_was_armed() {
    let mut rig = rig();
    let _sleeps = [1, 1].map(|n| polled(rig.timer.sleep(n * SECOND)));
    rig.clock.jump(SECOND);
    let calls = rig.calls();
    assert!(rig.driver.turn_within(Budget::Timers(1)).more);
    let armed = polled(rig.timer.sleep(SECOND));
    assert_eq!(rig.calls(), calls);
    let turn = rig.driver.turn_within(Budget::Timers(1));
    assert_eq!((turn.fired, turn.next, turn.more), (1, Some(armed.deadline()), false));
}

#[test]
fn a_full_turn_after_one_cut_short_has_no_budget() {
    let mut rig = rig();
    let _sleeps: Vec<_> = (0..100).map(|_| polled(rig.timer.sleep(SECOND))).collect();
    rig.clock.jump(SECOND);
    assert_eq!(rig.driver.turn_within(Budget::Timers(1)).fired, 1);
    let turn = rig.driver.turn();
    assert_eq!((turn.fired, turn.more), (99, false));
}

#[test]
fn the_wait_ends_at_the_deadline_however_far_that_is() {
    let mut rig = rig();
    assert_eq!(rig.driver.max_wait(), Some(Duration::ZERO), "it has not turned yet");
    rig.driver.turn();
    assert_eq!(rig.driver.max_wait(), None);
    let day = 86_400 * SECOND;
    for delay in [Duration::from_nanos(1), ms(1), SECOND, 25 * day, 400 * 365 * day] {
        let _sleep = polled(rig.timer.sleep(delay));
        assert_eq!(rig.driver.max_wait(), Some(Duration::ZERO), "the hook has been called");
        rig.driver.turn();
        assert_eq!(rig.driver.max_wait(), Some(delay));
        rig.clock.jump(delay);
        assert_eq!(rig.driver.max_wait(), Some(Duration::ZERO));
        assert_eq!(rig.driver.turn().fired, 1);
    }
}

#[test]
fn the_wait_is_what_is_left_and_not_what_was_left_at_the_turn() {
    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let _sleep = polled(timer.sleep(3600 * SECOND));
    let next = driver.turn().next.expect("a timer is armed");
    std::thread::sleep(ms(2));
    let now = timer.now();
    assert!(driver.max_wait().expect("a timer is armed") <= next - now);
}

#[cfg(target_os = "linux")]
pub(crate) mod descriptor {
    use std::os::fd::{AsFd, AsRawFd};
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use rustix::event::{PollFd, PollFlags, poll as poll_fds};
    use rustix::io::{FdFlags, fcntl_getfd};
    use rustix::time::Timespec;

    use super::*;

    /// Returns whether it becomes readable within `limit`; waits for good if that is `None`.
    fn readable(descriptor: impl AsFd, limit: Option<Duration>) -> bool {
        let mut fds = [PollFd::new(&descriptor, PollFlags::IN)];
        let limit = limit.map(|limit| Timespec::try_from(limit).expect("it is short"));
        poll_fds(&mut fds, limit.as_ref()).expect("it is open") == 1
    }

    pub(crate) fn is_readable(descriptor: impl AsFd) -> bool {
        readable(descriptor, Some(Duration::ZERO))
    }

    #[test]
    fn it_is_readable_until_the_first_turn_and_when_the_hook_would_be_called() {
        let mut rig = rig();
        let due = rig.driver.turn_fd().expect("there is one");
        assert!(is_readable(&due));
        rig.driver.turn();
        assert!(!is_readable(&due));
        let _sleep = polled(rig.timer.sleep(SECOND));
        assert!(is_readable(&due) && is_readable(&due), "until the next turn");
        rig.driver.turn();
        assert!(!is_readable(&due));
        rig.clock.jump(SECOND);
        assert!(is_readable(&due));
        assert_eq!(rig.driver.turn().fired, 1);
        assert!(!is_readable(&due));
        assert_eq!(rig.calls(), 2, "beside the hook, which is called as before");
    }

    #[test]
    fn it_is_readable_although_the_hook_panics() {
        let clock = VirtualClock::new();
        let (timer, mut driver) = Timer::builder()
            .virtual_clock(&clock)
            .build_manual(|| panic!("as the test wants it"))
            .expect("the options are valid");
        let due = driver.turn_fd().expect("there is one");
        driver.turn();
        assert!(!is_readable(&due));
        let _sleep = polled(timer.sleep(SECOND));
        assert!(is_readable(&due));
        assert_eq!(timer.stats().waker_panics, 1);
    }

    #[test]
    fn it_goes_by_the_clock_of_its_timer() {
        for (kind, id) in [
            (tourbillon::timer::ClockKind::Monotonic, libc::CLOCK_MONOTONIC),
            (tourbillon::timer::ClockKind::Boottime, libc::CLOCK_BOOTTIME),
        ] {
            let builder = Timer::builder().clock(kind);
            let (_timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
            let due = driver.turn_fd().expect("there is one");
            let shown = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", due.as_raw_fd()));
            let shown = shown.expect("the kernel shows it");
            let clock = shown.lines().find_map(|line| line.strip_prefix("clockid: "));
            assert_eq!(clock, Some(id.to_string().as_str()), "{shown}");
        }
    }

    #[test]
    fn it_is_readable_after_a_turn_cut_short() {
        let mut rig = rig();
        let due = rig.driver.turn_fd().expect("there is one");
        let (mut first, mut second) = (rig.timer.sleep(SECOND), rig.timer.sleep(3600 * SECOND));
        assert!(poll(&mut second).is_pending());
        // The first one's waker makes the second due, when the turn has nothing left to spend.
        let waker = making_due(second, &rig.clock);
        assert!(poll_with(&mut first, &waker).is_pending());
        rig.clock.jump(SECOND);
        assert!(rig.driver.turn_within(Budget::Timers(1)).more);
        assert!(is_readable(&due));
        let turn = rig.driver.turn_within(Budget::Timers(1));
        assert_eq!((turn.fired, turn.more), (1, false));
        assert!(!is_readable(&due));
    }

    #[test]
    fn every_call_returns_the_same_and_it_does_not_pass_to_other_programs() {
        let mut rig = rig();
        let due = rig.driver.turn_fd().expect("there is one");
        rig.driver.turn();
        let again = rig.driver.turn_fd().expect("it is there");
        assert_eq!(again.as_raw_fd(), due.as_raw_fd());
        assert!(!is_readable(&due), "the second call does not set it");
        assert_eq!(fcntl_getfd(&due).expect("it is open"), FdFlags::CLOEXEC);
    }

    #[test]
    fn it_outlives_the_driver_and_hooks_may_come_after_it() {
        let mut rig = rig();
        let due = rig.driver.turn_fd().expect("there is one");
        rig.driver.turn();
        drop(rig.driver);
        let _sleep = polled(rig.timer.sleep(SECOND));
        assert!(is_readable(&due));
    }

    #[test]
    fn it_becomes_readable_by_time_and_not_before() {
        for kind in
            [tourbillon::timer::ClockKind::Monotonic, tourbillon::timer::ClockKind::Boottime]
        {
            let builder = Timer::builder().clock(kind);
            let (timer, mut driver) = builder.build_manual(|| {}).expect("the options are valid");
            let due = driver.turn_fd().expect("there is one");
            let mut far = timer.sleep(Duration::MAX);
            let mut years = timer.sleep(Duration::from_secs(300 * 365 * 86_400));
            assert!(poll(&mut far).is_pending() && poll(&mut years).is_pending());
            driver.turn();
            assert!(!is_readable(&due));
            // Again if this thread was kept from running until the deadline.
            let mut turns = 0;
            while turns == 0 {
                let mut sleep = timer.sleep(ms(2));
                if poll(&mut sleep).is_ready() {
                    continue;
                }
                while driver.turn().fired == 0 {
                    assert!(readable(&due, None));
                    turns += 1;
                }
                assert!(timer.now() >= sleep.deadline());
                assert!(poll(&mut sleep).is_ready());
            }
        }
    }

    #[test]
    fn a_loop_that_waits_for_it_alone_serves_remote_sleepers() {
        let (timer, mut driver) =
            Timer::builder().build_manual(|| {}).expect("the options are valid");
        let due = driver.turn_fd().expect("there is one");
        let sleeper = |n| {
            let timer = timer.clone();
            std::thread::spawn(move || {
                for _ in 0..20 {
                    let deadline = Instant::now() + n * Duration::from_micros(100);
                    pollster::block_on(timer.sleep_until(deadline));
                    assert!(Instant::now() >= deadline, "early");
                }
            })
        };
        let sleepers: Vec<_> = (1..=5).map(sleeper).collect();
        let ended = Arc::new(AtomicBool::new(false));
        let ending = std::thread::spawn({
            let ended = ended.clone();
            move || {
                let ends: Vec<_> = sleepers.into_iter().map(|sleeper| sleeper.join()).collect();
                ended.store(true, Ordering::SeqCst);
                // Ends the loop's wait.
                assert!(poll(&mut timer.sleep(SECOND)).is_pending());
                ends
            }
        });
        while !ended.load(Ordering::SeqCst) {
            assert!(readable(&due, None));
            driver.turn();
        }
        let ends = ending.join().expect("it ends");
        assert!(ends.iter().all(Result::is_ok), "no sleep was early");
    }
}
