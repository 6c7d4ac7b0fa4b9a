//! Checks of what became of everything.

use std::collections::BTreeSet;

use tourbillon_durable::{Missed, Outcome, Reason, Record, Time};

use super::{PERIOD, Result, SCHEDULES, SLOW, Story};

/// Says what became of everything; fails if that is not as it has to be.
pub(crate) fn report(story: &Story) -> Result<()> {
    let mut checks = Checks::default();
    reminders(story, &mut checks);
    schedules(story, &mut checks);
    match checks.broken.len() {
        0 => {
            println!("nothing was lost");
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

fn reminders(story: &Story, checks: &mut Checks) {
    let mut away = 0;
    for (id, name) in &story.reminders {
        let records: Vec<_> = story.records.iter().filter(|record| record.timer == *id).collect();
        let is_good = matches!(records[..], [one] if one.outcome == Outcome::Succeeded);
        checks.expect(is_good, || format!("{name} is lost or ended otherwise: {records:?}"));
        for Record { scheduled_for: at, attempts, .. } in records {
            away += usize::from(*at > story.killed && *at < story.started_again);
            if name == SLOW {
                println!(
                    "{SLOW} was in hand when the worker was killed: done by attempt {attempts}"
                );
                checks.expect(*attempts > 1, || format!("{SLOW} was done by a dead worker"));
            }
        }
    }
    println!("{} reminders; {away} came due while nobody was there", story.reminders.len());
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
        let (all, ran) = (records.len(), count(None));
        println!("{name}: {ran} of {all} ran, {skipped} were skipped and {coalesced} coalesced");
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
                let is_caught_up = |next: &&Record| {
                    next.reason.is_none() && next.recorded.since(next.scheduled_for) > oldest
                };
                skipped > 0 && coalesced == 0 && next.is_some_and(is_caught_up)
            }
        };
        checks.expect(is_good, || format!("{name} was not caught up by {missed:?}"));
    }
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
