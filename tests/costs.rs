//! Exact costs of timers: numbers of allocations, of calls of the driver and of system
//! calls, and sizes.
//!
//! A binary of its own, since its allocator counts. Not with the feature `pending`, whose list
//! allocates.
#![cfg(not(feature = "pending"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, Ready, pending, ready};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tourbillon::driver::Driver;
use tourbillon::queue::DelayQueue;
use tourbillon::{Interval, Sleep, Timeout, Timer, timeout};

const FAR: Duration = Duration::from_secs(1_000);
/// Number of times that something is done that is to cost nothing.
const TIMES: u32 = 10_000;

/// Counts the calling thread's allocations, so that tests may run side by side.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local!(static CALLS: Cell<u64> = const { Cell::new(0) });

fn note() {
    CALLS.set(CALLS.get() + 1);
}

// SAFETY: every method calls the system's allocator, and it keeps the contract; counting allocates
// nothing, because the thread-local needs neither initialisation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as in `alloc`.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note();
        // SAFETY: as in `alloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A waker with a reference count behind it, like the wakers of executors.
struct Woken;

impl Wake for Woken {
    fn wake(self: Arc<Self>) {}
}

fn waker() -> Waker {
    Waker::from(Arc::new(Woken))
}

fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Everything that a task does with timers over and over: all deadlines are `FAR` away or further.
fn use_timers(timer: &Timer, kept: &mut Sleep, waker: &Waker) {
    let start = timer.now() + FAR;
    assert!(poll(pin!(timer.sleep_until(start + FAR)), waker).is_pending());
    assert!(poll(pin!(timer.sleep(2 * FAR)), waker).is_pending());
    drop(timer.sleep(2 * FAR));
    assert_eq!(poll(pin!(timer.timeout(2 * FAR, ready(()))), waker), Poll::Ready(Ok(())));
    assert!(poll(pin!(timer.timeout(2 * FAR, pending::<()>())), waker).is_pending());
    assert!(poll(pin!(timer.interval_at(start + FAR, FAR).tick()), waker).is_pending());
    // Past for every clock, however far the kernel's coarse one lags.
    assert!(poll(pin!(timer.sleep_until(timer.now() - FAR)), waker).is_ready());
    kept.reset(start + 3 * FAR);
    assert!(poll(Pin::new(kept), waker).is_pending());
    kept.reset(start + 2 * FAR);
    assert!(poll(Pin::new(kept), Waker::noop()).is_pending());
    assert!(poll(Pin::new(kept), waker).is_pending());
}

/// Allocator calls of this thread while `work` runs `TIMES` times, after it has run often enough to
/// need all that it ever will: up to 16 cancelled timers wait to be taken back, and blocks of 13
/// keys are shared with them.
fn allocator_calls(mut work: impl FnMut()) -> u64 {
    (0..200).for_each(|_| work());
    let before = CALLS.get();
    (0..TIMES).for_each(|_| work());
    CALLS.get() - before
}

/// A timer that is driven by hand, and counts the calls of its hook.
fn by_hand() -> (Timer, Driver, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&calls);
    let unpark = move || {
        hook.fetch_add(1, Ordering::Relaxed);
    };
    let (timer, driver) = Timer::builder().build_manual(unpark).expect("the options are valid");
    (timer, driver, calls)
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocator_calls(|| drop(std::hint::black_box(Box::new(1)))), 2 * u64::from(TIMES));
}

/// With one shard. A thread that finds its own taken at the moment arms in the next one, and that
/// may have to allocate its first chunk.
fn one_shard() -> Timer {
    Timer::builder().shards(1).build().expect("the options are valid")
}

#[test]
fn what_a_task_does_with_timers_allocates_nothing() {
    let waker = waker();
    for others in [0, 1_000] {
        let timer = one_shard();
        let mut pending: Vec<_> = (0..others).map(|n| timer.sleep((n % 9 + 1) * FAR)).collect();
        pending.iter_mut().for_each(|sleep| assert!(poll(Pin::new(sleep), &waker).is_pending()));
        let mut kept = timer.sleep(2 * FAR);
        assert!(poll(Pin::new(&mut kept), &waker).is_pending());
        assert_eq!(allocator_calls(|| use_timers(&timer, &mut kept, &waker)), 0, "{others}");
    }
}

/// Has the process-wide timer made with one shard, by the first test that needs it.
fn set_global() {
    static SET: Once = Once::new();
    SET.call_once(|| Timer::set_global(one_shard()).expect("no other test uses it"));
}

#[test]
fn the_functions_at_the_root_allocate_nothing() {
    set_global();
    let waker = waker();
    let calls = allocator_calls(|| {
        assert!(poll(pin!(tourbillon::sleep(FAR)), &waker).is_pending());
        assert!(poll(pin!(tourbillon::sleep_until(Instant::now() + FAR)), &waker).is_pending());
        assert_eq!(poll(pin!(timeout(FAR, ready(()))), &waker), Poll::Ready(Ok(())));
        assert!(poll(pin!(timeout(FAR, pending::<()>())), &waker).is_pending());
    });
    assert_eq!(calls, 0);
}

#[test]
fn firing_allocates_nothing() {
    let (timer, mut driver, _) = by_hand();
    let waker = waker();
    let mut sleep = timer.sleep(FAR);
    let calls = allocator_calls(|| {
        sleep.reset(timer.now() + Duration::from_micros(20));
        while poll(Pin::new(&mut sleep), &waker).is_pending() {
            driver.turn();
        }
    });
    assert_eq!(calls, 0);
}

#[test]
fn a_callback_allocates_once() {
    let (timer, mut driver, _) = by_hand();
    let data = [0_u8; 1_000];
    let calls = allocator_calls(|| {
        let function = move || _ = std::hint::black_box(data);
        assert!(timer.sleep(FAR).call(function).cancel());
    });
    assert_eq!(calls, 2 * u64::from(TIMES), "and frees that");
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let period = Duration::from_micros(50);
    let every = timer.interval(period).call(move |_| _ = count.fetch_add(1, Ordering::Relaxed));
    let turn_until_it_is_called = || {
        let before = called.load(Ordering::Relaxed);
        while called.load(Ordering::Relaxed) == before {
            driver.turn();
        }
    };
    assert_eq!(allocator_calls(turn_until_it_is_called), 0, "a call that repeats");
    assert!(every.cancel());
}

#[test]
fn a_reset_of_a_callback_to_later_calls_no_driver_and_allocates_nothing() {
    let (timer, mut driver, calls) = by_hand();
    let callback = timer.sleep(FAR).call(|| {});
    driver.turn();
    let before = calls.load(Ordering::Relaxed);
    let mut delay = FAR;
    let reset = || {
        delay += Duration::from_millis(1);
        assert!(callback.reset_after(delay));
    };
    assert_eq!((allocator_calls(reset), calls.load(Ordering::Relaxed)), (0, before));
}

#[test]
fn an_entry_of_a_queue_allocates_nothing() {
    let mut queue = DelayQueue::with_timer(&one_shard());
    let calls = allocator_calls(|| {
        let key = queue.insert(7, FAR);
        queue.reset(&key, 2 * FAR);
        assert_eq!(queue.remove(&key).into_inner(), 7);
    });
    assert_eq!(calls, 0);
}

#[test]
fn no_timer_but_the_earliest_calls_the_driver() {
    let (timer, mut driver, calls) = by_hand();
    let waker = waker();
    let mut earliest = timer.sleep(FAR / 2);
    assert!(poll(Pin::new(&mut earliest), &waker).is_pending());
    driver.turn();
    let mut kept = timer.sleep(2 * FAR);
    assert!(poll(Pin::new(&mut kept), &waker).is_pending());
    (0..TIMES).for_each(|_| use_timers(&timer, &mut kept, &waker));
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    drop(earliest);
    (0..TIMES).for_each(|_| use_timers(&timer, &mut kept, &waker));
    assert_eq!(calls.load(Ordering::Relaxed), 0, "it was cancelled");
}

/// Only the first timer is earlier than the deadline that the driver waits for.
#[test]
fn with_nothing_else_pending_the_first_timer_alone_calls_the_driver() {
    let (timer, mut driver, calls) = by_hand();
    let waker = waker();
    driver.turn();
    for _ in 0..TIMES {
        assert!(poll(pin!(timer.sleep(FAR)), &waker).is_pending());
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    driver.turn();
    for _ in 0..TIMES {
        assert!(poll(pin!(timer.sleep(FAR)), &waker).is_pending());
    }
    assert!(calls.load(Ordering::Relaxed) <= 2);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn sizes_are_what_the_documents_say() {
    assert_eq!(size_of::<Sleep>(), 32);
    assert_eq!(size_of::<Interval>(), 32 + 32);
    assert_eq!(size_of::<Timeout<Ready<()>>>(), 32 + size_of::<Ready<()>>().next_multiple_of(8));
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod system_calls {
    //! A thread with a filter that ends the process at any system call.

    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    use tourbillon::virtual_time::VirtualClock;

    use super::*;

    /// Exit status of a child that got to its end.
    const DONE: i32 = 42;

    /// Makes each later system call of this thread end the process by `SIGSYS`. Allowed are the
    /// call that exits, and the call that reads the clock where the platform needs one.
    fn forbid_system_calls() {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        // Of `seccomp_data`, which begins with the system call's number.
        const NUMBER: u32 = 0;
        let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
        let mut steps = [
            step(LOAD, NUMBER, 0, 0),
            step(JUMP_IF_EQUAL, libc::SYS_exit_group as u32, 2, 0),
            step(JUMP_IF_EQUAL, libc::SYS_clock_gettime as u32, 1, 0),
            step(RETURN, libc::SECCOMP_RET_KILL_PROCESS, 0, 0),
            step(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: this operation takes numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
        let (mode, filter) = (libc::SECCOMP_MODE_FILTER, &raw const filter);
        // SAFETY: the filter and its steps live until the call returns, which copies them.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, filter) }, 0);
    }

    /// Returns whether there is a thread called `name`, and it waits for something.
    fn is_asleep(name: &str) -> bool {
        let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
        tasks.flatten().any(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let mut lines = status.lines();
            lines.next().is_some_and(|line| line == format!("Name:\t{name}"))
                && lines.any(|line| line.starts_with("State:\tS"))
        })
    }

    fn exit(status: i32) -> ! {
        // SAFETY: ends the process, and nothing in it is to be used any more.
        unsafe { libc::_exit(status) }
    }

    /// Runs an ignored test of this binary in a process of its own.
    fn child(name: &str) -> ExitStatus {
        let binary = std::env::current_exe().expect("the test binary has a path");
        Command::new(binary)
            .args(["--ignored", "--exact", &format!("system_calls::{name}")])
            .output()
            .expect("the test binary can be run")
            .status
    }

    #[test]
    fn what_a_task_does_with_timers_takes_no_system_call() {
        let status = child("child_uses_timers");
        assert_ne!(status.signal(), Some(libc::SIGSYS), "there was one");
        assert_eq!(status.code(), Some(DONE));
    }

    #[test]
    fn to_move_a_clock_that_nobody_waits_for_takes_no_system_call() {
        let status = child("child_moves_a_clock");
        assert_ne!(status.signal(), Some(libc::SIGSYS), "there was one");
        assert_eq!(status.code(), Some(DONE));
    }

    #[test]
    fn a_system_call_would_be_noticed() {
        assert_eq!(child("child_makes_a_system_call").signal(), Some(libc::SIGSYS));
    }

    #[test]
    #[ignore = "run by the test above, in a process of its own"]
    fn child_uses_timers() {
        let timer = Timer::global();
        let waker = waker();
        let mut earliest = timer.sleep(FAR / 2);
        assert!(poll(Pin::new(&mut earliest), &waker).is_pending());
        // A driver that still scans may hold a lock when it is waited for.
        while !is_asleep("tourbillon") {
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut kept = timer.sleep(2 * FAR);
        assert!(poll(Pin::new(&mut kept), &waker).is_pending());
        use_timers(&timer, &mut kept, &waker);
        forbid_system_calls();
        (0..TIMES).for_each(|_| use_timers(&timer, &mut kept, &waker));
        exit(DONE);
    }

    #[test]
    #[ignore = "run by a test above, in a process of its own"]
    fn child_moves_a_clock() {
        let clock = VirtualClock::new();
        let builder = Timer::builder().virtual_clock(&clock);
        let timer = builder.build().expect("the options are valid");
        let step = || {
            let callback = timer.sleep(FAR).call(|| {});
            assert_eq!(clock.advance(FAR), 1);
            assert!(!callback.cancel(), "it was called");
            clock.block_on(timer.sleep(FAR));
            drop(clock.hold());
        };
        (0..200).for_each(|_| step());
        forbid_system_calls();
        (0..TIMES).for_each(|_| step());
        exit(DONE);
    }

    #[test]
    #[ignore = "run by the test above, in a process of its own"]
    fn child_makes_a_system_call() {
        forbid_system_calls();
        // A reading of the clock is none, or allowed.
        std::hint::black_box(Instant::now());
        std::thread::yield_now();
        exit(DONE);
    }
}
