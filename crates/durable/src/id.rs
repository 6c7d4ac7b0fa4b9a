//! Identities: timers, schedules, nodes, and the fence that they make together.

use std::fmt;

use crate::time::Time;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The identity with these bits.
            pub const fn from_bits(bits: u128) -> Self {
                Self(bits)
            }

            /// The bits of this identity.
            pub const fn bits(self) -> u128 {
                self.0
            }
        }

        impl fmt::Display for $name {
            /// Writes it as a UUID.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let bits = self.0;
                write!(
                    f,
                    "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                    bits >> 96,
                    bits >> 80 & 0xffff,
                    bits >> 64 & 0xffff,
                    bits >> 48 & 0xffff,
                    bits & 0xffff_ffff_ffff,
                )
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = std::num::ParseIntError;

            /// Reads the text of [`Display`](fmt::Display), with or without the hyphens.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                u128::from_str_radix(&text.replace('-', ""), 16).map(Self)
            }
        }
    };
}

id!(
    /// Id of a timer, and so of one occurrence. The client that makes the timer chooses it, so that
    /// an insert whose answer was lost can be sent again. Ids sort by the time of their drawing, to
    /// the millisecond, like UUIDs of version 7; nothing relies on that.
    TimerId
);
id!(
    /// A schedule. A schedule that is removed and made again under its name has another one.
    ScheduleId
);
id!(
    /// One start of one process: 128 random bits.
    NodeId
);

/// Number of shards of timers and schedules.
pub const SHARDS: u8 = 64;

impl TimerId {
    /// Returns a new timer's identity, made at `now`.
    pub fn new(now: Time) -> Self {
        Self(ordered(now, random()))
    }

    /// The identity of a schedule's occurrence: the same wherever and whenever it is worked out.
    pub fn of_occurrence(schedule: ScheduleId, scheduled_for: Time) -> Self {
        let [low, high] = [schedule.0 as u64, (schedule.0 >> 64) as u64];
        let first = mix(mix(low) ^ high.rotate_left(32) ^ scheduled_for.as_micros() as u64);
        let second = mix(first ^ low.rotate_left(17) ^ high);
        Self(ordered(scheduled_for, u128::from(first) << 64 | u128::from(second)))
    }

    /// Identity of the timer that a finished timer is made again as: always the same.
    ///
    /// [`Client::revive`](crate::Client::revive) gives it to the successor of a dead timer. A
    /// client that gives it to its own successor of a timer ensures that there is at most one.
    pub fn of_revival(dead: Self) -> Self {
        let [low, high] = [dead.0 as u64, (dead.0 >> 64) as u64];
        let first = mix(mix(high) ^ low.rotate_left(29));
        let second = mix(first ^ high.rotate_left(13) ^ low);
        let millis = Time::from_micros((dead.0 >> 80) as i64 * 1_000);
        Self(ordered(millis, u128::from(first) << 64 | u128::from(second)))
    }

    /// The shard of the timer: its lowest bits.
    pub const fn shard(self) -> u8 {
        (self.0 % SHARDS as u128) as u8
    }
}

impl ScheduleId {
    /// Returns a new schedule's identity, made at `now`.
    pub fn new(now: Time) -> Self {
        Self(ordered(now, random()))
    }

    /// The shard of the schedule: its lowest bits.
    pub const fn shard(self) -> u8 {
        (self.0 % SHARDS as u128) as u8
    }
}

impl NodeId {
    /// A new identity.
    pub fn new() -> Self {
        Self(random())
    }
}

impl Default for NodeId {
    fn default() -> Self {
        Self::new()
    }
}

/// The end of splitmix64.
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A UUID of version 7: 48 bits of milliseconds, then random ones.
fn ordered(now: Time, random: u128) -> u128 {
    let millis = (now.as_micros().max(0) / 1_000).unsigned_abs() as u128 & 0xffff_ffff_ffff;
    let random = random & 0x0fff_3fff_ffff_ffff_ffff;
    millis << 80 | 0x7000_8000_0000_0000_0000 | random
}

#[cfg(not(test))]
use system_random as random;

/// Returns the random bits of the simulated world that runs on this thread, or the system's.
#[cfg(test)]
fn random() -> u128 {
    crate::simulation::random().unwrap_or_else(system_random)
}

/// Returns random bits of the system.
///
/// # Panics
///
/// If the system has none: two nodes that share an identity complete each other's attempts.
fn system_random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has no random bits");
    u128::from_le_bytes(bytes)
}

/// A node's membership: the node, and which of its memberships it is.
///
/// A node that lost its lease joins again under the next epoch, and no longer owns its earlier
/// claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The node.
    pub node: NodeId,
    /// Counts the node's memberships, from 1.
    pub epoch: u64,
}

/// Fence of an attempt, which lets it complete: no other has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    /// The timer.
    pub timer: TimerId,
    /// Number of the claim of the timer, from 1.
    pub attempt: u32,
    /// Lease that claimed it.
    pub lease: Lease,
}

/// A set of shards.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Shards(u64);

impl Shards {
    /// Every shard.
    pub const ALL: Self = Self(u64::MAX);
    /// No shard.
    pub const NONE: Self = Self(0);

    /// The set with the shards whose bits are set in `mask`.
    pub const fn from_mask(mask: u64) -> Self {
        Self(mask)
    }

    /// One bit per shard.
    pub const fn mask(self) -> u64 {
        self.0
    }

    /// Returns whether `shard` is in the set.
    pub const fn contains(self, shard: u8) -> bool {
        self.0 >> (shard % SHARDS) & 1 == 1
    }

    /// The shards in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..SHARDS).filter(move |shard| self.contains(*shard))
    }
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shards({:#018x})", self.0)
    }
}
