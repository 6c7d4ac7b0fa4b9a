//! The calls that every system answers.

use std::io::Read as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::Result;

/// The kind of all jobs.
pub(crate) const KIND: &str = "bench";

/// Jobs in one insert.
pub(crate) const BATCH: usize = 1_000;

/// Nobody waits for jobs that are inserted one by one.
pub(crate) const FAR: Duration = Duration::from_secs(86_400);

/// Call that a process of a system answers.
pub(crate) enum Call {
    /// Makes its tables.
    Prepare { address: String },
    /// Inserts one job after the other, by so many callers at once; prints how many a second.
    Single { address: String, span: Duration, callers: usize },
    /// Inserts `count` jobs, a thousand at once; prints how many a second.
    Batch { address: String, count: usize, from_ms: i64, span_ms: i64 },
    /// Works until its standard input ends, then writes down when each job started.
    Work { address: String, settings: Settings },
}

/// How a worker is set.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Settings {
    /// The options in the first example of its documentation.
    Default,
    /// For throughput, by its documentation or its own measurements, with one connection.
    One,
    /// The same, by as many connections as it likes.
    Fast,
}

impl Call {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        Ok(match *words {
            ["prepare", address] => Self::Prepare { address: address.into() },
            ["single", address, seconds, callers] => Self::Single {
                address: address.into(),
                span: Duration::from_secs(seconds.parse()?),
                callers: callers.parse()?,
            },
            ["batch", address, count, from_ms, span_ms] => Self::Batch {
                address: address.into(),
                count: count.parse()?,
                from_ms: from_ms.parse()?,
                span_ms: span_ms.parse()?,
            },
            ["work", address, settings, count, handler, file] => {
                let settings = match settings {
                    "default" => Settings::Default,
                    "one" => Settings::One,
                    "fast" => Settings::Fast,
                    other => return Err(format!("no settings `{other}`").into()),
                };
                STARTS.expect(count.parse()?, handler == "hang");
                until_the_input_ends(file.to_owned());
                Self::Work { address: address.into(), settings }
            }
            _ => return Err(format!("no call {words:?}").into()),
        })
    }
}

/// Due times of the jobs of a batch, in milliseconds since the epoch.
pub(crate) fn dues(count: usize, from_ms: i64, span_ms: i64) -> Vec<i64> {
    let due = |number| from_ms + span_ms * number as i64 / count.max(1) as i64;
    (0..count).map(due).collect()
}

/// Prints how many a second were inserted since `began`.
pub(crate) fn print_rate(count: usize, began: Instant) {
    println!("{:.0}", count as f64 / began.elapsed().as_secs_f64());
}

pub(crate) fn now_us() -> i64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().expect("the clock is after 1970");
    since.as_micros().try_into().expect("the clock is before 290000")
}

/// Jobs that this process's worker has started.
pub(crate) static STARTS: Starts = Starts {
    all: Mutex::new(Vec::new()),
    expected: AtomicUsize::new(usize::MAX),
    hangs: std::sync::atomic::AtomicBool::new(false),
};

/// Jobs that have started: when, and when they were due, in microseconds since the epoch.
pub(crate) struct Starts {
    all: Mutex<Vec<(i64, i64)>>,
    expected: AtomicUsize,
    hangs: std::sync::atomic::AtomicBool,
}

impl Starts {
    fn expect(&self, count: usize, hangs: bool) {
        self.expected.store(count, Relaxed);
        self.hangs.store(hangs, Relaxed);
    }

    /// Notes a start. The last that is expected is announced.
    pub(crate) fn note(&self, due_us: i64) {
        let mut all = self.all.lock().expect("no panic");
        all.push((now_us(), due_us));
        if all.len() == self.expected.load(Relaxed) {
            println!("all");
        }
    }

    /// Whether handlers are to hold their jobs for ever.
    pub(crate) fn hangs(&self) -> bool {
        self.hangs.load(Relaxed)
    }
}

/// Work of a handler in an async system: nothing, or nothing that ends.
pub(crate) async fn handle(due_ms: i64) {
    STARTS.note(due_ms * 1_000);
    if STARTS.hangs() {
        std::future::pending().await
    }
}

/// Ends the process when its standard input does. Jobs that no worker has ended stay in the
/// database.
fn until_the_input_ends(file: String) {
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let lines = STARTS.all.lock().expect("no panic");
        let lines: String = lines.iter().map(|(at, due)| format!("{at} {due}\n")).collect();
        let status = std::fs::write(file, lines).map_or(1, |()| 0);
        std::process::exit(status);
    });
}
