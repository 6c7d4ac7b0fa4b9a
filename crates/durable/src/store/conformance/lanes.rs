//! Lanes: timers that run one after another.

use std::slice::from_ref;
use std::time::Duration;

use super::{Bench, LONG, MOMENT, Rig, change, done, join, retry};
use crate::id::{Lease, NodeId, TimerId};
use crate::policy::{Overlap, Policies, Retry};
use crate::record::{Outcome, Reason};
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{
    Advance, Advanced, Change, Changed, Finished, How, NewTimer, ScheduleQuery, ScheduleRow,
    TimerUpdate, Unfinished, UpcomingQuery,
};
use crate::time::Time;

const SECOND: Duration = Duration::from_secs(1);

impl Bench<'_> {
    /// Inserts a timer of a lane that is scheduled `ago` before now.
    fn insert_in(&mut self, lane: &str, ago: Duration) -> TimerId {
        let at = self.now() - ago;
        self.insert_at(lane, at)
    }

    /// Inserts a timer of a lane that is scheduled for `at`.
    fn insert_at(&mut self, lane: &str, at: Time) -> TimerId {
        let lane = Some(lane.to_owned());
        let timer = NewTimer { scheduled_for: at, due: at, lane, ..self.timer(LONG) };
        self.store.insert(from_ref(&timer)).unwrap();
        timer.id
    }

    /// Promotes the lane. Returns its new front, if there is one.
    fn promote(&mut self, lane: &str) -> Option<TimerId> {
        let promoted = self.store.promote(&[lane.to_owned()]).unwrap();
        assert!(promoted.len() <= 1);
        promoted.first().map(|front| front.id)
    }

    /// Claims these timers. Returns the claimed ones.
    fn claim_all(&mut self, timers: &[TimerId]) -> Vec<TimerId> {
        timers.iter().filter(|timer| self.claim(**timer).is_some()).copied().collect()
    }
}

pub(super) fn a_lane_runs_its_timers_one_after_another(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let now = bench.now();
    let later = bench.insert_at("a", now - SECOND);
    let first = bench.insert_at("a", now - SECOND * 3);
    let mut equal = [0; 2].map(|_| bench.insert_at("a", now - SECOND * 2));
    equal.sort();
    let all = [first, equal[0], equal[1], later];
    let other = bench.insert_at("b", now + LONG);
    // All of them wait, whenever they are due.
    assert_eq!((bench.claim_all(&all), bench.pending()), (vec![], vec![]));
    let promoted = bench.store.promote(&["a".to_owned(), "b".to_owned(), "c".to_owned()]).unwrap();
    let due = |id| promoted.iter().find(|front| front.id == id).map(|front| front.due);
    assert_eq!((promoted.len(), due(other)), (2, Some(now + LONG)));
    assert!(due(first).is_some_and(|due| due >= now), "{promoted:?}");
    assert!(promoted.iter().all(|front| front.kind == "mail"));
    for (n, timer) in all.into_iter().enumerate() {
        assert_eq!(bench.pending()[..1], [timer]);
        // Nothing of it is promoted before the front has ended.
        assert_eq!((bench.promote("a"), bench.store.maintain().unwrap().promoted), (None, 0));
        assert_eq!(bench.claim_all(&all), [timer]);
        assert_eq!((bench.promote("a"), bench.store.maintain().unwrap().promoted), (None, 0));
        assert_eq!(bench.finish(timer, 1, done()), Finished::Accepted);
        assert_eq!(bench.claim_all(&all), []);
        match all.get(n + 1) {
            Some(next) if n == 0 => assert_eq!(bench.promote("a"), Some(*next)),
            Some(_) => assert_eq!(bench.store.maintain().unwrap().promoted, 1),
            None => assert_eq!(bench.promote("a"), None),
        }
    }
}

pub(super) fn a_front_that_was_claimed_keeps_its_place(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let front = bench.insert_in("a", SECOND);
    let next = bench.insert_in("a", Duration::ZERO);
    assert_eq!(bench.promote("a"), Some(front));
    let ends = [
        How::HandBack,
        How::Postpone(Duration::ZERO, None),
        retry(Duration::ZERO),
        retry(Duration::MAX),
    ];
    for (attempt, how) in (1..).zip(ends) {
        assert!(bench.claim(front).is_some());
        // A later insert that is scheduled before the front does not pass it.
        let earlier = bench.insert_in("a", SECOND * 2);
        assert_eq!(bench.promote("a"), None);
        assert_eq!(bench.finish(front, attempt, how), Finished::Accepted);
        assert_eq!((bench.promote("a"), bench.store.maintain().unwrap().promoted), (None, 0));
        assert_eq!(bench.claim_all(&[next, earlier]), []);
        assert_eq!(bench.store.cancel(earlier).unwrap(), TimerUpdate::Done);
    }
    let now = bench.now();
    assert_eq!(bench.reschedule(front, now), TimerUpdate::Done);
    assert!(bench.claim(front).is_some());
    let dead = How::Done(Outcome::Dead, Some(Reason::GivenUp), String::new());
    assert_eq!(bench.finish(front, 5, dead), Finished::Accepted);
    assert_eq!(bench.promote("a"), Some(next));
    assert!(bench.claim(next).is_some());
}

pub(super) fn maintenance_sees_all_lanes_in_one_round(rig: &dyn Rig) {
    const LANES: u32 = 2_100;
    let mut bench = Bench::new(rig);
    let now = bench.now();
    let timers: Vec<_> = (0..LANES)
        .map(|n| NewTimer {
            scheduled_for: now,
            due: now,
            lane: Some(format!("lane {n}")),
            ..bench.timer(LONG)
        })
        .collect();
    timers.chunks(700).for_each(|part| drop(bench.store.insert(part).unwrap()));
    let mut promoted = 0;
    for _ in 0..LANES {
        let maintained = bench.store.maintain().unwrap();
        promoted += maintained.promoted;
        if !maintained.more {
            break;
        }
    }
    assert_eq!(promoted, u64::from(LANES));
    let last = bench.store.maintain().unwrap();
    assert_eq!(last.promoted, 0);
}

pub(super) fn a_front_that_was_not_claimed_lets_an_earlier_timer_pass(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let now = bench.now();
    let late = bench.insert_at("a", now + LONG);
    assert_eq!(bench.promote("a"), Some(late));
    let later = bench.insert_at("a", now + LONG * 2);
    assert_eq!(bench.promote("a"), None);
    let early = bench.insert_at("a", now);
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    assert_eq!(bench.pending(), [early]);
    assert_eq!(bench.row(late).unwrap().new.due, Time::NEVER);
    // A waiting timer that is moved before the front passes it too; and the front, moved behind.
    let moved = bench.reschedule(later, now - SECOND);
    assert_eq!((moved, bench.promote("a")), (TimerUpdate::Done, Some(later)));
    let moved = bench.reschedule(later, now + LONG * 2);
    assert_eq!((moved, bench.promote("a")), (TimerUpdate::Done, Some(early)));
    assert_eq!(bench.claim_all(&[later, late, early]), [early]);
}

pub(super) fn a_lane_continues_after_a_cancel(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let [one, two, three] = [3, 2, 1].map(|n| bench.insert_in("a", SECOND * n));
    assert_eq!(bench.promote("a"), Some(one));
    // A waiting timer, and the front.
    assert_eq!(bench.store.cancel(two).unwrap(), TimerUpdate::Done);
    assert_eq!(bench.store.cancel(one).unwrap(), TimerUpdate::Done);
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    assert_eq!(bench.claim_all(&[one, two, three]), [three]);
    assert_eq!(bench.store.cancel(three).unwrap(), TimerUpdate::Running { attempt: 1 });
}

pub(super) fn a_held_timer_lets_its_lane_pass(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let [held, next] = [2, 1].map(|n| bench.insert_in("a", SECOND * n));
    assert_eq!(bench.promote("a"), Some(held));
    let hold = bench.reschedule(held, Time::NEVER);
    assert_eq!((hold, bench.promote("a")), (TimerUpdate::Done, Some(next)));
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert!(bench.claim(next).is_some());
    assert_eq!(bench.finish(next, 1, done()), Finished::Accepted);
    assert_eq!((bench.promote("a"), bench.store.maintain().unwrap().promoted), (None, 0));
    let now = bench.now();
    assert_eq!(bench.reschedule(held, now), TimerUpdate::Done);
    assert_eq!(bench.promote("a"), Some(held));
}

pub(super) fn a_front_of_a_dead_node_keeps_its_place(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let dead = join(&mut *bench.store, MOMENT).lease;
    let front = bench.insert_in("a", SECOND);
    let next = bench.insert_in("a", Duration::ZERO);
    assert_eq!(bench.promote("a"), Some(front));
    assert_eq!(bench.store.claim(dead, &[front]).unwrap().timers.len(), 1);
    bench.insert_in("a", SECOND * 2);
    bench.pass(MOMENT * 2);
    let maintained = bench.store.maintain().unwrap();
    assert_eq!((maintained.orphans, maintained.promoted), (1, 0));
    assert_eq!(bench.claim_all(&[next, front]), [front]);
    let none = Lease { node: NodeId::from_bits(1), epoch: 1 };
    assert_eq!(bench.store.claim(none, &[next]).unwrap().timers, []);
}

/// A schedule whose occurrences are in a lane.
fn in_lane(bench: &mut Bench<'_>, name: &str, overlap: Overlap) -> ScheduleRow {
    let policies = Policies { overlap, retry: Retry::NEVER, ..Policies::default() };
    let rule = Ok(Rule::new(Schedule::every(SECOND), policies));
    let lane = Some("a".to_owned());
    let row = ScheduleRow { rule, lane, ..bench.schedule(name, Duration::ZERO) };
    bench.put(&row);
    row
}

/// Makes the schedule's next occurrence.
fn advance(bench: &mut Bench<'_>, row: &ScheduleRow, only_idle: bool) -> (Advanced, NewTimer) {
    let read = bench.store.schedule(&row.name).unwrap().1.unwrap();
    let from = read.next.unwrap();
    let timer = bench.occurrence(row, from, from);
    let timers = from_ref(&timer);
    let advance = Advance { timers, only_idle, ..super::advance(&read, from + SECOND) };
    (bench.store.advance(&advance).unwrap(), timer)
}

pub(super) fn schedules_share_a_lane(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let once = bench.insert_in("a", SECOND * 9);
    let rows = ["one", "two"].map(|name| in_lane(&mut bench, name, Overlap::Allow));
    let mut ids = Vec::new();
    for row in [0, 1, 0].map(|place| &rows[place]) {
        let (advanced, timer) = advance(&mut bench, row, false);
        assert_eq!((advanced, timer.lane.as_deref()), (Advanced::Done, Some("a")));
        ids.push(timer.id);
    }
    assert_eq!(bench.promote("a"), Some(once));
    assert_eq!(bench.claim_all(&ids), []);
    assert!(bench.claim(once).is_some());
    // The first schedule's timers are taken back: the other's continue.
    let gone = Change { row: None, withdraw: Some(Reason::Removed), ..change(&rows[0]) };
    assert!(matches!(bench.store.change(&gone).unwrap(), Changed::Done { .. }));
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!(bench.finish(once, 1, done()), Finished::Accepted);
    assert_eq!(bench.store.maintain().unwrap().promoted, 1);
    bench.pass(MOMENT);
    assert_eq!(bench.claim_all(&ids), [ids[1]]);
}

pub(super) fn a_schedule_is_busy_while_one_of_it_waits_in_a_lane(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let front = bench.insert_in("a", SECOND * 9);
    assert_eq!(bench.promote("a"), Some(front));
    let row = in_lane(&mut bench, "one", Overlap::Skip);
    let (advanced, timer) = advance(&mut bench, &row, true);
    assert_eq!(advanced, Advanced::Done);
    let upcoming = bench.store.upcoming(&UpcomingQuery::new(LONG, 10)).unwrap();
    assert_eq!(upcoming.schedules[0].1, Unfinished { unfinished: 1, queued: 0 });
    assert_eq!(advance(&mut bench, &row, true).0, Advanced::Busy);
    // It is no queue of the schedule that lets it go.
    assert_eq!(bench.store.maintain().unwrap().promoted, 0);
    assert_eq!(bench.claim(timer.id), None);
    assert!(bench.claim(front).is_some());
    assert_eq!(bench.finish(front, 1, done()), Finished::Accepted);
    assert_eq!(bench.promote("a"), Some(timer.id));
}

pub(super) fn many_that_wait_in_a_lane_hide_nothing(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let lane = Some("a".to_owned());
    let now = bench.now();
    let many: Vec<NewTimer> = (0..300)
        .map(|n| {
            let at = now - SECOND * (1_000 - n);
            NewTimer { scheduled_for: at, due: at, lane: lane.clone(), ..bench.timer(LONG) }
        })
        .collect();
    bench.store.insert(&many).unwrap();
    assert_eq!(bench.promote("a"), Some(many[0].id));
    let other = bench.insert(Duration::ZERO);
    // A scan returns a hundred of a kind at most.
    let (found, expected) = (bench.pending(), [many[0].id, other]);
    assert!(found.len() == 2 && expected.iter().all(|timer| found.contains(timer)), "{found:?}");
}

pub(super) fn a_lane_is_kept(rig: &dyn Rig) {
    let mut bench = Bench::new(rig);
    let row = in_lane(&mut bench, "one", Overlap::Allow);
    assert_eq!(bench.store.schedule("one").unwrap().1, Some(row.clone()));
    let none = ScheduleRow { lane: None, ..row };
    bench.store.change(&change(&none)).unwrap();
    let listed = bench.store.schedules(&ScheduleQuery::new()).unwrap();
    assert_eq!(listed, [ScheduleRow { version: 2, ..none }]);

    let [dead, ended] = [2, 1].map(|n| bench.insert_in("a", SECOND * n));
    assert_eq!(bench.row(dead).unwrap().new.lane.as_deref(), Some("a"));
    for (timer, outcome) in [(dead, Outcome::Dead), (ended, Outcome::Succeeded)] {
        assert_eq!(bench.promote("a"), Some(timer));
        let claimed = bench.claim(timer).unwrap();
        assert_eq!(claimed.new.lane.as_deref(), Some("a"));
        bench.finish(timer, 1, How::Done(outcome, None, String::new()));
    }
    // It takes a lane to run the dead again.
    let lanes: Vec<_> = bench.records().into_iter().map(|end| (end.timer, end.lane)).collect();
    assert!(lanes.contains(&(dead, Some("a".to_owned()))) && lanes.contains(&(ended, None)));
}
