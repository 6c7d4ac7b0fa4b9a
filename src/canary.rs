//! Seeded bugs, so that the models can be seen to fail.
//!
//! Each variant names one claim of `PROTOCOL.md` and breaks it when the environment variable
//! `TOURBILLON_CANARY` holds its name. Outside the models [`seeded`] is `false` at compile time.
//! `ci/canaries.sh` runs the models once for each.

#[cfg(all(test, tourbillon_model))]
use crate::sync::OnceLock;
use crate::sync::Ordering;

macro_rules! canaries {
    ($($(#[doc = $bug:literal])+ $name:ident,)+) => {
        /// A claim of the protocol that can be broken on purpose.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Canary {
            $($(#[doc = $bug])+ $name,)+
        }

        #[cfg(all(test, tourbillon_model))]
        impl Canary {
            /// Every canary, with the bug that it shows.
            const ALL: &[(Self, &str)] = &[$((Self::$name, concat!($($bug),+))),+];
        }
    };
}

canaries! {
    /// The driver says nothing when it begins to scan, and publishes when it is through: an
    /// insert into a shard already scanned compares itself with the alarm before (tokio#6682).
    ScanUnannounced,
    /// The driver publishes its alarm over what an inserter wrote meanwhile.
    CommitBlindly,
    /// An inserter reads the alarm before it takes the shard's lock.
    AlarmReadBeforeLock,
    /// An inserter that lowered its shard's earliest deadline tells nobody.
    InsertUnannounced,
    /// The driver scans all shards but the last.
    ScanSkipsShard,
    /// The driver forgets the token when it parks.
    ParkIgnoresToken,
    /// The driver leaves the token that ended its park, and so parks no more.
    ParkKeepsToken,
    /// A dropped sleep trusts the state it read before it took the lock.
    CancelTrustsOldState,
    /// A fired sleep is ready even if its deadline was moved later meanwhile.
    FireIgnoresPostponement,
    /// A deadline is moved back without the lock although the wheel may know a later one.
    ResetEarlierWithoutLock,
    /// A due entry whose deadline was moved later expires all the same.
    DueIgnoresPostponement,
    /// Moving a queued entry to an earlier deadline tells nobody.
    ResetUnannounced,
    /// A new waker replaces the old one although that has been woken already.
    ReplaceTrustsOldState,
    /// The driver wakes while it holds the shard's lock.
    WakeUnderLock,
    /// The last handle goes without a word to the driver.
    CloseUnannounced,
    /// The last armed sleep goes without a word to the driver of a closed timer.
    LastCancelUnannounced,
    /// The driver ends and leaves a cancelled timer's deadline as its shard's earliest.
    ExitKeepsEarliest,
    /// The driver asks whether the timer is closed after its scan instead of before.
    ClosedReadAfterScan,
    /// A timer armed on a virtual clock is not looked at again once it is in the wheel.
    ArmIgnoresAdvance,
    /// A virtual clock is moved to its goal without a scan afterwards.
    AdvanceScansBeforeOnly,
    /// Whoever moves a virtual clock leaves out what others added meanwhile, who rely on it.
    AdvanceHeedsOwnGoalOnly,
    /// A fired sleep that was refiled to later on a virtual clock is ready all the same.
    RefileTrustsFire,
    /// A turn by hand looks at a virtual clock in no order with those who move it.
    TurnReadsTimeUnordered,
    /// The spin lock is taken with Relaxed.
    LockTakesRelaxed,
    /// The spin lock is given back with Relaxed.
    LockGivesRelaxed,
}

/// Whether this bug is to be shown. Always `false` outside the models.
#[cfg(not(all(test, tourbillon_model)))]
#[inline(always)]
pub(crate) const fn seeded(_: Canary) -> bool {
    false
}

#[cfg(all(test, tourbillon_model))]
pub(crate) fn seeded(canary: Canary) -> bool {
    static CHOSEN: OnceLock<Option<Canary>> = OnceLock::new();
    let chosen = *CHOSEN.get_or_init(|| {
        let name = std::env::var("TOURBILLON_CANARY").ok()?;
        let known = Canary::ALL.iter().find(|(canary, _)| format!("{canary:?}") == name);
        Some(known.unwrap_or_else(|| panic!("no canary is called {name}")).0)
    });
    chosen == Some(canary)
}

/// `strength`, or `Relaxed` if the bug is to be shown. (ORDERING: the caller gives the reason.)
#[inline(always)]
pub(crate) fn ordering(canary: Canary, strength: Ordering) -> Ordering {
    if seeded(canary) { Ordering::Relaxed } else { strength }
}

#[cfg(all(test, tourbillon_model))]
mod tests {
    use super::Canary;

    /// Prints each name and its bug on a line, for `ci/canaries.sh`.
    #[test]
    #[ignore = "a listing, not a test"]
    fn list() {
        Canary::ALL.iter().for_each(|(canary, bug)| println!("canary {canary:?}{bug}"));
    }
}
