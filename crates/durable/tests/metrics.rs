//! Metrics of a node in the `metrics` facade.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use ::metrics_0_24::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, set_global_recorder,
};
use tourbillon::Timer;
use tourbillon_durable::Engine;
use tourbillon_durable::metrics_0_24::publish;
use tourbillon_durable::store::Memory;

/// Values that were recorded last, by name.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, f64>>>);

struct Of(Seen, String);

impl Of {
    fn put(&self, value: f64) {
        self.0.0.lock().unwrap().insert(self.1.clone(), value);
    }
}

impl CounterFn for Of {
    fn increment(&self, _: u64) {
        unreachable!("counters are set");
    }

    fn absolute(&self, value: u64) {
        self.put(value as f64);
    }
}

impl HistogramFn for Of {
    fn record(&self, value: f64) {
        self.put(value);
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(Of(self.clone(), key.name().to_owned())))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        unreachable!("there are none")
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Of(self.clone(), key.name().to_owned())))
    }
}

#[test]
fn counters_and_lateness_are_recorded() {
    let seen = Seen::default();
    set_global_recorder(seen.clone()).ok().unwrap();
    pollster::block_on(async {
        let engine = Engine::builder().start(Box::new(Memory::new(&Timer::global()))).unwrap();
        let mut mails = engine.worker("mail", 1);
        let client = engine.client().unwrap();
        client.once("mail", SystemTime::now()).create().await.unwrap();
        mails.next().await.unwrap().complete().await.unwrap();
        publish(&engine, "one");
    });
    let seen = seen.0.lock().unwrap();
    let of = |name: &str| seen.get(&format!("tourbillon_durable_{name}")).copied();
    assert_eq!((of("claimed_total"), of("succeeded_total")), (Some(1.0), Some(1.0)));
    assert!(of("lateness_seconds").is_some_and(|late| late >= 0.0), "{seen:?}");
}
