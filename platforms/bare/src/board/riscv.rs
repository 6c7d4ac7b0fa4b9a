//! qemu's virt, with one core.

use core::fmt::{self, Write as _};

use riscv::interrupt::Interrupt;
use riscv::register::{mcause, mie, mstatus};
use riscv_rt::{TrapFrame, core_interrupt};

pub use riscv::asm::wfi as wait_for_interrupt;
pub use riscv_rt::entry;

/// That of the counter.
pub const CYCLES_PER_SEC: u32 = 10_000_000;

const CYCLES_PER_TICK: u32 = CYCLES_PER_SEC / super::TICKS_PER_SEC;

/// The counter's low half, which takes seven minutes to wrap, when no program runs any more.
const COUNTER: *const u32 = 0x0200_bff8 as *const u32;
/// Both halves of the counter's reading at which an interrupt comes.
const COMPARED: *mut [u32; 2] = 0x0200_4000 as *mut [u32; 2];
/// A byte that is written there is output.
const OUTPUT: *mut u8 = 0x1000_0000 as *mut u8;
/// A number that is written there ends the emulator.
const EXIT: *mut u32 = 0x0010_0000 as *mut u32;

/// Starts the counter. To be called once.
pub fn start_counter() {
    set_next_tick(count() + CYCLES_PER_TICK);
    // SAFETY: the interrupt has its handler, and no critical section has begun.
    unsafe {
        mie::set_mtimer();
        riscv::interrupt::enable();
    }
}

fn count() -> u32 {
    // SAFETY: that register is always there, and aligned; a read changes nothing.
    unsafe { COUNTER.read_volatile() }
}

/// The reading of the counter at which the next tick comes.
fn next_tick() -> u32 {
    // SAFETY: as above.
    unsafe { COMPARED.cast::<u32>().read_volatile() }
}

fn set_next_tick(count: u32) {
    // SAFETY: these registers are always there, and aligned; what is written there moves nothing
    // but the next interrupt.
    unsafe { COMPARED.write_volatile([count, 0]) }
}

#[core_interrupt(Interrupt::MachineTimer)]
fn on_counter() {
    let due = next_tick();
    let late = count() - due;
    set_next_tick(due + CYCLES_PER_TICK);
    super::tick(late);
}

/// Ends the program at an instruction that the processor does not have. By default it would wait.
#[unsafe(export_name = "ExceptionHandler")]
extern "C" fn on_exception(_: &TrapFrame) -> ! {
    panic!("exception {}", mcause::read().code());
}

pub fn cycles_since_tick() -> u32 {
    (count() + CYCLES_PER_TICK).wrapping_sub(next_tick())
}

#[allow(dead_code, reason = "the tests ask")]
pub fn are_interrupts_on() -> bool {
    mstatus::read().mie()
}

struct Output;

impl fmt::Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: that register is always there, and a byte may be written to it at any time.
            unsafe { OUTPUT.write_volatile(byte) }
        }
        Ok(())
    }
}

pub fn print(line: impl fmt::Display) {
    writeln!(Output, "{line}").expect("output takes all");
}

pub fn exit(is_success: bool) -> ! {
    const SUCCESS: u32 = 0x5555;
    /// With the status 1 in its upper half.
    const FAILURE: u32 = 0x1_3333;
    // SAFETY: that register is always there, and aligned; nothing runs after the write.
    unsafe { EXIT.write_volatile(if is_success { SUCCESS } else { FAILURE }) }
    loop {
        wait_for_interrupt();
    }
}
