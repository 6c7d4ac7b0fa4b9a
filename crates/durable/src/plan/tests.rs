use std::time::Duration;

use super::{BATCH, Plan, Step, backlog, jitter, plan};
use crate::id::ScheduleId;
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::Reason;
use crate::rule::Rule;
use crate::schedule::Schedule;
use crate::store::{NewTimer, ScheduleRow, Unfinished};
use crate::time::Time;

const ID: ScheduleId = ScheduleId::from_bits(7);
const IDLE: Unfinished = Unfinished { unfinished: 0, queued: 0 };
const BUSY: Unfinished = Unfinished { unfinished: 1, queued: 0 };

/// A time in minutes.
fn at(minutes: i64) -> Time {
    Time::from_micros(minutes * 60_000_000)
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// What is planned for an hourly schedule at `now` minutes, with an hour's window.
fn hourly(policies: Policies, next: i64, occupied: Unfinished, now: i64) -> Step {
    plan(&Schedule::every(minutes(60)), &policies, ID, at(next), occupied, at(now), minutes(60))
}

/// A plan, in minutes: what runs, with when it is due; what is skipped; the next.
fn steps(step: Step) -> (Vec<i64>, Vec<(i64, Reason)>, i64, bool) {
    let Step::Advance(Plan { next, run, skip, only_idle }) = step else { panic!("{step:?}") };
    let minutes = |at: Time| at.as_micros() / 60_000_000;
    assert!(run.iter().all(|(at, due)| at == due), "{run:?}");
    let run = run.into_iter().map(|(at, _)| minutes(at)).collect();
    let skip = skip.into_iter().map(|(at, reason)| (minutes(at), reason)).collect();
    (run, skip, minutes(next.unwrap()), only_idle)
}

fn with(missed: Missed) -> Policies {
    Policies { missed, ..Policies::default() }
}

fn overlapping(overlap: Overlap) -> Policies {
    let missed = Missed::CatchUp { max_count: 9, max_age: minutes(6_000) };
    Policies { missed, overlap, ..Policies::default() }
}

#[test]
fn what_comes_within_the_window_becomes_a_timer() {
    let policies = Policies::default();
    assert_eq!(steps(hourly(policies, 120, IDLE, 70)), (vec![120], vec![], 180, false));
    assert_eq!(hourly(policies, 180, IDLE, 70), Step::Wait(at(120)));
    assert_eq!(steps(hourly(policies, 120, IDLE, 120)), (vec![120, 180], vec![], 240, false));
}

#[test]
fn missed_occurrences_are_treated_as_the_core_crates_ticks_treat_them() {
    use Reason::{Coalesced, Missed as Late};
    let late = |hours: &[i64], reason| hours.iter().map(|at| (at * 60, reason)).collect::<Vec<_>>();
    let step = |missed| steps(hourly(with(missed), 60, IDLE, 320));
    assert_eq!(step(Missed::Skip), (vec![360], late(&[1, 2, 3, 4, 5], Late), 420, false));
    let coalesced = (vec![300, 360], late(&[1, 2, 3, 4], Coalesced), 420, false);
    assert_eq!(step(Missed::Coalesce), coalesced);
    let two = Missed::CatchUp { max_count: 2, max_age: minutes(600) };
    assert_eq!(step(two), (vec![240, 300, 360], late(&[1, 2, 3], Late), 420, false));
    let young = Missed::CatchUp { max_count: 9, max_age: minutes(90) };
    assert_eq!(step(young), (vec![240, 300, 360], late(&[1, 2, 3], Late), 420, false));
}

#[test]
fn an_occurrence_is_on_time_until_the_next_is_due() {
    let within = Policies { on_time_within: minutes(90), ..with(Missed::Skip) };
    assert_eq!(steps(hourly(within, 60, IDLE, 119)).0, [60, 120]);
    assert_eq!(steps(hourly(within, 60, IDLE, 120)).0, [120, 180]);
    let (run, skip, ..) = steps(hourly(with(Missed::Skip), 60, IDLE, 62));
    assert_eq!((run, skip), (vec![120], vec![(60, Reason::Missed)]));
}

#[test]
fn what_overlaps_is_skipped() {
    let policies = overlapping(Overlap::Skip);
    assert_eq!(hourly(policies, 60, BUSY, 59), Step::Wait(at(60)));
    let busy = steps(hourly(policies, 60, BUSY, 60));
    assert_eq!(busy, (vec![], vec![(60, Reason::Overlap)], 120, false));
    assert_eq!(steps(hourly(policies, 60, IDLE, 59)), (vec![60], vec![], 120, true));
    let both = steps(hourly(policies, 60, IDLE, 120));
    assert_eq!(both, (vec![60], vec![(120, Reason::Overlap)], 180, true));
}

#[test]
fn what_overlaps_queues_up_to_a_limit() {
    let policies = overlapping(Overlap::Queue { at_most: 2 });
    assert_eq!(hourly(policies, 60, BUSY, 59), Step::Wait(at(60)));
    let Step::Advance(plan) = hourly(policies, 60, BUSY, 180) else { panic!() };
    assert_eq!(plan.run, [(at(60), Time::NEVER), (at(120), Time::NEVER)]);
    assert_eq!(plan.skip, [(at(180), Reason::Overlap)]);
    assert!(!plan.only_idle);
    let Step::Advance(plan) = hourly(policies, 60, IDLE, 120) else { panic!() };
    assert_eq!(plan.run, [(at(60), at(60)), (at(120), Time::NEVER)]);
    assert!(plan.only_idle);
    let behind = Unfinished { unfinished: 0, queued: 1 };
    let Step::Advance(plan) = hourly(policies, 60, behind, 60) else { panic!() };
    assert_eq!(plan.run, [(at(60), Time::NEVER)]);
}

#[test]
fn a_long_backlog_is_taken_in_batches_without_a_gap() {
    for missed in [
        Missed::Skip,
        Missed::Coalesce,
        Missed::CatchUp { max_count: 700, max_age: minutes(600_000) },
    ] {
        let (now, mut next) = (60 * 3_000, 60);
        let (mut run, mut skipped, mut expected) = (Vec::new(), Vec::new(), 60);
        while let Step::Advance(plan) = hourly(with(missed), next, IDLE, now) {
            let mut taken: Vec<Time> = plan.skip.iter().map(|(at, _)| *at).collect();
            taken.extend(plan.run.iter().map(|(at, _)| *at));
            assert!(taken.len() <= BATCH);
            taken.sort();
            for found in taken {
                assert_eq!(found, at(expected));
                expected += 60;
            }
            run.extend(plan.run);
            skipped.extend(plan.skip);
            next = plan.next.unwrap().as_micros() / 60_000_000;
        }
        assert_eq!(expected, now + 120);
        let caught_up = match missed {
            // Beside them the newest, which is on time.
            Missed::CatchUp { .. } => 701,
            _ => 1,
        };
        assert_eq!(run.len(), caught_up + 1, "{missed:?}");
        assert_eq!(run.len() + skipped.len(), 3_001);
    }
}

#[test]
fn jitter_is_bounded_and_the_same_everywhere() {
    let most = Duration::from_secs(10);
    let of = |n: i64| jitter(most, ID, at(n));
    assert!((0..200).all(|n| of(n) <= most && of(n) == of(n)));
    assert!((0..200).filter(|n| of(*n) < most / 2).count() > 50);
    assert!((0..200).filter(|n| of(*n) > most / 2).count() > 50);
    assert_eq!(jitter(Duration::ZERO, ID, at(1)), Duration::ZERO);
}

#[test]
fn an_occurrence_has_its_schedules_retries_and_knows_whether_others_wait() {
    let rule = Rule::new(Schedule::every(minutes(60)), Policies::default());
    let row = ScheduleRow::new(ID, "hourly", "mail", Ok(rule), None);
    for overlap in [Overlap::Allow, Overlap::Skip, Overlap::Queue { at_most: 3 }] {
        let policies = Policies { retry: Retry::NEVER, ..overlapping(overlap) };
        let timer = NewTimer::occurrence(&row, &policies, at(60));
        assert_eq!(timer.retry, Retry::NEVER);
        assert_eq!(timer.has_queue, overlap == Overlap::Queue { at_most: 3 });
    }
}

#[test]
fn a_backlog_is_what_is_due_until_now() {
    let (found, next) =
        backlog(&Schedule::every(minutes(60)), Some(at(60)), at(180), Reason::Disabled);
    let of = |hour: i64| (at(60 * hour), Reason::Disabled);
    assert_eq!((found, next), (vec![of(1), of(2), of(3)], Some(at(240))));
    assert_eq!(backlog(&Schedule::every(minutes(1)), None, at(9), Reason::Removed).0, []);
}
