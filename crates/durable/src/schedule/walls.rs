//! How an occurrence is found again after the zone of its schedule has got other rules.

use std::time::SystemTime;

use super::limits::STEP;
use super::{Schedule, Times};
use crate::time::Time;
use crate::wall::Wall;

impl Schedule {
    /// Returns the rules by which clocks in the zone show the time of the occurrence `at`; `None`
    /// if it has no time on the wall: of a period, or at the end of an excluded window.
    pub(crate) fn wall(&self, at: Time) -> Option<Wall> {
        match &self.times {
            Times::Cron(cron) if !self.limits.has_stand_in(at) => {
                cron.wall_offset_s(SystemTime::from(at)).map(Wall::new)
            }
            _ => None,
        }
    }

    /// Returns when clocks in the zone show what they showed at `at` by the rules of `wall`.
    fn same_wall(&self, at: Time, wall: Option<&Wall>) -> Time {
        let same = match (&self.times, wall) {
            (Times::Cron(cron), Some(wall)) => {
                cron.same_wall(SystemTime::from(at), wall.offset_s())
            }
            _ => None,
        };
        same.map_or(at, Time::from)
    }

    /// Returns the first occurrence at `first` or later, excluded or not.
    pub(crate) fn first_of_all(&self, first: Time) -> Option<Time> {
        self.next_of_all(first - STEP)
    }

    /// Returns the occurrence that was next at `next` by the rules of `wall`.
    pub(crate) fn found_again(&self, next: Time, wall: Option<&Wall>) -> Option<Time> {
        self.first_of_all(self.same_wall(next, wall))
    }

    /// Returns the occurrence that was at `at`, shortly before the occurrence of `wall`.
    pub(crate) fn earlier_found_again(&self, at: Time, wall: Option<&Wall>) -> Option<Time> {
        let same = self.same_wall(at, wall);
        let found = self.first_of_all(same);
        // If clocks were changed between the two, the offset is not its own.
        let is_another = found != Some(same) && self.first_of_all(at) == Some(at);
        if is_another { Some(at) } else { found }
    }
}
