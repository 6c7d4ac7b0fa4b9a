//! Sixteen tasks that sleep, turned in an interrupt handler, and what that takes; then the same
//! with timers of embassy-time over its own queue. `ci/bare.sh` makes a table of both.

#![no_std]
#![no_main]

mod board;
mod queue;

use core::array;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use core::task::{Context, RawWaker, RawWakerVTable, Waker};
use core::time::Duration;

use critical_section::Mutex;
use tourbillon::driver::Driver;
use tourbillon::time::Instant;
use tourbillon::{Sleep, Timer};

use board::{HEAP, entry, print, ticks};

const TASKS: usize = 16;

/// Bytes of the heap that a timer with sixteen sleeps may take.
const HEAP_MAX: usize = 1_310;

/// Most instructions of a turn with nothing due, of the tick's handler then, and of the handler
/// with all sixteen due: a few percent above what was measured last.
const INSTRUCTIONS_MAX: [u32; 3] = if cfg!(target_arch = "riscv32") {
    [440, 830, 14_800]
} else if cfg!(target_has_atomic = "ptr") {
    [330, 460, 14_400]
} else {
    [620, 1_000, 19_600]
};

/// Tasks that were woken, a bit for each.
static WOKEN: AtomicU32 = AtomicU32::new(0);

/// Most instructions of what was called.
struct Most {
    /// Most of the calls that woke nobody.
    idle: AtomicU32,
    /// Most of the calls that woke somebody.
    busy: AtomicU32,
}

impl Most {
    const fn new() -> Self {
        Self { idle: AtomicU32::new(0), busy: AtomicU32::new(0) }
    }

    /// Calls it, and counts its instructions. Only in the interrupt handler.
    fn measure(&self, call: impl FnOnce()) {
        let woken = WOKEN.load(Ordering::Relaxed);
        let begin = board::instructions();
        call();
        let taken = board::instructions() - begin;
        let is_idle = WOKEN.load(Ordering::Relaxed) == woken;
        let most = if is_idle { &self.idle } else { &self.busy };
        most.store(most.load(Ordering::Relaxed).max(taken), Ordering::Relaxed);
    }

    fn idle(&self) -> u32 {
        self.idle.load(Ordering::Relaxed)
    }

    fn busy(&self) -> u32 {
        self.busy.load(Ordering::Relaxed)
    }
}

/// Instructions of the driver's turn alone.
static TURN: Most = Most::new();
/// Instructions of the handler.
static TICK: Most = Most::new();
/// Instructions of the handler that turns embassy's queue.
static QUEUE_TICK: Most = Most::new();

static DRIVER: Mutex<RefCell<Option<Driver>>> = Mutex::new(RefCell::new(None));

fn now() -> Instant {
    Instant::from_ticks(ticks(), board::TICKS_PER_SEC)
}

/// Turns the driver, in the counter's interrupt handler, which nothing interrupts.
fn on_tick() {
    TICK.measure(|| {
        // Out of there meanwhile: wakers are called outside of critical sections.
        let driver = critical_section::with(|section| DRIVER.borrow(section).take());
        let Some(mut driver) = driver else { return };
        TURN.measure(|| {
            driver.turn();
        });
        critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
    });
}

/// Turns embassy's queue, there too.
fn on_tick_of_queue() {
    QUEUE_TICK.measure(queue::turn);
}

/// Makes the waker of a task.
fn waker(task: usize) -> Waker {
    static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, |_| {});
    fn clone(task: *const ()) -> RawWaker {
        RawWaker::new(task, &TABLE)
    }
    /// Notes the task, in the interrupt handler alone.
    fn wake(task: *const ()) {
        WOKEN.store(WOKEN.load(Ordering::Relaxed) | 1 << task.addr(), Ordering::Relaxed);
    }
    // SAFETY: the functions of the table touch nothing but a static, in whatever context.
    unsafe { Waker::from_raw(clone(ptr::without_provenance(task))) }
}

/// Polls a task's future, and returns whether it has ended.
fn poll(task: usize, future: &mut (impl Future + Unpin)) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(&waker(task))).is_ready()
}

/// Makes the future of each task with its number, and arms it.
fn arm<F: Future + Unpin>(wait: impl Fn(usize) -> F) -> [F; TASKS] {
    let mut futures = array::from_fn(wait);
    for (task, future) in futures.iter_mut().enumerate() {
        assert!(!poll(task, future));
    }
    futures
}

/// Polls the tasks that are woken for so many ticks, and does `again` where one has ended. Returns
/// how many have.
fn run<F: Future + Unpin>(
    futures: &mut [F; TASKS],
    for_ticks: u64,
    again: impl Fn(usize, &mut F),
) -> u32 {
    let (end, mut ended) = (ticks() + for_ticks, 0);
    while ticks() < end {
        let woken = critical_section::with(|_| {
            let woken = WOKEN.load(Ordering::Relaxed);
            WOKEN.store(0, Ordering::Relaxed);
            woken
        });
        for (task, future) in futures.iter_mut().enumerate() {
            if woken & 1 << task != 0 && poll(task, future) {
                ended += 1;
                again(task, future);
            }
        }
        board::wait_for_interrupt();
    }
    ended
}

/// Lets the tasks wait again and again for a second, each for another time.
fn wait_apart<F: Future + Unpin>(mut futures: [F; TASKS], wait: impl Fn(usize) -> F) {
    let ended = run(&mut futures, 1_000, |task, future| {
        *future = wait(task);
        assert!(!poll(task, future));
    });
    assert!(ended > 900, "{ended} ended");
}

/// Lets all tasks wait for the same tick.
fn wait_at_once<F: Future + Unpin>(wait: impl Fn(usize) -> F) {
    let mut futures = arm(wait);
    // The queue has the times of those that were dropped, and wakes their tasks once more.
    assert_eq!(run(&mut futures, 100, |_, _| {}), TASKS as u32);
}

#[entry]
fn main() -> ! {
    board::start();
    let apart = |task: usize| 3 + 2 * task as u64;
    let at_once = 50;

    let before = HEAP.used();
    let (timer, mut driver) = Timer::builder().build_manual(now, || {});
    driver.turn();
    let sleep = |ms| timer.sleep(Duration::from_millis(ms));
    let sleeps = arm(|task| sleep(apart(task)));
    let heap = HEAP.used() - before;
    critical_section::with(|section| DRIVER.borrow(section).replace(Some(driver)));
    board::on_tick(on_tick);
    wait_apart(sleeps, |task| sleep(apart(task)));
    let (turn, idle) = (TURN.idle(), TICK.idle());
    wait_at_once(|_| sleep(at_once));
    let busy = TICK.busy();
    board::on_tick(|| {});
    print(format_args!("measured tourbillon {heap} {} {turn} {idle} {busy}", size_of::<Sleep>()));

    board::on_tick(on_tick_of_queue);
    let wait = embassy_time::Timer::after_millis;
    wait_apart(arm(|task| wait(apart(task))), |task| wait(apart(task)));
    let idle_of_queue = QUEUE_TICK.idle();
    wait_at_once(|_| wait(at_once));
    print(format_args!(
        "measured embassy-time {} {} - {idle_of_queue} {}",
        queue::SIZE,
        size_of::<embassy_time::Timer>(),
        QUEUE_TICK.busy(),
    ));

    let is_within = [turn, idle, busy].iter().zip(INSTRUCTIONS_MAX).all(|(&is, max)| is <= max);
    assert!(heap <= HEAP_MAX && is_within, "more than it was");
    board::end();
}
