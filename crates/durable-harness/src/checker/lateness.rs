//! Lateness of attempts. A fault excuses it, and so do handlers that are all busy.

use std::collections::BTreeMap;

use super::history::{Attempt, History, Key};
use super::{Report, Verdict};
use crate::log::{Answer, How, Label, Stamp};

pub(super) fn check(history: &History, report: &mut Report) {
    let busy = busy(history);
    for (key, facts) in &history.facts {
        for (place, attempt) in facts.attempts.iter().enumerate() {
            let Some(ready) = ready(history, key, facts.attempts[..place].last(), attempt) else {
                continue;
            };
            let spans = busy.get(&(attempt.label, attempt.kind.as_str()));
            let busy_us = spans.map_or(0, |spans| within(spans, ready, attempt.began));
            let late_us = attempt.began.0.saturating_sub(ready.0) - busy_us;
            if late_us > history.late_us && !history.troubled(None, ready, attempt.began) {
                let detail = format!("attempt {} started {late_us} us late", attempt.number);
                report.add(Verdict::Late, key, detail);
            }
        }
    }
}

/// Returns the time from which on an attempt can have started; `None` if a lost answer leaves that
/// open.
fn ready(
    history: &History,
    key: &Key,
    before: Option<&Attempt>,
    attempt: &Attempt,
) -> Option<Stamp> {
    let (Key::Once(name) | Key::Occurrence(name, _)) = key;
    let mut ready = history.clock.stamps(attempt.due).1;
    let calls = history.calls.get(name).map_or(&[][..], Vec::as_slice);
    for call in calls.iter().filter(|call| call.invoked <= attempt.began && call.may_have()) {
        if call.answer == Answer::Unknown {
            return None;
        }
        ready = ready.max(call.returned);
    }
    // An attempt that neither ended nor was handed back met a fault, or is a second start without
    // one.
    Some(before.and_then(ended).map_or(ready, |ended| ready.max(ended)))
}

/// When nothing was left to do for the handler of an attempt.
fn ended(attempt: &Attempt) -> Option<Stamp> {
    let handed_back = attempt.finish.filter(|(_, how)| *how == How::Back).map(|(at, _)| at);
    attempt.taken.map(|(at, _)| at).or(handed_back)
}

type Spans = Vec<(Stamp, Stamp)>;

/// When all handlers of a process and a kind were busy.
fn busy<'a>(history: &'a History<'_>) -> BTreeMap<(Label, &'a str), Spans> {
    let mut changes: BTreeMap<_, Vec<(Stamp, i64)>> = BTreeMap::new();
    for attempt in history.facts.values().flat_map(|facts| &facts.attempts) {
        let of = changes.entry((attempt.label, attempt.kind.as_str())).or_default();
        of.push((attempt.at, 1));
        of.push((ended(attempt).unwrap_or(Stamp(i64::MAX)), -1));
    }
    let spans = |(of, mut changes): ((Label, _), Vec<_>)| {
        changes.sort_unstable();
        let threads = history.handlers.get(&of).copied().unwrap_or(u32::MAX);
        let (mut running, mut since, mut spans) = (0, None, Spans::new());
        for (at, change) in changes {
            running += change;
            match since {
                None if running >= i64::from(threads) => since = Some(at),
                Some(from) if running < i64::from(threads) => {
                    spans.push((from, at));
                    since = None;
                }
                _ => {}
            }
        }
        (of, spans)
    };
    changes.into_iter().map(spans).collect()
}

/// Returns how much of the time between the two is in the spans.
fn within(spans: &Spans, from: Stamp, to: Stamp) -> i64 {
    spans.iter().map(|(begun, ended)| (to.min(*ended).0 - from.max(*begun).0).max(0)).sum()
}
