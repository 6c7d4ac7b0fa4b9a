use std::time::Duration;

use super::{BATCH, Plan, Step, backlog, jitter, plan};
use crate::id::ScheduleId;
use crate::policy::{Missed, Overlap, Policies, Retry};
use crate::record::Reason;
use crate::rule::Rule;
use crate::schedule::{Excluded, Schedule};
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

/// The plan of an hourly schedule at `now` minutes, with an hour's window.
fn hourly(policies: Policies, next: i64, occupied: Unfinished, now: i64) -> Step {
    plan(&Schedule::every(minutes(60)), &policies, ID, at(next), occupied, at(now), minutes(60))
}

/// A plan, in minutes: occurrences that run, with their due times; skipped ones; the next.
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
            // Beside them the newest, on time.
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

/// Every hour but from the third to before the sixth.
fn frozen(then: Excluded) -> Schedule {
    Schedule::every(minutes(60)).excluding(at(180)..at(360), then)
}

fn of(schedule: &Schedule, policies: Policies, next: i64, occupied: Unfinished, now: i64) -> Step {
    plan(schedule, &policies, ID, at(next), occupied, at(now), minutes(60))
}

#[test]
fn what_is_excluded_is_recorded_once_it_is_due() {
    let skip = frozen(Excluded::Skip);
    let policies = Policies::default();
    assert_eq!(of(&skip, policies, 180, IDLE, 179), Step::Wait(at(180)));
    let excluded = |hours: &[i64]| -> Vec<_> {
        hours.iter().map(|hour| (hour * 60, Reason::Excluded)).collect()
    };
    assert_eq!(steps(of(&skip, policies, 180, IDLE, 180)), (vec![], excluded(&[3]), 240, false));
    let last = steps(of(&skip, policies, 300, IDLE, 300));
    assert_eq!(last, (vec![360], excluded(&[5]), 420, false));
    // Overlapping and missed occurrences beside them have their own reasons.
    let overlap = steps(of(&skip, overlapping(Overlap::Skip), 120, BUSY, 200));
    assert_eq!(overlap.1, [(120, Reason::Overlap), (180, Reason::Excluded)]);
}

#[test]
fn what_is_excluded_was_not_missed() {
    use Reason::{Coalesced, Excluded as Out};
    let skip = frozen(Excluded::Skip);
    // The second hour is the last that was missed: it stands for the first.
    let step = steps(of(&skip, with(Missed::Coalesce), 60, IDLE, 359));
    let skipped = vec![(60, Coalesced), (180, Out), (240, Out), (300, Out)];
    assert_eq!(step, (vec![120, 360], skipped, 420, false));
    let one = with(Missed::CatchUp { max_count: 1, max_age: minutes(600) });
    assert_eq!(steps(of(&skip, one, 60, IDLE, 359)).0, [120, 360]);
    // What runs at the end of the window is missed as any other.
    let end = Schedule::every(minutes(60)).excluding(at(170)..at(330), Excluded::RunAtEnd);
    let step = steps(of(&end, with(Missed::Skip), 300, IDLE, 350));
    assert_eq!(step.1, [(300, Out), (330, Reason::Missed)]);
    assert_eq!(steps(of(&end, with(Missed::Skip), 330, IDLE, 330)).0, [330, 360]);
}

#[test]
fn a_schedule_that_ends_has_no_next() {
    let ends = Schedule::every(minutes(60)).ending_at(at(120));
    let Step::Advance(plan) = of(&ends, Policies::default(), 120, IDLE, 100) else { panic!() };
    assert_eq!((plan.run, plan.next), (vec![(at(120), at(120))], None));
}

#[test]
fn a_plan_keeps_to_windows_whenever_it_is_made() {
    let mut random = fastrand::Rng::with_seed(12);
    let mut counts = [0; 2];
    for _ in 0..300 {
        let mut schedule = Schedule::every(minutes(1));
        for _ in 0..random.usize(0..4) {
            let from = random.i64(0..4_000);
            let until = from + random.i64(0..1_500);
            let then = if random.bool() { Excluded::Skip } else { Excluded::RunAtEnd };
            let half = Duration::from_secs(30 * random.u64(0..2));
            schedule = schedule.excluding(at(from) + half..at(until) + half, then);
        }
        let missed = match random.u8(0..3) {
            0 => Missed::Skip,
            1 => Missed::Coalesce,
            _ => Missed::CatchUp { max_count: random.u64(0..800), max_age: minutes(9_000) },
        };
        let (mut now, mut next) = (at(0), at(1));
        while now < at(4_500) {
            let begun = next;
            now = now + minutes(random.u64(1..=3) * random.u64(1..700));
            let ahead = Duration::from_secs(random.u64(0..120));
            let (mut run, mut skip) = (Vec::new(), Vec::new());
            while let Step::Advance(plan) =
                plan(&schedule, &with(missed), ID, next, IDLE, now, ahead)
            {
                run.extend(plan.run.into_iter().map(|(at, _)| at));
                skip.extend(plan.skip);
                next = plan.next.unwrap();
            }
            // Each occurrence once, and the excluded ones for that reason alone.
            let is_out = |at: &Time| schedule.excludes(*at);
            let all: Vec<Time> =
                schedule.all_from(Some(begun)).take_while(|at| *at < next).collect();
            let mut taken: Vec<Time> = skip.iter().map(|(at, _)| *at).chain(run.clone()).collect();
            taken.sort();
            assert_eq!(taken, all, "{schedule}");
            assert!(!run.iter().any(is_out), "{schedule}");
            for (at, reason) in &skip {
                assert_eq!(is_out(at), *reason == Reason::Excluded, "{schedule}");
            }
            // Of the others as many run as if there were no windows.
            let due: Vec<_> = all.iter().filter(|at| **at <= now && !is_out(at)).collect();
            let is_on_time = due.last().is_some_and(|last| now.since(**last) <= minutes(1));
            let runs = |(place, at): (usize, &&Time)| {
                missed.runs((due.len() - place - 1) as u64, now.since(**at), is_on_time)
            };
            let expected = due.iter().enumerate().filter(|place| runs(*place)).count();
            assert_eq!(run.iter().filter(|at| **at <= now).count(), expected, "{schedule}");
            counts[0] += run.len();
            counts[1] += skip.iter().filter(|(_, reason)| *reason == Reason::Excluded).count();
        }
    }
    assert!(counts.iter().all(|count| *count > 10_000), "{counts:?}");
}

#[test]
fn a_backlog_says_what_was_excluded() {
    let (found, _) = backlog(&frozen(Excluded::Skip), Some(at(120)), at(200), Reason::Disabled);
    assert_eq!(found, [(at(120), Reason::Disabled), (at(180), Reason::Excluded)]);
}
