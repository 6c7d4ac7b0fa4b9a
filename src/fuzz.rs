//! Fuzz targets of private parts. The ordinary tests run them on the kept inputs. The targets are
//! in `fuzz/`, in the repository; that of the engine is `tests/it/fuzz/engine.rs`.
//!
//! Each function reads its input as a list of operations, applies them here and to something much
//! simpler, and panics where the two differ. Every input means something, so that a fuzzer need
//! not first learn a format.

mod bytes;

use std::time::Duration;

use crate::clock::{TimeLine, VirtualTime};
use crate::tick::Tick;
use crate::time::Instant;
use crate::wheel::Wheel;
use crate::wheel::model::{Entry, Harness, Op};
use bytes::Bytes;

impl Bytes<'_> {
    fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }
}

/// The wheel against an ordered map, from any start.
pub fn wheel(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let start = bytes.word().clamp(Tick::PAST.raw(), Tick::LAST.raw());
    let mut harness = Harness::<Wheel<Entry>>::starting_at(Tick::from_raw(start));
    while let Some(kind) = bytes.next() {
        harness.apply(&match kind % 16 {
            0..=5 => Op::Insert(distance(&mut bytes)),
            6 => Op::Insert(-distance(&mut bytes)),
            7 => Op::Remove(bytes.byte().into()),
            8 => Op::Discard(bytes.byte().into()),
            9 => Op::Postpone(bytes.byte().into(), bytes.magnitude()),
            10..=12 => Op::Turn(bytes.magnitude(), usize::from(bytes.byte() % 8)),
            13 => Op::Turn(bytes.magnitude(), usize::MAX),
            14 => Op::Part(bytes.magnitude(), usize::from(bytes.byte() % 8)),
            _ => Op::Step,
        });
    }
}

fn distance(bytes: &mut Bytes<'_>) -> i64 {
    i64::try_from(bytes.magnitude()).unwrap_or(i64::MAX)
}

/// The arithmetic of ticks, compared with integers that have room for everything.
pub fn tick(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let made = VirtualTime::new().line().instant(Tick::ORIGIN);
    let base = moved(made, &mut bytes).unwrap_or(made);
    let line = TimeLine::starting_at(base);
    let mut before: Option<(Instant, Tick)> = None;
    while !bytes.is_empty() {
        let raw = bytes.word();
        let delay = span(&mut bytes);
        tick_sums(valid(raw), valid(bytes.word()), delay);
        tick_survives_the_round_trip(&line, base, valid(raw));
        let Some(instant) = moved(base, &mut bytes) else { continue };
        let tick = tick_of_an_instant(&line, base, instant);
        if let Some((other_instant, other_tick)) = before {
            let strict = [tick, other_tick].iter().all(|t| (Tick::PAST..=Tick::LAST).contains(t));
            let order = tick.cmp(&other_tick);
            // Saturation may make equals of what differs, and nothing else.
            let saturated = order.is_eq() && !(strict && Tick::PAST < tick);
            assert!(
                order == instant.cmp(&other_instant) || saturated,
                "{tick:?}, {other_tick:?} for {instant:?}, {other_instant:?}"
            );
        }
        before = Some((instant, tick));
    }
}

/// A tick that a clock may show or a sleep may have.
fn valid(raw: u64) -> Tick {
    match Tick::from_raw(raw) {
        tick if tick > Tick::LAST => Tick::NEVER,
        tick => tick.max(Tick::PAST),
    }
}

/// Any duration there is.
fn span(bytes: &mut Bytes<'_>) -> Duration {
    let (seconds, nanos) = (bytes.magnitude(), bytes.magnitude());
    match bytes.byte() % 4 {
        0 => Duration::new(seconds, (nanos % 1_000_000_000) as u32),
        _ => Duration::from_nanos(nanos),
    }
}

fn moved(from: Instant, bytes: &mut Bytes<'_>) -> Option<Instant> {
    let back = bytes.byte() % 2 == 1;
    let span = span(bytes);
    if back { from.checked_sub(span) } else { from.checked_add(span) }
}

fn tick_sums(tick: Tick, other: Tick, delay: Duration) {
    let exact = u128::from(tick.raw()) + delay.as_nanos();
    let sum = match u64::try_from(exact) {
        Ok(sum) if sum <= Tick::LAST.raw() => Tick::from_raw(sum),
        _ => Tick::NEVER,
    };
    assert_eq!(tick.saturating_add(delay), sum, "{tick:?} + {delay:?}");
    let since = i128::from(tick.raw()) - i128::from(other.raw());
    assert_eq!(tick.since(other).as_nanos() as i128, since.max(0), "{tick:?} - {other:?}");
}

fn tick_survives_the_round_trip(line: &TimeLine, base: Instant, tick: Tick) {
    let instant = line.instant(tick);
    let (ahead, behind) = (tick.since(Tick::ORIGIN), Tick::ORIGIN.since(tick));
    match base.checked_add(ahead).and_then(|instant| instant.checked_sub(behind)) {
        Some(exact) => {
            assert_eq!(instant, exact, "instant of {tick:?}");
            assert_eq!(line.tick(instant), tick);
        }
        // The nearest that the platform has lies between the base and there.
        None => {
            let (low, high) = (tick.min(Tick::ORIGIN), tick.max(Tick::ORIGIN));
            assert!((low..=high).contains(&line.tick(instant)), "instant of {tick:?}");
        }
    }
}

fn tick_of_an_instant(line: &TimeLine, base: Instant, instant: Instant) -> Tick {
    let tick = line.tick(instant);
    let offset = instant.saturating_duration_since(base).as_nanos() as i128
        - base.saturating_duration_since(instant).as_nanos() as i128;
    let exact = i128::from(Tick::ORIGIN.raw()) + offset;
    let expected = match u64::try_from(exact.max(Tick::PAST.raw().into())) {
        Ok(raw) if raw <= Tick::LAST.raw() => Tick::from_raw(raw),
        _ => Tick::NEVER,
    };
    assert_eq!(tick, expected, "tick of {instant:?} on a line from {base:?}");
    if expected != Tick::NEVER && expected != Tick::PAST {
        assert_eq!(line.instant(tick), instant);
    }
    tick
}

#[cfg(test)]
mod tests {
    use super::bytes::replay;

    #[test]
    fn the_wheel_agrees_with_an_ordered_map_on_every_kept_input() {
        replay(super::wheel, "wheel");
    }

    #[test]
    fn ticks_agree_with_wide_integers_on_every_kept_input() {
        replay(super::tick, "tick");
    }
}
