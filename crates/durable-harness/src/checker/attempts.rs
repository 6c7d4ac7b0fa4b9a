//! The rules that hold for every occurrence, of whatever origin.

use std::collections::BTreeSet;

use super::history::{Attempt, Facts, History, Key, Record};
use super::{Report, Verdict};
use crate::log::{Ended, How};

pub(super) fn check(history: &History, report: &mut Report) {
    for (key, facts) in &history.facts {
        report.attempts += facts.attempts.len();
        starts(history, key, facts, report);
        completions(history, key, facts, report);
        identities(history, key, facts, report);
        for record in &facts.records {
            founded(history, key, facts, record, report);
        }
    }
}

fn starts(history: &History, key: &Key, facts: &Facts, report: &mut Report) {
    for attempt in &facts.attempts {
        let wanted = attempt.due.max(attempt.scheduled_for);
        let shown = history.clock.most(attempt.began);
        if shown < wanted {
            let early = wanted.since(shown).as_micros();
            report.add(Verdict::Early, key, format!("{early} us before {wanted}"));
        }
    }
    for pair in facts.attempts.windows(2) {
        second(history, key, (&pair[0], &pair[1]), report);
    }
    let may_be_lost = |attempt: &&Attempt| history.may_be_unclaimed(attempt);
    let completed =
        facts.attempts.iter().filter_map(|attempt| Some((attempt.completed()?, attempt)));
    if let Some((at, completed)) = completed.min_by_key(|(at, _)| *at) {
        let is_excused = |late: &&Attempt| may_be_lost(&completed) && may_be_lost(late);
        let mut late = facts.attempts.iter().filter(|attempt| attempt.at > at);
        if let Some(late) = late.find(|late| !is_excused(late)) {
            report.add(Verdict::AfterDone, key, format!("attempt {} started", late.number));
        }
    }
    for record in &facts.records {
        let recorded = history.clock.stamps(record.recorded).1;
        // A record bears the time at which its transaction began. That may have waited for the row
        // until the attempt had ended.
        let is_excused = |late: &&Attempt| {
            late.left_its_timer()
                || history.is_behind(recorded, record.scheduled_for) && may_be_lost(late)
        };
        let mut late = facts.attempts.iter().filter(|attempt| attempt.at > recorded);
        if let Some(late) = late.find(|late| !is_excused(late)) {
            let detail = format!("attempt {} started after {:?}", late.number, record.ended);
            report.add(Verdict::AfterRecord, key, detail);
        }
    }
}

/// A start after another of the same occurrence.
fn second(history: &History, key: &Key, (first, next): (&Attempt, &Attempt), report: &mut Report) {
    report.repeated += 1;
    if history.may_be_unclaimed(first) {
        report.excused += 1;
        return;
    }
    if next.number <= first.number {
        let detail = format!("attempt {} started after {}", next.number, first.number);
        report.add(Verdict::OutOfOrder, key, detail);
    }
    let ended = |(at, how)| matches!(how, How::Failed | How::Back) && at <= next.at;
    if first.finish.is_some_and(ended) {
        return;
    }
    if history.troubled(Some(first.label.node), first.at, next.at) {
        report.excused += 1;
    } else {
        let node = first.label.node;
        let lease = match history.lost_lease(node, first.at, next.at) {
            true => "it had lost its lease",
            false => "it was not told that its lease was over",
        };
        let detail = format!("attempt {} of {node} met no fault, and {lease}", first.number);
        report.add(Verdict::SecondStart, key, detail);
    }
}

fn completions(history: &History, key: &Key, facts: &Facts, report: &mut Report) {
    let completed: Vec<_> =
        facts.attempts.iter().filter(|attempt| attempt.completed().is_some()).collect();
    let is_excused = completed.iter().all(|attempt| history.may_be_unclaimed(attempt));
    if completed.len() > 1 && !is_excused {
        let numbers: Vec<_> = completed.iter().map(|attempt| attempt.number).collect();
        report.add(Verdict::CompletedTwice, key, format!("attempts {numbers:?}"));
    }
    for attempt in completed {
        let is_of = |record: &Record| {
            record.attempts == attempt.number && record.node == Some(attempt.node)
        };
        if !facts.records.iter().any(is_of) {
            let detail = format!("attempt {} was accepted, and is not recorded", attempt.number);
            report.add(Verdict::WrongRecord, key, detail);
        }
    }
}

fn identities(history: &History, key: &Key, facts: &Facts, report: &mut Report) {
    let may_be_lost = facts.attempts.iter().all(|attempt| history.may_be_unclaimed(attempt));
    let started = facts.attempts.iter().map(|attempt| attempt.timer);
    let rows = facts.rows.iter().map(|row| row.timer);
    let records = facts.records.iter().map(|record| record.timer);
    let timers: BTreeSet<_> = started.chain(rows).chain(records).collect();
    if timers.len() > 1 && !may_be_lost || facts.rows.len() + facts.records.len() > 1 {
        let (rows, records) = (facts.rows.len(), facts.records.len());
        let detail = format!("{} identities, {rows} timers, {records} records", timers.len());
        report.add(Verdict::Doubled, key, detail);
    }
    let is_there = !facts.rows.is_empty() || !facts.records.is_empty();
    if !facts.attempts.is_empty() && !is_there && !may_be_lost {
        report.add(Verdict::Lost, key, "it started, and is not there");
    }
}

/// Requires that a record comes from an attempt, or that none ever started.
fn founded(history: &History, key: &Key, facts: &Facts, record: &Record, report: &mut Report) {
    let ended_by = |wanted: How| {
        facts.attempts.iter().any(|attempt| {
            attempt.number == record.attempts
                && Some(attempt.node) == record.node
                && attempt.finish.is_some_and(|(_, how)| how == wanted)
        })
    };
    let is_founded = match record.ended {
        Ended::Succeeded => ended_by(How::Ok),
        Ended::Dead => ended_by(How::Failed),
        Ended::GivenUp => ended_by(How::GaveUp),
        Ended::Missed | Ended::Overlap => {
            facts.attempts.iter().all(|attempt| history.may_be_unclaimed(attempt))
        }
        Ended::Cancelled | Ended::TimerUpdate => true,
    };
    if !is_founded {
        let detail = format!("{:?} by attempt {}, says the record", record.ended, record.attempts);
        report.add(Verdict::WrongRecord, key, detail);
    }
}
