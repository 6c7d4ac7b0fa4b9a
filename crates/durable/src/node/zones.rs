//! [`Zones`]: moves the next occurrences of schedules whose zones have got other rules.

use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::error::StoreErrorKind;
use crate::store::{Advanced, Result, ScheduleRow, Store, Wall, ZonedQuery};
use crate::time::Time;
use crate::{trace, wall};

/// Schedules that are read at a time.
const PAGE: u32 = 500;

/// Time from one look at the version of the data to the next.
const DATA: Duration = Duration::from_secs(60);

/// Time from one walk over the schedules to the next, for rows that processes with other data
/// have written.
const WALK: Duration = Duration::from_secs(3_600);

/// Part of a node that walks over the schedules with times of day: at the start, after each change
/// of the data, and every hour.
#[derive(Debug)]
pub(crate) struct Zones {
    /// Time of the next look at the version of the data.
    look: Instant,
    /// Time of the next walk.
    walk: Instant,
    /// Next page of a walk that is not over.
    under_way: Option<ZonedQuery>,
    /// Version of the data by which all schedules were looked at.
    data: Option<String>,
}

impl Zones {
    pub(crate) fn new(now: Instant) -> Self {
        Self { look: now, walk: now, under_way: None, data: None }
    }

    /// Walks on if that is due, until `until` at most. Returns when it is due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store, until: Instant) -> Instant {
        let now = node.now();
        if self.look <= now {
            self.look = now + DATA;
            wall::look_at_data();
        }
        let data = wall::data();
        let is_new = self.data.as_deref() != Some(&*data);
        if is_new || self.walk <= now {
            // Without a version a change of the data shows in the schedules alone.
            let but = (!is_new && !data.is_empty()).then(|| data.to_string());
            self.under_way = Some(ZonedQuery { after: None, but, limit: PAGE });
            (self.data, self.walk) = (Some(data.to_string()), now + WALK);
        }
        while let Some(page) = &mut self.under_way {
            match rezone_page(node, store, page) {
                Ok(true) => {}
                Ok(false) => self.under_way = None,
                Err(error) => {
                    node.report("rezone", &error);
                    return node.now() + node.options.schedule_interval;
                }
            }
            if node.now() >= until {
                return until;
            }
        }
        self.look.min(self.walk)
    }
}

/// Looks at a page, which becomes the next. Returns whether there is another.
fn rezone_page(node: &Shared, store: &mut dyn Store, page: &mut ZonedQuery) -> Result<bool> {
    let rows = store.zoned(page)?;
    if let Some(last) = rows.last() {
        let now = store.now()?;
        for row in &rows {
            if standing(row, now, node.options.seldom()) == Standing::Moved {
                rezone(node, store, row)?;
            }
        }
        page.after = Some(last.id);
    }
    Ok(rows.len() == page.limit as usize)
}

/// Meaning of a schedule's next time by this node's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// As it is by these data.
    Same,
    /// Another by these data.
    Moved,
    /// By newer data than these: another node knows better.
    Theirs,
}

/// Returns the meaning of a schedule's next time. A node with older data leaves a time that newer
/// data have made, until that is past by twice the time in which each node looks for schedules of
/// slow nodes: then none with these data lives.
pub(super) fn standing(row: &ScheduleRow, now: Time, seldom: Duration) -> Standing {
    // A pause may have begun on a node that could not read the schedule.
    let can_move = row.rule.is_ok() && (row.wall.is_some() || row.paused.is_some());
    let Some(next) = row.next.filter(|_| can_move) else { return Standing::Same };
    let is_newer = |wall: &Wall| *wall.data() > *wall::data();
    if row.found_again(None, now) == Some(next) {
        Standing::Same
    } else if row.wall.as_ref().is_some_and(is_newer) && now < next + seldom * 2 {
        Standing::Theirs
    } else {
        Standing::Moved
    }
}

/// Moves the next occurrence of a schedule, unless that has changed since it was read. Returns
/// whether it may be planned now: a refusal by the store holds up no other.
pub(super) fn rezone(node: &Shared, store: &mut dyn Store, row: &ScheduleRow) -> Result<bool> {
    match store.rezone(row) {
        Ok(Advanced::Done) => {
            node.counters.rezoned.add(1);
            trace::rezoned(&row.name);
            // The front of its lane may be gone.
            node.continue_lanes(row.lane.clone());
        }
        Ok(Advanced::Stale | Advanced::Busy) => {}
        Err(error) if error.kind() == StoreErrorKind::Invalid => {
            node.report("rezone", &error);
            return Ok(false);
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}
