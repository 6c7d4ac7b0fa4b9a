//! [`Backfill`]: occurrences of a schedule in the past, to be made.

use std::ops::Range;
use std::time::Duration;

use super::Client;
use super::schedules::{Tried, attempt, seen};
use crate::policy::Overlap;
use crate::store::{Filled, NewTimer, Past, Result, Store};
use crate::time::Time;

/// Occurrences of one transaction.
const BATCH: usize = 500;

/// Most occurrences that one call looks at.
const LOOKED_AT: u64 = 10_000;

/// Most occurrences that one call makes by default.
const LIMIT: u32 = 100;

/// Occurrences of a schedule in a range of the past, to be made with [`create`](Self::create).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `create`"]
pub struct Backfill {
    client: Client,
    name: String,
    range: Range<Time>,
    limit: u32,
}

/// Result of a [`Backfill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backfilled {
    /// The range is filled up to `rest`.
    Done {
        /// Number of occurrences that were made.
        made: u64,
        /// Number of occurrences that had a timer already, or had ended.
        existed: u64,
        /// Start of a further call's range, if the limit was reached, or if the schedule was
        /// disabled or removed meanwhile: no occurrence before it is left. `None` if none is left.
        rest: Option<Time>,
    },
    /// The schedule is disabled; nothing is made.
    Disabled,
    /// There is no schedule of that name.
    Gone,
}

impl Client {
    /// Plans to make past occurrences of a schedule, from the start of `range` until before its
    /// end; [`create`](Backfill::create) makes them. They lie before the schedule was made, or
    /// while it was disabled, or were skipped.
    pub fn backfill<T: Into<Time>>(&self, name: &str, range: Range<T>) -> Backfill {
        let range = range.start.into()..range.end.into();
        Backfill { client: self.clone(), name: name.to_owned(), range, limit: LIMIT }
    }
}

impl Backfill {
    /// Sets how many occurrences are made by this call; 100 by default. 0 counts as 1.
    ///
    /// If occurrences of the schedule may overlap, that many are due at once.
    pub fn limit(mut self, most: u32) -> Self {
        self.limit = most.max(1);
        self
    }

    /// Makes the occurrences of the schedule's present times that are not there yet, oldest first.
    ///
    /// Each has the schedule's payload and policies, and is due now, without jitter. Occurrences
    /// that are excluded, in the future, or over are not made. A [skipped](crate::Outcome::Skipped)
    /// occurrence has not run, so it is made, and the record of the skip deleted. Occurrences that
    /// were due when the schedule was disabled or replaced are recorded as
    /// [cancelled](crate::Outcome::Cancelled). This is final: they are not made.
    ///
    /// None is made twice, however often the call is repeated, as long as their records are kept
    /// and the schedule is not removed. After a [prune](Client::prune) of the records, or in a
    /// schedule that was removed and made again under its name, a repeat makes them again.
    ///
    /// Unless the overlap policy is [`Overlap::Allow`], they wait in the schedule's queue, however
    /// many it has room for, and run one after another. Until they have run, the schedule counts as
    /// busy, and its queue as full, so that its other occurrences may be skipped.
    ///
    /// At most 10,000 occurrences of the range are looked at in one call.
    ///
    /// # Errors
    ///
    /// If the error is [`Uncertain`](crate::StoreErrorKind::Uncertain), some may be made. The call
    /// can be repeated, and then counts those as existing.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tourbillon_durable::store::Memory;
    /// use tourbillon_durable::{Backfilled, Client, Schedule};
    ///
    /// # pollster::block_on(async {
    /// let store = Memory::new(&tourbillon::Timer::global());
    /// let client = Client::new(Box::new(store))?;
    /// let hour = Duration::from_secs(3_600);
    /// client.every("report", Schedule::every(hour)).upsert().await?;
    ///
    /// let now = client.now().await?;
    /// let yesterday = now - 30 * hour..now - 6 * hour;
    /// let Backfilled::Done { made, rest: Some(rest), .. } =
    ///     client.backfill("report", yesterday.clone()).limit(10).create().await?
    /// else {
    ///     unreachable!("there are 24");
    /// };
    /// assert_eq!(made, 10);
    /// let rest = client.backfill("report", rest..yesterday.end).create().await?;
    /// assert_eq!(rest, Backfilled::Done { made: 14, existed: 0, rest: None });
    /// let again = client.backfill("report", yesterday).create().await?;
    /// assert_eq!(again, Backfilled::Done { made: 0, existed: 24, rest: None });
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn create(self) -> Result<Backfilled> {
        let Self { client, name, range, limit } = self;
        client.call(move |store| backfill(store, &name, &range, limit)).await
    }
}

/// Makes the missing occurrences of the range, at most `limit` of them, in one transaction for each
/// part.
pub(crate) fn backfill(
    store: &mut dyn Store,
    name: &str,
    range: &Range<Time>,
    limit: u32,
) -> Result<Backfilled> {
    let (mut from, mut made, mut existed) = (range.start, 0_u64, 0_u64);
    let mut begun = None;
    attempt(|| {
        let (now, row) = store.schedule(name)?;
        // Another of the same name may have taken its place since the last part.
        let row = row.filter(|row| begun.is_none_or(|id| id == row.id));
        let row = match row {
            Some(row) if row.enabled => row,
            _ if made + existed > 0 => {
                let rest = (from < range.end).then_some(from);
                return seen(store, Backfilled::Done { made, existed, rest });
            }
            Some(_) => return seen(store, Backfilled::Disabled),
            None => return seen(store, Backfilled::Gone),
        };
        let rule = row.rule()?;
        let all = rule.schedule.occurrences_from(from);
        let mut all = all.take_while(|at| *at < range.end && *at <= now).peekable();
        let left = u64::from(limit) - made;
        let unseen = LOOKED_AT - made - existed;
        if all.peek().is_none() || left == 0 || unseen == 0 {
            let rest = all.next();
            return seen(store, Backfilled::Done { made, existed, rest });
        }
        let queues = rule.policies.overlap != Overlap::Allow;
        let timer = |at| {
            let timer = NewTimer::occurrence(&row, &rule.policies, at);
            let due = if queues { Time::NEVER } else { now };
            NewTimer { due, has_queue: queues, ..timer }
        };
        let timers: Vec<_> = all.take(BATCH.min(unseen as usize)).map(timer).collect();
        let (schedule, version) = (row.id, row.version);
        let past = Past { schedule, version, timers: &timers, limit: left as u32 };
        let Filled::Done { made: new, existed: old } = store.backfill(&past)? else {
            return Ok(Tried::Stale);
        };
        begun = Some(schedule);
        (made, existed) = (made + u64::from(new), existed + u64::from(old));
        let last = timers[..(new + old) as usize].last();
        from = last.map_or(from, |last| last.scheduled_for + Duration::from_micros(1));
        Ok(Tried::Further)
    })
}
