//! Lives of nodes, and their orphans.

use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, done, join, join_again};
use crate::id::{Lease, NodeId, TimerId};
use crate::store::{Finished, How, Maintained};

pub(super) fn a_node_without_a_life_claims_nothing(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.insert(Duration::ZERO);
    let alive = bench.lease;
    bench.lease = Lease { node: NodeId::new(), epoch: 1 };
    assert_eq!(bench.claim(id), None);
    bench.lease = Lease { node: alive.node, epoch: alive.epoch + 1 };
    assert_eq!(bench.claim(id), None);
    bench.lease = alive;
    assert_eq!(bench.claim(id).unwrap().attempt, 1);
}

pub(super) fn a_beat_keeps_a_node_alive(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lease = join(&mut *bench.store, MOMENT).lease;
    let beat = bench.store.beat(lease, LONG).unwrap().unwrap();
    assert_eq!(beat.lease, lease);
    bench.pass(MOMENT * 2);
    assert_eq!(bench.store.maintain().unwrap().nodes, 0);
    assert!(bench.store.beat(lease, LONG).unwrap().is_some());
}

pub(super) fn a_dead_node_does_not_come_back_by_a_beat(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lease = join(&mut *bench.store, MOMENT).lease;
    bench.pass(MOMENT * 2);
    assert_eq!(bench.store.maintain().unwrap().nodes, 1);
    assert_eq!(bench.store.beat(lease, LONG).unwrap(), None);
    let id = bench.insert(Duration::ZERO);
    assert_eq!(bench.store.claim(lease, &[id]).unwrap().timers, []);
    assert_eq!(bench.store.maintain().unwrap().nodes, 0);
}

pub(super) fn a_node_joins_again_under_a_later_epoch(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let first = join(&mut *bench.store, MOMENT).lease;
    bench.pass(MOMENT * 2);
    bench.store.maintain().unwrap();
    let second = join_again(&mut *bench.store, first, LONG);
    bench.store.leave(second).unwrap();
    let third = join_again(&mut *bench.store, second, LONG);
    let fourth = join_again(&mut *bench.store, third, LONG);
    for (earlier, later) in [(first, second), (second, third), (third, fourth)] {
        assert!(later.epoch > earlier.epoch);
        assert_eq!(bench.store.beat(earlier, LONG).unwrap(), None);
    }
    assert!(bench.store.beat(fourth, LONG).unwrap().is_some());
}

pub(super) fn a_node_does_not_join_under_an_epoch_that_it_had(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let first = join(&mut *bench.store, MOMENT).lease;
    assert_eq!(bench.store.join(first, LONG).unwrap(), None);
    bench.pass(MOMENT * 2);
    assert_eq!(bench.store.maintain().unwrap().nodes, 1);
    assert_eq!(bench.store.join(first, LONG).unwrap(), None);
    let third = Lease { epoch: first.epoch + 2, ..first };
    assert!(bench.store.join(third, LONG).unwrap().is_some());
    let late = Lease { epoch: first.epoch + 1, ..first };
    assert_eq!(bench.store.join(late, MOMENT).unwrap(), None);
    bench.pass(MOMENT * 2);
    assert_eq!(bench.store.maintain().unwrap().nodes, 0);
    assert!(bench.store.beat(third, LONG).unwrap().is_some());
}

pub(super) fn orphans_of_a_dead_node_are_pending_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let survivor = bench.lease;
    bench.lease = join(&mut *bench.store, MOMENT).lease;
    let id = bench.running();
    let due = bench.row(id).unwrap().new.due;
    bench.pass(MOMENT * 2);
    let maintained = bench.store.maintain().unwrap();
    assert_eq!(
        maintained,
        Maintained { nodes: 1, orphans: 1, stopped: 0, promoted: 0, more: false }
    );
    let row = bench.row(id).unwrap();
    assert_eq!((row.running, row.attempt, row.failures, row.new.due), (None, 1, 0, due));
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    bench.lease = survivor;
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
    assert_eq!(bench.store.maintain().unwrap(), Maintained::default());
}

pub(super) fn orphans_of_a_lost_epoch_are_pending_again(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    let old = bench.lease;
    bench.lease = join_again(&mut *bench.store, old, LONG);
    assert_eq!(bench.store.maintain().unwrap().orphans, 1);
    assert_eq!(bench.row(id).unwrap().running, None);
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
}

pub(super) fn a_living_nodes_timers_are_left_alone(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let id = bench.running();
    bench.pass(MOMENT);
    assert_eq!(bench.store.maintain().unwrap(), Maintained::default());
    assert_eq!(bench.row(id).unwrap().running, Some(bench.lease));
    assert_eq!(bench.finish(id, 1, done()), Finished::Accepted);
}

pub(super) fn a_node_that_leaves_gives_its_timers_back(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let staying = bench.lease;
    let kept = bench.running();
    bench.lease = join(&mut *bench.store, LONG).lease;
    let given = bench.running();
    bench.store.leave(bench.lease).unwrap();
    assert_eq!(bench.row(given).unwrap().running, None);
    assert_eq!(bench.row(kept).unwrap().running, Some(staying));
    assert_eq!(bench.store.beat(bench.lease, LONG).unwrap(), None);
    bench.store.leave(bench.lease).unwrap();
    bench.lease = staying;
    assert_eq!(bench.claim(given).unwrap().attempt, 2);
}

pub(super) fn held_names_what_a_lease_runs(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let (one, two, three) = (bench.running(), bench.running(), bench.running());
    bench.insert(Duration::ZERO);
    assert_eq!(bench.finish(two, 1, How::HandBack), Finished::Accepted);
    assert_eq!(bench.claim(two).unwrap().attempt, 2);
    assert_eq!(bench.finish(three, 1, done()), Finished::Accepted);
    let mut held: Vec<(TimerId, u32)> = bench.store.held(bench.lease, None).unwrap().timers;
    held.sort();
    let mut expected = vec![(one, 1), (two, 2)];
    expected.sort();
    assert_eq!(held, expected);
    let other = Lease { epoch: bench.lease.epoch + 1, ..bench.lease };
    assert_eq!(bench.store.held(other, None).unwrap().timers, []);
}

pub(super) fn held_names_all_in_parts(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let mut expected: Vec<TimerId> = (0..250).map(|_| bench.running()).collect();
    expected.sort();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let held = bench.store.held(bench.lease, after).unwrap();
        found.extend(held.timers.into_iter().map(|(id, _)| id));
        after = held.rest;
        if after.is_none() {
            break;
        }
    }
    found.sort();
    assert_eq!(found, expected);
}

pub(super) fn a_beat_names_the_living(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let dying = join(&mut *bench.store, MOMENT).lease;
    bench.pass(MOMENT * 2);
    bench.store.maintain().unwrap();
    let joined = join(&mut *bench.store, LONG);
    let beat = bench.store.beat(bench.lease, LONG).unwrap().unwrap();
    let mut expected = [bench.lease.node, joined.lease.node];
    expected.sort();
    for nodes in [&joined.nodes, &beat.nodes] {
        let ids: Vec<NodeId> = nodes.iter().map(|(node, _)| *node).collect();
        assert_eq!(ids, expected);
        assert!(!ids.contains(&dying.node));
    }
    let last = |node| beat.nodes.iter().find(|(id, _)| *id == node).unwrap().1;
    assert_eq!((last(bench.lease.node), last(joined.lease.node)), (beat.now, joined.now));
}
