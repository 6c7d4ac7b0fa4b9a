//! A driver thread on a monotonic clock that does what it should not: steps, and stands still.
//!
//! The clock is `system_clock.c`, compiled by these tests and preloaded into a process of their
//! own.

use std::ffi::CStr;
use std::process::Command;
use std::task::Waker;
use std::time::{Duration, Instant, SystemTime};

use tourbillon::{Sleep, Timer};

use crate::support::*;

/// What is checked here, for [`not_checked`].
const STEPS: &str = "steps of the system clock";

/// Runs a test with the clock in the place of the system's, if there is a C compiler.
fn on_a_clock_of_its_own(name: &str) {
    let library = std::env::temp_dir().join(format!("{name}-{}.so", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/system_clock.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([library.as_os_str(), source.as_ref()])
        .arg("-ldl")
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "system_clock.c does not compile"),
        Err(error) => return not_checked(STEPS, format_args!("there is no cc here: {error}")),
    }
    passes(alone(&format!("system_clock::{name}")).env("LD_PRELOAD", &library));
    std::fs::remove_file(library).expect("it was written");
}

/// What the preloaded library offers.
struct SystemClock;

impl SystemClock {
    /// The clock, if it is there and what this process reads.
    fn preloaded() -> Option<Self> {
        Self::function(c"clock_steps")?;
        let before = Instant::now();
        Self.step(-5);
        let after = Instant::now();
        Self.step(5);
        // A sanitizer may have a clock of its own.
        (after < before).then_some(Self)
    }

    fn function(name: &CStr) -> Option<*mut libc::c_void> {
        // SAFETY: `name` is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    fn step(&self, seconds: i64) {
        let steps = Self::function(c"clock_steps").expect("the library is there");
        // SAFETY: that is the function's type in the library.
        let steps = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(i64)>(steps) };
        steps(seconds * 1_000_000_000);
    }

    fn call(&self, name: &CStr) {
        let function = Self::function(name).expect("the library is there");
        // SAFETY: that is the type of both functions that this is called for.
        let function =
            unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(function) };
        function();
    }
}

/// The sleep ends, and not before its deadline by the clock as it is shown.
fn ends_in_time(mut sleep: Sleep) {
    pollster::block_on(&mut sleep);
    assert!(Instant::now() >= sleep.deadline(), "early");
}

#[test]
fn a_driver_survives_a_clock_that_steps_and_stands_still() {
    on_a_clock_of_its_own("child_sees_the_clock_step");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn child_sees_the_clock_step() {
    let Some(clock) = SystemClock::preloaded() else {
        return not_checked(STEPS, "the clock is not the one preloaded");
    };
    let timer = Timer::builder().shards(1).build().expect("the options are valid");
    ends_in_time(timer.sleep(ms(1)));

    // Back, to before the timer was made, and past what the wheel has been turned to.
    let mut across = timer.sleep(ms(200));
    assert!(poll(&mut across).is_pending());
    clock.step(-10);
    for delay in [20, 1, 5, 0] {
        ends_in_time(timer.sleep(ms(delay)));
    }
    let mut reset = timer.sleep(3600 * SECOND);
    assert!(poll(&mut reset).is_pending());
    reset.reset_after(ms(1));
    ends_in_time(reset);
    let crowd: Vec<_> = (0..100).map(|n| timer.sleep(Duration::from_micros(50 * n))).collect();
    pollster::block_on(futures::future::join_all(crowd));
    assert!(poll(&mut across).is_pending() && !across.is_elapsed());
    clock.step(10);
    ends_in_time(across);

    // Forward, past some.
    let counter = Counter::new();
    let mut sleeps = [1, 5, 9, 3600].map(|seconds| timer.sleep(seconds * SECOND));
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &Waker::from(counter.clone())).is_pending());
    }
    clock.step(10);
    while counter.wakes() < 3 {
        std::thread::sleep(ms(1));
    }
    assert_eq!(sleeps.each_mut().map(|sleep| poll(sleep).is_ready()), [true, true, true, false]);
    assert_eq!(counter.wakes(), 3);

    // Not at all, for a second.
    clock.call(c"clock_stops");
    let (before, shown, start) = (timer.stats(), Instant::now(), SystemTime::now());
    let mut still = timer.sleep(ms(100));
    assert!(poll(&mut still).is_pending());
    std::thread::sleep(SECOND);
    assert!(poll(&mut still).is_pending());
    let wakeups = timer.stats().driver_wakeups - before.driver_wakeups;
    // It parks for a tenth of a second, over and over: it does not spin.
    let most = start.elapsed().expect("that clock goes on").as_millis() / 100 + 2;
    assert!(u128::from(wakeups) <= most, "{wakeups} in {most} tenths of a second");
    assert_eq!(Instant::now(), shown);
    clock.call(c"clock_goes_on");
    ends_in_time(still);
    assert_eq!(timer.stats().pending, 1);
}
