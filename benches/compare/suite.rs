//! The rows.

use std::time::Duration;

use crate::common::peers::{AsyncIo, FuturesTimer, Tokio, Tourbillon};
use crate::common::work::Towards::{Earlier, Later};
use crate::common::work::{self, Work};
use crate::scenario::{Columns, How, Metric, Scenario};
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

/// Timed in turn, in nanoseconds for each operation.
fn work(name: &str, columns: Columns<Work>) -> Scenario {
    Scenario { name: name.to_owned(), metrics: &[("", "ns")], how: How::Work(columns) }
}

/// Measured in processes of its own, `rounds` times.
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
    vec![
        work("arm + cancel, 0 pending", each!(work::arm_cancel(0))),
        work("arm + cancel, 10 thousand pending", each!(work::arm_cancel(10 * THOUSAND))),
        work("arm + cancel, 1 million pending", each!(work::arm_cancel(MILLION))),
        work("arm + cancel, clock read, 0 pending", each!(work::arm_cancel_after(0))),
        work(
            "arm + cancel, clock read, 10 thousand pending",
            each!(work::arm_cancel_after(10 * THOUSAND)),
        ),
        work("arm + cancel, clock read, 1 million pending", each!(work::arm_cancel_after(MILLION))),
        work("create + drop unpolled", each!(work::create_drop())),
        work("poll again while armed", each!(work::poll_again())),
        work("poll of a past deadline", each!(work::past_deadline())),
        work("drop of a fired sleep", each!(work::drop_fired())),
        work("timeout, ready at once", each!(work::timeout_ready())),
        work("timeout, pending once", each!(work::timeout_pending_once())),
    ]
}

fn many_threads() -> Vec<Scenario> {
    const NS: &[Metric] = &[("", "ns")];
    vec![
        probe("arm + cancel on 2 threads", NS, PROBES, each!(threads::contended(2))),
        probe("arm + cancel on 4 threads", NS, PROBES, each!(threads::contended(4))),
        probe("arm + cancel on 8 threads", NS, PROBES, each!(threads::contended(8))),
        probe("arm + cancel on 16 threads", NS, PROBES, each!(threads::contended(16))),
        probe("armed here, dropped there", NS, PROBES, each!(threads::handed_over())),
    ]
}

fn resets() -> Vec<Scenario> {
    vec![
        work("reset to later, 10 thousand", each!(work::reset(Later, 10 * THOUSAND))),
        work("reset to later, 1 million", each!(work::reset(Later, MILLION))),
        work("reset to later, random of 1 million", each!(work::reset_random(MILLION))),
        work("reset to earlier, 10 thousand", each!(work::reset(Earlier, 10 * THOUSAND))),
        work("reset to earlier, 1 million", each!(work::reset(Earlier, MILLION))),
    ]
}

fn masses() -> Vec<Scenario> {
    const PROCESSOR: &[Metric] = &[("", "ns of processor")];
    const INSERTER: &[Metric] = &[
        ("lateness p50", "us"),
        ("lateness p99", "us"),
        ("insert p50", "us"),
        ("insert p99.9", "us"),
        ("insert max", "us"),
    ];
    const SHARD: &[Metric] = &[
        ("p99.9", "us"),
        ("max", "us"),
        ("p99.9 while none fires", "us"),
        ("max while none fires", "us"),
    ];
    const TASKS: &[Metric] =
        &[("per task", "ns of processor"), ("lateness p50", "us"), ("lateness p99", "us")];
    vec![
        probe("1 million fire in 1 s, each", PROCESSOR, PROBES, each!(expiry::spread())),
        probe("1 million fire at once, each", PROCESSOR, PROBES, each!(expiry::at_once())),
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
    const LATENESS: &[Metric] = &[("p50", "us"), ("p99", "us")];
    const DESCENDING: &[Metric] = &[("unparks each", ""), ("driver wake-ups each", "")];
    macro_rules! sleeping {
        ($name:literal, $delay:expr) => {
            probe(
                concat!("lateness of ", $name),
                LATENESS,
                PROBES,
                each!(punctuality::parked($delay), Some(|| punctuality::thread_sleep($delay))),
            )
        };
    }
    const BUSY: Duration = Duration::from_millis(1);
    vec![
        sleeping!("50 us", Duration::from_micros(50)),
        sleeping!("100 us", Duration::from_micros(100)),
        sleeping!("500 us", Duration::from_micros(500)),
        sleeping!("1 ms", Duration::from_millis(1)),
        sleeping!("10 ms", Duration::from_millis(10)),
        sleeping!("100 ms", Duration::from_millis(100)),
        probe(
            "lateness of 1 ms in a tokio task",
            LATENESS,
            PROBES,
            each!(punctuality::in_executor(BUSY)),
        ),
        probe(
            "lateness of 1 ms, processors busy",
            LATENESS,
            PROBES,
            each!(
                punctuality::parked_while_busy(BUSY),
                Some(|| punctuality::thread_sleep_while_busy(BUSY))
            ),
        ),
        probe("lateness of 30 ms, worker blocked", LATENESS, 1, each!(tasks::worker_blocked())),
        probe("each earlier than the last", DESCENDING, PROBES, each!(alarm::descending())),
    ]
}

fn costs_at_rest() -> Vec<Scenario> {
    const REST: &[Metric] = &[("driver wake-ups", ""), ("processor time", "us")];
    vec![
        probe("3 s, nothing pending", REST, 1, each!(rest::nothing_pending())),
        probe("3 s, 10 thousand far timers", REST, 1, each!(rest::far_timers())),
        probe("one 10 s timer", REST, 1, each!(rest::one_timer())),
    ]
}

fn memory() -> Vec<Scenario> {
    const SIZE: &[Metric] = &[("", "bytes")];
    const BURST: &[Metric] = &[
        ("allocated each", "bytes"),
        ("resident each", "bytes"),
        ("allocated each once dropped", "bytes"),
        ("resident each once dropped", "bytes"),
    ];
    const CALLS: &[Metric] = &[("allocations", ""), ("unparks", "")];
    vec![
        probe("size of the future", SIZE, 1, each!(memory::size())),
        probe("1 million armed", BURST, 1, each!(memory::burst())),
        probe("arm + cancel, not the earliest", CALLS, 1, each!(memory::per_cancelled())),
    ]
}
