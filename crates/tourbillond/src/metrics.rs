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
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use sketches_ddsketch::DDSketch;
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
static LATE: LazyLock<Mutex<Spans>> = LazyLock::new(Mutex::default);

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
    LATE.lock().unwrap_or_else(PoisonError::into_inner).lateness()
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
        LATE.lock().unwrap_or_else(PoisonError::into_inner).count(late);
        self.late.record(late.as_secs_f64());
    }

    /// A callback took so long.
    pub(crate) fn took(&self, span: Duration) {
        self.took.record(span.as_secs_f64());
    }
}

/// Spans, in seconds.
#[derive(Default)]
struct Spans {
    /// Quantiles, within a hundredth.
    sketch: DDSketch,
    /// Counts by the ends of [`SECONDS`], and of those beyond.
    counts: [u64; SECONDS.len() + 1],
}

impl Spans {
    fn count(&mut self, span: Duration) {
        let seconds = span.as_secs_f64();
        self.sketch.add(seconds);
        self.counts[SECONDS.partition_point(|end| *end < seconds)] += 1;
    }

    /// Returns them in milliseconds.
    fn lateness(&self) -> Lateness {
        let ms = |part| self.sketch.quantile(part).ok().flatten().unwrap_or_default() * 1e3;
        let ends = SECONDS.iter().map(|seconds| Some(seconds * 1e3)).chain([None]);
        let counted = ends.zip(self.counts).map(|(le_ms, count)| Bucket { le_ms, count });
        let histogram = counted.collect();
        Lateness { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p9999: ms(0.9999), histogram }
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
    fn spans_have_quantiles_within_a_hundredth_and_exact_counts() {
        let mut spans = Spans::default();
        assert_eq!(spans.lateness().p50, 0.0);
        for ms in 1..=100_000 {
            spans.count(Duration::from_millis(ms));
        }
        let late = spans.lateness();
        for (found, exact) in
            [(late.p50, 5e4), (late.p90, 9e4), (late.p99, 9.9e4), (late.p9999, 9.999e4)]
        {
            assert!((found / exact - 1.0).abs() < 0.0101, "{found} {exact}");
        }
        let counts = late.histogram.iter().map(|bucket| bucket.count).collect::<Vec<_>>();
        let expected = [1, 1, 3, 5, 10, 30, 50, 100, 300, 500, 1_000, 3_000, 5_000, 50_000, 40_000];
        assert_eq!(counts, expected);
    }
}
