//! An occurrence of a schedule beside its times.

use super::queue::Notifiable;
use super::schedules::{Tried, attempt};
use super::{Client, repeat, until_answered};
use crate::id::TimerId;
use crate::plan::room;
use crate::store::{ManualRun, NewOccurrence, NewTimer, Result, ScheduleRow, Store};

/// Result of [`Client::run_now`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunNow {
    /// The occurrence is made; its id.
    Done(TimerId),
    /// Another of the schedule is unfinished, and must not be overlapped; nothing is made.
    Busy,
    /// The schedule is disabled; nothing is made.
    Disabled,
    /// There is no schedule of that name.
    Gone,
}

impl Client {
    /// Makes an occurrence of a schedule now, beside its times, which stay as they are.
    ///
    /// The occurrence has the schedule's payload and policies, and is scheduled for now. With
    /// [`Overlap::Skip`](crate::Overlap::Skip) it is refused while another is running or about to
    /// be; with [`Overlap::Queue`](crate::Overlap::Queue) it waits for its turn, and is refused if
    /// the queue is full. Jitter does not delay it.
    ///
    /// The occurrence is made only while the schedule is enabled: a later
    /// [`disable`](Self::disable), [`remove`](Self::remove) or change of times takes it back, or
    /// names it as running. Each call makes one at most, also if answers of the store are lost
    /// within it.
    ///
    /// ```
    /// use tourbillon_durable::store::Memory;
    /// use tourbillon_durable::{Client, RunNow, Schedule};
    ///
    /// # pollster::block_on(async {
    /// let store = Memory::new(&tourbillon::Timer::global());
    /// let client = Client::new(Box::new(store))?;
    /// client.every("report", Schedule::cron("0 4 * * *", "UTC")?).upsert().await?;
    /// assert!(matches!(client.run_now("report").await?, RunNow::Done(_)));
    /// client.disable("report").await?;
    /// assert_eq!(client.run_now("report").await?, RunNow::Disabled);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// If the error is [`Uncertain`](crate::StoreErrorKind::Uncertain), it may be made. A further
    /// call may make another.
    pub async fn run_now(&self, name: &str) -> Result<RunNow> {
        let name = name.to_owned();
        let (ran, made) = self.call(move |store| run_now(store, &name)).await?;
        if let Some(timer) = made {
            self.notify(Notifiable::Made(timer));
        }
        Ok(ran)
    }
}

/// Makes an occurrence of a schedule. With the answer comes the timer, if it is certain when it is
/// due.
pub(crate) fn run_now(store: &mut dyn Store, name: &str) -> Result<(RunNow, Option<NewTimer>)> {
    attempt(|| {
        let (now, row) = store.schedule(name)?;
        let Some(row) = row else { return Ok(Tried::Done((RunNow::Gone, None))) };
        let timer = NewTimer::occurrence(&row, &row.rule()?.policies, now);
        insert_occurrence(store, &row, NewTimer { id: TimerId::new(now), ..timer })
    })
}

/// Makes `timer` an occurrence of the schedule, by the schedule's rules, if it is as it was read.
pub(super) fn insert_occurrence(
    store: &mut dyn Store,
    row: &ScheduleRow,
    mut timer: NewTimer,
) -> Result<Tried<(RunNow, Option<NewTimer>)>> {
    if !row.enabled {
        return Ok(Tried::Done((RunNow::Disabled, None)));
    }
    let overlap = row.rule()?.policies.overlap;
    timer.has_queue = overlap.has_queue();
    let (version, queue) = (row.version, room(overlap));
    let done = RunNow::Done(timer.id);
    // Any answer but "exists" shows that the calls whose answers were lost made nothing.
    let occurrence = NewOccurrence { timer: &timer, version, queue };
    let (made, _) = until_answered(|| repeat(|| store.insert_occurrence(&occurrence)))?;
    Ok(match made {
        ManualRun::Done { due } => Tried::Done((done, Some(NewTimer { due, ..timer }))),
        ManualRun::Exists => Tried::Done((done, None)),
        ManualRun::Stale => Tried::Stale,
        ManualRun::Busy => Tried::Done((RunNow::Busy, None)),
    })
}
