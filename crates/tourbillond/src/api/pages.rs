//! Pages of lists: what each may cost, whatever was asked for and whatever is stored.
//!
//! A page ends at its limit, or sooner once what was read for it has so many bytes; then it says
//! where the next begins. The store is read in parts, so that no more is read than is needed.

use std::collections::VecDeque;

use tourbillon_durable::store::{Filter, ScheduleRow, Timer};

use super::problem::Problem;
use super::schedules::Found;
use crate::Service;

/// Most bytes that are read for a page, and that it has, but for the last item.
pub(super) const PAGE: usize = 1 << 20;

/// Most rows that are read at a time.
pub(super) const ROWS: u32 = 64;

/// Most bytes of a row.
const ROW: usize = 64 << 10;

/// Bytes that each item counts beside what is stored.
const ITEM: usize = 512;

/// Bytes that each row counts that is read and not listed.
const PASSED: usize = 64;

/// Budget that a page has left.
#[derive(Debug)]
pub(super) struct Left {
    items: usize,
    bytes: usize,
    /// Items that were taken, and their bytes.
    taken: (usize, usize),
}

impl Left {
    /// A page of so many items at most.
    pub(super) fn new(items: usize) -> Self {
        Self { items, bytes: PAGE, taken: (0, 0) }
    }

    /// Returns whether nothing more is to be read.
    pub(super) fn is_none(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }

    /// Takes an item, of which so many bytes are stored.
    pub(super) fn take(&mut self, stored: usize) {
        self.items -= 1;
        self.bytes = self.bytes.saturating_sub(stored + ITEM);
        self.taken = (self.taken.0 + 1, self.taken.1 + stored + ITEM);
    }

    /// Returns how many rows to read next: as many as the page may still have, if they are like
    /// those before, and one that says whether there is more.
    pub(super) fn rows(&self) -> u32 {
        let each = self.taken.1.checked_div(self.taken.0).unwrap_or(ROW);
        let rows = (self.bytes / each).min(self.items).saturating_add(1);
        u32::try_from(rows).unwrap_or(ROWS).min(ROWS)
    }

    /// Passes a row that is not listed.
    pub(super) fn pass(&mut self) {
        self.bytes = self.bytes.saturating_sub(PASSED);
    }
}

/// Schedules and one-shots that are not over, in the order of their names.
pub(super) struct Live<'a> {
    service: &'a Service,
    schedules: Option<Part<ScheduleRow>>,
    timers: Option<Part<Timer>>,
}

/// Rows of one table that were read, and what comes after them.
struct Part<T> {
    /// Filter that is read next; `None` if nothing is.
    next: Option<Filter>,
    rows: VecDeque<T>,
}

impl<T> Part<T> {
    fn new(filter: Filter) -> Self {
        Self { next: Some(filter), rows: VecDeque::new() }
    }

    /// Returns what to read now, if anything: so many rows.
    fn wanted(&self, limit: u32) -> Option<Filter> {
        let next = self.next.as_ref().filter(|_| self.rows.is_empty())?;
        Some(Filter { limit, ..next.clone() })
    }

    /// Takes what was read of so many rows.
    fn read(&mut self, limit: u32, rows: Vec<T>, name: impl Fn(&T) -> Option<String>) {
        let is_last = rows.len() < limit as usize;
        let next = self.next.take().filter(|_| !is_last);
        let last = rows.last().and_then(name);
        self.next = next.map(|next| Filter { after_name: last, ..next });
        self.rows = rows.into();
    }
}

impl<'a> Live<'a> {
    /// Makes one of those of each that a filter has.
    pub(super) fn new(
        service: &'a Service,
        schedules: Option<Filter>,
        timers: Option<Filter>,
    ) -> Self {
        Self { service, schedules: schedules.map(Part::new), timers: timers.map(Part::new) }
    }

    /// The next, and its name. What is not read yet is read by so many `rows`.
    pub(super) async fn next(&mut self, rows: u32) -> Result<Option<(String, Found)>, Problem> {
        let reader = &self.service.reader;
        if let Some(part) = &mut self.schedules {
            if let Some(filter) = part.wanted(rows) {
                let read = reader.schedules(filter).await?;
                part.read(rows, read, |row| Some(row.name.clone()));
            }
        }
        if let Some(part) = &mut self.timers {
            if let Some(filter) = part.wanted(rows) {
                let read = reader.timers(filter).await?;
                part.read(rows, read, |timer| timer.new.name.clone());
            }
        }
        let schedules = self.schedules.as_mut().map(|part| &mut part.rows);
        let timers = self.timers.as_mut().map(|part| &mut part.rows);
        let name = |timer: &Timer| timer.new.name.clone().unwrap_or_default();
        let is_timer = match (
            schedules.as_ref().and_then(|rows| rows.front()),
            timers.as_ref().and_then(|rows| rows.front()),
        ) {
            (Some(row), Some(timer)) => name(timer) < row.name,
            (None, timer) => timer.is_some(),
            (Some(_), None) => false,
        };
        Ok(if is_timer {
            let timer = timers.and_then(VecDeque::pop_front);
            timer.map(|timer| (name(&timer), Found::Once(timer)))
        } else {
            let row = schedules.and_then(VecDeque::pop_front);
            row.map(|row| (row.name.clone(), Found::Repeated(row)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_by_its_items_or_its_bytes() {
        let mut few = Left::new(2);
        assert_eq!(few.rows(), 3);
        few.take(1);
        assert!(!few.is_none());
        assert_eq!(few.rows(), 2);
        few.take(1);
        assert!(few.is_none());
        let mut large = Left::new(1_000);
        (0..22).for_each(|_| large.take(47_000));
        assert!(!large.is_none());
        assert_eq!(large.rows(), 1);
        large.take(47_000);
        assert!(large.is_none());
        // Small ones are as many as were asked for.
        let mut small = Left::new(1_000);
        assert_eq!(small.rows(), 17, "they may be large");
        small.take(500);
        assert_eq!(small.rows(), ROWS);
        (0..998).for_each(|_| small.take(500));
        assert!(!small.is_none());
        let mut none = Left::new(1);
        (0..PAGE / PASSED).for_each(|_| none.pass());
        assert!(none.is_none());
    }
}
