//! Checks of what became of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tourbillon_durable::{Missed, Outcome, Reason, Record, Time};

use super::{ON_TIME, PERIOD, Result, SCHEDULES, SLOW, Story};

/// Says what became of everything; fails if that is not as it has to be.
pub(crate) fn report(story: &Story) -> Result<()> {
    let mut checks = Checks::default();
    reminders(story, &mut checks);
    schedules(story, &mut checks);
    let early = said(&story.before, "early").len() + said(&story.after, "early").len();
    checks.expect(early == 0, || format!("{early} attempts were early"));
    checks.expect(story.left == 0, || format!("{} timers are left", story.left));
    match checks.broken.len() {
        0 => {
            println!("nothing was lost, early, or done twice");
            Ok(())
        }
        count => Err(format!("{count} claims are false:\n{}", checks.broken.join("\n")).into()),
    }
}

#[derive(Default)]
struct Checks {
    broken: Vec<String>,
}

impl Checks {
    fn expect(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(format!("  {}", why()));
        }
    }
}

/// Names in the lines that begin with `word`, with the numbers of the attempts.
fn said<'a>(log: &'a [String], word: &str) -> Vec<(&'a str, &'a str)> {
    let lines = log.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    lines.filter_map(|line| line.split_once(' ')).collect()
}

fn reminders(story: &Story, checks: &mut Checks) {
    let mut found: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in &story.records {
        if let Some(name) = story.reminders.get(&record.timer) {
            found.entry(name).or_default().push(record);
        }
    }
    let all = story.reminders.values();
    let lost: Vec<_> = all.filter(|name| !found.contains_key(&name[..])).collect();
    checks.expect(lost.is_empty(), || format!("lost: {lost:?}"));
    for (name, records) in &found {
        let is_good = records.len() == 1 && records[0].outcome == Outcome::Succeeded;
        checks.expect(is_good, || format!("{name} ended otherwise: {records:?}"));
    }
    let done_twice: Vec<_> = said(&story.before, "done")
        .into_iter()
        .filter(|(name, _)| said(&story.after, "start").iter().any(|(again, _)| again == name))
        .filter(|(name, _)| name.starts_with("reminder"))
        .collect();
    checks.expect(done_twice.is_empty(), || format!("done twice: {done_twice:?}"));

    // Their end may have been taken, and not been said any more.
    let in_hand: Vec<_> = said(&story.before, "start")
        .into_iter()
        .filter(|attempt| !said(&story.before, "done").contains(attempt))
        .filter_map(|(name, _)| Some((name, *found.get(name)?.first()?)))
        .filter(|(_, record)| record.recorded > story.killed)
        .collect();
    for (name, record) in &in_hand {
        checks.expect(record.attempts > 1, || format!("{name} was done by a dead worker"));
    }
    checks.expect(in_hand.iter().any(|(name, _)| *name == SLOW), || {
        format!("{SLOW} was not in hand when the worker was killed")
    });
    let delivered = said(&story.before, "done");
    let before = delivered.iter().filter(|(name, _)| name.starts_with("reminder")).count();
    let away = story.records.iter().filter(|record| {
        let at = record.scheduled_for;
        story.reminders.contains_key(&record.timer) && at > story.killed && at < story.started_again
    });
    println!("reminders: {} lost of {}", lost.len(), story.reminders.len());
    println!("  {before} were delivered before the crash, and none of them again");
    println!("  {} came due while nobody was there, and were delivered late", away.count());
    for (name, record) in in_hand {
        let attempts = record.attempts;
        println!(
            "  {name} was in hand when the worker was killed: delivered by attempt {attempts}"
        );
    }
}

fn schedules(story: &Story, checks: &mut Checks) {
    for ((name, missed), first) in SCHEDULES.into_iter().zip(&story.first) {
        let mut records: Vec<&Record> =
            story.records.iter().filter(|record| record.name.as_deref() == Some(name)).collect();
        records.sort_by_key(|record| record.scheduled_for);
        complete(story, name, *first, &records, checks);
        let count = |reason: Option<Reason>| {
            records.iter().filter(|record| record.reason == reason).count()
        };
        let (skipped, coalesced) = (count(Some(Reason::Missed)), count(Some(Reason::Coalesced)));
        let is_late = |record: &&&Record| {
            record.scheduled_for > story.killed && lateness(record) > ON_TIME * 2
        };
        println!(
            "{name}: {} occurrences, {} ran, {} of them late; {skipped} were skipped and \
             {coalesced} coalesced",
            records.len(),
            count(None),
            records.iter().filter(|record| record.reason.is_none()).filter(is_late).count(),
        );
        // Occurrences that were timers before the crash run late under any policy. After the last
        // occurrence that did not run come those that the policy lets run.
        let lapsed =
            |record: &&Record| matches!(record.reason, Some(Reason::Missed | Reason::Coalesced));
        let last = records.iter().rposition(lapsed);
        let next = last.and_then(|last| records.get(last + 1));
        let is_good = match missed {
            Missed::Skip => skipped > 0 && coalesced == 0,
            Missed::Coalesce => {
                coalesced > 0 && skipped == 0 && next.is_some_and(|next| next.reason.is_none())
            }
            Missed::CatchUp { max_count, .. } => {
                let oldest = PERIOD * (max_count as u32 - 1);
                let is_caught_up =
                    |next: &&Record| next.reason.is_none() && lateness(next) > oldest;
                skipped > 0 && coalesced == 0 && next.is_some_and(is_caught_up)
            }
        };
        checks.expect(is_good, || format!("{name} was not caught up by {missed:?}"));
    }
}

/// Returns the span from when an occurrence was to happen until its end was recorded.
fn lateness(record: &Record) -> Duration {
    record.recorded.since(record.scheduled_for)
}

/// Every occurrence from the first until the schedule was disabled has one record.
fn complete(story: &Story, name: &str, first: Time, records: &[&Record], checks: &mut Checks) {
    let found: BTreeSet<Time> = records.iter().map(|record| record.scheduled_for).collect();
    checks.expect(found.len() == records.len(), || format!("{name} has two records of one time"));
    let mut expected = first;
    while expected <= story.disabled {
        checks.expect(found.contains(&expected), || format!("{name} has lost {expected}"));
        expected = expected + PERIOD;
    }
    for record in records {
        let reasons = [Reason::Missed, Reason::Coalesced, Reason::Disabled];
        let is_known = match record.reason {
            None => record.outcome == Outcome::Succeeded,
            Some(reason) => reasons.contains(&reason),
        };
        checks.expect(is_known, || format!("{name} ended otherwise: {record:?}"));
    }
}
