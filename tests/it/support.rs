//! Tools that the tests share.

#[path = "../support/wakers.rs"]
mod wakers;

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::{Duration, Instant};

use futures::Stream;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};
use tourbillon::callback::Callback;
use tourbillon::queue::Expired;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{MissedTickBehavior, Sleep, Timer};
pub(crate) use wakers::*;

pub(crate) const NANOSECOND: Duration = Duration::from_nanos(1);

/// The least by which two times of the wall clock differ.
pub(crate) const WALL_GRAIN: Duration = Duration::from_nanos(if cfg!(windows) { 100 } else { 1 });

/// A timer on a virtual clock, and the clock.
pub(crate) fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

/// Configures the same operations in every run: a failure is the change's and not the day's.
pub(crate) fn repeatable(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(0x7175_6575_6573_2121);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

/// Arms a sleep of a millisecond. A poll that comes later than that arms none.
#[cfg(target_os = "linux")]
pub(crate) fn armed(timer: &Timer, waker: &Waker) -> Sleep {
    loop {
        let mut sleep = timer.sleep(ms(1));
        if poll_with(&mut sleep, waker).is_pending() {
            return sleep;
        }
    }
}

/// Polls a future for the first time: it must be pending.
pub(crate) fn polled<F: Future + Unpin>(mut future: F) -> F {
    assert!(poll(&mut future).is_pending());
    future
}

/// Like [`polled`], by a task whose wake-ups are counted.
pub(crate) fn counted<F: Future + Unpin>(mut future: F) -> (F, Arc<Counter>) {
    let (counter, waker) = counting();
    assert!(poll_with(&mut future, &waker).is_pending());
    (future, counter)
}

/// A waker that counts how often it is woken.
pub(crate) fn counting() -> (Arc<Counter>, Waker) {
    let counter = Counter::new();
    (counter.clone(), counter.into())
}

/// Calls `function` every `period`, for the first time one period from now; skips missed calls.
pub(crate) fn every(
    timer: &Timer,
    period: Duration,
    mut function: impl FnMut() + Send + 'static,
) -> Callback {
    let mut interval = timer.interval(period);
    interval.reset();
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    interval.call(move |_| function())
}

/// A waker that tells when it is woken. `recv` fails once all its clones are gone.
pub(crate) fn telling() -> (Waker, Receiver<Instant>) {
    let (tell, told) = mpsc::channel();
    // The receiver is gone where a test has seen enough.
    (callback(move || tell.send(Instant::now()).unwrap_or(())), told)
}

/// Polls a stream with `waker`.
pub(crate) fn poll_next<S: Stream + Unpin>(stream: &mut S, waker: &Waker) -> Poll<Option<S::Item>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(waker))
}

/// The next value of a queue. It is due, so the waker is not to be used.
pub(crate) fn next<T>(queue: &mut (impl Stream<Item = Expired<T>> + Unpin)) -> T {
    match poll_next(queue, Waker::noop()) {
        Poll::Ready(Some(expired)) => expired.into_inner(),
        Poll::Ready(None) => panic!("the queue is empty"),
        Poll::Pending => panic!("nothing is due"),
    }
}

/// Polls a queue, and expects to have to wait for an entry; counts wake-ups from then on.
pub(crate) fn wait<T>(queue: &mut (impl Stream<Item = Expired<T>> + Unpin)) -> Arc<Counter> {
    let counter = Counter::new();
    assert!(poll_next(queue, &Waker::from(counter.clone())).is_pending());
    counter
}

/// A waker that panics in the functions named.
pub(crate) struct Hostile {
    clone: bool,
    wake: bool,
    drop: bool,
}

pub(crate) fn hostile(kind: &'static Hostile) -> Waker {
    fn behaviour(data: *const ()) -> &'static Hostile {
        // SAFETY: the data of these wakers is a `&'static Hostile`.
        unsafe { &*data.cast::<Hostile>() }
    }
    static VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            assert!(!behaviour(data).clone, "clone panics, as the test wants it");
            RawWaker::new(data, &VTABLE)
        },
        |data| assert!(!behaviour(data).wake, "wake panics, as the test wants it"),
        |data| assert!(!behaviour(data).wake, "wake panics, as the test wants it"),
        |data| assert!(!behaviour(data).drop, "drop panics, as the test wants it"),
    );
    // SAFETY: the functions neither own nor free anything, so any number of calls is in order.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::from_ref(kind).cast(), &VTABLE)) }
}

pub(crate) static WAKE_PANICS: Hostile = Hostile { clone: false, wake: true, drop: false };
pub(crate) static CLONE_PANICS: Hostile = Hostile { clone: true, wake: false, drop: false };
pub(crate) static DROP_PANICS: Hostile = Hostile { clone: false, wake: false, drop: true };

/// A value that counts its drops, and panics in the drop if asked to.
#[derive(Debug)]
pub(crate) struct Dropped {
    pub(crate) count: Arc<AtomicUsize>,
    pub(crate) panics: bool,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "a drop that panics");
    }
}

/// Runs the test that begins with this in a process of its own, where it has to pass: by
/// [`in_a_process_of_its_own`], or by a function that is given the test's name as well.
macro_rules! alone {
    () => {
        $crate::support::alone!($crate::support::in_a_process_of_its_own)
    };
    ($run:expr) => {
        fn here() {}
        if !$crate::support::is_alone() {
            return $run($crate::support::name_of_test(&here));
        }
    };
}
pub(crate) use alone;

/// Says whether this process is a test's own.
pub(crate) fn is_alone() -> bool {
    std::env::var_os("TOURBILLON_ALONE").is_some()
}

/// Name of the test that has the function `here` in it.
pub(crate) fn name_of_test<F>(_here: &F) -> &'static str {
    let path = std::any::type_name::<F>().strip_suffix("::here").expect("that is its name");
    path.split_once("::").expect("it begins with the crate").1
}

/// Makes the command that runs the test `name`, ignored or not, in a process of its own, or in the
/// emulator that `ci/targets.sh`, in the repository, names.
pub(crate) fn command_of(name: &str) -> Command {
    let emulator = std::env::var("TOURBILLON_EMULATOR").unwrap_or_default();
    let binary = std::env::current_exe().expect("the test binary has a path");
    let binary = binary.to_str().expect("the path is text");
    let mut words = emulator.split_whitespace().chain([binary]);
    let mut command = Command::new(words.next().expect("there is the binary"));
    command.args(words);
    command.args(["--include-ignored", "--exact", "--nocapture", name]);
    command.env("TOURBILLON_ALONE", "1");
    command
}

/// Notes that `what` is not checked, because this machine lacks a thing it needs, in the file that
/// `.ci/run` names and lists at its end.
///
/// # Panics
///
/// If none is named: nobody would see it, because a test that passes prints nothing.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "Linux alone has such tests"))]
pub(crate) fn not_checked(what: &str, why: impl Display) {
    let path = std::env::var_os("TOURBILLON_NOT_CHECKED");
    let path = path.unwrap_or_else(|| panic!("not checked: {what}: {why}"));
    let list = OpenOptions::new().append(true).open(path);
    writeln!(list.expect("the list is there"), "{what}").expect("it can be added to");
}

/// Makes a sleep of `span`, or of as much more as a busy machine takes until its first poll: it is
/// pending after that.
pub(crate) fn pending_for(
    mut span: Duration,
    waker: &Waker,
    sleep: impl Fn(Duration) -> Sleep,
) -> Sleep {
    loop {
        let mut made = sleep(span);
        if poll_with(&mut made, waker).is_pending() {
            return made;
        }
        span *= 2;
    }
}

/// Runs `command`, which [`command_of`] made: its test has to pass.
pub(crate) fn passes(command: &mut Command) {
    let output = command.output().expect("the test binary can be run");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}{stderr}");
    print!("{stdout}");
}

/// Runs the test `name` in a process of its own, with the C source `file` compiled and loaded
/// first. Without a C compiler, `what` is not checked.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn with_preloaded(file: &str, what: &str, name: &str) {
    let library = format!("{}-{}.so", name.replace(':', ""), std::process::id());
    let library = std::env::temp_dir().join(library);
    let source = format!("{}/tests/it/{file}", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", &source, "-ldl", "-o"]).arg(&library);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "{file} does not compile"),
        Err(error) => return not_checked(what, format_args!("there is no cc here: {error}")),
    }
    passes(command_of(name).env("LD_PRELOAD", &library));
    std::fs::remove_file(library).expect("it was written");
}

/// The function `name` of a library that was loaded first, if there is one.
///
/// # Safety
///
/// `F` is the function's type.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) unsafe fn preloaded<F: Copy>(name: &std::ffi::CStr) -> Option<F> {
    // SAFETY: a string that ends.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: as the caller says; it is a pointer like this one.
    (!symbol.is_null()).then(|| unsafe { std::mem::transmute_copy(&symbol) })
}

/// Runs the test `name` in a process of its own, where it has to pass.
pub(crate) fn in_a_process_of_its_own(name: &str) {
    passes(&mut command_of(name));
}

/// Waits until `condition` holds. Says so, if that takes a minute.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(ms(1));
    }
}

/// Returns whether this process has a thread called `name`.
#[cfg(target_os = "linux")]
pub(crate) fn has_thread(name: &str) -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is there");
    tasks.flatten().any(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Returns whether the timer's driver has said when it will wake.
pub(crate) fn is_parked(timer: &Timer) -> bool {
    let shown = format!("{timer:?}");
    assert!(shown.contains("alarm: "), "{shown}");
    !["absent", "awake", "scanning"].iter().any(|busy| shown.contains(&format!("alarm: {busy}")))
}
