//! The rows.

use std::time::Duration;

use tourbillon::Timer;
use tourbillon::timer::Builder;

use crate::common::peers::{AsyncIo, FuturesTimer, Tokio, Tourbillon};
use crate::common::turns;
use crate::common::work::Towards::{Earlier, Later};
use crate::common::work::{self, Work};
use crate::queues::{DelayQueue, TheirDelayQueue};
use crate::scenario::{Columns, Effort, How, Metric, OURS, STD, Scenario};
use crate::tasks::On::{self, OneThread, Workers};
use crate::{
    alarm, bursts, cron, expiry, lines, own, punctuality, queues, rest, stories, tasks, threads,
};

/// A function for every peer, and one more for `std` if it is given.
macro_rules! each {
    ($module:ident :: $function:ident ($($argument:expr),*)) => {
        each!($module::$function($($argument),*), None)
    };
    ($module:ident :: $function:ident ($($argument:expr),*), $std:expr) => {[
        Some(Box::new(move || $module::$function::<Tourbillon>($($argument),*))),
        Some(Box::new(move || $module::$function::<Tokio>($($argument),*))),
        Some(Box::new(move || $module::$function::<AsyncIo>($($argument),*))),
        Some(Box::new(move || $module::$function::<FuturesTimer>($($argument),*))),
        $std,
    ]};
}

/// For rows without a peer.
fn ours<R>(ours: impl Fn() -> R + 'static) -> Columns<R> {
    [Some(Box::new(ours)), None, None, None, None]
}

fn ours_and_tokio<R>(
    ours: impl Fn() -> R + 'static,
    tokio: impl Fn() -> R + 'static,
) -> Columns<R> {
    [Some(Box::new(ours)), Some(Box::new(tokio)), None, None, None]
}

/// Makes our timers as `set_up` does, which no peer has. For processes of their own.
fn with<R: 'static>(set_up: impl Fn() + 'static, mut columns: Columns<R>) -> Columns<R> {
    let ours = columns[OURS].take().expect("it is measured");
    columns[OURS] = Some(Box::new(move || {
        set_up();
        ours()
    }));
    columns
}

/// Makes the timer the process-wide one.
fn use_timer(builder: Builder) {
    let timer = builder.build().expect("the options are valid");
    Timer::set_global(timer).expect("nothing has used it");
}

fn tolerant<R: 'static>(tolerance: Duration, columns: Columns<R>) -> Columns<R> {
    with(move || use_timer(Timer::builder().tolerance(tolerance)), columns)
}

/// The runtime turns our wheels in its own park.
fn hosted<R: 'static>(on: On, tolerance: Duration, columns: Columns<R>) -> Columns<R> {
    with(move || tasks::drive(on, tolerance), columns)
}

/// Timed in turn, in nanoseconds for each operation.
fn work(name: impl Into<String>, columns: Columns<Work>) -> Scenario {
    Scenario { name: name.into(), metrics: NANOS, how: How::Work(columns) }
}

/// Measured in processes of its own.
fn probe(
    name: impl Into<String>,
    metrics: &'static [Metric],
    columns: Columns<Vec<f64>>,
) -> Scenario {
    Scenario { name: name.into(), metrics, how: How::Probe(columns) }
}

/// Not measured again, since it hardly changes.
fn once(name: &str, metrics: &'static [Metric], columns: Columns<Vec<f64>>) -> Scenario {
    Scenario { name: name.into(), metrics, how: How::Once(columns) }
}

const NANOS: &[Metric] = &[("", "ns")];
const MICROS: &[Metric] = &[("", "us")];
const LATENESS: &[Metric] = &[("p50", "us"), ("p99", "us")];
const PROCESSOR: &[Metric] = &[("", "ns of processor")];

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const THOUSAND: usize = 1_000;
const MILLION: usize = 1_000_000;

/// A number in words.
fn count(number: usize) -> String {
    match number {
        MILLION.. => format!("{} million", number / MILLION),
        THOUSAND.. => format!("{} thousand", number / THOUSAND),
        _ => number.to_string(),
    }
}

/// A duration in words.
fn time(span: Duration) -> String {
    match span.as_micros() {
        1_000_000.. => format!("{} s", span.as_secs()),
        1_000.. => format!("{} ms", span.as_millis()),
        micros => format!("{micros} us"),
    }
}

pub(crate) fn scenarios(effort: Effort) -> Vec<Scenario> {
    [
        hot_paths(effort),
        many_threads(effort),
        resets(effort),
        bursts(effort),
        masses(effort),
        tokio_tasks(effort),
        stories(effort),
        single_sleeps(effort),
        costs_at_rest(effort),
        memory(effort),
        queues(effort),
        own(effort),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn hot_paths(effort: Effort) -> Vec<Scenario> {
    let mut rows = Vec::new();
    for others in [0, effort.mass / 100, effort.mass] {
        let name = format!("arm + cancel, {} pending", count(others));
        rows.push(work(name, each!(work::arm_cancel(others))));
    }
    for others in [0, effort.mass / 100, effort.mass] {
        let name = format!("arm + cancel, clock read, {} pending", count(others));
        rows.push(work(name, each!(work::arm_cancel_after(others))));
    }
    for delay in [MILLI, 5 * MILLI, 20 * MILLI, 30_000 * MILLI] {
        let name = format!("arm + cancel, clock read, {}", time(delay));
        rows.push(work(name, each!(work::arm_cancel_within(0, delay))));
    }
    rows.extend([
        work("create + drop unpolled", each!(work::create_drop())),
        work("poll again while armed", each!(work::poll_again())),
        work("poll of a past deadline", each!(work::past_deadline())),
        work("drop of a fired sleep", each!(work::drop_fired())),
        work("timeout, ready at once", each!(work::timeout_ready())),
        work("timeout_at, ready at once", each!(work::timeout_at_ready())),
        work("timeout, pending once", each!(work::timeout_pending_once())),
    ]);
    rows
}

fn many_threads(effort: Effort) -> Vec<Scenario> {
    const LINES: &[Metric] = &[
        ("an arm + cancel touches", ""),
        ("an arm + cancel writes", ""),
        ("two threads share, written", ""),
        ("the drop of one of many touches", ""),
    ];
    const PASSES: &[Metric] = &[
        ("an arm + cancel writes", ""),
        ("two threads share, written", ""),
        ("two threads share, written, of a Timer that is held", ""),
        ("a turn with nothing due touches", ""),
        ("a turn with nothing due writes", ""),
        ("this turn and an arm + cancel share, written", ""),
        ("a turn that fires one touches", ""),
        ("a turn that fires one writes", ""),
        ("this turn and an arm + cancel elsewhere share, written", ""),
    ];
    let times = effort.mass / 2;
    let mut rows = Vec::from([1, 2, 4, 8].map(|threads| {
        let name = format!("arm + cancel on {threads} thread{}", plural(threads));
        probe(name, NANOS, each!(threads::contended(threads, times)))
    }));
    rows.push(once("cache lines", LINES, each!(lines::of())));
    rows.extend([2, 8, 64].map(|shards| {
        let name = format!("cache lines, {shards} occupied shards");
        once(&name, PASSES, ours(move || lines::of_turns(shards)))
    }));
    rows.push(probe("armed here, dropped there", NANOS, each!(threads::handed_over(times))));
    rows
}

fn resets(effort: Effort) -> Vec<Scenario> {
    let (few, mass) = (effort.mass / 100, effort.mass);
    let name = |what, among| format!("reset to {what} {}", count(among));
    vec![
        work(name("later,", few), each!(work::reset(Later, few))),
        work(name("later,", mass), each!(work::reset(Later, mass))),
        work(name("later, random of", mass), each!(work::reset_random(mass))),
        work(name("earlier,", few), each!(work::reset(Earlier, few))),
        work(name("earlier,", mass), each!(work::reset(Earlier, mass))),
    ]
}

/// Numbers of timers up to more than any cache holds.
fn bursts(Effort { mass, .. }: Effort) -> Vec<Scenario> {
    const PARTS: &[Metric] = &[("", "ns"), ("arm", "ns"), ("drop", "ns")];
    let burst = |number| format!("{} armed, dropped in random order, each", count(number));
    let (few, most) = ([mass / 1_000, mass / 100, mass / 10], 10 * mass);
    let mut rows = Vec::from(few.map(|number| {
        probe(burst(number), NANOS, each!(bursts::random_order_again(number, mass / 4)))
    }));
    rows.push(probe(burst(mass), PARTS, each!(bursts::random_order(mass))));
    // It takes the others half a minute.
    let ours = move || bursts::random_order::<Tourbillon>(most);
    let tokio = move || bursts::random_order::<Tokio>(most);
    rows.push(probe(burst(most), PARTS, ours_and_tokio(ours, tokio)));
    rows
}

fn masses(effort: Effort) -> Vec<Scenario> {
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
    const AMONG: &[Metric] = &[("until they are due", "us"), ("from then on", "us")];
    const SLOT: &[Metric] = &[("lateness of the first", "us"), ("longest cancel till then", "us")];
    let mass = effort.mass;
    let name = |what| format!("{} {what}", count(mass));
    let mut rows = vec![
        probe(name("fire in 1 s, each"), PROCESSOR, each!(expiry::spread(mass))),
        probe(
            name("fire in 1 s, 5 ms of tolerance, each"),
            PROCESSOR,
            tolerant(Duration::from_millis(5), each!(expiry::spread(mass))),
        ),
        probe(name("fire at once, each"), PROCESSOR, each!(expiry::at_once(mass))),
        probe(name("fire beside an inserter"), INSERTER, each!(expiry::with_inserter(mass))),
        probe(
            "wait for a shard that fires",
            SHARD,
            ours_and_tokio(
                move || expiry::one_shard(mass),
                move || expiry::one_lock::<Tokio>(mass),
            ),
        ),
        probe(
            name("in one slot become due"),
            SLOT,
            ours_and_tokio(
                move || expiry::one_slot::<Tourbillon>(mass),
                move || expiry::one_slot::<Tokio>(mass),
            ),
        ),
    ];
    for (become_due, span) in [("in one slot become due", 10 * MILLI), ("fire in 1 s", SECOND)] {
        let name =
            |number| format!("{} {become_due}: another thread's 1 ms, at worst", count(number));
        rows.push(probe(name(mass), MICROS, each!(expiry::bystander(mass, span))));
        // It takes the others half a minute to arm so many.
        let most = 10 * mass;
        let ours = move || expiry::bystander::<Tourbillon>(most, span);
        let tokio = move || expiry::bystander::<Tokio>(most, span);
        rows.push(probe(name(most), MICROS, ours_and_tokio(ours, tokio)));
        let name =
            |number| format!("{} {become_due}: their thread's 1 ms, at worst", count(number));
        rows.push(probe(name(mass), AMONG, each!(expiry::among_them(mass, span))));
        let ours = move || expiry::among_them::<Tourbillon>(most, span);
        let tokio = move || expiry::among_them::<Tokio>(most, span);
        rows.push(probe(name(most), AMONG, ours_and_tokio(ours, tokio)));
    }
    rows
}

fn tokio_tasks(effort: Effort) -> Vec<Scenario> {
    const TASKS: &[Metric] =
        &[("per task", "ns of processor"), ("lateness p50", "us"), ("lateness p99", "us")];
    let Effort { mass, span, .. } = effort;
    let name = format!("{} tokio tasks", count(mass / 5));
    let mut rows = Vec::from(by_driver(&name, TASKS, Workers, || each!(tasks::many(mass / 5))));
    let name = "a tick of 1 interval of 1 us";
    rows.push(probe(name, PROCESSOR, each!(tasks::intervals(Workers, 1, MILLI / 1_000, span))));
    for (on, runtime) in [(Workers, ""), (OneThread, ", current-thread")] {
        for period in [MILLI, 10 * MILLI] {
            let name = format!("a tick of 1 thousand intervals of {}{runtime}", time(period));
            rows.extend(by_driver(&name, PROCESSOR, on, || {
                each!(tasks::intervals(on, THOUSAND, period, span))
            }));
        }
        let name = format!("a round of 1 thousand loops of 10 ms{runtime}");
        rows.extend(by_driver(&name, PROCESSOR, on, || {
            each!(tasks::loops(on, THOUSAND, 10 * MILLI, span))
        }));
    }
    let name = "lateness of 1 ms in a task, current-thread";
    let [by_thread, _, in_park, _] = by_driver(name, LATENESS, OneThread, || {
        each!(punctuality::in_executor(OneThread, MILLI, span))
    });
    rows.extend([by_thread, in_park]);
    rows
}

fn stories(effort: Effort) -> Vec<Scenario> {
    const TURN: &[Metric] = &[("with a sleep of zero", "ns"), ("with a far sleep", "ns")];
    const COMMAND: &[Metric] = &[("", "ns of processor"), ("one sleep, reset", "ns of processor")];
    const RATE: &[Metric] =
        &[("", "ns of processor"), ("lateness p50", "us"), ("lateness p99", "us")];
    let Effort { mass, span, .. } = effort;
    let mass = mass as u32;
    vec![
        probe("a turn of a select! loop", TURN, each!(stories::select_loop(mass, span))),
        probe(
            "a command with a limit and three limited transfers, 128 tasks",
            COMMAND,
            each!(stories::limited_commands(128, mass / 128)),
        ),
        probe(
            "an operation of 10 thousand a second",
            RATE,
            each!(stories::at_a_rate(4, 10_000, span)),
        ),
    ]
}

/// With our wheels turned by the driver thread, and in the runtime's park; without tolerance, and
/// with a millisecond, the exactness of tokio's timers.
fn by_driver(
    name: &str,
    metrics: &'static [Metric],
    on: On,
    columns: impl Fn() -> Columns<Vec<f64>>,
) -> [Scenario; 4] {
    // The others are in the rows above these.
    let few = || {
        let [ours, tokio, ..] = columns();
        [ours, tokio, None, None, None]
    };
    let row = |how, columns| probe(format!("{name}{how}"), metrics, columns);
    [
        row("", columns()),
        row(", 1 ms of tolerance", tolerant(MILLI, columns())),
        row(", turned in the park", hosted(on, Duration::ZERO, few())),
        row(", turned in the park, 1 ms of tolerance", hosted(on, MILLI, few())),
    ]
}

fn single_sleeps(effort: Effort) -> Vec<Scenario> {
    const RATE: &[Metric] = &[("p50", "us"), ("p99", "us"), ("p99.9", "us")];
    const COST: Metric = ("processor time of each", "us");
    const AT_COST: &[Metric] = &[LATENESS[0], LATENESS[1], COST];
    const BESIDE: &[Metric] = &[("lateness p50", "us"), ("lateness p99", "us"), COST];
    const DESCENDING: &[Metric] = &[("unparks each", ""), ("driver wake-ups each", "")];
    const BUSY: Duration = Duration::from_millis(1);
    const BLOCKED: Duration = Duration::from_millis(30);
    let span = effort.span;
    let micros = [10, 50, 100, 500, 1_000, 10_000, 100_000].map(Duration::from_micros);
    let mut rows = Vec::from(micros.map(|delay| {
        let std = Some(Box::new(move || punctuality::thread_sleep(delay, span)) as _);
        let name = format!("lateness of {}", time(delay));
        probe(name, AT_COST, each!(punctuality::parked(delay, span), std))
    }));
    rows.extend([(100, 75), (1_000, 100)].map(|micros| {
        let (delay, last) = (Duration::from_micros(micros.0), Duration::from_micros(micros.1));
        let name = format!("lateness of {}, the last {} spun", time(delay), time(last));
        let mut columns = ours(move || punctuality::spun(delay, last, span));
        columns[STD] = Some(Box::new(move || punctuality::thread_sleep_spun(delay, last, span)));
        probe(name, AT_COST, columns)
    }));
    for shards in [1, 64] {
        rows.push(probe(
            format!("200 us beside {shards} occupied shard{}", plural(shards)),
            BESIDE,
            with(
                move || use_timer(Timer::builder().shards(shards)),
                each!(punctuality::beside_far_timers(shards, MILLI / 5, span)),
            ),
        ));
    }
    let std = Some(Box::new(move || punctuality::thread_sleep_while_busy(BUSY, span)) as _);
    rows.extend([
        probe(
            "lateness of 1 ms in a tokio task",
            LATENESS,
            each!(punctuality::in_executor(Workers, BUSY, span)),
        ),
        probe(
            "lateness of 1 ms, processors busy",
            LATENESS,
            each!(punctuality::parked_while_busy(BUSY, span), std),
        ),
        probe(
            "lateness of 1 ms, processors busy, turned by the thread that sleeps",
            LATENESS,
            ours(move || punctuality::turning_while_busy(BUSY, span)),
        ),
        probe(
            "lateness of 30 ms, worker blocked",
            LATENESS,
            each!(punctuality::beside_blocked_worker(BLOCKED, span)),
        ),
        probe(
            "lateness of 10 thousand a second",
            RATE,
            each!(expiry::at_a_rate(10 * THOUSAND, span)),
        ),
        probe("each earlier than the last", DESCENDING, each!(alarm::descending())),
    ]);
    rows
}

/// The processes of all peers rest at the same time.
fn costs_at_rest(effort: Effort) -> Vec<Scenario> {
    const REST: &[Metric] = &[("driver wake-ups", ""), ("processor time", "us")];
    let (span, delay) = (4 * effort.span, 8 * effort.span);
    let at_rest = |name, columns| Scenario { name, metrics: REST, how: How::AtRest(columns) };
    let (while_resting, until_due) = (time(span), time(delay));
    vec![
        at_rest(format!("{while_resting}, nothing pending"), each!(rest::nothing_pending(span))),
        at_rest(format!("{while_resting}, 10 thousand far timers"), each!(rest::far_timers(span))),
        at_rest(format!("one {until_due} timer"), each!(rest::one_timer(delay))),
        at_rest(
            format!("{until_due} of 10 thousand limits of 60 s"),
            each!(rest::limits(60 * SECOND, delay)),
        ),
        at_rest(
            format!("{until_due} of 10 thousand limits of 60 s, 1 s of tolerance"),
            tolerant(SECOND, each!(rest::limits(60 * SECOND, delay))),
        ),
    ]
}

fn memory(effort: Effort) -> Vec<Scenario> {
    const SIZE: &[Metric] = &[("", "bytes")];
    const BURST: &[Metric] = &[
        ("allocated each", "bytes"),
        ("resident each", "bytes"),
        ("allocated each once dropped", "bytes"),
        ("resident each once dropped", "bytes"),
    ];
    const SURVIVORS: &[Metric] = &[
        ("allocated at the peak", "MB"),
        ("resident at the peak", "MB"),
        ("allocated", "MB"),
        ("resident", "MB"),
    ];
    const EACH: &[Metric] = &[("allocated each", "bytes"), ("resident each", "bytes")];
    let mass = effort.mass;
    let armed = format!("{} armed", count(mass));
    let left = format!("{} in boxes, 1 in 256 left", count(mass));
    vec![
        once("size of the future", SIZE, each!(bursts::size())),
        probe(armed, BURST, each!(bursts::memory(mass))),
        probe(left, SURVIVORS, each!(bursts::survivors(mass))),
        probe(clones_of_a_cron_expression(mass / 10), EACH, ours(move || cron::memory(mass / 10))),
    ]
}

fn clones_of_a_cron_expression(clones: usize) -> String {
    format!("{} clones of a cron expression, armed", count(clones))
}

/// tokio's column is tokio-util's queue.
fn queues(effort: Effort) -> Vec<Scenario> {
    let mass = effort.mass;
    let many = mass / 10;
    vec![
        probe(
            format!("DelayQueue, {} due, each", count(mass)),
            NANOS,
            ours_and_tokio(
                move || queues::backlog::<DelayQueue>(mass),
                move || queues::backlog::<TheirDelayQueue>(mass),
            ),
        ),
        probe(
            format!("DelayQueue, {} removed in random order, each", count(mass)),
            NANOS,
            ours_and_tokio(
                move || queues::removed_at_random::<DelayQueue>(mass),
                move || queues::removed_at_random::<TheirDelayQueue>(mass),
            ),
        ),
        probe(
            format!("DelayQueue, half of {} due at one instant, worst poll", count(many)),
            MICROS,
            ours_and_tokio(
                move || queues::worst_poll::<DelayQueue>(many),
                move || queues::worst_poll::<TheirDelayQueue>(many),
            ),
        ),
    ]
}

/// Timers, drivers and clocks of one's own.
fn own(effort: Effort) -> Vec<Scenario> {
    let mass = effort.mass;
    let few = mass / 31;
    let mut rows = Vec::from([1, 8, 64, 256].map(|shards| {
        let name = format!("turn with nothing due, {shards} occupied shard{}", plural(shards));
        work(name, ours(move || turns::occupied_turn(shards)))
    }));
    rows.push(probe(
        "arm + cancel, 2 threads of one shard",
        NANOS,
        ours(move || own::of_one_shard(mass / 2)),
    ));
    rows.extend([1, 2].map(|threads| {
        let name = format!("arm + cancel, own Timer, on {threads} thread{}", plural(threads));
        probe(name, NANOS, ours(move || own::contended(threads, mass / 2)))
    }));
    rows.extend([1, 8].map(|shards| {
        let shards_name = format!("{shards} shard{}", plural(shards));
        let name = format!("VirtualClock, {shards_name}, {} timers, each", count(few));
        probe(name, MICROS, ours(move || own::virtual_clock(shards, few)))
    }));
    let name = format!("{}, each", clones_of_a_cron_expression(mass / 10));
    rows.push(probe(name, NANOS, ours(move || cron::arming(mass / 10))));
    rows
}

/// The ending of a word for so many.
fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}
