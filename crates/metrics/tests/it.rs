//! The counters in a recorder of `metrics`.

// Counts in the atomics of `std`, which metrics does not on a processor of 32 bits.
#![cfg(target_pointer_width = "64")]

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_metrics::{describe, publish};

const SECOND: Duration = Duration::from_secs(1);

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A waker that runs a closure.
fn callback(action: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Callback<F>(F);

    impl<F: Fn() + Send + Sync + 'static> Wake for Callback<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }

    Waker::from(Arc::new(Callback(action)))
}

fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A timer on a virtual clock, and the clock.
fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

type Cells = Mutex<BTreeMap<String, Arc<AtomicU64>>>;

/// Keeps everything published: values by their name and labels, units by the name.
#[derive(Default)]
struct Board {
    counters: Cells,
    gauges: Cells,
    units: Mutex<BTreeMap<String, (Unit, String)>>,
}

impl Board {
    fn cell(cells: &Cells, key: &Key) -> Arc<AtomicU64> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(" "));
        Arc::clone(cells.lock().unwrap().entry(name).or_default())
    }

    fn describe(&self, key: &KeyName, unit: Option<Unit>, what: &SharedString) {
        let unit = unit.expect("all have a unit");
        let known = (unit, what.to_string());
        assert_eq!(self.units.lock().unwrap().insert(key.as_str().to_owned(), known), None);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let cells = self.counters.lock().unwrap();
        cells.iter().map(|(name, cell)| (name.clone(), cell.load(Ordering::SeqCst))).collect()
    }

    fn gauges(&self) -> Vec<(String, f64)> {
        let cells = self.gauges.lock().unwrap();
        let value = |cell: &AtomicU64| f64::from_bits(cell.load(Ordering::SeqCst));
        cells.iter().map(|(name, cell)| (name.clone(), value(cell))).collect()
    }
}

impl Recorder for Board {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.describe(&key, unit, &what);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, what: SharedString) {
        self.describe(&key, unit, &what);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        unreachable!("{key:?} is no histogram");
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Self::cell(&self.counters, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(Self::cell(&self.gauges, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        unreachable!("{key:?} is no histogram");
    }
}

/// A list as [`Board`] returns it.
fn named<V: Copy>(label: &str, list: &[(&str, V)]) -> Vec<(String, V)> {
    list.iter().map(|(name, value)| (format!("tourbillon_{name} timer={label}"), *value)).collect()
}

/// Fires five timers, one of them 1.5 s late and with a waker that panics; cancels two and leaves
/// one.
fn exercise(timer: &Timer, clock: &VirtualClock) -> impl Drop + use<> {
    for _ in 0..4 {
        clock.block_on(timer.sleep(SECOND));
    }
    let waker = callback(|| panic!("a waker that panics"));
    let mut armed = [1, 3, 3, 3].map(|n| timer.sleep(SECOND * n));
    armed.iter_mut().for_each(|sleep| assert!(poll_with(sleep, &waker).is_pending()));
    clock.jump(ms(2500));
    assert_eq!(clock.advance(Duration::ZERO), 1);
    let [_, _, _, left] = armed;
    left
}

#[test]
fn the_counters_are_published_as_they_are() {
    let (timer, clock) = virtual_timer();
    let board = Board::default();
    let publish = || with_local_recorder(&board, || publish(&timer, "mine"));
    let _left = exercise(&timer, &clock);
    publish();
    let counters = [
        ("armed_total", 8),
        ("cancelled_total", 2),
        ("driver_wakeups_total", 0),
        ("fired_total", 5),
        ("slow_calls_total", 0),
        ("unparks_total", 0),
        ("waker_panics_total", 1),
    ];
    assert_eq!(board.counters(), named("mine", &counters));
    let gauges = [
        ("lateness_max_seconds", 1.5),
        ("longest_call_seconds", 0.0),
        ("pending", 1.0),
        ("shards", 1.0),
        ("shards_used", 1.0),
    ];
    assert_eq!(board.gauges(), named("mine", &gauges));

    // Once more with no change, and with one.
    publish();
    assert_eq!(board.counters(), named("mine", &counters));
    clock.block_on(timer.sleep(Duration::from_nanos(1)));
    publish();
    assert_eq!(board.counters()[0].1, 9);
    assert_eq!(board.counters()[3].1, 6);
}

#[test]
fn slow_calls_and_the_longest_are_published() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(SECOND);
    let slow = clock.clone();
    assert!(poll_with(&mut sleep, &callback(move || slow.jump(ms(1500)))).is_pending());
    clock.advance(SECOND);
    let board = Board::default();
    with_local_recorder(&board, || publish(&timer, "mine"));
    assert!(board.counters().contains(&named("mine", &[("slow_calls_total", 1)])[0]));
    assert!(board.gauges().contains(&named("mine", &[("longest_call_seconds", 1.5)])[0]));
}

#[test]
fn what_a_driver_thread_counts_is_published_too() {
    let timer = Timer::builder().build().expect("the options are valid");
    pollster::block_on(timer.sleep(ms(1)));
    let board = Board::default();
    let before = timer.stats().driver_wakeups;
    with_local_recorder(&board, || publish(&timer, String::from("threaded")));
    let wakeups = board.counters()[2].clone();
    assert_eq!(wakeups.0, "tourbillon_driver_wakeups_total timer=threaded");
    assert!((before..=timer.stats().driver_wakeups).contains(&wakeups.1));
}

#[test]
fn two_timers_are_told_apart() {
    let ((one, clock), (other, _clock)) = (virtual_timer(), virtual_timer());
    clock.block_on(one.sleep(SECOND));
    let board = Board::default();
    with_local_recorder(&board, || {
        publish(&one, "one");
        publish(&other, "other");
    });
    let armed: Vec<_> = board.counters().into_iter().take(2).collect();
    let name = |label| format!("tourbillon_armed_total timer={label}");
    assert_eq!(armed, [(name("one"), 1), (name("other"), 0)]);
}

#[test]
fn percentiles_are_published_where_there_is_a_histogram() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).lateness_histogram(true);
    let timer = builder.build().expect("the options are valid");
    let _left = exercise(&timer, &clock);
    let board = Board::default();
    with_local_recorder(&board, || publish(&timer, "mine"));
    let quantiles: Vec<_> =
        board.gauges().into_iter().filter(|(name, _)| name.contains("quantile")).collect();
    let expected = [("0.5", 0.0), ("0.9", 1.5), ("0.99", 1.5), ("0.999", 1.5)];
    let name = |quantile| format!("tourbillon_lateness_seconds timer=mine quantile={quantile}");
    assert_eq!(quantiles, expected.map(|(quantile, value)| (name(quantile), value)));
}

#[test]
fn everything_that_is_published_is_described() {
    let clock = VirtualClock::new();
    let builder = Timer::builder().virtual_clock(&clock).lateness_histogram(true);
    let timer = builder.build().expect("the options are valid");
    let board = Board::default();
    with_local_recorder(&board, || {
        describe();
        publish(&timer, "mine");
    });
    let units = board.units.lock().unwrap();
    let published = board.counters().into_iter().map(|(name, _)| name);
    let published = published.chain(board.gauges().into_iter().map(|(name, _)| name));
    let mut names: Vec<_> =
        published.map(|name| name.split(' ').next().unwrap_or_default().to_owned()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names, Vec::from_iter(units.keys().cloned()));
    for (name, (unit, what)) in &*units {
        assert_eq!(name.ends_with("_seconds"), *unit == Unit::Seconds, "{name}: {what}");
    }
}

#[test]
fn without_a_recorder_nothing_happens() {
    let (timer, clock) = virtual_timer();
    describe();
    publish(&timer, "mine");
    clock.block_on(timer.sleep(SECOND));
}
