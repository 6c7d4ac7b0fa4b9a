//! qemu's mps2-an386 and mps2-an385.

use core::fmt;

use cortex_m::Peripherals;
use cortex_m::peripheral::{SYST, syst::SystClkSource};
use cortex_m::register::primask;
use cortex_m_rt::exception;
use cortex_m_semihosting::{debug, hprintln};

pub use cortex_m::asm::wfi as wait_for_interrupt;
pub use cortex_m_rt::entry;

/// The processor's.
pub const CYCLES_PER_SEC: u32 = 25_000_000;

/// Number from which the counter counts down.
const RELOAD: u32 = CYCLES_PER_SEC / super::TICKS_PER_SEC - 1;

/// Starts the counter. To be called once.
pub fn start_counter() {
    let mut clock = Peripherals::take().expect("it is called once").SYST;
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(RELOAD);
    clock.clear_current();
    clock.enable_counter();
    clock.enable_interrupt();
}

#[exception]
fn SysTick() {
    super::tick(cycles_since_tick());
}

pub fn cycles_since_tick() -> u32 {
    RELOAD - SYST::get_current()
}

#[allow(dead_code, reason = "the tests ask")]
pub fn are_interrupts_on() -> bool {
    primask::read().is_active()
}

pub fn print(line: impl fmt::Display) {
    hprintln!("{}", line);
}

pub fn exit(is_success: bool) -> ! {
    loop {
        debug::exit(if is_success { debug::EXIT_SUCCESS } else { debug::EXIT_FAILURE });
    }
}
