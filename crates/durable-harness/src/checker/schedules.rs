//! The rules for schedules: their occurrences, and the ends of these.

use std::collections::BTreeMap;

use tourbillon_durable::Time;

use super::history::{Attempt, Call, Facts, History, Key, Record};
use super::{Report, Verdict};
use crate::log::{Answer, Ended, Op, Stamp};

/// State of a schedule from one moment on.
#[derive(Clone, PartialEq, Eq)]
struct Phase {
    from: Stamp,
    /// The periods that it may have. None is in force if it is off, for certain.
    periods: Vec<i64>,
    /// True if it is certainly enabled with the one period.
    is_certain: bool,
}

pub(super) fn check(history: &History, report: &mut Report) {
    let mut occurrences: BTreeMap<&str, Vec<(&Key, Time, &Facts)>> = BTreeMap::new();
    for (key, facts) in &history.facts {
        if let Key::Occurrence(name, time) = key {
            occurrences.entry(name).or_default().push((key, *time, facts));
        }
    }
    for (name, calls) in &history.calls {
        if !calls.iter().any(|call| matches!(call.op, Op::Every(..))) {
            continue;
        }
        let of = occurrences.remove(name.as_str()).unwrap_or_default();
        let phases = phases(calls);
        required(history, name, &phases, report);
        for (key, time, facts) in &of {
            asked(history, key, (*time, &phases), report);
            after_disable(history, (key, *time), calls, facts, report);
            due_late(history, (key, *time), calls, facts, report);
            for record in &facts.records {
                excused(history, (key, *time), (calls, &of), record, report);
            }
        }
    }
    for (key, ..) in occurrences.values().flatten() {
        report.add(Verdict::Unasked, key, "there is no such schedule");
    }
}

/// Returns the phases of the schedule, by its client's knowledge.
fn phases(calls: &[Call]) -> Vec<Phase> {
    let mut phases: Vec<Phase> = Vec::new();
    // The period in force, or in force if the schedule were enabled; and whether that is certain.
    let (mut periods, mut on, mut is_certain) = (Vec::new(), false, true);
    // A change of the times keeps a switch that its client takes for another.
    let mut is_switch_undone = false;
    for call in calls.iter().filter(|call| call.may_have()) {
        let before = if on || !is_certain { periods.clone() } else { Vec::new() };
        if let Op::Enable(_) = call.op {
            is_switch_undone = call.is_undone;
        }
        let mut both = before;
        match call.op {
            Op::Every(period, _) => both.push(period),
            Op::Enable(true) => both.extend(&periods),
            _ => {}
        }
        phases.push(Phase { from: call.invoked, periods: both.clone(), is_certain: false });
        if call.answer == Answer::Unknown {
            // Nothing in force is certain until a call has been answered.
            if matches!(call.op, Op::Every(..)) {
                periods = both;
            }
            is_certain = false;
            continue;
        }
        is_certain = match call.op {
            Op::Every(period, _) => {
                (periods, on) = (vec![period], true);
                !is_switch_undone
            }
            Op::Enable(to) => {
                on = to;
                periods.len() == 1
            }
            _ => is_certain,
        };
        let certain = if on { periods.clone() } else { Vec::new() };
        phases.push(Phase { from: call.returned, is_certain: on && is_certain, periods: certain });
    }
    phases
}

/// Every occurrence of an enabled schedule that was due before the end has an outcome.
fn required(history: &History, name: &str, phases: &[Phase], report: &mut Report) {
    for (place, phase) in phases.iter().enumerate().filter(|(_, phase)| phase.is_certain) {
        let next = phases.get(place + 1).map_or(history.end, |next| next.from);
        let to = history.clock.least(next.min(history.end));
        let period = phase.periods[0].max(1);
        let mut micros = history.clock.most(phase.from).as_micros() / period * period + period;
        while micros < to.as_micros() {
            let key = Key::Occurrence(name.to_owned(), Time::from_micros(micros));
            report.required += 1;
            match history.facts.get(&key) {
                Some(facts) if !facts.rows.is_empty() => {
                    report.add(Verdict::Unfinished, key, "it was due before the end");
                }
                Some(facts) if !facts.records.is_empty() => {}
                _ => report.add(Verdict::Lost, key, "there is no trace of it in the tables"),
            }
            micros += period;
        }
    }
}

/// The schedule can have had that time, when it came.
fn asked(history: &History, key: &Key, (time, phases): (Time, &[Phase]), report: &mut Report) {
    let (from, to) = history.clock.stamps(time);
    let is_of = |(place, phase): (usize, &Phase)| {
        let next = phases.get(place + 1).map_or(Stamp(i64::MAX), |next| next.from);
        let is_then = phase.from <= to && from <= next;
        is_then && phase.periods.iter().any(|period| time.as_micros() % (*period).max(1) == 0)
    };
    // Times ahead of the last reading were never due.
    let is_ahead = history.clock.most(history.end) < time;
    if !is_ahead && !phases.iter().enumerate().any(is_of) {
        report.add(Verdict::Unasked, key, "the schedule did not have it");
    }
}

fn after_disable(
    history: &History,
    (key, time): (&Key, Time),
    calls: &[Call],
    facts: &Facts,
    report: &mut Report,
) {
    for (place, off) in calls.iter().enumerate() {
        if off.op != Op::Enable(false) || off.answer != Answer::Done {
            continue;
        }
        let is_on = |call: &&Call| matches!(call.op, Op::Every(..) | Op::Enable(true));
        let on = calls[place..].iter().find(is_on).map_or(Stamp(i64::MAX), |call| call.invoked);
        // Timers that were pending then stay away for ever.
        let is_old = time < history.clock.least(off.invoked);
        for attempt in &facts.attempts {
            let is_exempt =
                off.running.contains(&attempt.timer) || history.may_be_unclaimed(attempt);
            if attempt.at > off.returned && !is_exempt && (is_old || attempt.at < on) {
                let after = attempt.at.0 - off.returned.0;
                let detail = format!("attempt {} started {after} us after", attempt.number);
                report.add(Verdict::AfterDisable, key, detail);
            }
        }
    }
}

/// Returns whether the schedule began near this time, for all that is known: nodes learn of its
/// beginning when they next read the schedules.
fn is_new(history: &History, due: (Stamp, Stamp), calls: &[Call]) -> bool {
    calls.iter().any(|call| {
        matches!(call.op, Op::Every(..) | Op::Enable(true))
            && call.invoked <= due.1
            && due.0.0 <= call.returned.0.saturating_add(history.lease_us)
    })
}

/// An occurrence is due when it is scheduled, or as much later as its schedule allows.
fn due_late(
    history: &History,
    (key, time): (&Key, Time),
    calls: &[Call],
    facts: &Facts,
    report: &mut Report,
) {
    let slack = |call: &Call| match call.op {
        Op::Every(_, slack_us) => Some(slack_us.unwrap_or(i64::MAX)),
        _ => None,
    };
    let slack_us = calls.iter().filter_map(slack).max().unwrap_or(i64::MAX);
    // A further attempt is due when the one before it has ended.
    let Some(attempt) = facts.attempts.first().filter(|attempt| attempt.number == 1) else {
        return;
    };
    let due = history.clock.stamps(time);
    let late_us = attempt.due.as_micros() - time.as_micros();
    let is_excused = history.troubled(None, due.0, history.clock.stamps(attempt.due).1);
    let most_us = slack_us.saturating_add(history.late_us);
    if late_us > most_us && !is_excused && !is_new(history, due, calls) {
        report.add(Verdict::Late, key, format!("it became due {late_us} us late"));
    }
}

/// Returns whether an occurrence may still have been unfinished at this time, which no clock of the
/// host showed before the stamp. A record bears the time at which its transaction began, and others
/// see it once that has ended: before the last attempt was answered, if it ever was.
fn may_be_unfinished(facts: &Facts, (time, from): (Time, Stamp)) -> bool {
    let is_answered_later =
        |attempt: &Attempt| attempt.taken.is_none_or(|(answered, _)| answered >= from);
    !facts.rows.is_empty()
        || facts.records.iter().any(|record| record.recorded >= time)
        || facts.attempts.last().is_some_and(is_answered_later)
}

/// An outcome without an attempt has a reason that the logs know too.
fn excused(
    history: &History,
    (key, time): (&Key, Time),
    (calls, of): (&[Call], &[(&Key, Time, &Facts)]),
    record: &Record,
    report: &mut Report,
) {
    let due = history.clock.stamps(time);
    let recorded = history.clock.stamps(record.recorded);
    match record.ended {
        Ended::Missed => {
            let found_us = record.recorded.since(time).as_micros();
            let periods = calls.iter().filter(|call| call.may_have()).filter_map(|call| {
                if let Op::Every(period, _) = call.op { Some(period) } else { None }
            });
            // A late occurrence is missed only if the next is due too.
            if periods.min().is_some_and(|period| found_us < u128::from(period.unsigned_abs())) {
                report.add(Verdict::SkippedFreely, key, "missed, and the next was not due yet");
            }
            // Without a fault it may be found as late as an attempt may start.
            let is_excused = found_us <= u128::from(history.late_us.unsigned_abs())
                || history.troubled(None, due.0, recorded.1);
            if !is_excused && !is_new(history, due, calls) {
                report.add(Verdict::SkippedFreely, key, "missed, and no fault was there");
            }
        }
        Ended::Overlap => {
            let is_before = |other: &(&Key, Time, &Facts)| {
                other.1 < time && may_be_unfinished(other.2, (time, due.0))
            };
            if !of.iter().any(is_before) {
                report.add(Verdict::SkippedFreely, key, "no other was unfinished");
            }
        }
        Ended::TimerUpdate | Ended::Cancelled => {
            let changes = |op| matches!(op, Op::Enable(false) | Op::Every(..) | Op::Cancel);
            let mut calls = calls.iter().filter(|call| changes(call.op));
            // An attempt that ran when its timer was taken back is recorded once it is known not to
            // complete.
            let since = if record.attempts == 0 { recorded.0 } else { due.0 };
            if !calls.any(|call| call.may_have_within((since, recorded.1))) {
                report.add(Verdict::WrongRecord, key, "nobody took it back then");
            }
        }
        _ => {}
    }
}
