//! A timer's counters, for the `metrics` facade.
//!
//! ```
//! use std::time::Duration;
//!
//! use tourbillon::Timer;
//!
//! async fn publish_for_ever(timer: Timer) {
//!     tourbillon_metrics::describe();
//!     let mut ticks = timer.interval(Duration::from_secs(10));
//!     loop {
//!         ticks.tick().await;
//!         tourbillon_metrics::publish(&timer, "main");
//!     }
//! }
//! ```
//!
//! [`publish`] reads the timer's [`Stats`] and sets the metrics to them, so the facade costs
//! nothing between two calls. Call it as often as the metrics are collected.
//!
//! Each metric has the label `timer`, the name given to [`publish`].
//!
//! | metric | kind | what |
//! |---|---|---|
//! | `tourbillon_armed_total` | counter | [`Stats::armed`] |
//! | `tourbillon_fired_total` | counter | [`Stats::fired`] |
//! | `tourbillon_cancelled_total` | counter | [`Stats::cancelled`] |
//! | `tourbillon_driver_wakeups_total` | counter | [`Stats::driver_wakeups`] |
//! | `tourbillon_unparks_total` | counter | [`Stats::unparks`] |
//! | `tourbillon_waker_panics_total` | counter | [`Stats::waker_panics`] |
//! | `tourbillon_slow_calls_total` | counter | [`Stats::slow_calls`] |
//! | `tourbillon_pending` | gauge | [`Stats::pending`] |
//! | `tourbillon_shards` | gauge | [`Stats::shards`] |
//! | `tourbillon_shards_used` | gauge | [`Stats::shards_used`] |
//! | `tourbillon_lateness_max_seconds` | gauge | [`Stats::lateness_max`] |
//! | `tourbillon_longest_call_seconds` | gauge | [`Stats::longest_call`] |
//! | `tourbillon_lateness_seconds` | gauge | percentiles of [`Timer::lateness`], where the timer keeps it: with the label `quantile`, at 0.5, 0.9, 0.99 and 0.999 |

#![forbid(unsafe_code)]

use metrics::{Key, Label, Level, Metadata, SharedString, Unit, with_recorder};

use tourbillon::Timer;
use tourbillon::stats::Stats;

static METADATA: Metadata<'static> = Metadata::new("tourbillon", Level::INFO, Some(module_path!()));

/// Description of a metric, and how to read its value from the counters.
struct Metric<V> {
    name: &'static str,
    unit: Unit,
    what: &'static str,
    read: fn(&Stats) -> V,
}

const COUNTERS: [Metric<u64>; 7] = [
    Metric {
        name: "tourbillon_armed_total",
        unit: Unit::Count,
        what: "Sleeps armed",
        read: |stats| stats.armed,
    },
    Metric {
        name: "tourbillon_fired_total",
        unit: Unit::Count,
        what: "Armed sleeps that reached their deadline",
        read: |stats| stats.fired,
    },
    Metric {
        name: "tourbillon_cancelled_total",
        unit: Unit::Count,
        what: "Armed sleeps that were dropped before their deadline",
        read: |stats| stats.cancelled,
    },
    Metric {
        name: "tourbillon_driver_wakeups_total",
        unit: Unit::Count,
        what: "Wake-ups of the driver thread",
        read: |stats| stats.driver_wakeups,
    },
    Metric {
        name: "tourbillon_unparks_total",
        unit: Unit::Count,
        what: "Unparks sent to the driver",
        read: |stats| stats.unparks,
    },
    Metric {
        name: "tourbillon_waker_panics_total",
        unit: Unit::Count,
        what: "Caught panics of wakers",
        read: |stats| stats.waker_panics,
    },
    Metric {
        name: "tourbillon_slow_calls_total",
        unit: Unit::Count,
        what: "Wakers and callbacks that took longer than the limit",
        read: |stats| stats.slow_calls,
    },
];

const GAUGES: [Metric<f64>; 5] = [
    Metric {
        name: "tourbillon_pending",
        unit: Unit::Count,
        what: "Armed sleeps",
        read: |stats| stats.pending as f64,
    },
    Metric {
        name: "tourbillon_shards",
        unit: Unit::Count,
        what: "Shards",
        read: |stats| stats.shards as f64,
    },
    Metric {
        name: "tourbillon_shards_used",
        unit: Unit::Count,
        what: "Shards that have ever had a timer",
        read: |stats| stats.shards_used as f64,
    },
    Metric {
        name: "tourbillon_lateness_max_seconds",
        unit: Unit::Seconds,
        what: "The most that the driver fired a timer after its deadline",
        read: |stats| stats.lateness_max.as_secs_f64(),
    },
    Metric {
        name: "tourbillon_longest_call_seconds",
        unit: Unit::Seconds,
        what: "The longest that a waker or a callback kept the driver",
        read: |stats| stats.longest_call.as_secs_f64(),
    },
];

/// Metric from a timer's histogram, named as in Prometheus' summaries.
const LATENESS: &str = "tourbillon_lateness_seconds";
const QUANTILES: [(&str, f64); 4] = [("0.5", 50.0), ("0.9", 90.0), ("0.99", 99.0), ("0.999", 99.9)];

/// Tells the current recorder the units and the meanings of all metrics. Once is enough.
pub fn describe() {
    with_recorder(|recorder| {
        for Metric { name, unit, what, .. } in COUNTERS {
            recorder.describe_counter(name.into(), Some(unit), what.into());
        }
        for Metric { name, unit, what, .. } in GAUGES {
            recorder.describe_gauge(name.into(), Some(unit), what.into());
        }
        let what = "How late the driver fired timers, by quantile, since the timer was made";
        recorder.describe_gauge(LATENESS.into(), Some(Unit::Seconds), what.into());
    });
}

/// Sets the metrics to the present counters of `timer`, labelled with its `name`.
///
/// Takes each shard's lock in turn, and calls the recorder, the thread's own or the global one,
/// with none held. Without a recorder it does nothing.
///
/// A timer is to have the same name in all calls, and two timers two names: recorders do not let a
/// counter go back.
///
/// # Panics
///
/// If the recorder does.
///
/// # Examples
///
/// ```
/// use tourbillon::Timer;
///
/// // As from the handler of a scrape.
/// tourbillon_metrics::publish(&Timer::global(), "global");
/// ```
pub fn publish(timer: &Timer, name: impl Into<SharedString>) {
    let timer_label = Label::new("timer", name);
    let (stats, lateness) = (timer.stats(), timer.lateness());
    with_recorder(|recorder| {
        let labelled = |name| Key::from_parts(name, vec![timer_label.clone()]);
        for Metric { name, read, .. } in COUNTERS {
            recorder.register_counter(&labelled(name), &METADATA).absolute(read(&stats));
        }
        for Metric { name, read, .. } in GAUGES {
            recorder.register_gauge(&labelled(name), &METADATA).set(read(&stats));
        }
        let Some(lateness) = &lateness else { return };
        for (quantile, percent) in QUANTILES {
            let labels = vec![timer_label.clone(), Label::from_static_parts("quantile", quantile)];
            let key = Key::from_parts(LATENESS, labels);
            recorder
                .register_gauge(&key, &METADATA)
                .set(lateness.percentile(percent).as_secs_f64());
        }
    });
}
