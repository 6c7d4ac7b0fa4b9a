//! Instructions of the hot paths, and a check that they are no more than before.
//!
//! `cargo bench -p tourbillon-benches --bench instructions` counts them under valgrind's callgrind
//! and compares them with `benches/instructions.txt`. It fails if a path has got dearer by 5 %.
//! `-- --renew` writes that file, and shows the change in the diff that made it.
//!
//! Counts repeat, on a busy machine too, where times do not. They leave out the work of the kernel,
//! and of threads other than the counted one. Under valgrind a reading of the clock is a system
//! call, so it counts as a few instructions rather than the hundred it takes outside.

mod common;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::pin::pin;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use common::peers::Tourbillon;
use common::turns::{armed, driven_by_hand, occupied_turn};
use common::wakers::{Count, poll};
use common::work::Towards::{Earlier, Later};
use common::work::{self, FAR, timed};
use tourbillon::queue::DelayQueue;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");
/// Lowest factor of a count that fails. It is below 5 %, as counts wander by up to 0.5 %, say.
const DEARER: f64 = 1.045;
const CHEAPER: f64 = 0.955;
/// Makes a process do the work of one path. The code in `timed` is counted.
const COUNTED: &str = "--counted";

struct Path {
    name: &'static str,
    /// Number of times that the work is done.
    times: u64,
    run: fn(u64),
}

/// The work that the other benches time.
macro_rules! path {
    ($name:literal, $function:ident($($argument:expr),*)) => {
        Path {
            name: $name,
            times: 10_000,
            run: |times| {
                let mut work = work::$function::<Tourbillon>($($argument),*);
                let_the_driver_park();
                work(times);
            },
        }
    };
}

const PATHS: &[Path] = &[
    path!("arm + cancel, 0 pending", arm_cancel(0)),
    path!("arm + cancel, 10 thousand pending", arm_cancel(10_000)),
    path!("arm + cancel, clock read, 0 pending", arm_cancel_after(0)),
    Path { name: "arm + cancel, own Timer, 0 pending", times: 10_000, run: arm_cancel_own },
    path!("create + drop unpolled", create_drop()),
    path!("poll again while armed", poll_again()),
    path!("poll of a past deadline", past_deadline()),
    path!("reset to later, 10 thousand", reset(Later, 10_000)),
    path!("reset to earlier, 10 thousand", reset(Earlier, 10_000)),
    Path { name: "callback, reset to later", times: 10_000, run: reset_callback },
    path!("timeout, ready at once", timeout_ready()),
    path!("timeout_at, ready at once", timeout_at_ready()),
    path!("timeout, pending once", timeout_pending_once()),
    Path { name: "turn, nothing due, 64 occupied shards", times: 1_000, run: turn_for_nothing },
    Path { name: "turn, each of 1,000 fired", times: 1_000, run: turn },
    Path { name: "drop of a fired sleep", times: 1_000, run: drop_fired },
    Path { name: "VirtualClock, 8 shards, each deadline", times: 1_000, run: move_clock },
    Path { name: "DelayQueue, insert + remove", times: 10_000, run: insert_remove },
    Path { name: "DelayQueue, peek + remove the first", times: 1_000, run: peek_remove },
];

/// Waits for the driver thread, which holds a lock now and again until it parks.
fn let_the_driver_park() {
    thread::sleep(Duration::from_millis(100));
}

/// Makes the driver thread run, and no shard of this thread's see its first or earliest timer.
fn warm_up() {
    pollster::block_on(tourbillon::sleep(Duration::from_millis(20)));
    let waker = Count::new().waker();
    assert!(poll(pin!(tourbillon::sleep(FAR / 4)), &waker).is_pending());
    let_the_driver_park();
}

fn arm_cancel_own(times: u64) {
    let timer = Timer::builder().build().expect("the options are valid");
    let waker = Count::new().waker();
    // Its deadline stays the shard's earliest, so that the driver stays parked.
    assert!(poll(pin!(timer.sleep(FAR / 4)), &waker).is_pending());
    let_the_driver_park();
    let deadline = Instant::now() + FAR;
    timed(|| {
        for _ in 0..times {
            let sleep = pin!(timer.sleep_until(black_box(deadline)));
            assert!(poll(sleep, &waker).is_pending());
        }
    });
}

/// Sleeps of a timer that is turned by hand, all of them due.
struct Due {
    driver: tourbillon::driver::Driver,
    sleeps: Vec<Sleep>,
}

impl Due {
    fn new(count: u64) -> Self {
        // Longer than valgrind takes to arm them.
        const LEAD: Duration = Duration::from_secs(1);
        let (timer, driver) = driven_by_hand(1);
        let start = Instant::now() + LEAD;
        let deadline = |n| start + Duration::from_micros(n);
        let sleeps = armed(&timer, (0..count).map(deadline));
        thread::sleep(deadline(count) - Instant::now());
        Self { driver, sleeps }
    }
}

fn turn(times: u64) {
    let mut due = Due::new(times);
    timed(|| assert_eq!(due.driver.turn().fired as u64, times));
}

fn turn_for_nothing(times: u64) {
    occupied_turn(64)(times);
}

fn drop_fired(times: u64) {
    let mut due = Due::new(times);
    assert_eq!(due.driver.turn().fired as u64, times);
    timed(|| due.sleeps.clear());
}

/// Steps from deadline to deadline, a microsecond apart.
fn move_clock(times: u64) {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).shards(8);
    let timer = builder.build().expect("the options are valid");
    let start = timer.now();
    let _sleeps = armed(&timer, (1..=times).map(|n| start + Duration::from_micros(n)));
    timed(|| while clock.advance_to_next().is_some() {});
    assert_eq!(timer.stats().fired, times);
}

fn reset_callback(times: u64) {
    let callback = tourbillon::sleep(FAR).call(|| {});
    let start = Instant::now() + FAR;
    let deadlines: Vec<_> = (0..times).map(|n| start + Duration::from_micros(n)).collect();
    timed(|| deadlines.iter().for_each(|deadline| assert!(callback.reset(*black_box(deadline)))));
}

fn insert_remove(times: u64) {
    const OTHERS: u32 = 10_000;
    let mut queue = DelayQueue::with_capacity(OTHERS as usize + 1);
    for n in 0..OTHERS {
        queue.insert(n, 2 * FAR + Duration::from_millis(n.into()));
    }
    // Spread over a second: to make an instant of a tick takes more where nanoseconds carry over.
    let start = Instant::now() + FAR;
    let step = Duration::from_secs(1) / times as u32;
    let deadlines: Vec<_> = (0..times as u32).map(|n| start + step * n).collect();
    timed(|| {
        for deadline in &deadlines {
            let key = queue.insert_at(0, *black_box(deadline));
            black_box(queue.remove(&key));
        }
    });
}

/// Of many entries, so far off that they share a slot.
fn peek_remove(times: u64) {
    const COUNT: u64 = 100_000;
    let mut queue = DelayQueue::new();
    let mut random = work::Random::new();
    let start = Instant::now() + FAR;
    for n in 0..COUNT {
        queue.insert_at(n, start + random.within(Duration::from_millis(1)));
    }
    timed(|| {
        for _ in 0..times {
            let first = queue.peek().expect("many are left");
            queue.remove(&first);
        }
    });
}

/// Instructions each time, as counted by callgrind in a process of its own.
fn count(path: &Path) -> f64 {
    let own_path = env::current_exe().expect("the bench knows its path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*work*timed*"])
        .arg("--callgrind-out-file=/dev/null")
        .arg(own_path)
        .args([COUNTED, path.name])
        .output()
        .expect("valgrind is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", path.name);
    let counted = said.lines().find_map(|line| line.split_once("Collected : ")?.1.parse().ok());
    let counted: u64 = counted.unwrap_or_else(|| panic!("{}: no count in {said}", path.name));
    counted as f64 / path.times as f64
}

/// Names the compiler and target of the counted code.
fn toolchain() -> String {
    let rustc = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .arg("-vV")
        .output()
        .expect("there is a compiler");
    let said = String::from_utf8_lossy(&rustc.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default();
    format!("{}, {host}", said.lines().next().unwrap_or_default())
}

/// The counts that were kept, and their toolchain.
struct Baseline {
    toolchain: String,
    counts: BTreeMap<String, f64>,
}

impl Baseline {
    fn read() -> Self {
        let text = fs::read_to_string(BASELINE).expect("the baseline is there");
        let toolchain = text.lines().find(|line| line.starts_with("# rustc"));
        let counts = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (count, name) = line.trim().split_once("  ").expect("a count and a name");
            (name.to_owned(), count.parse().expect("a count"))
        });
        Self {
            toolchain: toolchain.unwrap_or_default().trim_start_matches("# ").to_owned(),
            counts: counts.collect(),
        }
    }

    fn write(counts: &[(&str, f64)]) {
        let mut text = format!(
            "# Instructions each time. Written by `ci/instructions.sh --renew`.\n\
             # {}\n",
            toolchain()
        );
        for (name, count) in counts {
            text += &format!("{count:9.1}  {name}\n");
        }
        fs::write(BASELINE, text).expect("the baseline can be written");
    }
}

/// Prints how each count compares. Whether none has got dearer.
fn compare(counts: &[(&str, f64)], mut baseline: Baseline) -> bool {
    println!("{:38} {:>9} {:>9}", "", "now", "baseline");
    let (mut dearer, mut cheaper, mut new) = (Vec::new(), Vec::new(), Vec::new());
    for &(name, now) in counts {
        let Some(kept) = baseline.counts.remove(name) else {
            println!("{name:38} {now:9.1} {:>9}", "none");
            new.push(name);
            continue;
        };
        let ratio = now / kept;
        println!("{name:38} {now:9.1} {kept:9.1} {:+6.1} %", (ratio - 1.0) * 100.0);
        if ratio > DEARER {
            dearer.push(name);
        } else if ratio < CHEAPER {
            cheaper.push(name);
        }
    }
    if toolchain() != baseline.toolchain {
        println!("the baseline is of {}, this is {}", baseline.toolchain, toolchain());
    }
    let gone: Vec<&str> = baseline.counts.keys().map(String::as_str).collect();
    let findings = [
        ("dearer", &dearer),
        ("cheaper, so that the baseline should be renewed", &cheaper),
        ("not in the baseline", &new),
        ("in the baseline only", &gone),
    ];
    for (what, names) in findings.iter().filter(|(_, names)| !names.is_empty()) {
        println!("{what}: {}", names.join("; "));
    }
    if findings.iter().any(|(_, names)| !names.is_empty()) {
        println!("to renew it: ci/instructions.sh --renew");
    }
    [dearer, new, gone].iter().all(Vec::is_empty)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, name] = &arguments[..] {
        if flag == COUNTED {
            let path = PATHS.iter().find(|path| path.name == name).expect("there is such a path");
            warm_up();
            (path.run)(path.times);
            return ExitCode::SUCCESS;
        }
    }
    // `cargo test` runs benches too, to see that they work.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    let counts: Vec<_> = PATHS.iter().map(|path| (path.name, count(path))).collect();
    if arguments.iter().any(|argument| argument == "--renew") {
        Baseline::write(&counts);
        return ExitCode::SUCCESS;
    }
    if compare(&counts, Baseline::read()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
