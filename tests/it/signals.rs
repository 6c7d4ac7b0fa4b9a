//! Signals, and the threads of timers, which leave them to the program's. Tests that change the
//! signals of a process do so in a child, whose threads are all known.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use tourbillon::Timer;
use tourbillon::callback::unblock_signals;

use crate::fork::status_of_a_child;
use crate::support::*;

/// Signals that those threads leave open.
const OPEN: [libc::c_int; 9] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
    libc::SIGVTALRM,
];

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::uninit();
    // SAFETY: `set` is a valid place for a set, and the call fills it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: as it was just filled.
    let mut set = unsafe { set.assume_init() };
    for signal in signals {
        // SAFETY: `set` is a set, and the other a plain number.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// Blocks `signals` in the calling thread too, and returns which of all it blocks then.
fn block(signals: &[libc::c_int]) -> Vec<libc::c_int> {
    let set = set_of(signals);
    let mut mask = set_of(&[]);
    // SAFETY: `set` is a set, and the old one is not asked for.
    let result =
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
    assert_eq!(result, 0);
    // SAFETY: nothing is changed, and `mask` is a valid place for a set.
    let result = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut mask) };
    assert_eq!(result, 0);
    // SAFETY: `mask` is a set, and the other a plain number.
    (1..=64).filter(|signal| unsafe { libc::sigismember(&raw const mask, *signal) } == 1).collect()
}

/// Numbers of the signals that the thread called `name` blocks, once there is one.
#[cfg(target_os = "linux")]
fn blocked_by(name: &str) -> Vec<libc::c_int> {
    eventually("the thread is there", || has_thread(name));
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
    let statuses = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("status")));
    let status =
        statuses.flatten().find(|status| status.lines().next() == Some(&*format!("Name:\t{name}")));
    let status = status.expect("it is there");
    let set = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).expect("its mask");
    let set = u64::from_str_radix(set, 16).expect("a number");
    (1..=64).filter(|signal| set >> (signal - 1) & 1 == 1).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn threads_of_a_timer_block_all_signals_but_those_of_faults_and_of_profilers() {
    let timer = Timer::builder().thread_name("mask").build().expect("the options are valid");
    timer.start().expect("a thread");
    let _wall = polled(tourbillon::wall::sleep_until_wall(SystemTime::now() + 3600 * SECOND));
    // Two that cannot be blocked; and from 32 on, the C library keeps the first few to itself.
    let never = [libc::SIGKILL, libc::SIGSTOP];
    let expected: Vec<_> = (1..32)
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
        .filter(|signal| !OPEN.contains(signal) && !never.contains(signal))
        .collect();
    for thread in ["mask", "tourbillon-wall"] {
        assert_eq!(blocked_by(thread), expected, "{thread}");
    }
}

#[test]
fn a_thread_that_starts_a_driver_blocks_what_it_did_before() {
    for signals in [&[][..], &[libc::SIGUSR1, libc::SIGPROF]] {
        let before = block(signals);
        let timer = Timer::builder().build().expect("the options are valid");
        timer.start().expect("a thread");
        assert_eq!(block(&[]), before);
        // As what waits for one elsewhere blocks it.
        pollster::block_on(timer.sleep(ms(1)));
    }
}

#[test]
fn a_signal_is_left_to_the_thread_that_waits_for_it() {
    alone!();

    /// The kernel has two threads to choose from, this one and the driver, and the watcher.
    fn end_waits_for_it() {
        let own = std::process::id().try_into().expect("a number of a process");
        // SAFETY: plain numbers.
        assert_eq!(unsafe { libc::kill(own, libc::SIGTERM) }, 0);
        let (set, mut signal) = (set_of(&[libc::SIGTERM]), 0);
        // SAFETY: `set` is a set, and `signal` a valid place for a number.
        assert_eq!(unsafe { libc::sigwait(&raw const set, &raw mut signal) }, 0);
        assert_eq!(signal, libc::SIGTERM);
    }

    let status = status_of_a_child(|| {
        pollster::block_on(tourbillon::sleep(ms(1)));
        let _wall = polled(tourbillon::wall::sleep_until_wall(SystemTime::now() + 3600 * SECOND));
        block(&[libc::SIGTERM]);
        // The driver is idle.
        end_waits_for_it();
        // It is busy.
        let busy = every(&Timer::global(), Duration::from_micros(10), || {});
        (0..100).for_each(|_| end_waits_for_it());
        busy.cancel();
        // It is in a callback.
        let (begun, begins) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let callback = tourbillon::sleep(ms(1)).call(move || {
            begun.send(()).expect("it is waited for");
            let _ = ends.recv();
        });
        begins.recv().expect("it is called");
        end_waits_for_it();
        drop(end);
        callback.cancel_and_wait();
    });
    assert_eq!(status, 0, "one of our threads took a signal, or the child failed");
}

/// Runs a shell from a callback that sends itself a signal, and says how it ended.
fn a_shell_from_a_callback(prepare: impl FnOnce(&mut Command) + Send + 'static) -> String {
    let (tell, told) = mpsc::channel();
    let callback = tourbillon::sleep(ms(1)).call(move || {
        let mut command = Command::new("sh");
        command.args(["-c", "kill -TERM $$; echo stayed"]);
        prepare(&mut command);
        tell.send(command.output()).expect("it is waited for");
    });
    let output = told.recv().expect("it is called").expect("there is a shell");
    callback.cancel();
    match output.status.signal() {
        Some(signal) => format!("signal {signal}"),
        None => String::from_utf8(output.stdout).expect("text").trim().to_owned(),
    }
}

#[test]
fn a_command_from_a_callback_dies_by_a_signal_once_its_mask_is_opened() {
    let opened = a_shell_from_a_callback(|command| {
        // SAFETY: it may be called between fork and exec.
        unsafe { command.pre_exec(unblock_signals) };
    });
    assert_eq!(opened, format!("signal {}", libc::SIGTERM));
    assert_eq!(a_shell_from_a_callback(|_| {}), "stayed", "as the docs say");
}

#[test]
fn a_stack_that_overflows_in_a_callback_is_reported() {
    let output = command_of("signals::child_overflows_its_stack").output().expect("it can be run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("has overflowed its stack"), "{told}");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_overflows_its_stack() {
    #[expect(unconditional_recursion, reason = "that is the point")]
    fn overflow(depth: usize) -> usize {
        let page = std::hint::black_box([depth; 512]);
        overflow(depth + 1) + page[depth % 512]
    }

    let callback = tourbillon::sleep(ms(1)).call(|| {
        std::hint::black_box(overflow(0));
    });
    callback.detach();
    std::thread::sleep(60 * SECOND);
}

#[test]
fn a_profiler_s_signal_is_taken_by_the_driver() {
    alone!();

    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn take(_: libc::c_int) {
        TAKEN.fetch_add(1, Ordering::SeqCst);
    }

    let handler: extern "C" fn(libc::c_int) = take;
    // SAFETY: the handler does no more than add to an atomic.
    unsafe { libc::signal(libc::SIGPROF, handler as libc::sighandler_t) };
    let (tell, told) = mpsc::channel();
    let callback = tourbillon::sleep(ms(1)).call(move || {
        // SAFETY: a plain number.
        unsafe { libc::raise(libc::SIGPROF) };
        tell.send(TAKEN.load(Ordering::SeqCst)).expect("it is waited for");
    });
    assert_eq!(told.recv(), Ok(1));
    callback.cancel();
}
