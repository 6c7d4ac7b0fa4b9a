//! The checker passes good logs, and names the fault of each kind of bad one.

mod failover;
mod good;
mod mutations;

use std::collections::BTreeSet;

use good::{MS, Run, SECOND, good};
use mutations::{late, missed, mutations, overlapped, with};
use tourbillon_durable_harness::checker::Verdict::{self, *};
use tourbillon_durable_harness::checker::check;
use tourbillon_durable_harness::log::{Answer, Ended, How, Line, Op, Stamp};

fn verdicts(lines: &[Line]) -> BTreeSet<Verdict> {
    check(lines).verdicts()
}

#[test]
fn a_good_log_passes() {
    let report = check(&good());
    assert!(report.violations.is_empty(), "{report}");
    assert_eq!((report.repeated, report.excused), (2, 1), "{report}");
    assert_eq!(report.tolerance_us, 202);
    // Nine timers: one has no answer, one was refused and one is far. Fifteen ticks,
    // three tocks.
    assert_eq!(report.required, 6 + 15 + 3, "{report}");
}

#[test]
fn each_kind_of_bad_log_is_named() {
    let (mut wrong, mut reached) = (String::new(), BTreeSet::new());
    for (what, lines, wanted) in mutations() {
        let report = check(&lines);
        if report.verdicts() != wanted.iter().copied().collect() {
            wrong += &format!("\n{what}: not {wanted:?}, but {report}\n");
        }
        reached.append(&mut report.verdicts());
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(reached, Verdict::ALL.iter().copied().collect());
}

#[test]
fn the_order_of_the_lines_does_not_matter() {
    let mut lines = good();
    lines.reverse();
    assert_eq!(verdicts(&lines), BTreeSet::new());
}

#[test]
fn an_attempt_is_late_only_if_a_handler_was_free() {
    assert_eq!(verdicts(&late(990 * MS, 0)), BTreeSet::new());
    assert_eq!(verdicts(&late(2_150 * MS, 2)), BTreeSet::new());
}

#[test]
fn an_occurrence_is_missed_if_the_next_is_due_when_it_is_found() {
    assert_eq!(verdicts(&missed(16 * SECOND, 17 * SECOND)), BTreeSet::new());
}

#[test]
fn an_occurrence_is_skipped_for_one_whose_end_was_not_answered_yet() {
    // A record bears the time at which its transaction began.
    let recorded = 6 * SECOND - 3 * MS;
    assert_eq!(verdicts(&overlapped(recorded, Some(6 * SECOND + 5 * MS))), BTreeSet::new());
    assert_eq!(verdicts(&overlapped(recorded, None)), BTreeSet::new());
    let answered = overlapped(recorded, Some(6 * SECOND - MS));
    assert_eq!(verdicts(&answered), BTreeSet::from([SkippedFreely]));
}

#[test]
fn a_cancel_waits_for_an_attempt_that_starts_after_its_transaction() {
    let cancelled = |is_taken: bool| {
        let mut run = Run { lines: good(), calls: 1_000, timers: 1_000 };
        let timer = run.once("waited-for", SECOND, 6 * SECOND, Answer::Done);
        run.call("waited-for", 6 * SECOND, Op::Cancel, Answer::Done);
        run.start(&timer, 1, 0, 6 * SECOND + 2 * MS);
        run.finish(&timer, 1, 0, 6 * SECOND + 3 * MS, How::Failed);
        run.record(&timer, 1, None, 6 * SECOND + MS, Ended::Cancelled);
        if !is_taken {
            run.lines
                .retain(|line| !matches!(line, Line::Taken { timer: of, .. } if *of == timer.id));
        }
        verdicts(&run.lines)
    };
    assert_eq!(cancelled(true), BTreeSet::new());
    assert_eq!(cancelled(false), BTreeSet::from([AfterRecord]));
}

#[test]
fn a_start_is_early_only_if_no_reading_allows_it() {
    let started = |at: i64| {
        with(move |line| match line {
            Line::Start { began, name, .. } if name == "plain" => *began = Stamp(at),
            _ => {}
        })
    };
    // Each reading is off by at most 100 us to either side, and rounded.
    assert_eq!(verdicts(&started(3 * SECOND - 101)), BTreeSet::new());
    assert_eq!(verdicts(&started(3 * SECOND - 102)), BTreeSet::from([Early]));
}

#[test]
fn a_second_start_says_whether_the_lease_was_over() {
    let details = |at: i64, node: u32| {
        let mut lines = with(|line| {
            if let Line::Fault { node, .. } = line {
                *node = Some(2);
            }
        });
        lines.push(Line::Unleased { at: Stamp(at), node });
        let violations = check(&lines).violations.into_iter();
        violations.map(|violation| violation.detail).collect::<Vec<_>>()
    };
    for (at, node, is_lost) in [
        (12 * SECOND, 0, true),
        (12 * SECOND, 1, false),
        (9 * SECOND, 0, false),
        (15 * SECOND, 0, false),
    ] {
        let details = details(at, node);
        assert_eq!(details.len(), 1, "{details:?}");
        assert_eq!(details[0].ends_with("it had lost its lease"), is_lost, "{details:?}");
    }
}
