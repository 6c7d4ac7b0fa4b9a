//! The machine: a heap, a counter, output, and an end.

#[cfg_attr(target_arch = "arm", path = "board/cortex_m.rs")]
#[cfg_attr(target_arch = "riscv32", path = "board/riscv.rs")]
mod machine;

use core::cell::Cell;
use core::mem::MaybeUninit;
use core::panic::PanicInfo;
use core::ptr::addr_of_mut;
use core::sync::atomic::{AtomicU32, Ordering};

use critical_section::Mutex;
use embedded_alloc::LlffHeap;

#[allow(unused_imports, reason = "the tests ask")]
pub use machine::are_interrupts_on;
pub use machine::print;
#[allow(unused_imports, reason = "the example is for a Cortex-M alone, and names its crates")]
pub use machine::{entry, wait_for_interrupt};

#[global_allocator]
pub static HEAP: LlffHeap = LlffHeap::empty();

/// Frequency of the counter.
pub const TICKS_PER_SEC: u32 = 1_000;

/// Instructions that the processor runs in 8 us: one in 16 ns, as `ci/bare.sh` has it.
const INSTRUCTIONS_PER_8_US: u32 = 500;

static TICKS: AtomicU32 = AtomicU32::new(0);
/// The most cycles by which a tick's interrupt was late.
static LATE_MAX: AtomicU32 = AtomicU32::new(0);
static ON_TICK: Mutex<Cell<fn()>> = Mutex::new(Cell::new(|| {}));

/// Makes the heap, and starts the counter. To be called once, and first.
pub fn start() {
    const HEAP_SIZE: usize = 1 << 20;
    static mut MEMORY: [MaybeUninit<u8>; HEAP_SIZE] = [MaybeUninit::uninit(); HEAP_SIZE];
    // SAFETY: this is reached once, before anything is allocated, and nothing else uses the memory.
    unsafe { HEAP.init(addr_of_mut!(MEMORY) as usize, HEAP_SIZE) }
    machine::start_counter();
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
    in_instructions(LATE_MAX.load(Ordering::Relaxed))
}

/// Returns the instructions since the last tick, in steps of some three, or of six on a RISC-V.
#[allow(dead_code, reason = "one program asks")]
pub fn instructions() -> u32 {
    in_instructions(machine::cycles_since_tick())
}

fn in_instructions(cycles: u32) -> u32 {
    cycles * INSTRUCTIONS_PER_8_US / (machine::CYCLES_PER_SEC / 1_000_000 * 8)
}

/// Counts a tick, in the counter's interrupt handler, which began so many cycles late.
fn tick(late: u32) {
    LATE_MAX.store(LATE_MAX.load(Ordering::Relaxed).max(late), Ordering::Relaxed);
    // Nobody else writes it. Not all processors have an atomic addition.
    TICKS.store(TICKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    critical_section::with(|section| ON_TICK.borrow(section).get())();
}

/// Ends the program.
pub fn end() -> ! {
    machine::exit(true)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    print(info);
    machine::exit(false)
}
