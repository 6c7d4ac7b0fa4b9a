//! Lives of nodes, and their orphans.

use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, change, done, join, join_again, retry, scan};
use crate::id::{Lease, NodeId, Shards, TimerId};
use crate::record::Reason;
use crate::store::{
    Beat, Change, Finished, How, Maintained, NewTimer, Pulse, Pulsed, Scan, UpcomingQuery,
};
use crate::time::Time;

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
    assert_eq!(maintained, Maintained { nodes: 1, orphans: 1, promoted: 0, more: false });
    let row = bench.row(id).unwrap();
    assert_eq!((row.running, row.attempt, row.failures, row.new.due), (None, 1, 0, due));
    assert_eq!(bench.finish(id, 1, done()), Finished::Fenced);
    bench.lease = survivor;
    assert_eq!(bench.claim(id).unwrap().attempt, 2);
    assert_eq!(bench.store.maintain().unwrap(), Maintained::default());
    assert_eq!(bench.finish(id, 2, done()), Finished::Accepted);
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

/// A scan that beats under `lease`, and asks all; `None` if the store makes no pulses.
fn pulse(bench: &mut Bench<'_>, lease: Lease) -> Option<Pulsed> {
    let (shards, span, ahead) = (Shards::ALL, LONG, MOMENT);
    let pulse = Pulse { lease, span, shards, ahead, asks_for_work: true };
    let (back, kinds) = (Some(LONG), ["none".to_owned()]);
    let scan = Scan { ahead, back, pulse: Some(pulse), ..scan(&kinds, 1) };
    bench.store.scan(&scan).unwrap().pulsed
}

pub(super) fn a_scan_beats_as_a_beat_does(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lease = join(&mut *bench.store, MOMENT).lease;
    let Some(pulsed) = pulse(&mut bench, lease) else { return };
    let beat = pulsed.beat.unwrap();
    assert_eq!((beat.lease, beat.nodes.len()), (lease, 2));
    bench.pass(MOMENT * 2);
    assert_eq!(bench.store.maintain().unwrap().nodes, 0);
    let known = bench.store.beat(lease, MOMENT).unwrap().unwrap();
    let again = pulse(&mut bench, lease).unwrap().beat.unwrap();
    assert!(again.now >= known.now);
    // All but its own are as they were.
    let others = |beat: &Beat| {
        beat.nodes.iter().copied().filter(|(id, _)| *id != lease.node).collect::<Vec<_>>()
    };
    assert_eq!(others(&again), others(&known));
    assert!(again.nodes.contains(&(lease.node, again.now)));
    let epoch = lease.epoch + 1;
    assert_eq!(pulse(&mut bench, Lease { epoch, ..lease }).unwrap().beat, None);
    bench.store.leave(lease).unwrap();
    assert_eq!(pulse(&mut bench, lease).unwrap().beat, None);
}

pub(super) fn a_scan_says_no_to_none_who_has_work(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lease = bench.lease;
    // A connection may have to read everything once before it knows.
    bench.scan(MOMENT, None);
    let asked = |bench: &mut Bench<'_>| {
        pulse(bench, lease).map(|pulsed| (pulsed.is_upcoming, pulsed.has_work))
    };
    let Some(idle) = asked(&mut bench) else { return };
    // Later and held timers are no work.
    bench.insert(LONG);
    let held = bench.insert(LONG);
    bench.reschedule(held, Time::NEVER);
    let far = bench.scheduled("far", LONG);
    assert_eq!(asked(&mut bench), Some(idle));

    let soon = bench.scheduled("soon", MOMENT / 2);
    assert_eq!(bench.store.upcoming(&UpcomingQuery::new(MOMENT, 9)).unwrap().schedules.len(), 1);
    assert!(asked(&mut bench).unwrap().0);
    let remove = |bench: &mut Bench<'_>, row| {
        let gone = Change { row: None, withdraw: Some(Reason::Removed), ..change(row) };
        bench.store.change(&gone).unwrap();
    };
    remove(&mut bench, &soon);
    assert_eq!(asked(&mut bench), Some(idle));

    // Something is due, then runs.
    let id = bench.insert(Duration::ZERO);
    assert!(asked(&mut bench).unwrap().1);
    assert_eq!(bench.claim(id).unwrap().attempt, 1);
    assert!(asked(&mut bench).unwrap().1);
    bench.finish(id, 1, done());
    assert_eq!(asked(&mut bench), Some(idle));

    // An occurrence waits in the queue of its schedule.
    let now = bench.now();
    let queued = bench.occurrence(&far, now, Time::NEVER);
    bench.store.insert(std::slice::from_ref(&queued)).unwrap();
    assert!(asked(&mut bench).unwrap().1);
    bench.store.cancel(queued.id).unwrap();

    // A timer waits in its lane.
    let new = NewTimer::new(TimerId::new(now), "mail", now + LONG);
    let waiting = NewTimer { lane: Some("north".to_owned()), ..new };
    bench.store.insert(std::slice::from_ref(&waiting)).unwrap();
    assert!(asked(&mut bench).unwrap().1);
    bench.store.cancel(waiting.id).unwrap();
    assert_eq!(asked(&mut bench), Some(idle));

    // A stopped timer is pending again, and due later.
    let occurrence = bench.occurrence(&far, now - MOMENT, now);
    bench.store.insert(std::slice::from_ref(&occurrence)).unwrap();
    assert_eq!(bench.claim(occurrence.id).unwrap().attempt, 1);
    remove(&mut bench, &far);
    bench.finish(occurrence.id, 1, retry(LONG));
    assert!(asked(&mut bench).unwrap().1);
    bench.store.maintain().unwrap();
    assert_eq!(bench.row(occurrence.id), None);

    // A node has died.
    join(&mut *bench.store, MOMENT);
    bench.pass(MOMENT * 2);
    assert!(asked(&mut bench).unwrap().1);
    assert_eq!(bench.store.maintain().unwrap().nodes, 1);
    assert_eq!(asked(&mut bench), Some(idle));
}
