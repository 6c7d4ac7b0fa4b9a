//! [`Transfer`]: a step of timers on their way from one store to another.
//!
//! A timer that is on its way is *away* on the store that it comes to: due so late that nothing
//! there claims it, and in a lane of its own.

use super::{NewTimer, Timer};
use crate::time::Time;

/// Time that is added to when something is due that is away: 100,000 years.
const FAR: i64 = 100_000 * 365 * 86_400 * 1_000_000;

/// Earliest time of what is away.
pub(crate) const AWAY: Time = Time::from_micros(FAR / 2);

/// Time at which something is due that is away and waits for something else than a time.
const LAST: Time = Time::from_micros(i64::MAX - 1);

/// Step of timers on their way, for [`Store::transfer`](super::Store::transfer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// Inserts timers as they are, with their attempts and their version, in place of those with
    /// the same ids that are away and have fewer attempts or a lower version. Deletes the record
    /// that the timer was [moved](crate::Reason::Moved). Applies to all that are away afterwards;
    /// one that is there and not away, that has another record, whose name is taken, or whose
    /// occurrence is a timer or recorded under another id, is not inserted.
    Hold,
    /// Takes timers back that are pending, not stopped and not away, with this attempt and version,
    /// and records them as [moved](crate::Reason::Moved).
    Surrender,
    /// Only reads: applies to those that are recorded as [moved](crate::Reason::Moved).
    Moved,
    /// Deletes timers that are away and due as they are given, without a record.
    Drop,
    /// Makes timers that are away and due as they are given what they were, due now at the
    /// earliest. One of a lane waits there, unless it was claimed before and the lane has no front.
    Release,
}

/// Returns when something is due on the store that it comes to, which is due at `time` now; `None`
/// if it is away already, or as late.
pub(crate) fn send(time: Time) -> Option<Time> {
    match time {
        Time::NEVER => Some(LAST),
        _ if time >= AWAY => None,
        // The earliest are due since ever.
        _ => Some(Time::from_micros(time.as_micros().max(-FAR / 2) + FAR)),
    }
}

/// Returns when something is due that is away until `time`; `None` if it is not away.
pub(crate) fn receive(time: Time) -> Option<Time> {
    match time {
        LAST => Some(Time::NEVER),
        _ if time == Time::NEVER || time < AWAY => None,
        _ => Some(Time::from_micros(time.as_micros() - FAR)),
    }
}

/// Returns whether a timer is on its way to the store that has it.
pub(crate) fn is_away(timer: &Timer) -> bool {
    receive(timer.new.due).is_some()
}

/// Returns the row of a timer on the store that it comes to; `None` if it is away already, or due
/// as late.
pub(crate) fn sent(timer: Timer) -> Option<Timer> {
    let mut sent = timer;
    sent.new.due = send(sent.new.due)?;
    // Of a lane one timer at most may be due.
    sent.new.lane = sent.new.lane.map(|lane| format!("{} {lane}", sent.new.id));
    Some(sent)
}

/// Returns when a timer that is away is due once it is released, and its lane; `None` if it is not
/// away. One of a lane that was never claimed waits for its turn.
pub(crate) fn received(timer: &Timer) -> Option<(Time, Option<&str>)> {
    let due = receive(timer.new.due)?;
    let lane = timer.new.lane.as_deref();
    let lane = lane.map(|lane| lane.split_once(' ').map_or(lane, |(_, lane)| lane));
    let waits = lane.is_some() && timer.attempt == 0;
    Some((if waits { Time::NEVER } else { due }, lane))
}

/// Returns a timer that is away as it is once it is released; `None` if it is not away.
pub(crate) fn as_received(timer: &Timer) -> Option<Timer> {
    let (due, lane) = received(timer)?;
    let lane = lane.map(str::to_owned);
    let new = NewTimer { due, lane, ..timer.new.clone() };
    Some(Timer { new, ..timer.clone() })
}

#[cfg(test)]
mod tests {
    use super::{AWAY, FAR, LAST, receive, received, send, sent};
    use crate::id::TimerId;
    use crate::store::{NewTimer, Timer};
    use crate::time::Time;

    #[test]
    fn what_is_sent_is_received_as_it_was() {
        let [first, last] = [Time::from_micros(-FAR / 2), Time::from_micros(FAR / 2 - 1)];
        for time in [first, Time::from_micros(-1), Time::default(), last, Time::NEVER] {
            let away = send(time).unwrap();
            assert!((AWAY..Time::NEVER).contains(&away), "{away}");
            assert_eq!((receive(away), receive(time), send(away)), (Some(time), None, None));
        }
        assert_eq!(send(Time::from_micros(i64::MIN)), send(first));
        assert!(send(last).unwrap() < LAST);
    }

    #[test]
    fn a_timer_of_a_lane_is_away_in_a_lane_of_its_own() {
        let mut timer =
            Timer::new(NewTimer::new(TimerId::from_bits(7), "mail", Time::from_micros(5)));
        timer.new.lane = Some("a b".to_owned());
        let mut away = sent(timer.clone()).unwrap();
        assert_ne!(away.new.lane, timer.new.lane);
        assert_eq!(received(&away), Some((Time::NEVER, Some("a b"))));
        away.attempt = 1;
        assert_eq!(received(&away), Some((Time::from_micros(5), Some("a b"))));
        assert_eq!((received(&timer), sent(away)), (None, None));
    }
}
