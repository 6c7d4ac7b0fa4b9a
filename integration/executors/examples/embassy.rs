//! embassy's executor for microcontrollers, with a wheel where a hardware timer would be. Tasks are
//! allocated statically, and there is no reactor and no time driver: the loop sleeps until it is
//! pended or a timer is due.
//!
//! The drivers that such tasks run take a `DelayNs`, and the timer is one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use embassy_executor::raw::Executor;
use embedded_hal_async::delay::DelayNs;
use tourbillon::Timer;

static BLINKS: AtomicU64 = AtomicU64::new(0);

/// A device's driver: knows embedded-hal and nothing else.
struct Led<D>(D);

impl<D: DelayNs> Led<D> {
    async fn blink(&mut self, every: u32) {
        loop {
            self.0.delay_ms(every).await;
            BLINKS.fetch_add(1, SeqCst);
        }
    }
}

#[embassy_executor::task(pool_size = 3)]
async fn blink(timer: Timer, every: u32) {
    Led(timer).blink(every).await;
}

/// The loop's thread, and whether it has something to do.
struct Core {
    pended: AtomicBool,
    thread: Thread,
}

impl Core {
    fn pend(&self) {
        self.pended.store(true, SeqCst);
        self.thread.unpark();
    }
}

/// embassy calls this when a task is woken, with the context of its executor.
#[unsafe(export_name = "__pender")]
fn pender(context: *mut ()) {
    // SAFETY: there is one executor, and `main` makes it with a `Core` that is never freed.
    unsafe { &*context.cast::<Core>().cast_const() }.pend();
}

fn main() -> std::io::Result<()> {
    let core = Core { pended: AtomicBool::new(true), thread: thread::current() };
    let core: &'static Core = Box::leak(Box::new(core));
    let executor = Box::leak(Box::new(Executor::new(std::ptr::from_ref(core).cast_mut().cast())));
    let (timer, mut driver) = Timer::builder().shards(1).build_manual(|| core.pend())?;

    let start = Instant::now();
    for every in [5, 3, 2] {
        executor.spawner().spawn(blink(timer.clone(), every).expect("there is room for three"));
    }
    let mut fired = 0;
    while fired < 16 {
        if core.pended.swap(false, SeqCst) {
            // SAFETY: this loop alone polls the executor, and is not called by a task.
            unsafe { executor.poll() };
        }
        fired += driver.turn().fired;
        // An unpark that came after the look at the flag makes the park return at once.
        match driver.max_wait() {
            _ if core.pended.load(SeqCst) => {}
            Some(limit) => thread::park_timeout(limit),
            None => thread::park(),
        }
    }
    // Tasks that the last turns have woken need not have run.
    let blinks = BLINKS.load(SeqCst);
    assert!(blinks + 3 >= fired as u64);
    // Nobody blinks more often than every two milliseconds.
    assert!(start.elapsed() >= Duration::from_millis(2 * blinks / 3));
    println!("{blinks} blinks, {fired} fired, {:?}", timer.stats());
    assert_eq!(timer.stats().driver_wakeups, 0);
    Ok(())
}
