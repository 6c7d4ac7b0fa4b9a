//! The history of occurrences that are over.

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

pub(super) fn pruned_records_are_gone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    finished(&mut bench);
    bench.pass(MOMENT);
    let before = bench.now();
    bench.pass(MOMENT);
    let kept = finished(&mut bench);
    bench.store.prune(before, 1_000).unwrap();
    let found: Vec<TimerId> = bench.records().iter().map(|record| record.timer).collect();
    assert_eq!(found, [kept]);
}
