//! The alarm: a tick. The driver has promised to look at the wheels again by then.
//!
//! One word, and the only thing that an inserter and a parked driver share beside the shards. How
//! it keeps a deadline from being slept through is argued in `PROTOCOL.md`.

use core::fmt;

use crate::engine::notify::Notify;
use crate::sync::{AtomicU64, Ordering};
use crate::tick::Tick;

/// The driver runs, and will scan every shard before it parks.
const AWAKE: u64 = 0;
/// The driver parks until the tick it published, a value from here to `LAST`...
const _: () = assert!(AWAKE < Tick::PAST.raw() && Tick::LAST.raw() < ABSENT);
/// There is no driver thread yet, or no longer.
const ABSENT: u64 = u64::MAX - 2;
/// The driver parks without a time limit.
const IDLE: u64 = u64::MAX - 1;
/// The driver is scanning the shards and has not parked.
const SCANNING: u64 = u64::MAX;

/// Next step of the driver after its scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Parks, and is awake by this tick.
    ParkUntil(Tick),
    /// Parks until it is unparked.
    Park,
}

impl Plan {
    /// Returns the tick that the driver is awake by; [`Tick::NEVER`] if it waits for an unpark.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn end(self) -> Tick {
        match self {
            Self::ParkUntil(tick) => tick,
            Self::Park => Tick::NEVER,
        }
    }
}

/// Transitions, by the driver unless said:
///
/// ```text
/// any                   --begin_scan-->             SCANNING
/// SCANNING              --commit(ParkUntil(t))-->   t
/// SCANNING              --commit(Park)-->           IDLE
/// any                   --stay_awake-->             AWAKE
/// any                   --leave-->                  ABSENT
/// any                   --forget-->                 IDLE      (an event loop's driver)
/// SCANNING              --pull_forward (anyone)-->  AWAKE
/// t later than the arm  --pull_forward (anyone)-->  AWAKE, and unparks
/// IDLE                  --pull_forward (anyone)-->  AWAKE, and unparks
/// ```
pub(crate) struct Alarm(AtomicU64);

impl Alarm {
    /// Makes the alarm of an engine whose thread has yet to be started.
    pub(crate) fn absent() -> Self {
        Self(AtomicU64::new(ABSENT))
    }

    /// Makes the alarm of an engine that is driven by hand or by a virtual clock.
    pub(crate) fn awake() -> Self {
        Self(AtomicU64::new(AWAKE))
    }

    /// Announces a scan. From here on, every insert that might be the earliest is noticed by
    /// [`commit`](Self::commit).
    pub(crate) fn begin_scan(&self) {
        // ORDERING: Relaxed; the fence of the scan that follows publishes it. Edge `alarm`; loom
        // `inserts_race_park_on_two_shards`.
        self.0.store(SCANNING, Ordering::Relaxed);
    }

    /// Publishes the outcome of a scan. Returns whether it stands: not if a shard's earliest
    /// deadline was lowered since [`begin_scan`](Self::begin_scan), in which case the driver scans
    /// again.
    #[must_use]
    pub(crate) fn commit(&self, plan: Plan) -> bool {
        let value = match plan {
            Plan::ParkUntil(tick) => tick.raw(),
            Plan::Park => IDLE,
        };
        // ORDERING: Relaxed; the next scan or insert is ordered by its fence, and a
        // failed exchange means no more than "scan again". Loom `insert_races_park`.
        self.0.compare_exchange(SCANNING, value, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Tells inserters that the driver is gone, whatever the alarm was. The caller then visits all
    /// shards: entries that were armed before are its own.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn leave(&self) {
        // ORDERING: Relaxed; the shards' locks order it. An insert into a shard that the caller has
        // visited takes its lock afterwards, and then reads this or a later value. A swap: in loom,
        // the exchange of an earlier value might follow a store. Loom
        // `rearm_after_cancel_races_close`.
        self.0.swap(ABSENT, Ordering::Relaxed);
    }

    /// Tells inserters that nobody needs to be woken: the driver will scan in a moment.
    pub(crate) fn stay_awake(&self) {
        // ORDERING: Relaxed; as in `begin_scan`.
        self.0.store(AWAKE, Ordering::Relaxed);
    }

    /// Says that the driver has no turn to come, because the host has refused one: the next insert
    /// asks again.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn forget(&self) {
        // ORDERING: Relaxed; there is one thread.
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Makes sure that the driver scans by `deadline`. To be called after the shard's lock has
    /// been released by the thread that lowered the shard's earliest deadline to `deadline`.
    pub(crate) fn pull_forward(&self, deadline: Tick) -> Notify {
        // ORDERING: Relaxed; the fence in `Board::lower` orders this load. If the scan's fence came
        // after it, the scan saw the write. If before, this reads the SCANNING stored before that
        // scan, or a later value. Edge `alarm`; loom `inserts_race_park_on_two_shards`.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen <= deadline.raw() {
                return Notify::Nothing;
            }
            if seen == ABSENT {
                return Notify::Start;
            }
            // ORDERING: Relaxed; the driver finds the entry through the shard's lock. The parker
            // orders the unpark itself.
            match self.0.compare_exchange(seen, AWAKE, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(SCANNING) => return Notify::Nothing,
                Ok(_) => return Notify::Unpark,
                Err(newer) => seen = newer,
            }
        }
    }

    /// Duty of a thread that has not lowered its shard's earliest deadline: to start the driver, if
    /// there is none.
    pub(crate) fn start_if_absent(&self) -> Notify {
        // ORDERING: Relaxed; ordered by the shard's lock as in `pull_forward`.
        if self.0.load(Ordering::Relaxed) == ABSENT { Notify::Start } else { Notify::Nothing }
    }

    /// The plan that the driver published last; `None` if it has been called since, has to scan
    /// before it parks, or is not there.
    pub(crate) fn plan(&self) -> Option<Plan> {
        // ORDERING: Relaxed; the driver itself asks, and sees the word that it published or a later
        // one. Others take the answer for a hint.
        match self.0.load(Ordering::Relaxed) {
            AWAKE | SCANNING | ABSENT => None,
            IDLE => Some(Plan::Park),
            tick => Some(Plan::ParkUntil(Tick::from_raw(tick))),
        }
    }

    /// Returns whether a driver is parked without a time limit.
    pub(crate) fn is_idle(&self) -> bool {
        self.plan() == Some(Plan::Park)
    }

    /// Returns whether a driver is parked, for no longer than until `deadline`.
    pub(crate) fn is_set_for(&self, deadline: Tick) -> bool {
        // ORDERING: Relaxed; only decides whether a poll reads the clock itself.
        let seen = self.0.load(Ordering::Relaxed);
        seen != AWAKE && seen <= deadline.raw()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // ORDERING: Relaxed; a snapshot for people.
        match self.0.load(Ordering::Relaxed) {
            AWAKE => f.write_str("awake"),
            SCANNING => f.write_str("scanning"),
            IDLE => f.write_str("idle"),
            ABSENT => f.write_str("absent"),
            tick => Tick::from_raw(tick).fmt(f),
        }
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    fn parked(plan: Plan) -> Alarm {
        let alarm = Alarm::awake();
        alarm.begin_scan();
        assert!(alarm.commit(plan));
        alarm
    }

    const EARLIER: Tick = Tick::from_raw(1_000);
    const TICK: Tick = Tick::from_raw(1_001);
    const LATER: Tick = Tick::from_raw(1_002);

    #[test]
    fn only_a_driver_that_parks_for_no_longer_is_trusted() {
        let alarm = parked(Plan::ParkUntil(TICK));
        assert_eq!([EARLIER, TICK, LATER].map(|tick| alarm.is_set_for(tick)), [false, true, true]);
        let scanning = Alarm::awake();
        scanning.begin_scan();
        let idle = parked(Plan::Park);
        for alarm in [Alarm::awake(), Alarm::absent(), scanning, idle] {
            assert!(!alarm.is_set_for(LATER) && !alarm.is_set_for(Tick::LAST), "{alarm:?}");
        }
    }

    #[test]
    fn a_driver_is_called_once_and_only_for_what_is_earlier() {
        for plan in [Plan::ParkUntil(TICK), Plan::Park] {
            let alarm = parked(plan);
            if plan != Plan::Park {
                assert_eq!(alarm.pull_forward(LATER), Notify::Nothing);
                assert_eq!(alarm.pull_forward(TICK), Notify::Nothing);
            }
            assert_eq!(alarm.pull_forward(EARLIER), Notify::Unpark);
            assert_eq!(alarm.pull_forward(Tick::PAST), Notify::Nothing, "it is on its way");
        }
    }

    #[test]
    fn a_plan_is_in_force_until_the_driver_is_called_or_scans() {
        for plan in [Plan::ParkUntil(TICK), Plan::Park] {
            let alarm = parked(plan);
            assert_eq!(alarm.plan(), Some(plan));
            alarm.begin_scan();
            assert_eq!(alarm.plan(), None);
        }
        let alarm = parked(Plan::ParkUntil(TICK));
        assert_eq!(alarm.pull_forward(EARLIER), Notify::Unpark);
        assert_eq!(alarm.plan(), None);
    }

    #[test]
    fn a_scan_that_was_interrupted_does_not_stand() {
        let alarm = Alarm::awake();
        alarm.begin_scan();
        assert_eq!(alarm.pull_forward(LATER), Notify::Nothing);
        assert!(!alarm.commit(Plan::ParkUntil(TICK)));
    }

    #[test]
    fn where_there_is_no_driver_everybody_starts_one() {
        let left = parked(Plan::Park);
        left.leave();
        for alarm in [Alarm::absent(), left] {
            assert_eq!(alarm.plan(), None);
            assert_eq!(alarm.start_if_absent(), Notify::Start);
            assert_eq!(alarm.pull_forward(LATER), Notify::Start);
            assert_eq!(alarm.start_if_absent(), Notify::Start, "nobody has yet");
        }
        assert_eq!(Alarm::awake().start_if_absent(), Notify::Nothing);
    }
}
