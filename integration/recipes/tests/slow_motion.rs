//! Real time at a rate: slow motion, fast motion and a pause, for a timer that a task drives.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use event_listener::Event;
use futures::future::{FutureExt, select};
use tourbillon::Timer;
use tourbillon::driver::{DriverTask, Runtime};

/// A rate of time. Clones are the same.
#[derive(Clone)]
struct Rate {
    course: Arc<Mutex<Course>>,
    changed: Arc<Event>,
}

/// Shows `shown` at `since`, and runs `rate` times as fast as real time from there.
struct Course {
    since: Instant,
    shown: Instant,
    rate: f64,
}

impl Course {
    fn now(&self) -> Instant {
        self.shown + self.since.elapsed().mul_f64(self.rate)
    }
}

impl Rate {
    fn new(rate: f64) -> Self {
        let now = Instant::now();
        let course = Arc::new(Mutex::new(Course { since: now, shown: now, rate }));
        Self { course, changed: Arc::default() }
    }

    /// From now on. At 0 time stands still.
    fn set(&self, rate: f64) {
        let mut course = self.course.lock().unwrap();
        *course = Course { shown: course.now(), since: Instant::now(), rate };
        drop(course);
        self.changed.notify(usize::MAX);
    }
}

impl Runtime for Rate {
    type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Instant {
        self.course.lock().unwrap().now()
    }

    fn wait_until(&self, deadline: Instant) -> Self::Wait {
        // Before the rate is read, so that no change is missed. A wait that ends too soon is made
        // anew.
        let changed = self.changed.listen();
        let course = self.course.lock().unwrap();
        let ahead = deadline.saturating_duration_since(course.now()).as_secs_f64() / course.rate;
        let real = Duration::try_from_secs_f64(ahead).unwrap_or(Duration::MAX);
        Box::pin(select(tourbillon::sleep(real), changed).map(drop))
    }

    fn spawn(&self, task: DriverTask<Self>) -> io::Result<()> {
        smol::spawn(task).detach();
        Ok(())
    }
}

#[test]
fn an_hour_that_stands_still_ends_once_time_runs_fast() {
    let rate = Rate::new(0.0);
    let timer = Timer::builder().build_on(rate.clone()).expect("the options are valid");
    let start = timer.now();
    let hour = Duration::from_secs(3600);
    let nap = smol::spawn(timer.sleep(hour));
    pollster::block_on(tourbillon::sleep(Duration::from_millis(20)));
    assert!(!nap.is_finished());
    assert_eq!(timer.now(), start);
    let fast = Instant::now();
    rate.set(1e6);
    pollster::block_on(nap);
    assert!(timer.now() - start >= hour);
    assert!(fast.elapsed() >= hour / 1_000_001);
}

#[test]
fn in_slow_motion_real_time_is_longer() {
    let timer = Timer::builder().build_on(Rate::new(0.5)).expect("the options are valid");
    let start = Instant::now();
    pollster::block_on(timer.sleep(Duration::from_millis(10)));
    assert!(start.elapsed() >= Duration::from_millis(20));
}
