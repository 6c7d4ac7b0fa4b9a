//! What a node counts and measures, for Prometheus and for the page.
//!
//! | metric | kind | labels | what |
//! |---|---|---|---|
//! | `tourbillond_callbacks_total` | counter | `app`, `outcome` | attempts that ended: `succeeded`, `retried`, `dead`, `given_up` |
//! | `tourbillond_postponed_total` | counter | `app`, `limit` | attempts put off by a limit: of a `host`, or the `rate` |
//! | `tourbillond_running` | gauge | `app` | callbacks that run |
//! | `tourbillond_callback_seconds` | histogram | `app` | how long a callback took |
//! | `tourbillond_lateness_seconds` | histogram | `app` | how long after it was due a callback started |
//! | `tourbillond_lateness_quantile_seconds` | gauge | `quantile` | of this node since it started: 0.5, 0.9, 0.99, 0.9999 |
//! | `tourbillond_schedules` | gauge | `state` | of the cluster: `enabled`, `disabled` |
//! | `tourbillond_overdue` | gauge | | of the cluster: attempts that are due and not claimed |
//!
//! Lateness is by the database's clock up to the claim, and by the node's from then on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::model::{Bucket, Lateness};

/// Upper ends of the buckets for Prometheus, in seconds.
const SECONDS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0];

const QUANTILES: [(&str, f64); 4] =
    [("0.5", 0.5), ("0.9", 0.9), ("0.99", 0.99), ("0.9999", 0.9999)];

/// How late this node's callbacks started.
static LATE: Spans = Spans::new();

/// Where metrics are collected: once in a process.
static COLLECTED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts to collect. If something else collects in this process already, it goes on to.
pub fn collect() {
    COLLECTED.get_or_init(|| {
        let mut builder = PrometheusBuilder::new();
        for name in ["callback_seconds", "lateness_seconds"] {
            let name = Matcher::Suffix(name.to_owned());
            builder = builder.set_buckets_for_metric(name, &SECONDS).expect("there are buckets");
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).is_ok().then_some(handle)
    });
}

/// Moves what was measured into its buckets; until then it takes memory. Call it every few seconds.
pub fn tidy() {
    if let Some(Some(handle)) = COLLECTED.get() {
        handle.run_upkeep();
    }
}

/// What was collected, as Prometheus reads it. Empty if nothing [collects](collect) here.
pub fn text() -> String {
    let Some(Some(handle)) = COLLECTED.get() else { return String::new() };
    for (name, quantile) in QUANTILES {
        let late = LATE.quantile(quantile).as_secs_f64();
        gauge!("tourbillond_lateness_quantile_seconds", "quantile" => name).set(late);
    }
    handle.render()
}

/// Takes note of what the database has.
pub fn found(enabled: u64, disabled: u64, overdue: u64) {
    gauge!("tourbillond_schedules", "state" => "enabled").set(enabled as f64);
    gauge!("tourbillond_schedules", "state" => "disabled").set(disabled as f64);
    gauge!("tourbillond_overdue").set(overdue as f64);
}

/// How late this node's callbacks started, since it started.
pub fn lateness() -> Lateness {
    let ms = |quantile| LATE.quantile(quantile).as_secs_f64() * 1e3;
    let mut histogram = Vec::with_capacity(SECONDS.len() + 1);
    let mut before = 0;
    for seconds in SECONDS {
        let below = LATE.below(Duration::from_secs_f64(seconds));
        histogram.push(Bucket { le_ms: Some(seconds * 1e3), count: below - before });
        before = below;
    }
    let count = LATE.below(Duration::MAX).saturating_sub(before);
    histogram.push(Bucket { le_ms: None, count });
    Lateness { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p9999: ms(0.9999), histogram }
}

/// What is counted of one app.
#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) succeeded: Counter,
    pub(crate) retried: Counter,
    pub(crate) dead: Counter,
    pub(crate) given_up: Counter,
    pub(crate) postponed_by_host: Counter,
    pub(crate) postponed_by_rate: Counter,
    pub(crate) running: Gauge,
    took: Histogram,
    late: Histogram,
}

impl Meters {
    pub(crate) fn new(app: &str) -> Self {
        let app = || app.to_owned();
        let ended = |outcome: &'static str| {
            let name = "tourbillond_callbacks_total";
            counter!(name, "app" => app(), "outcome" => outcome)
        };
        let postponed = |limit: &'static str| {
            let name = "tourbillond_postponed_total";
            counter!(name, "app" => app(), "limit" => limit)
        };
        Self {
            succeeded: ended("succeeded"),
            retried: ended("retried"),
            dead: ended("dead"),
            given_up: ended("given_up"),
            postponed_by_host: postponed("host"),
            postponed_by_rate: postponed("rate"),
            running: gauge!("tourbillond_running", "app" => app()),
            took: histogram!("tourbillond_callback_seconds", "app" => app()),
            late: histogram!("tourbillond_lateness_seconds", "app" => app()),
        }
    }

    /// A callback starts so long after it was due.
    pub(crate) fn starts(&self, late: Duration) {
        LATE.count(late);
        self.late.record(late.as_secs_f64());
    }

    /// A callback took so long.
    pub(crate) fn took(&self, span: Duration) {
        self.took.record(span.as_secs_f64());
    }
}

/// How many parts a doubling has.
const PARTS: usize = 16;

/// How many doublings of a microsecond there are: up to an hour and more.
const DOUBLINGS: usize = 33;

/// Spans, counted in buckets that are a sixteenth of their value wide.
struct Spans {
    /// ORDERING: Relaxed throughout; a count is only ever read for itself.
    counts: [AtomicU64; PARTS * DOUBLINGS],
}

impl Spans {
    const fn new() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; PARTS * DOUBLINGS] }
    }

    fn bucket(span: Duration) -> usize {
        let us = span.as_micros();
        let us = usize::try_from(us).unwrap_or(usize::MAX);
        if us < PARTS {
            return us;
        }
        // The highest bit says which doubling, and the four below it which part.
        let doubling = us.ilog2() - PARTS.ilog2();
        let part = (us >> doubling) - PARTS;
        ((doubling as usize + 1) * PARTS + part).min(PARTS * DOUBLINGS - 1)
    }

    /// The first span that is in a later bucket.
    fn end(bucket: usize) -> Duration {
        let (doubling, part) = (bucket / PARTS, bucket % PARTS + 1);
        let us = match doubling {
            0 => part,
            doubling => (PARTS + part) << (doubling - 1),
        };
        Duration::from_micros(us as u64)
    }

    fn count(&self, span: Duration) {
        self.counts[Self::bucket(span)].fetch_add(1, Relaxed);
    }

    /// How many are shorter than `span`, within the width of a bucket.
    fn below(&self, span: Duration) -> u64 {
        let last = if span == Duration::MAX { self.counts.len() } else { Self::bucket(span) };
        self.counts[..last].iter().map(|count| count.load(Relaxed)).sum()
    }

    /// What a part of them did not exceed: the end of a bucket. Zero if there is none.
    fn quantile(&self, quantile: f64) -> Duration {
        let counts = self.counts.each_ref().map(|count| count.load(Relaxed));
        let all = counts.iter().sum::<u64>();
        let rank = ((all as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map_or(Duration::ZERO, Self::end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for bucket in 0..PARTS * DOUBLINGS - 1 {
            let end = Spans::end(bucket);
            assert_eq!(Spans::bucket(end), bucket + 1);
            assert_eq!(Spans::bucket(end - Duration::from_nanos(1)), bucket);
        }
        assert_eq!(Spans::bucket(Duration::MAX), PARTS * DOUBLINGS - 1);
        assert!(Spans::end(PARTS * DOUBLINGS - 2) > Duration::from_secs(3_600));
    }

    #[test]
    fn a_quantile_is_exact_within_a_sixteenth() {
        let spans = Spans::new();
        assert_eq!(spans.quantile(0.5), Duration::ZERO);
        for ms in 1..=10_000 {
            spans.count(Duration::from_millis(ms));
        }
        for (quantile, ms) in [(0.5, 5_000), (0.9, 9_000), (0.99, 9_900), (0.9999, 9_999)] {
            let (found, exact) = (spans.quantile(quantile), Duration::from_millis(ms));
            assert!(found >= exact && found <= exact * 17 / 16, "{quantile}: {found:?}");
        }
        assert_eq!(spans.below(Duration::MAX), 10_000);
        let below = spans.below(Duration::from_secs(1));
        assert!((930..=1_000).contains(&below), "{below}");
    }
}
