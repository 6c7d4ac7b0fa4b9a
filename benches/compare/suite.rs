//! The rows, and the goals.

use std::time::Duration;

use crate::common::peers::{AsyncIo, FuturesTimer, Tokio, Tourbillon};
use crate::common::work::Towards::{Earlier, Later};
use crate::common::work::{self, Work};
use crate::scenario::Goal::{Figure, Of};
use crate::scenario::{ASYNC_IO, Columns, How, Metric, STD, Scenario, TOKIO};
use crate::{alarm, expiry, memory, punctuality, rest, tasks, threads};

/// A function for every peer, and one more for `std` if it is given.
macro_rules! each {
    ($module:ident :: $function:ident ($($argument:expr),*)) => {
        each!($module::$function($($argument),*), None)
    };
    ($module:ident :: $function:ident ($($argument:expr),*), $std:expr) => {[
        Some(|| $module::$function::<Tourbillon>($($argument),*)),
        Some(|| $module::$function::<Tokio>($($argument),*)),
        Some(|| $module::$function::<AsyncIo>($($argument),*)),
        Some(|| $module::$function::<FuturesTimer>($($argument),*)),
        $std,
    ]};
}

macro_rules! metrics {
    ($($name:literal $unit:literal [$($goal:expr),*]),+ $(,)?) => {
        &[$(Metric { name: $name, unit: $unit, goals: &[$($goal),*] }),+]
    };
}

fn work(name: &str, metrics: &'static [Metric], columns: Columns<Work>) -> Scenario {
    Scenario { name: name.to_owned(), metrics, how: How::Work(columns) }
}

fn probe(
    name: &str,
    metrics: &'static [Metric],
    rounds: usize,
    columns: Columns<Vec<f64>>,
) -> Scenario {
    Scenario { name: name.to_owned(), metrics, how: How::Probe(rounds, columns) }
}

/// Rounds of what is measured in a process of its own and varies.
const PROBES: usize = 3;

const THOUSAND: usize = 1_000;
const MILLION: usize = 1_000_000;

pub(crate) fn scenarios() -> Vec<Scenario> {
    [hot_paths(), many_threads(), resets(), masses(), single_sleeps(), costs_at_rest(), memory()]
        .into_iter()
        .flatten()
        .collect()
}

fn hot_paths() -> Vec<Scenario> {
    const ARM: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.40)]];
    const ALONE: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.25)]];
    const CLOCK: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.48)]];
    const UNPOLLED: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.30)]];
    const AGAIN: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.05)]];
    const OPEN: &[Metric] = metrics!["" "ns" []];
    vec![
        work("arm + cancel, 0 pending", ALONE, each!(work::arm_cancel(0))),
        work("arm + cancel, 10 thousand pending", ARM, each!(work::arm_cancel(10 * THOUSAND))),
        work("arm + cancel, 1 million pending", ARM, each!(work::arm_cancel(MILLION))),
        work("arm + cancel, clock read, 0 pending", CLOCK, each!(work::arm_cancel_after(0))),
        work(
            "arm + cancel, clock read, 10 thousand pending",
            CLOCK,
            each!(work::arm_cancel_after(10 * THOUSAND)),
        ),
        work(
            "arm + cancel, clock read, 1 million pending",
            CLOCK,
            each!(work::arm_cancel_after(MILLION)),
        ),
        work("create + drop unpolled", UNPOLLED, each!(work::create_drop())),
        work("poll again while armed", AGAIN, each!(work::poll_again())),
        work("poll of a past deadline", UNPOLLED, each!(work::past_deadline())),
        work("drop of a fired sleep", UNPOLLED, each!(work::drop_fired())),
        work("timeout, ready at once", OPEN, each!(work::timeout_ready())),
        work("timeout, pending once", OPEN, each!(work::timeout_pending_once())),
    ]
}

fn many_threads() -> Vec<Scenario> {
    const OPEN: &[Metric] = metrics!["" "ns" []];
    // Eight times the throughput.
    const TWO: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.125)]];
    const HANDED_OVER: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.40)]];
    vec![
        probe("arm + cancel on 2 threads", TWO, PROBES, each!(threads::contended(2))),
        probe("arm + cancel on 4 threads", OPEN, PROBES, each!(threads::contended(4))),
        probe("arm + cancel on 8 threads", OPEN, PROBES, each!(threads::contended(8))),
        probe("arm + cancel on 16 threads", OPEN, PROBES, each!(threads::contended(16))),
        probe("armed here, dropped there", HANDED_OVER, PROBES, each!(threads::handed_over())),
    ]
}

fn resets() -> Vec<Scenario> {
    const LATER: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.25)]];
    const EARLIER: &[Metric] = metrics!["" "ns" [Of(TOKIO, 0.50)]];
    vec![
        work("reset to later, 10 thousand", LATER, each!(work::reset(Later, 10 * THOUSAND))),
        work("reset to later, 1 million", LATER, each!(work::reset(Later, MILLION))),
        work("reset to later, random of 1 million", LATER, each!(work::reset_random(MILLION))),
        work("reset to earlier, 10 thousand", EARLIER, each!(work::reset(Earlier, 10 * THOUSAND))),
        work("reset to earlier, 1 million", EARLIER, each!(work::reset(Earlier, MILLION))),
    ]
}

fn masses() -> Vec<Scenario> {
    const SPREAD: &[Metric] = metrics!["" "ns of processor" [Of(TOKIO, 0.50)]];
    const AT_ONCE: &[Metric] = metrics!["" "ns of processor" [Of(TOKIO, 0.80)]];
    const INSERTER: &[Metric] = metrics![
        "lateness p50" "us" [],
        "lateness p99" "us" [Of(TOKIO, 0.30)],
        "insert p50" "us" [],
        "insert p99.9" "us" [Of(TOKIO, 0.01)],
        "insert max" "us" [],
    ];
    const SHARD: &[Metric] = metrics![
        "p99.9" "us" [],
        "max" "us" [Figure(100.0)],
        "p99.9 while none fires" "us" [],
        "max while none fires" "us" [],
    ];
    const TASKS: &[Metric] = metrics![
        "per task" "ns of processor" [Of(TOKIO, 1.0)],
        "lateness p50" "us" [Of(TOKIO, 0.60)],
        "lateness p99" "us" [],
    ];
    vec![
        probe("1 million fire in 1 s, each", SPREAD, PROBES, each!(expiry::spread())),
        probe("1 million fire at once, each", AT_ONCE, PROBES, each!(expiry::at_once())),
        probe(
            "1 million fire beside an inserter",
            INSERTER,
            PROBES,
            each!(expiry::with_inserter()),
        ),
        probe(
            "wait for a shard that fires",
            SHARD,
            PROBES,
            [Some(expiry::one_shard), Some(expiry::one_lock::<Tokio>), None, None, None],
        ),
        probe("200 thousand tokio tasks", TASKS, PROBES, each!(tasks::many())),
    ]
}

fn single_sleeps() -> Vec<Scenario> {
    const OPEN: &[Metric] = metrics!["p50" "us" [Of(ASYNC_IO, 1.0)], "p99" "us" []];
    const GOAL: &[Metric] =
        metrics!["p50" "us" [Of(TOKIO, 0.05), Of(STD, 0.60), Of(ASYNC_IO, 1.0)], "p99" "us" []];
    const NONE: &[Metric] = metrics!["p50" "us" [], "p99" "us" []];
    const BLOCKED: &[Metric] = metrics!["p50" "us" [Of(TOKIO, 0.01)], "p99" "us" []];
    const DESCENDING: &[Metric] =
        metrics!["unparks each" "" [Figure(0.10)], "driver wake-ups each" "" []];
    macro_rules! sleeping {
        ($name:literal, $metrics:expr, $delay:expr) => {
            probe(
                concat!("lateness of ", $name),
                $metrics,
                PROBES,
                each!(punctuality::parked($delay), Some(|| punctuality::thread_sleep($delay))),
            )
        };
    }
    const BUSY: Duration = Duration::from_millis(1);
    vec![
        sleeping!("50 us", OPEN, Duration::from_micros(50)),
        sleeping!("100 us", GOAL, Duration::from_micros(100)),
        sleeping!("500 us", OPEN, Duration::from_micros(500)),
        sleeping!("1 ms", GOAL, Duration::from_millis(1)),
        sleeping!("10 ms", OPEN, Duration::from_millis(10)),
        sleeping!("100 ms", OPEN, Duration::from_millis(100)),
        probe(
            "lateness of 1 ms in a tokio task",
            NONE,
            PROBES,
            each!(punctuality::in_executor(BUSY)),
        ),
        probe(
            "lateness of 1 ms, processors busy",
            NONE,
            PROBES,
            each!(
                punctuality::parked_while_busy(BUSY),
                Some(|| punctuality::thread_sleep_while_busy(BUSY))
            ),
        ),
        probe("lateness of 30 ms, worker blocked", BLOCKED, 1, each!(tasks::worker_blocked())),
        probe("each earlier than the last", DESCENDING, PROBES, each!(alarm::descending())),
    ]
}

fn costs_at_rest() -> Vec<Scenario> {
    const NOTHING: &[Metric] =
        metrics!["driver wake-ups" "" [Figure(0.0)], "processor time" "us" []];
    const FAR: &[Metric] = metrics!["driver wake-ups" "" [], "processor time" "us" []];
    const ONE: &[Metric] = metrics!["driver wake-ups" "" [Figure(2.0)], "processor time" "us" []];
    vec![
        probe("3 s, nothing pending", NOTHING, 1, each!(rest::nothing_pending())),
        probe("3 s, 10 thousand far timers", FAR, 1, each!(rest::far_timers())),
        probe("one 10 s timer", ONE, 1, each!(rest::one_timer())),
    ]
}

fn memory() -> Vec<Scenario> {
    const SIZE: &[Metric] = metrics!["" "bytes" [Figure(32.0)]];
    const BURST: &[Metric] = metrics![
        "allocated each" "bytes" [Figure(80.0)],
        "resident each" "bytes" [],
        "allocated each once dropped" "bytes" [],
        "resident each once dropped" "bytes" [],
    ];
    const CALLS: &[Metric] = metrics!["allocations" "" [Figure(0.0)], "unparks" "" [Figure(0.0)]];
    vec![
        probe("size of the future", SIZE, 1, each!(memory::size())),
        probe("1 million armed", BURST, 1, each!(memory::burst())),
        probe("arm + cancel, not the earliest", CALLS, 1, each!(memory::per_cancelled())),
    ]
}
