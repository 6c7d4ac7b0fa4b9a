//! A program that sleeps once, as small as it can be: with the feature `timer` by this crate, with
//! `embassy` by embassy-time's queue, and without both the same program that does not. Built, and
//! not run.

#![no_std]
#![no_main]

extern crate alloc;

#[cfg(feature = "embassy")]
mod queue;

use alloc::boxed::Box;
use core::hint::black_box;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use embedded_alloc::LlffHeap;
#[cfg(target_arch = "arm")]
use {cortex_m as _, cortex_m_rt::entry};
#[cfg(target_arch = "riscv32")]
use {riscv as _, riscv_rt::entry};

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();

static TICKS: AtomicU32 = AtomicU32::new(0);

#[cfg(any(feature = "timer", feature = "embassy"))]
fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed).into()
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

#[entry]
fn main() -> ! {
    const HEAP_SIZE: usize = 1 << 12;
    static mut MEMORY: [MaybeUninit<u8>; HEAP_SIZE] = [MaybeUninit::uninit(); HEAP_SIZE];
    // SAFETY: this is reached once, before anything is allocated, and nothing else uses the memory.
    unsafe { HEAP.init(addr_of_mut!(MEMORY) as usize, HEAP_SIZE) }
    // Has the allocator in both programs.
    let ticks: Box<dyn Fn() -> u32> = black_box(Box::new(|| TICKS.load(Ordering::Relaxed)));
    #[cfg(feature = "timer")]
    {
        use core::pin::pin;
        use core::task::{Context, Waker};
        use core::time::Duration;

        use tourbillon::{Timer, time::Instant};

        let now = || Instant::from_ticks(self::ticks(), 1_000);
        let (timer, mut driver) = Timer::builder().build_manual(now, || {});
        let mut sleep = pin!(timer.sleep(Duration::from_millis(5)));
        let mut cx = Context::from_waker(Waker::noop());
        while core::future::Future::poll(sleep.as_mut(), &mut cx).is_pending() {
            driver.turn();
        }
    }
    #[cfg(feature = "embassy")]
    {
        use core::pin::pin;
        use core::task::{Context, Waker};

        let mut timer = pin!(embassy_time::Timer::after_millis(5));
        let mut cx = Context::from_waker(Waker::noop());
        while core::future::Future::poll(timer.as_mut(), &mut cx).is_pending() {
            queue::turn();
        }
    }
    loop {
        TICKS.store(ticks(), Ordering::Relaxed);
    }
}
