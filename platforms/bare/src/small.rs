//! A timer of sixteen sleeps that is turned in an interrupt handler, and what it takes.

#![no_std]
#![no_main]

mod board;

use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, Waker};
use core::time::Duration;

use critical_section::Mutex;
use tourbillon::driver::Driver;
use tourbillon::time::Instant;
use tourbillon::{Sleep, Timer};

use board::{HEAP, entry, print};

const SLEEPS: usize = 16;

/// Bytes of the heap that a timer with sixteen sleeps may take.
const HEAP_MAX: usize = 1_310;

/// Instructions that a turn may take with nothing due, and with several sleeps due.
const IDLE_MAX: u32 = if cfg!(target_arch = "riscv32") { 380 } else { 330 };
const BUSY_MAX: u32 = 8_000;

static DRIVER: Mutex<RefCell<Option<Driver>>> = Mutex::new(RefCell::new(None));

/// The most instructions of a turn that fired nothing, and of one that did.
static IDLE: AtomicU32 = AtomicU32::new(0);
static BUSY: AtomicU32 = AtomicU32::new(0);

fn now() -> Instant {
    Instant::from_ticks(board::ticks(), board::TICKS_PER_SEC)
}

/// In the counter's interrupt handler, which nothing interrupts.
fn on_tick() {
    // Out of there meanwhile: wakers are called outside of critical sections.
    let driver = critical_section::with(|section| DRIVER.borrow(section).take());
    let Some(mut driver) = driver else { return };
    let begin = board::instructions();
    let fired = driver.turn().fired;
    let taken = board::instructions() - begin;
    let most = if fired == 0 { &IDLE } else { &BUSY };
    most.store(most.load(Ordering::Relaxed).max(taken), Ordering::Relaxed);
    critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
}

#[entry]
fn main() -> ! {
    board::start();
    let before = HEAP.used();
    let (timer, mut driver) = Timer::builder().build_manual(now, || {});
    driver.turn();
    let mut cx = Context::from_waker(Waker::noop());
    let delay = |index: usize| Duration::from_millis(3 + 2 * index as u64);
    let mut sleeps: [Sleep; SLEEPS] = core::array::from_fn(|index| timer.sleep(delay(index)));
    for sleep in &mut sleeps {
        assert!(Pin::new(sleep).poll(&mut cx).is_pending());
    }
    let heap = HEAP.used() - before;
    critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
    board::on_tick(on_tick);

    let end = now() + Duration::from_secs(1);
    let mut ended = 0;
    while now() < end {
        for (index, sleep) in sleeps.iter_mut().enumerate() {
            if Pin::new(&mut *sleep).poll(&mut cx).is_ready() {
                assert!(now() >= sleep.deadline(), "early");
                ended += 1;
                sleep.reset_after(delay(index));
                assert!(Pin::new(sleep).poll(&mut cx).is_pending());
            }
        }
        board::wait_for_interrupt();
    }
    let fired = timer.stats().fired;
    assert!(ended > 900 && fired > 0, "{ended} ended, {fired} fired");
    let (idle, busy) = (IDLE.load(Ordering::Relaxed), BUSY.load(Ordering::Relaxed));
    let late = board::late_max();
    print(format_args!(
        "{SLEEPS} sleeps: {heap} bytes of the heap; a turn: {idle} instructions with nothing due, \
         {busy} at worst; interrupts: up to {late} instructions late"
    ));
    assert!(heap <= HEAP_MAX && idle <= IDLE_MAX && busy <= BUSY_MAX, "more than it was");
    board::end();
}
