//! Metrics of a node, for Prometheus and for the page.
//!
//! Each is described at `/metrics`. Values of labels come only from the configuration and this
//! code, so that their number is bounded; after a removal from the configuration they are shown
//! unchanged until the process ends. Lateness is by the database's clock up to the claim, and by
//! the node's from then on.

#[cfg(target_os = "linux")]
mod process;
mod requests;
mod timed;
mod tokens;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tourbillon_cron::ZoneData;
use tourbillon_durable::Stats;

pub(crate) use requests::count;
pub(crate) use timed::Timed;
pub(crate) use tokens::{show_uses, used};

use crate::model::{Bucket, Lateness};

const CALLBACKS: &str = "tourbillond_callbacks_total";
const POSTPONED: &str = "tourbillond_postponed_total";
const LAST_SUCCESS: &str = "tourbillond_last_success_timestamp_seconds";
const RUNNING: &str = "tourbillond_running";
const CALLBACK_SECONDS: &str = "tourbillond_callback_seconds";
const LATENESS_SECONDS: &str = "tourbillond_lateness_seconds";
const CLAIM_LATENESS_SECONDS: &str = "tourbillon_durable_lateness_seconds";
const SCHEDULES: &str = "tourbillond_schedules";
const OVERDUE: &str = "tourbillond_overdue";
const CLOCK_BEHIND: &str = "tourbillond_clock_behind_seconds";
const BEHIND: &str = "tourbillond_planner_behind_seconds";
const SKIPPED: &str = "tourbillond_skipped_total";
const REQUESTS: &str = "tourbillond_requests_total";
const REQUEST_SECONDS: &str = "tourbillond_request_seconds";
const DATABASE_SECONDS: &str = "tourbillond_database_seconds";
const DATABASE_ERRORS: &str = "tourbillond_database_errors_total";
const BUILD: &str = "tourbillond_build_info";
const ZONE_DATA: &str = "tourbillond_zone_data_info";
const UNREADABLE: &str = "tourbillond_unreadable_total";
const REZONED: &str = "tourbillond_rezoned_total";

const COUNTERS: [(&str, &str); 7] = [
    (CALLBACKS, "Attempts that ended, by app and outcome."),
    (POSTPONED, "Attempts postponed by a limit, a shortage or a proxy, by app and limit."),
    (SKIPPED, "Occurrences that this node recorded as skipped, by reason."),
    (REQUESTS, "Requests, by route, method and status."),
    (DATABASE_ERRORS, "Failed calls to the database, by operation."),
    (UNREADABLE, "Times that a look for due schedules found one that this node cannot read."),
    (REZONED, "Schedules whose next time moved, as the rules of their zone changed."),
];

const GAUGES: [(&str, &str); 8] = [
    (
        LAST_SUCCESS,
        "Start of the last attempt that succeeded, by app, since the Unix epoch; 0 without one.",
    ),
    (RUNNING, "Callbacks that run, by app."),
    (SCHEDULES, "Schedules of the cluster, by state."),
    (OVERDUE, "Attempts of the cluster that are due and not claimed."),
    (
        CLOCK_BEHIND,
        "How far the database's clock is behind the newest record; 0 unless it was set back.",
    ),
    (
        BEHIND,
        "Time since the first occurrence that is due and that this node has not planned; 0 while \
         it plans in time.",
    ),
    (BUILD, "The version that runs; the value is always 1."),
    (ZONE_DATA, "The version of the time zone data in use: 1, and 0 for one that was."),
];

/// Each is of seconds.
const HISTOGRAMS: [(&str, &str); 5] = [
    (CALLBACK_SECONDS, "Duration of callbacks, by app."),
    (LATENESS_SECONDS, "Time from when a callback was due to its start, by app."),
    (
        CLAIM_LATENESS_SECONDS,
        "Time from when a timer was due to its claim, by the clock of the database.",
    ),
    (
        REQUEST_SECONDS,
        "Time from the head of a request to the head of its answer, by route and method.",
    ),
    (DATABASE_SECONDS, "Duration of calls to the database, by operation."),
];

/// Upper ends of the buckets for Prometheus, in seconds.
const SECONDS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 60.0];

/// Lateness of this node's callbacks.
static LATE: Spans = Spans::new();

/// Start of each app's last successful attempt, in milliseconds since the Unix epoch. It outlives
/// the meters of an app: a reload makes them anew while attempts run.
static LAST_SUCCESSES: Mutex<BTreeMap<String, i64>> = Mutex::new(BTreeMap::new());

/// The data of time zones that were shown last.
static ZONES_SHOWN: Mutex<Option<String>> = Mutex::new(None);

/// Recorder of metrics: one in a process.
static COLLECTED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Starts to collect. If something else collects in this process already, that one continues.
pub fn collect() {
    COLLECTED.get_or_init(|| {
        let mut builder = PrometheusBuilder::new();
        // Every histogram is of seconds.
        let name = Matcher::Suffix("_seconds".to_owned());
        builder = builder.set_buckets_for_metric(name, &SECONDS).expect("there are buckets");
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        let is_ours = metrics::set_global_recorder(recorder).is_ok();
        describe();
        is_ours.then_some(handle)
    });
}

/// Describes each metric.
fn describe() {
    for (name, text) in COUNTERS {
        describe_counter!(name, Unit::Count, text);
    }
    for (name, text) in GAUGES {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        describe_gauge!(name, unit, text);
    }
    for (name, text) in HISTOGRAMS {
        describe_histogram!(name, Unit::Seconds, text);
    }
    tokens::describe();
    #[cfg(target_os = "linux")]
    process::describe();
}

/// Moves measurements into their buckets; until then they take memory. Call it every few seconds.
pub fn tidy() {
    if let Some(Some(handle)) = COLLECTED.get() {
        handle.run_upkeep();
    }
}

/// Returns the metrics in the format of Prometheus. Empty if nothing [collects](collect) here.
pub fn text() -> String {
    let Some(Some(handle)) = COLLECTED.get() else { return String::new() };
    gauge!(BUILD, "version" => env!("CARGO_PKG_VERSION")).set(1);
    #[cfg(target_os = "linux")]
    if let Err(error) = process::read() {
        tracing::debug!(%error, "the process could not be measured");
    }
    handle.render()
}

/// Notes the database's counts.
pub fn found(enabled: u64, disabled: u64, overdue: u64) {
    gauge!(SCHEDULES, "state" => "enabled").set(enabled as f64);
    gauge!(SCHEDULES, "state" => "disabled").set(disabled as f64);
    gauge!(OVERDUE).set(overdue as f64);
}

/// Notes what the node counted, and the data of time zones that it uses.
pub fn node(stats: &Stats) {
    counter!(UNREADABLE).absolute(stats.not_understood);
    counter!(REZONED).absolute(stats.rezoned);
    let now = ZoneData::current().to_string();
    let mut shown = ZONES_SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(before) = shown.replace(now.clone()).filter(|before| *before != now) {
        gauge!(ZONE_DATA, "version" => before).set(0);
    }
    gauge!(ZONE_DATA, "version" => now).set(1);
    gauge!(BEHIND).set(stats.planner_behind.as_secs_f64());
    for (reason, count) in [
        ("missed", stats.skipped_missed),
        ("coalesced", stats.skipped_coalesced),
        ("overlap", stats.skipped_overlap),
        ("excluded", stats.skipped_excluded),
    ] {
        counter!(SKIPPED, "reason" => reason).absolute(count);
    }
}

/// Notes how far the database's clock is behind the newest record.
pub(crate) fn clock_is_behind(by: Duration) {
    gauge!(CLOCK_BEHIND).set(by.as_secs_f64());
}

/// Returns how late this node's callbacks started, since it started.
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

/// Meters of one app.
#[derive(Clone)]
pub(crate) struct Meters {
    pub(crate) succeeded: Counter,
    pub(crate) retried: Counter,
    pub(crate) dead: Counter,
    pub(crate) given_up: Counter,
    pub(crate) postponed_by_host: Counter,
    pub(crate) postponed_by_rate: Counter,
    pub(crate) postponed_by_shortage: Counter,
    pub(crate) postponed_by_proxy: Counter,
    last_success: Gauge,
    pub(crate) running: Gauge,
    took: Histogram,
    late: Histogram,
}

impl Meters {
    pub(crate) fn new(app: &str) -> Self {
        let app = || app.to_owned();
        let ended =
            |outcome: &'static str| counter!(CALLBACKS, "app" => app(), "outcome" => outcome);
        let postponed = |limit: &'static str| counter!(POSTPONED, "app" => app(), "limit" => limit);
        Self {
            succeeded: ended("succeeded"),
            retried: ended("retried"),
            dead: ended("dead"),
            given_up: ended("given_up"),
            postponed_by_host: postponed("host"),
            postponed_by_rate: postponed("rate"),
            postponed_by_shortage: postponed("shortage"),
            postponed_by_proxy: postponed("proxy"),
            last_success: gauge!(LAST_SUCCESS, "app" => app()),
            running: gauge!(RUNNING, "app" => app()),
            took: histogram!(CALLBACK_SECONDS, "app" => app()),
            late: histogram!(LATENESS_SECONDS, "app" => app()),
        }
    }

    /// Notes the success of an app's callback that started at this time, in milliseconds since the
    /// Unix epoch. It changes nothing if a later start has succeeded.
    pub(crate) fn succeeds(&self, app: &str, started_ms: i64) {
        let mut all = LAST_SUCCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.entry(app.to_owned()).or_default();
        *last = started_ms.max(*last);
        // Under the lock, so that no other sets it back.
        self.last_success.set(*last as f64 / 1e3);
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

/// Parts of a doubling.
const PARTS: usize = 16;

/// Doublings of a microsecond: up to an hour and more.
const DOUBLINGS: usize = 33;

/// Spans, counted in buckets that are a sixteenth of their value wide.
struct Spans {
    /// Counts by bucket. Each is only ever read for itself.
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
        // ORDERING: Relaxed; a count publishes nothing but itself.
        self.counts[Self::bucket(span)].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many are shorter than `span`, within the width of a bucket.
    fn below(&self, span: Duration) -> u64 {
        let last = if span == Duration::MAX { self.counts.len() } else { Self::bucket(span) };
        // ORDERING: Relaxed; as in `count`.
        self.counts[..last].iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns an upper bound of this part of them: the end of a bucket. Zero if there is none.
    fn quantile(&self, quantile: f64) -> Duration {
        // ORDERING: Relaxed; as in `count`.
        let counts = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
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
    fn alerts_and_the_dashboard_ask_for_metrics_that_there_are() {
        let metrics = [&COUNTERS[..], &GAUGES, &HISTOGRAMS].concat();
        let files = [
            include_str!("../deploy/alerts.yaml"),
            include_str!("../deploy/alerts.test.yaml"),
            include_str!("../deploy/dashboard.json"),
        ];
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        for file in files {
            let words = file.split(|char| !is_name(char));
            let asked = words.filter(|word| word.starts_with("tourbillon") && word.contains('_'));
            let asked: Vec<_> = asked.collect();
            assert!(asked.len() > 5);
            for word in asked {
                let name = word.strip_suffix("_bucket").unwrap_or(word);
                assert!(metrics.iter().any(|(metric, _)| *metric == name), "{word}");
            }
        }
        let dashboard: serde_json::Value = serde_json::from_str(files[2]).unwrap();
        assert!(dashboard["panels"].as_array().is_some_and(|panels| !panels.is_empty()));
    }

    #[test]
    fn each_alert_is_shown_to_fire() {
        let shown = include_str!("../deploy/alerts.test.yaml");
        let alerts = include_str!("../deploy/alerts.yaml").lines();
        let alerts = alerts.filter_map(|line| line.trim().strip_prefix("- alert: "));
        let alerts = alerts.collect::<Vec<_>>();
        assert!(alerts.len() > 5);
        for name in alerts {
            let fires = format!("alertname: {name}\n        exp_alerts:");
            assert!(shown.contains(&fires), "{name}");
        }
    }

    #[test]
    fn a_long_attempt_that_succeeds_late_does_not_set_the_last_success_back() {
        collect();
        let app = "long-and-short";
        let gauge = || {
            let line = format!("{LAST_SUCCESS}{{app=\"{app}\"}} ");
            text().lines().find_map(|text| text.strip_prefix(&line).map(str::to_owned))
        };
        let before_reload = Meters::new(app);
        let meters = Meters::new(app);
        meters.succeeds(app, 7_000);
        meters.succeeds(app, 5_000);
        assert_eq!(gauge().as_deref(), Some("7"));
        before_reload.succeeds(app, 6_000);
        assert_eq!(gauge().as_deref(), Some("7"));
        meters.succeeds(app, 8_500);
        assert_eq!(gauge().as_deref(), Some("8.5"));
    }

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
