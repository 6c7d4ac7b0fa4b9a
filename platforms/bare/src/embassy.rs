//! A time driver for embassy-time: its timers are sleeps of this crate. The counter's interrupt
//! handler turns them.

#![no_std]
#![no_main]

mod board;

use core::cell::RefCell;
use core::future::Future;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};

use critical_section::Mutex;
use embassy_time::{Duration, TICK_HZ, Ticker, Timer, with_timeout};
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
        let is_waiting = critical_section::with(|section| {
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
            let Some(index) = own.or_else(free) else { return false };
            let (_, sleep) = slots[index]
                .get_or_insert_with(|| (waker.clone(), tourbillon::Timer::global().never()));
            // A task that waits for several is woken for the earliest, and asks for the next.
            if own.is_none() || sleep.is_elapsed() || deadline < sleep.deadline() {
                sleep.reset(deadline);
            }
            let is_waiting = Pin::new(sleep).poll(&mut Context::from_waker(waker)).is_pending();
            if own.is_none() {
                slots[index].as_mut().expect("it was filled").0 = waker.clone();
            }
            is_waiting
        });
        if !is_waiting {
            waker.wake_by_ref();
        }
    }
}

static DRIVER: Mutex<RefCell<Option<Driver>>> = Mutex::new(RefCell::new(None));

fn now() -> Instant {
    Instant::from_ticks(board::ticks(), board::TICKS_PER_SEC)
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
    let stats = timer.stats();
    assert!(stats.armed >= 13 && stats.fired >= 13, "{stats:?}");
    board::print(format_args!("embassy: {} armed, {} fired", stats.armed, stats.fired));
    board::end();
}
