//! Timers on a processor that qemu emulates: with its interrupts, and by its clock.

#![no_std]
#![no_main]

extern crate alloc;

mod board;

#[cfg(target_has_atomic = "ptr")]
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::{Future, pending, poll_fn, ready};
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use core::time::Duration;

use critical_section::Mutex;
use embedded_hal_async::delay::DelayNs as _;
use futures_util::{StreamExt as _, stream};
use tourbillon::driver::Driver;
use tourbillon::queue::DelayQueue;
use tourbillon::time::Instant;
#[cfg(target_has_atomic = "ptr")]
use tourbillon::{MissedTickBehavior, callback::Callback, timer::Tolerance};
use tourbillon::{Sleep, StreamExt as _, Timer};

use board::{HEAP, entry, print};

/// Instructions by which an interrupt may be late: those of docs/PLATFORMS.md, and a margin.
const LATE_MAX: u32 =
    if cfg!(any(target_arch = "riscv32", target_has_atomic = "ptr")) { 3_100 } else { 4_700 };

/// Number of calls of the timer's hook.
static UNPARKS: AtomicU32 = AtomicU32::new(0);
/// Number of calls of a callback.
#[cfg(target_has_atomic = "ptr")]
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Sleeps that the interrupt handler has armed; `None` while it has to arm nothing.
static ARMED: Mutex<RefCell<Option<Vec<Sleep>>>> = Mutex::new(RefCell::new(None));

/// Counts, where no interrupt handler does.
fn add_one(count: &AtomicU32) {
    count.store(read(count) + 1, Ordering::Relaxed);
}

fn read(count: &AtomicU32) -> u32 {
    count.load(Ordering::Relaxed)
}

/// In the counter's interrupt handler.
fn on_tick() {
    let sleeps = critical_section::with(|section| ARMED.borrow(section).take());
    if let Some(mut sleeps) = sleeps {
        arm_reset_and_drop(&mut sleeps);
        critical_section::with(|section| ARMED.borrow(section).replace(Some(sleeps)));
    }
}

/// Does what an interrupt handler may do with sleeps, a different mix in each tick.
fn arm_reset_and_drop(sleeps: &mut Vec<Sleep>) {
    let tick = board::ticks();
    let mut sleep = tourbillon::sleep(ms(tick % 7));
    let _ = Pin::new(&mut sleep).poll(&mut noop());
    sleeps.push(sleep);
    if tick % 3 == 0 {
        sleeps[0].reset_after(ms(tick % 5));
    }
    if sleeps.len() > 16 {
        drop(sleeps.swap_remove(tick as usize % 16));
    }
}

/// Whether the timer's clock must be read with interrupts on.
static MUST_BE_INTERRUPTIBLE: AtomicBool = AtomicBool::new(false);

/// The timer's clock. Another core's clock may wait for a lock whose holder waits for the end of a
/// critical section.
fn clock() -> Instant {
    let must_be = MUST_BE_INTERRUPTIBLE.load(Ordering::Relaxed);
    assert!(!must_be || board::are_interrupts_on(), "the clock is read in a critical section");
    now()
}

fn noop() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn now() -> Instant {
    Instant::from_ticks(board::ticks(), board::TICKS_PER_SEC)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An executor of one task, which is polled when it was woken, and turns the timer.
fn run<F: Future>(driver: &mut Driver, task: F) -> F::Output {
    static WOKEN: AtomicBool = AtomicBool::new(false);
    static TABLE: RawWakerVTable = RawWakerVTable::new(|_| RAW, wake, wake, |_| {});
    const RAW: RawWaker = RawWaker::new(core::ptr::null(), &TABLE);
    fn wake(_: *const ()) {
        WOKEN.store(true, Ordering::Relaxed);
    }

    // SAFETY: the functions of the table touch nothing but a static, in whatever context.
    let waker = unsafe { Waker::from_raw(RAW) };
    let mut task = pin!(task);
    wake(core::ptr::null());
    MUST_BE_INTERRUPTIBLE.store(true, Ordering::Relaxed);
    loop {
        if WOKEN.load(Ordering::Relaxed) {
            WOKEN.store(false, Ordering::Relaxed);
            if let Poll::Ready(output) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                MUST_BE_INTERRUPTIBLE.store(false, Ordering::Relaxed);
                return output;
            }
        }
        driver.turn();
        if !WOKEN.load(Ordering::Relaxed) {
            // A tick of the clock is the next that can change anything.
            board::wait_for_interrupt();
        }
    }
}

fn sleeps_end_at_their_deadlines_and_never_early(driver: &mut Driver) {
    run(driver, async {
        for delay in [3, 1, 20, 0].map(ms) {
            let start = now();
            tourbillon::sleep(delay).await;
            // The next tick of the clock ends it.
            assert!(now() - start >= delay && now() - start < delay + ms(1), "{delay:?}");
        }
    });
}

fn thousands_of_sleeps_end_in_order(driver: &mut Driver) {
    const COUNT: u64 = 2_000;
    let timer = driver.timer().clone();
    let before = timer.stats();
    let start = now();
    let mut sleeps: Vec<Sleep> =
        (0..COUNT).map(|n| timer.sleep(ms(100 + n * 7_919 % 200))).collect();
    run(driver, async {
        poll_fn(|cx| {
            sleeps.retain_mut(|sleep| {
                let had_come = now() >= sleep.deadline();
                let is_ready = Pin::new(&mut *sleep).poll(cx).is_ready();
                assert!(is_ready || !had_come, "late");
                assert!(!is_ready || now() >= sleep.deadline(), "early");
                !is_ready
            });
            if sleeps.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    assert!(now() - start >= ms(299));
    let after = timer.stats();
    assert_eq!((after.pending, after.armed - before.armed), (0, COUNT));
    assert_eq!(after.armed, after.fired + after.cancelled);
}

fn an_interval_keeps_to_its_schedule(driver: &mut Driver) {
    run(driver, async {
        let mut interval = tourbillon::interval(ms(2));
        let first = interval.tick().await;
        for n in 1..=10 {
            let tick = interval.tick().await;
            assert_eq!(tick, first + ms(2) * n);
            assert!(now() >= tick);
        }
    });
}

fn a_timeout_ends_what_takes_too_long_and_nothing_else(driver: &mut Driver) {
    run(driver, async {
        let start = now();
        assert!(tourbillon::timeout(ms(5), pending::<()>()).await.is_err());
        assert!(now() - start >= ms(5));
        assert_eq!(tourbillon::timeout(ms(5), ready(7)).await, Ok(7));
    });
}

fn what_is_cancelled_does_not_fire(driver: &mut Driver) {
    let before = driver.timer().stats();
    run(driver, async {
        let mut cancelled = tourbillon::sleep(ms(2));
        assert!(tourbillon::timeout(ms(1), &mut cancelled).await.is_err());
        assert!(cancelled.cancel());
        let _ = tourbillon::timeout(ms(1), tourbillon::sleep(ms(2))).await;
        tourbillon::sleep(ms(4)).await;
    });
    let after = driver.timer().stats();
    assert_eq!((after.armed - before.armed, after.pending), (5, 0));
    assert_eq!(after.cancelled - before.cancelled, 2);
}

fn the_hook_is_called_for_what_is_earlier_than_the_turn_reported(driver: &mut Driver) {
    let mut cx = noop();
    let mut late = tourbillon::sleep(ms(500));
    assert!(Pin::new(&mut late).poll(&mut cx).is_pending());
    let turn = driver.turn();
    assert!(turn.next.is_some_and(|next| next <= late.deadline()));
    let unparks = read(&UNPARKS);
    let mut later = tourbillon::sleep(ms(600));
    assert!(Pin::new(&mut later).poll(&mut cx).is_pending());
    assert_eq!(read(&UNPARKS), unparks);
    let mut earlier = tourbillon::sleep(ms(100));
    assert!(Pin::new(&mut earlier).poll(&mut cx).is_pending());
    assert_eq!(read(&UNPARKS), unparks + 1);
    assert_eq!(driver.max_wait(), Some(Duration::ZERO));
    drop((late, later, earlier));
    assert_eq!(driver.turn().fired, 0);
}

fn queues_and_streams_work(driver: &mut Driver) {
    run(driver, async {
        let mut queue = DelayQueue::new();
        for (value, delay) in [("third", 9), ("first", 1), ("second", 4)] {
            queue.insert(value, ms(delay));
        }
        for value in ["first", "second", "third"] {
            assert_eq!(queue.next().await.map(|expired| expired.into_inner()), Some(value));
        }
        let start = now();
        let items: Vec<u8> = stream::iter([1, 2, 3]).throttle(ms(2)).collect().await;
        assert_eq!(items, [1, 2, 3]);
        assert!(now() - start >= ms(4));
    });
}

fn drivers_of_devices_wait_by_it(driver: &mut Driver) {
    let mut timer = driver.timer().clone();
    let start = now();
    run(driver, async {
        timer.delay_us(900).await;
        timer.delay_ms(2).await;
    });
    assert!(now() - start >= Duration::from_micros(2_900));
}

fn ticks_of_others_are_exchanged(_: &mut Driver) {
    let embassy = embassy_time::Instant::from_millis(2_500);
    let instant = Instant::from_ticks(embassy.as_ticks(), embassy_time::TICK_HZ as u32);
    assert_eq!(instant, Instant::ZERO + ms(2_500));
    assert_eq!(instant.to_ticks(embassy_time::TICK_HZ as u32), embassy.as_ticks());

    const HZ: u32 = 32_768;
    let fugit = fugit::TimerInstantU64::<HZ>::from_ticks(81_920);
    assert_eq!(Instant::from_ticks(fugit.ticks(), HZ), instant);
}

#[cfg(target_has_atomic = "ptr")]
fn callbacks_are_called_by_the_loop_until_they_are_cancelled(driver: &mut Driver) {
    let every = tourbillon::interval_at(now() + ms(2), ms(2)).call(|_| add_one(&CALLS));
    let once = tourbillon::sleep(ms(3)).call(|| add_one(&CALLS));
    run(driver, tourbillon::sleep(ms(9)));
    assert_eq!(read(&CALLS), 4 + 1);
    assert!(!once.cancel() && every.cancel_and_wait());
    run(driver, tourbillon::sleep(ms(9)));
    assert_eq!(read(&CALLS), 5);
}

/// An interrupt handler cannot wait for what it has interrupted.
#[cfg(target_has_atomic = "ptr")]
fn a_cancel_in_an_interrupt_handler_waits_for_no_call(driver: &mut Driver) {
    static UNDER_WAY: Mutex<RefCell<Option<Callback>>> = Mutex::new(RefCell::new(None));
    fn cancel() {
        let callback = critical_section::with(|section| UNDER_WAY.borrow(section).take());
        let Some(callback) = callback else { return };
        if read(&CALLS) == 0 {
            critical_section::with(|section| UNDER_WAY.borrow(section).replace(Some(callback)));
        } else {
            assert!(!callback.cancel_and_wait(), "the call is under way");
            CALLS.store(2, Ordering::Relaxed);
        }
    }

    CALLS.store(0, Ordering::Relaxed);
    let held = Arc::new(());
    let in_call = held.clone();
    let callback = tourbillon::interval(ms(1)).call(move |_| {
        CALLS.store(1, Ordering::Relaxed);
        while read(&CALLS) == 1 {
            board::wait_for_interrupt();
        }
        assert_eq!(Arc::strong_count(&in_call), 2, "the function is there");
    });
    critical_section::with(|section| UNDER_WAY.borrow(section).replace(Some(callback)));
    board::on_tick(cancel);
    run(driver, tourbillon::sleep(ms(4)));
    board::on_tick(on_tick);
    assert_eq!((read(&CALLS), Arc::strong_count(&held)), (2, 1), "it was the last call");
}

/// `run` has the clock check that.
#[cfg(target_has_atomic = "ptr")]
fn callbacks_read_the_clock_in_no_critical_section(driver: &mut Driver) {
    let before = read(&CALLS);
    let mut skipping = tourbillon::interval_at(now() + ms(2), ms(2));
    skipping.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let skipping = skipping.call(|_| add_one(&CALLS));
    let postponed = tourbillon::sleep(ms(3)).call(|| add_one(&CALLS));
    assert!(postponed.reset(now() + ms(5)));
    run(driver, tourbillon::sleep(ms(9)));
    assert_eq!(read(&CALLS) - before, 4 + 1);
    drop((skipping, postponed));

    let tenth = Tolerance::percent_of_delay(10, Duration::MAX);
    let (timer, mut driver) = Timer::builder().tolerance(tenth).build_manual(clock, || ());
    let tolerant = timer.sleep(ms(10)).call(|| add_one(&CALLS));
    run(&mut driver, async {
        assert!(tolerant.reset(now() + ms(20)));
        timer.sleep(ms(30)).await;
    });
    assert_eq!(read(&CALLS) - before, 4 + 1 + 1);
}

fn an_interrupt_handler_may_arm_reset_and_drop_sleeps(driver: &mut Driver) {
    let timer = driver.timer().clone();
    let before = timer.stats();
    critical_section::with(|section| ARMED.borrow(section).replace(Some(Vec::new())));
    let end = now() + ms(1_000);
    let mut cx = noop();
    let mut armed_here = 0;
    let mut sleeps: Vec<Sleep> = Vec::new();
    while now() < end {
        let mut sleep = timer.sleep(ms(u64::from(armed_here % 9)));
        armed_here += u32::from(Pin::new(&mut sleep).poll(&mut cx).is_pending());
        sleeps.push(sleep);
        if sleeps.len() > 50 {
            sleeps.clear();
        }
        driver.turn();
    }
    drop(critical_section::with(|section| ARMED.borrow(section).take()));
    drop(sleeps);
    driver.turn();
    let after = timer.stats();
    let armed = after.armed - before.armed;
    assert_eq!((after.pending, after.armed), (0, after.fired + after.cancelled));
    assert!(armed > u64::from(armed_here) + 500, "{armed} in all, {armed_here} of them here");
}

fn locks_leave_interrupts_as_they_are(driver: &mut Driver) {
    let arm_and_drop = || {
        let mut sleep = tourbillon::sleep(ms(10));
        assert!(Pin::new(&mut sleep).poll(&mut noop()).is_pending());
    };
    arm_and_drop();
    driver.turn();
    assert!(board::are_interrupts_on(), "interrupts are on");
    critical_section::with(|_| {
        arm_and_drop();
        driver.turn();
        assert!(!board::are_interrupts_on(), "and off where they were");
    });
    assert!(board::are_interrupts_on());
}

/// Measures what a timer takes of the heap, for docs/PLATFORMS.md.
fn memory_is_given_back(driver: &mut Driver) {
    let timer = driver.timer().clone();
    let used = || HEAP.used();
    let idle = used();
    let mut cx = noop();
    let mut sleeps: Vec<Sleep> = Vec::with_capacity(1_000);
    let buffer = used() - idle;
    let mut arm = |count: usize| {
        while sleeps.len() < count {
            let mut sleep = timer.sleep(ms(1_000 + sleeps.len() as u64));
            assert!(Pin::new(&mut sleep).poll(&mut cx).is_pending());
            sleeps.push(sleep);
        }
        used() - buffer
    };
    let (ten, thousand) = (arm(10), arm(1_000));
    drop(sleeps);
    let after = used();
    print(format_args!(
        "heap: {idle} idle, {ten} with 10 timers, {thousand} with 1,000, {after} after"
    ));
    assert!(after < thousand / 2, "{after}");
}

/// Measures how long a turn holds its lock where windows overlap, for docs/PLATFORMS.md.
fn a_turn_visits_each_window_that_begins_before_the_first_ends(driver: &mut Driver) {
    const COUNT: u32 = 1_000;
    let timer = driver.timer().clone();
    let arm = |mut sleep: Sleep| {
        assert!(Pin::new(&mut sleep).poll(&mut noop()).is_pending());
        sleep
    };
    let mut turn_beside = |windows: u32| {
        let start = now() + ms(1_000);
        let window = |n| timer.sleep_until(start + ms(u64::from(n))).with_tolerance(ms(5_000));
        let windows: Vec<Sleep> = (0..windows).map(|n| arm(window(n))).collect();
        let exact = arm(timer.sleep(ms(2)));
        // A tick has just come then, and the next comes once the turn is over.
        while now() < exact.deadline() {
            board::wait_for_interrupt();
        }
        let before = board::instructions();
        assert_eq!(driver.turn().fired, 1);
        let taken = board::instructions() - before;
        drop(windows);
        driver.turn();
        taken
    };
    let (alone, beside) = (turn_beside(0), turn_beside(COUNT));
    let each = (beside - alone) / COUNT;
    print(format_args!("turn: {alone} instructions, and {each} for each window that overlaps"));
    assert!(each <= 65, "{each}");
}

type Test = fn(&mut Driver);

macro_rules! tests {
    ($($(#[$cfg:meta])? $test:ident),* $(,)?) => {
        [$($(#[$cfg])? (stringify!($test), $test as Test)),*]
    };
}

#[entry]
fn main() -> ! {
    board::start();
    board::on_tick(on_tick);
    let before = HEAP.used();
    let (timer, mut driver) = Timer::builder().build_manual(clock, || add_one(&UNPARKS));
    print(format_args!("heap: {} for a timer", HEAP.used() - before));
    Timer::set_global(timer).expect("none is set");
    let tests = tests![
        memory_is_given_back,
        sleeps_end_at_their_deadlines_and_never_early,
        thousands_of_sleeps_end_in_order,
        an_interval_keeps_to_its_schedule,
        a_timeout_ends_what_takes_too_long_and_nothing_else,
        what_is_cancelled_does_not_fire,
        the_hook_is_called_for_what_is_earlier_than_the_turn_reported,
        queues_and_streams_work,
        drivers_of_devices_wait_by_it,
        ticks_of_others_are_exchanged,
        #[cfg(target_has_atomic = "ptr")]
        callbacks_are_called_by_the_loop_until_they_are_cancelled,
        #[cfg(target_has_atomic = "ptr")]
        a_cancel_in_an_interrupt_handler_waits_for_no_call,
        #[cfg(target_has_atomic = "ptr")]
        callbacks_read_the_clock_in_no_critical_section,
        an_interrupt_handler_may_arm_reset_and_drop_sleeps,
        locks_leave_interrupts_as_they_are,
        a_turn_visits_each_window_that_begins_before_the_first_ends,
    ];
    for (name, test) in tests {
        test(&mut driver);
        print(format_args!("test {name} ... ok"));
    }
    let late = board::late_max();
    print(format_args!("interrupts: up to {late} instructions late"));
    assert!(late <= LATE_MAX, "more than it was: a lock is held for longer");
    print(format_args!("test result: ok. {} passed", tests.len()));
    board::end();
}
