//! Schedules: put off on the old store, and carried over.

use super::{Mover, PAGE, invalid};
use crate::id::Place;
use crate::store::transfer::{receive, send};
use crate::store::{Change, Changed, Result, ScheduleQuery, ScheduleRow, Store};

impl Mover {
    /// Puts off the next occurrences of the schedules on the old store, so far that none is made.
    /// They stay enabled or not, as they are.
    pub(super) fn stop_schedules(&mut self) -> Result<()> {
        for row in schedules(&mut *self.from, self.place)? {
            self.check_name(&row)?;
            let mut row = Some(row);
            while let Some(found) = row.take() {
                let Some(away) = found.next.and_then(send) else { break };
                if !self.from.shift(&found, away)? {
                    // A node was first.
                    row = self.from.schedule(&found.name)?.1.filter(|row| row.id == found.id);
                }
            }
        }
        self.from.confirm()
    }

    /// Refuses a schedule whose name another one has on the new store.
    fn check_name(&mut self, row: &ScheduleRow) -> Result<()> {
        match self.to.schedule(&row.name)?.1 {
            Some(other) if other.id != row.id => {
                let name = &row.name;
                Err(invalid(format!("another schedule `{name}` is on the new store already")))
            }
            _ => Ok(()),
        }
    }

    /// Carries the schedules over, as they are but for what their last runs were, and lets them
    /// continue. Returns false if one of them was changed meanwhile.
    pub(super) fn carry_schedules(&mut self) -> Result<bool> {
        let rows = schedules(&mut *self.from, self.place)?;
        for row in &rows {
            if row.next.is_some_and(|next| receive(next).is_none()) {
                return Ok(false);
            }
            self.check_name(row)?;
            // Its dead runs stay on the old store: the count that would disable it begins anew.
            let new = ScheduleRow { failing: row.failing && !row.enabled, ..row.clone() };
            match self.to.schedule(&row.name)?.1 {
                Some(copy) if copy == new => continue,
                // The old store's row was changed since.
                Some(copy) => drop(self.to.change(&removal(&copy))?),
                None => {}
            }
            if !self.to.adopt(&new)? {
                return Ok(false);
            }
        }
        self.to.confirm()?;
        for row in &rows {
            if self.from.change(&removal(row))? == Changed::Stale {
                return Ok(false);
            }
        }
        self.from.confirm()?;
        for row in schedules(&mut *self.to, self.place)? {
            if let Some(next) = row.next.and_then(receive) {
                if !self.to.shift(&row, next)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// All schedules of a place.
pub(super) fn schedules(store: &mut dyn Store, place: Place) -> Result<Vec<ScheduleRow>> {
    let (mut of_place, mut query) = (Vec::new(), ScheduleQuery::new().limit(PAGE));
    loop {
        let page = store.schedules(&query)?;
        let last = page.last().map(|row| row.name.clone());
        let is_last = page.len() < PAGE as usize;
        of_place.extend(page.into_iter().filter(|row| row.id.place() == place));
        match last {
            Some(last) if !is_last => query = query.after(last),
            _ => return Ok(of_place),
        }
    }
}

/// A change that removes a schedule and leaves its timers.
pub(super) fn removal(row: &ScheduleRow) -> Change<'_> {
    let expect = Some(row.version);
    Change { name: &row.name, expect, row: None, withdraw: None, skipped: &[] }
}
