//! Bugs that the simulation has to find. Outside of its tests there are none.

/// A bug in the engine, or in the store in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A store ends an attempt of any lease and number.
    FenceRemoved,
    /// A store takes what runs from the living too.
    LeaseIgnored,
    /// A store joins a node under an epoch that it had.
    EpochRepeated,
    /// A store moves a schedule on that is not as it was read.
    AdvanceUnchecked,
    /// A worker yields what is another's by now.
    TrustIgnored,
    /// A node does not look for what it runs and does not know.
    AuditLeftOut,
    /// A node never reads from the beginning.
    CursorForSet,
    /// A node forgets ends whose answer was lost.
    EndsForgotten,
    /// Two occurrences are planned beside each other that must not overlap.
    OverlapAllowed,
    /// The last of a batch is planned twice or never.
    BatchOffByOne,
    /// Nothing is read but what the node was told of.
    NotifyTrusted,
}

#[cfg(test)]
impl Bug {
    pub(crate) const ALL: [Self; 11] = [
        Self::FenceRemoved,
        Self::LeaseIgnored,
        Self::EpochRepeated,
        Self::AdvanceUnchecked,
        Self::TrustIgnored,
        Self::AuditLeftOut,
        Self::CursorForSet,
        Self::EndsForgotten,
        Self::OverlapAllowed,
        Self::BatchOffByOne,
        Self::NotifyTrusted,
    ];
}

/// Returns whether `bug` is there.
#[cfg(not(test))]
pub(crate) const fn seeded(bug: Bug) -> bool {
    let _ = bug;
    false
}

#[cfg(test)]
thread_local! {
    static SEEDED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn seeded(bug: Bug) -> bool {
    SEEDED.get() == Some(bug)
}

/// Has this thread run with `bug`, or with none.
#[cfg(test)]
pub(crate) fn seed(bug: Option<Bug>) {
    SEEDED.set(bug);
}
