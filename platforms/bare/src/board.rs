//! The machine: a heap, a counter, output, and an end.

use core::cell::Cell;
use core::fmt;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::Peripherals;
use cortex_m::peripheral::{SYST, syst::SystClkSource};
use cortex_m_rt::exception;
use cortex_m_semihosting::{debug, hprintln};
use critical_section::Mutex;
use embedded_alloc::LlffHeap;

#[global_allocator]
pub static HEAP: LlffHeap = LlffHeap::empty();

/// Frequency of the counter.
pub const TICKS_PER_SEC: u32 = 1_000;

/// The processor's.
const CYCLES_PER_SEC: u32 = 25_000_000;

/// Number from which the counter counts down.
const RELOAD: u32 = CYCLES_PER_SEC / TICKS_PER_SEC - 1;
/// In 16 ns, as `ci/bare.sh` has it.
const INSTRUCTIONS_PER_SEC: u32 = 62_500_000;

static TICKS: AtomicU32 = AtomicU32::new(0);
/// The most cycles by which a tick's interrupt was late.
static LATE_MAX: AtomicU32 = AtomicU32::new(0);
static ON_TICK: Mutex<Cell<fn()>> = Mutex::new(Cell::new(|| {}));

/// Makes the heap, and starts the counter. To be called once, and first.
pub fn start() {
    const HEAP_SIZE: usize = 1 << 20;
    static mut MEMORY: [MaybeUninit<u8>; HEAP_SIZE] = [MaybeUninit::uninit(); HEAP_SIZE];
    let mut clock = Peripherals::take().expect("it is called once").SYST;
    // SAFETY: this is reached once, before anything is allocated, and nothing else uses the memory.
    unsafe { HEAP.init(addr_of_mut!(MEMORY) as usize, HEAP_SIZE) }
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(RELOAD);
    clock.clear_current();
    clock.enable_counter();
    clock.enable_interrupt();
}

/// Returns the reading of the counter.
pub fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed).into()
}

/// Makes the counter's interrupt handler call `handler` after each tick.
#[allow(dead_code, reason = "the tests do")]
pub fn on_tick(handler: fn()) {
    critical_section::with(|section| ON_TICK.borrow(section).set(handler));
}

/// Returns the most instructions that an interrupt had to wait for.
#[allow(dead_code, reason = "the tests ask")]
pub fn late_max() -> u32 {
    LATE_MAX.load(Ordering::Relaxed) * (INSTRUCTIONS_PER_SEC / 1_000_000)
        / (CYCLES_PER_SEC / 1_000_000)
}

/// Returns the instructions since the last tick, in steps of some three.
#[allow(dead_code, reason = "one program asks")]
pub fn instructions() -> u32 {
    (RELOAD - SYST::get_current()) * (INSTRUCTIONS_PER_SEC / 1_000_000)
        / (CYCLES_PER_SEC / 1_000_000)
}

#[exception]
fn SysTick() {
    let late = RELOAD - SYST::get_current();
    LATE_MAX.store(LATE_MAX.load(Ordering::Relaxed).max(late), Ordering::Relaxed);
    // Nobody else writes it. Not all processors have an atomic addition.
    TICKS.store(TICKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    critical_section::with(|section| ON_TICK.borrow(section).get())();
}

pub fn print(line: impl fmt::Display) {
    hprintln!("{}", line);
}

/// Ends the program.
pub fn end() -> ! {
    loop {
        debug::exit(debug::EXIT_SUCCESS);
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    print(info);
    loop {
        debug::exit(debug::EXIT_FAILURE);
    }
}
