//! The rules for timers that belong to no schedule.

use tourbillon_durable::Time;

use super::history::{Attempt, Call, Facts, History, Key};
use super::{Report, Verdict};
use crate::log::{Answer, Ended, Op, Stamp};

pub(super) fn check(history: &History, report: &mut Report) {
    let nothing = Facts::default();
    for (name, calls) in &history.calls {
        let Some(call) = calls.iter().find(|call| matches!(call.op, Op::Once(_))) else {
            continue;
        };
        let key = Key::Once(name.clone());
        let facts = history.facts.get(&key).unwrap_or(&nothing);
        existence(history, &key, (call, calls, facts), report);
        times(history, &key, (calls, facts), report);
        for cancel in calls.iter().filter(|call| call.op == Op::Cancel) {
            cancelled(history, &key, (call, cancel, facts), report);
        }
        for record in facts.records.iter().filter(|record| record.ended == Ended::Cancelled) {
            let within = history.clock.stamps(record.recorded);
            let mut cancels = calls.iter().filter(|call| call.op == Op::Cancel);
            if !cancels.any(|call| call.may_have_within(within)) {
                report.add(Verdict::WrongRecord, &key, "nobody cancelled it then");
            }
        }
    }
    for (key, facts) in &history.facts {
        let Key::Once(name) = key else { continue };
        if !history.calls.contains_key(name) {
            report.add(Verdict::Unasked, key, "nobody asked for it");
        }
        let is_skip = |ended| matches!(ended, Ended::Missed | Ended::Overlap | Ended::TimerUpdate);
        if facts.records.iter().any(|record| is_skip(record.ended)) {
            report.add(Verdict::WrongRecord, key, "it has no schedule to be skipped by");
        }
    }
}

fn existence(
    history: &History,
    key: &Key,
    (call, calls, facts): (&Call, &[Call], &Facts),
    report: &mut Report,
) {
    let is_there = !facts.rows.is_empty() || !facts.records.is_empty();
    let is_required = wishes(calls, Stamp(i64::MAX))
        .iter()
        .all(|wish| history.clock.stamps(*wish).1 <= history.end);
    match call.answer {
        Answer::Done => {
            report.required += usize::from(is_required);
            if !is_there {
                report.add(Verdict::Lost, key, "it was created, and is not there");
            }
        }
        Answer::Unknown => {}
        _ => {
            if is_there || !facts.attempts.is_empty() {
                report.add(Verdict::Unasked, key, "the store said that it was not written");
            }
        }
    }
    for row in &facts.rows {
        if history.clock.stamps(row.scheduled_for).1 <= history.end {
            report.add(Verdict::Unfinished, key, "it was due before the end");
        }
    }
}

fn times(history: &History, key: &Key, (calls, facts): (&[Call], &Facts), report: &mut Report) {
    for attempt in &facts.attempts {
        let is_wished = wishes(calls, attempt.at).contains(&attempt.scheduled_for);
        if !is_wished && !history.may_be_unclaimed(attempt) {
            let detail = format!("attempt {} for {}", attempt.number, attempt.scheduled_for);
            report.add(Verdict::WrongTime, key, detail);
        }
    }
    let last = wishes(calls, Stamp(i64::MAX));
    let rows = facts.rows.iter().map(|row| row.scheduled_for);
    let records = facts.records.iter().map(|record| record.scheduled_for);
    for time in rows.chain(records).filter(|time| !last.contains(time)) {
        report.add(Verdict::WrongTime, key, format!("in the tables with {time}"));
    }
}

/// The possible times of the timer at `at`. A lost call can be carried out at any time.
fn wishes(calls: &[Call], at: Stamp) -> Vec<Time> {
    let (mut certain, mut possible) = (Vec::new(), Vec::new());
    for call in calls.iter().filter(|call| call.invoked <= at) {
        match (call.op, call.answer) {
            (Op::Once(time), _) => certain = vec![time],
            (Op::Reschedule(time), Answer::Done) if call.returned <= at => certain = vec![time],
            (Op::Reschedule(time), Answer::Done) => certain.push(time),
            (Op::Reschedule(time), Answer::Unknown) => possible.push(time),
            _ => {}
        }
    }
    certain.append(&mut possible);
    certain
}

fn cancelled(
    history: &History,
    key: &Key,
    (once, cancel, facts): (&Call, &Call, &Facts),
    report: &mut Report,
) {
    let is_final = match cancel.answer {
        Answer::Done => true,
        Answer::Gone => once.answer == Answer::Done && once.returned <= cancel.invoked,
        _ => false,
    };
    if !is_final {
        return;
    }
    let is_late =
        |attempt: &&Attempt| attempt.at > cancel.returned && !history.may_be_unclaimed(attempt);
    for attempt in facts.attempts.iter().filter(is_late) {
        let after = attempt.at.0 - cancel.returned.0;
        let detail = format!("attempt {} started {after} us after", attempt.number);
        report.add(Verdict::AfterCancel, key, detail);
    }
    let is_cancelled = facts.records.iter().any(|record| record.ended == Ended::Cancelled);
    if cancel.answer == Answer::Done && !is_cancelled {
        report.add(Verdict::WrongRecord, key, "it was cancelled, and is not recorded so");
    }
}
