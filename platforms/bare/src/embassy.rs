//! A time driver for embassy-time: its timers are sleeps of this crate. The counter's interrupt
//! handler turns them.
//!
//! It is for one core, and for embassy's wakers: they are references to tasks, so that to clone or
//! to drop one in a critical section runs nothing of the program's.

#![no_std]
#![no_main]

extern crate alloc;

mod board;

use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::RefCell;
use core::future::Future;
use core::mem::replace;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Poll, Waker};

use critical_section::Mutex;
use embassy_time::{Duration, TICK_HZ, Ticker, Timer, with_timeout};
use embassy_time_driver::Driver as _;
use futures_util::future::{join, pending};
use tourbillon::Sleep;
use tourbillon::driver::Driver;
use tourbillon::time::Instant;

/// Tasks that may wait at the same time. One more is woken at once, and asks again.
const TASKS: usize = 16;

/// The sleeps of embassy's tasks, each with the waker that it was last polled with.
struct TimeDriver(Mutex<RefCell<[Option<(Waker, Sleep)>; TASKS]>>);

embassy_time_driver::time_driver_impl!(static TIME: TimeDriver =
    TimeDriver(Mutex::new(RefCell::new([const { None }; TASKS]))));

impl embassy_time_driver::Driver for TimeDriver {
    fn now(&self) -> u64 {
        now().to_ticks(TICK_HZ as u32)
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        let deadline = Instant::from_ticks(at, TICK_HZ as u32);
        let (is_waiting, displaced) = critical_section::with(|section| {
            let mut slots = self.0.borrow_ref_mut(section);
            let own = slots
                .iter()
                .position(|slot| slot.as_ref().is_some_and(|(other, _)| other.will_wake(waker)));
            let free = || {
                slots.iter().position(|slot| match slot {
                    None => true,
                    Some((_, sleep)) => sleep.is_elapsed(),
                })
            };
            let Some(index) = own.or_else(free) else { return (false, None) };
            let (kept, sleep) = slots[index]
                .get_or_insert_with(|| (waker.clone(), tourbillon::Timer::global().never()));
            // One reading for both uses below, as the deadline may come between two.
            let is_elapsed = sleep.is_elapsed();
            // Its deadline may have come, and the interrupt that fires it not yet.
            let is_owed = is_elapsed && sleep.cancel();
            if own.is_some() && is_owed {
                slots[index] = None;
                return (false, None);
            }
            let displaced = replace(kept, waker.clone());
            // A task that waits for several is woken for the earliest, and asks for the next.
            if own.is_none() || is_elapsed || deadline < sleep.deadline() {
                sleep.reset(deadline);
            }
            let is_waiting = Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_pending();
            (is_waiting, is_owed.then_some(displaced))
        });
        if let Some(displaced) = displaced {
            displaced.wake();
        }
        if !is_waiting {
            waker.wake_by_ref();
        }
    }
}

static DRIVER: Mutex<RefCell<Option<Driver>>> = Mutex::new(RefCell::new(None));

/// Ticks that the counter is ahead of its interrupts.
static AHEAD: AtomicU32 = AtomicU32::new(0);

/// Ticks by which each reading of the counter moves it on.
static PER_READING: AtomicU32 = AtomicU32::new(0);

fn now() -> Instant {
    let ahead: u64 = AHEAD.load(Ordering::Relaxed).into();
    run_ahead(PER_READING.load(Ordering::Relaxed));
    Instant::from_ticks(board::ticks() + ahead, board::TICKS_PER_SEC)
}

/// Moves the counter on by so many ticks, whose interrupts have yet to come.
fn run_ahead(ticks: u32) {
    AHEAD.store(AHEAD.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
}

fn on_tick() {
    // Out of there meanwhile, as wakers are foreign code.
    let driver = critical_section::with(|section| DRIVER.borrow(section).take());
    let Some(mut driver) = driver else { return };
    driver.turn();
    critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
}

/// Polls the task after each interrupt.
fn run<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    loop {
        if let Poll::Ready(output) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        cortex_m::asm::wfi();
    }
}

/// Counts the wake-ups of one task.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wakes {
    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Its interrupts come after what is called here.
fn a_task_whose_time_has_come_is_woken_before_its_interrupt() {
    let (first, second) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    let [first_waker, second_waker] = [&first, &second].map(|wakes| Waker::from(wakes.clone()));
    let at = |ticks| TIME.now() + ticks * TICK_HZ / u64::from(board::TICKS_PER_SEC);
    // The place of one whose time has come is another task's.
    critical_section::with(|_| {
        TIME.schedule_wake(at(10), &first_waker);
        run_ahead(10);
        TIME.schedule_wake(at(10), &second_waker);
    });
    assert_eq!((first.count(), second.count()), (1, 0));
    // A task that waits for two asks for the later one, once the time of the other has come.
    critical_section::with(|_| {
        run_ahead(10);
        TIME.schedule_wake(at(3_600_000), &second_waker);
    });
    assert_eq!((first.count(), second.count()), (1, 1));
    // And again after that, as it has been polled.
    TIME.schedule_wake(at(2), &second_waker);
    let end = board::ticks() + u64::from(board::TICKS_PER_SEC);
    while second.count() == 1 && board::ticks() < end {
        cortex_m::asm::wfi();
    }
    assert_eq!((first.count(), second.count()), (1, 2));
}

/// The task asks for a later time one tick before the earlier, which comes while the driver looks.
fn a_task_whose_time_comes_as_it_asks_for_a_later_one_is_woken() {
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    critical_section::with(|_| {
        let now = TIME.now();
        let tick = TICK_HZ / u64::from(board::TICKS_PER_SEC);
        TIME.schedule_wake(now + tick, &waker);
        assert_eq!(wakes.count(), 0);
        PER_READING.store(1, Ordering::Relaxed);
        TIME.schedule_wake(now + 3_600_000 * tick, &waker);
        PER_READING.store(0, Ordering::Relaxed);
    });
    assert_eq!(wakes.count(), 1);
}

#[cortex_m_rt::entry]
fn main() -> ! {
    board::start();
    let (timer, driver) = tourbillon::Timer::builder().build_manual(now, || {});
    tourbillon::Timer::set_global(timer.clone()).expect("there is none yet");
    critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
    board::on_tick(on_tick);
    run(async {
        let start = embassy_time::Instant::now();
        join(Timer::after_millis(9), Timer::after_millis(4)).await;
        assert!(start.elapsed() >= Duration::from_millis(9));
        assert!(with_timeout(Duration::from_millis(3), pending::<()>()).await.is_err());
        assert_eq!(with_timeout(Duration::from_millis(50), async { 7 }).await, Ok(7));
        let mut ticker = Ticker::every(Duration::from_millis(2));
        let start = embassy_time::Instant::now();
        for _ in 0..10 {
            ticker.next().await;
        }
        assert!(start.elapsed() >= Duration::from_millis(20));
    });
    a_task_whose_time_has_come_is_woken_before_its_interrupt();
    a_task_whose_time_comes_as_it_asks_for_a_later_one_is_woken();
    let stats = timer.stats();
    assert!(stats.armed >= 13 && stats.fired >= 13, "{stats:?}");
    board::print(format_args!("embassy: {} armed, {} fired", stats.armed, stats.fired));
    board::end();
}
