//! The rule for daylight saving: civil times to instants.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// A gap this long is a calendar change, not daylight saving.
const NEW_CALENDAR_S: i32 = 3 * 3600;

/// Rules for times that the clock skips or shows twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Skipped: as soon as they are. Twice: at the first.
    Fixed,
    /// Skipped: not at all. Twice: at both.
    Interval,
}

/// Start of a search for a time on the wall.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    /// Past this.
    After(DateTime),
    /// At this.
    At(DateTime),
}

/// Returns the first instant later than `after` when the wall clock of `zone` shows a time that
/// `search` finds, by the rule of `kind`. `search` returns the earliest such time from a start on,
/// and knows no zones.
///
/// Nothing is passed over, and nothing comes twice. Let `w` be the time on the wall at `after`. On
/// a clock that is never changed, times are later than `w` just when their instants are later than
/// `after`, and the first that `search` finds is the answer. Otherwise:
///
/// - `w` is shown once, and the time found is shown twice: its first showing is later than `after`,
///   since the showings before the change are in order.
/// - `w` is shown twice, and `after` is the second showing. Times past `w` have their second or
///   only showing later than `after`. First showings are before the change, so before `after`.
/// - `w` is shown twice, and `after` is the first showing. Times past `w` that are shown before the
///   change come first, and are searched first. After the change all times from the new time of the
///   clock on are shown, again or for the first time. For [`Kind::Fixed`] times shown again do not
///   count.
/// - The time found is skipped. The next time on the wall is the first after the gap, and the
///   instant of the change is later than `after`: were it not, `w` would be past the gap, and so
///   past the time found. For [`Kind::Fixed`] the change is the answer, because the instants of all
///   times past the gap are the change itself or later.
pub(crate) fn next(
    zone: &TimeZone,
    kind: Kind,
    after: Timestamp,
    search: impl Fn(From) -> Option<DateTime>,
) -> Option<Timestamp> {
    let wall = whole_second(zone.to_datetime(after));
    let mut from = From::After(wall);
    if let AmbiguousOffset::Fold { before, after: offset } = shown(zone, wall) {
        if zone.to_offset(after) == before {
            let change = change_to(zone, after, offset)?;
            let found = before.to_timestamp(search(from)?).ok()?;
            if found < change {
                return Some(found);
            }
            from = From::At(offset.to_datetime(change));
        }
    }
    loop {
        let found = search(from)?;
        from = match shown(zone, found) {
            AmbiguousOffset::Unambiguous { offset } => return offset.to_timestamp(found).ok(),
            AmbiguousOffset::Fold { before, after: offset } => {
                let first = before.to_timestamp(found).ok()?;
                if first > after {
                    return Some(first);
                }
                if kind == Kind::Interval {
                    return offset.to_timestamp(found).ok();
                }
                From::At(before.to_datetime(change_to(zone, first, offset)?))
            }
            AmbiguousOffset::Gap { before, after: offset } => {
                let change = change_to(zone, offset.to_timestamp(found).ok()?, offset)?;
                let skipped_s = offset.seconds() - before.seconds();
                if kind == Kind::Fixed && skipped_s < NEW_CALENDAR_S {
                    return Some(change);
                }
                From::At(offset.to_datetime(change))
            }
        };
    }
}

/// Returns the offset of the zone's clocks at `at`; the lower one of two, if they change just then.
///
/// A time that the clock skips occurs at the change. By the offset before it, which is the lower
/// one, that is the first skipped time. If the clock goes back, the lower offset is the new one.
pub(crate) fn offset_s(zone: &TimeZone, at: Timestamp) -> i32 {
    let before = at.checked_sub(jiff::SignedDuration::from_nanos(1)).unwrap_or(at);
    zone.to_offset(at).min(zone.to_offset(before)).seconds()
}

/// Returns when the zone's clocks show what clocks with that offset show at `at`. If they show it
/// twice, the offset decides, and otherwise it is the first time. If they skip it, it is the
/// change.
pub(crate) fn same_wall(zone: &TimeZone, at: Timestamp, offset_s: i32) -> Option<Timestamp> {
    let wall = Offset::from_seconds(offset_s).ok()?.to_datetime(at);
    match shown(zone, wall) {
        AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(wall).ok(),
        AmbiguousOffset::Fold { before, after } => {
            let offset = if after.seconds() == offset_s { after } else { before };
            offset.to_timestamp(wall).ok()
        }
        AmbiguousOffset::Gap { after, .. } => {
            change_to(zone, after.to_timestamp(wall).ok()?, after)
        }
    }
}

fn shown(zone: &TimeZone, wall: DateTime) -> AmbiguousOffset {
    zone.to_ambiguous_timestamp(wall).offset()
}

/// When the clock is changed to `offset`, the first time after `before`.
fn change_to(zone: &TimeZone, before: Timestamp, offset: Offset) -> Option<Timestamp> {
    zone.following(before).find(|change| change.offset() == offset).map(|change| change.timestamp())
}

fn whole_second(wall: DateTime) -> DateTime {
    wall.date().at(wall.hour(), wall.minute(), wall.second(), 0)
}
