//! Runs in which a standby became the primary without the last acknowledged writes.

use std::collections::BTreeSet;

use tourbillon_durable_harness::checker::Verdict::{self, *};
use tourbillon_durable_harness::log::{Answer, Ended, How, Line, Op, Stamp};

use crate::good::{MS, Run, SECOND, good, time};
use crate::verdicts;

/// Start of the standby's possible losses, and the time of its takeover.
const FROM: i64 = 14 * SECOND;
const TO: i64 = 17 * SECOND;

/// Verdicts on the good run with an addition, with and without such a failover.
fn judged(add: impl FnOnce(&mut Run)) -> [BTreeSet<Verdict>; 2] {
    let mut run = Run { lines: good(), calls: 1_000, timers: 1_000 };
    let (number, name) = (1_000, "fail-over".to_owned());
    run.lines.push(Line::Fault { number, at: Stamp(FROM), name, node: None });
    run.lines.push(Line::Over { number, at: Stamp(TO) });
    add(&mut run);
    let strict = verdicts(&run.lines);
    run.lines.push(Line::Behind { from: Stamp(FROM), to: Stamp(TO) });
    [verdicts(&run.lines), strict]
}

fn cancel(run: &mut Run, at: i64) {
    run.call("again", at, Op::Cancel, Answer::Done);
}

#[test]
fn what_was_created_behind_the_standby_may_be_lost() {
    let created = |at: i64| {
        judged(|run| {
            run.once("again", at, 18 * SECOND, Answer::Done);
        })
    };
    assert_eq!(created(FROM + SECOND), [BTreeSet::new(), BTreeSet::from([Lost])]);
    let before = FROM - 10 * MS;
    assert_eq!(created(before), [BTreeSet::from([Lost]), BTreeSet::from([Lost])]);
    assert_eq!(created(TO + 10 * MS), [BTreeSet::from([Lost]), BTreeSet::from([Lost])]);
}

#[test]
fn a_cancel_behind_the_standby_may_be_undone() {
    let cancelled = |at: i64| {
        judged(|run| {
            let timer = run.once("again", 13 * SECOND, 18 * SECOND, Answer::Done);
            cancel(run, at);
            run.succeed(&timer, 1, 0, 18 * SECOND + MS);
        })
    };
    let broken = BTreeSet::from([AfterCancel, WrongRecord]);
    assert_eq!(cancelled(FROM + SECOND), [BTreeSet::new(), broken.clone()]);
    assert_eq!(cancelled(FROM - 100 * MS), [broken.clone(), broken]);
}

#[test]
fn an_end_behind_the_standby_may_be_lost() {
    let ended = |at: i64| {
        judged(|run| {
            let timer = run.once("again", 13 * SECOND, at, Answer::Done);
            run.start(&timer, 1, 0, at);
            run.finish(&timer, 1, 0, at + 2 * MS, How::Ok);
            run.succeed(&timer, 1, 1, 18 * SECOND);
        })
    };
    let broken = BTreeSet::from([OutOfOrder, AfterDone, CompletedTwice, WrongRecord]);
    assert_eq!(ended(FROM + SECOND), [BTreeSet::new(), broken.clone()]);
    let [before, _] = ended(FROM - 100 * MS);
    assert_eq!(before, broken);
}

#[test]
fn a_claim_behind_the_standby_may_start_after_the_failover() {
    let claimed = |due: i64| {
        judged(|run| {
            let timer = run.once("again", 13 * SECOND, due, Answer::Done);
            run.start(&timer, 1, 0, TO + 500 * MS);
            run.succeed(&timer, 1, 1, TO + SECOND);
        })
    };
    let broken = BTreeSet::from([OutOfOrder]);
    assert_eq!(claimed(FROM + SECOND), [BTreeSet::new(), broken.clone()]);
    assert_eq!(claimed(TO + 400 * MS), [broken.clone(), broken]);
}

/// It was claimed behind the standby, taken back after the failover, and starts.
#[test]
fn a_claim_behind_the_standby_may_start_though_a_later_call_takes_it_back() {
    let changed = TO + 500 * MS;
    let cancelled = |due: i64| {
        judged(|run| {
            let timer = run.once("again", 13 * SECOND, due, Answer::Done);
            cancel(run, changed);
            run.start(&timer, 1, 0, TO + SECOND);
            run.record(&timer, 0, None, changed + 2 * MS, Ended::Cancelled);
        })
    };
    let broken = BTreeSet::from([AfterCancel, AfterRecord]);
    assert_eq!(cancelled(FROM + SECOND)[0], BTreeSet::new());
    // A claim after the failover is lost by nobody.
    assert_eq!(cancelled(TO + 400 * MS)[0], broken);

    let [moved, _] = judged(|run| {
        let mut timer = run.once("again", 13 * SECOND, FROM + SECOND, Answer::Done);
        run.call("again", changed, Op::Reschedule(time(TO + 2 * SECOND)), Answer::Done);
        run.start(&timer, 1, 0, TO + SECOND);
        timer.at = TO + 2 * SECOND;
        run.succeed(&timer, 1, 1, timer.at + MS);
    });
    assert_eq!(moved, BTreeSet::new());

    let [disabled, _] = judged(|run| {
        // A period that meets one time of the run.
        run.every("again", 13 * SECOND, time(FROM + SECOND).as_micros());
        let timer = run.timer("again", true, FROM + SECOND);
        run.enable("again", changed, false);
        run.start(&timer, 1, 0, TO + SECOND);
        run.record(&timer, 0, None, changed + 2 * MS, Ended::TimerUpdate);
    });
    assert_eq!(disabled, BTreeSet::new());
}

#[test]
fn an_attempt_that_its_process_makes_again_has_an_end_of_its_own() {
    let made_again = |finishes: bool| {
        judged(|run| {
            let at = FROM + SECOND;
            let timer = run.once("again", 13 * SECOND, at, Answer::Done);
            run.start(&timer, 1, 0, at);
            run.finish(&timer, 1, 0, at + 2 * MS, How::Failed);
            let again = TO + 2_200 * MS;
            run.start(&timer, 1, 0, again);
            if let Some(Line::Start { due, .. }) = run.lines.last_mut() {
                *due = time(again);
            }
            if finishes {
                run.finish(&timer, 1, 0, again + 2 * MS, How::Failed);
            }
            run.succeed(&timer, 2, 1, again + 50 * MS);
        })
    };
    assert_eq!(made_again(true)[0], BTreeSet::new());
    assert_eq!(made_again(false)[0], BTreeSet::from([SecondStart]));
}
