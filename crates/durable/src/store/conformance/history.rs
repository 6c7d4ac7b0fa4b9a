//! The history of occurrences that are over.

use std::time::Duration;

use super::{Bench, MOMENT, Rig, done};
use crate::id::TimerId;
use crate::store::{Finished, RecordQuery};

fn finished(bench: &mut Bench<'_>) -> TimerId {
    let id = bench.running();
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
    id
}

pub(super) fn records_come_in_pages(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut ids: Vec<TimerId> = (0..5).map(|_| finished(&mut bench)).collect();
    let found = bench.records_in_pages(RecordQuery::new());
    assert!(found.is_sorted_by_key(|record| (record.recorded, record.timer)));
    let mut found: Vec<TimerId> = found.iter().map(|record| record.timer).collect();
    ids.sort();
    found.sort();
    assert_eq!(found, ids);
}

pub(super) fn records_are_found_by_what_they_are_of(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut timers = [bench.timer(Duration::ZERO), bench.timer(Duration::ZERO)];
    timers[0].name = Some("one".to_owned());
    timers[1].kind = "bill".to_owned();
    bench.store.insert(&timers).unwrap();
    for timer in &timers {
        assert_eq!(bench.store.cancel(timer.id).unwrap(), crate::store::TimerUpdate::Done);
    }
    let mut found = |query: RecordQuery| -> Vec<TimerId> {
        bench.store.records(&query).unwrap().iter().map(|record| record.timer).collect()
    };
    let [one, two] = [timers[0].id, timers[1].id];
    let all = RecordQuery::new;
    assert_eq!(found(all().name("one")), [one]);
    assert_eq!(found(all().kind("bill")), [two]);
    assert_eq!(found(all().name("one").kind("bill")), []);
    assert_eq!(found(all().timer(two)), [two]);
}

pub(super) fn pruned_records_are_gone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    finished(&mut bench);
    bench.pass(MOMENT);
    let before = bench.now();
    bench.pass(MOMENT);
    let kept = finished(&mut bench);
    bench.store.prune(before, 1_000).unwrap();
    let found: Vec<TimerId> = bench.records().iter().map(|record| record.timer).collect();
    assert!(found.contains(&kept));
}
