//! Which sleeps are armed, and where each was made, with the feature `pending`.
//!
//! Without it all of this is empty, and a sleep is no larger. Functions that need the engine take a
//! way to get it: to look up the global one is a load, not made for nothing.

pub(crate) use imp::{Armed, Listing};

#[cfg(all(feature = "pending", not(target_os = "none")))]
mod imp {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use core::fmt;
    use core::panic::Location;

    use crate::engine::Engine;
    use crate::stats::Pending;
    use crate::sync::{Mutex, lock};
    use crate::tick::Tick;

    /// The armed sleeps of an engine, in the order they were armed in.
    pub(crate) struct Armed {
        rows: Mutex<Rows>,
    }

    #[derive(Default)]
    struct Rows {
        last: u64,
        of: BTreeMap<u64, Row>,
    }

    #[derive(Clone, Copy)]
    struct Row {
        place: &'static Location<'static>,
        deadline: Tick,
        since: Tick,
    }

    impl Armed {
        pub(crate) fn new() -> Self {
            Self { rows: Mutex::new(Rows::default()) }
        }

        pub(crate) fn list(&self, engine: &Engine) -> Vec<Pending> {
            let rows = lock(&self.rows).of.values().copied().collect::<Vec<_>>();
            let now = engine.clock().now();
            let shown = |row: Row| Pending {
                place: row.place,
                deadline: engine.clock().instant(row.deadline),
                age: now.since(row.since),
            };
            rows.into_iter().map(shown).collect()
        }
    }

    impl fmt::Debug for Armed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Armed").finish_non_exhaustive()
        }
    }

    /// The row of one sleep.
    #[derive(Debug)]
    pub(crate) struct Listing {
        place: &'static Location<'static>,
        /// Number of its row; 0 if there is none.
        row: u64,
    }

    impl Listing {
        #[track_caller]
        pub(crate) fn here() -> Self {
            Self { place: Location::caller(), row: 0 }
        }

        /// The sleep was armed, by this process; again, if it has a row of when it was before.
        pub(crate) fn armed<'a>(&mut self, engine: impl FnOnce() -> &'a Engine, deadline: Tick) {
            let engine = engine();
            let since = engine.clock().now();
            let mut rows = lock(&engine.armed().rows);
            rows.of.remove(&self.row);
            rows.last += 1;
            self.row = rows.last;
            rows.of.insert(self.row, Row { place: self.place, deadline, since });
        }

        /// The sleep was given another deadline.
        pub(crate) fn moved<'a>(&self, engine: impl FnOnce() -> &'a Engine, deadline: Tick) {
            if self.row == 0 {
                return;
            }
            let engine = engine();
            if !engine.generation.is_past() {
                if let Some(row) = lock(&engine.armed().rows).of.get_mut(&self.row) {
                    row.deadline = deadline;
                }
            }
        }

        /// The sleep is armed no more.
        pub(crate) fn disarmed<'a>(&mut self, engine: impl FnOnce() -> &'a Engine) {
            let row = core::mem::take(&mut self.row);
            if row == 0 {
                return;
            }
            let engine = engine();
            if !engine.generation.is_past() {
                lock(&engine.armed().rows).of.remove(&row);
            }
        }

        /// Parts with the row, for what takes the sleep's entry.
        pub(crate) fn split_off(&mut self) -> Self {
            Self { place: self.place, row: core::mem::take(&mut self.row) }
        }
    }
}

#[cfg(not(all(feature = "pending", not(target_os = "none"))))]
mod imp {
    use crate::engine::Engine;
    use crate::tick::Tick;

    #[derive(Debug)]
    pub(crate) struct Armed(());

    impl Armed {
        pub(crate) fn new() -> Self {
            Self(())
        }
    }

    #[derive(Debug)]
    pub(crate) struct Listing(());

    impl Listing {
        #[inline(always)]
        pub(crate) fn here() -> Self {
            Self(())
        }

        #[inline(always)]
        pub(crate) fn armed<'a>(&mut self, _: impl FnOnce() -> &'a Engine, _deadline: Tick) {}

        #[inline(always)]
        pub(crate) fn moved<'a>(&self, _: impl FnOnce() -> &'a Engine, _deadline: Tick) {}

        #[inline(always)]
        pub(crate) fn disarmed<'a>(&mut self, _: impl FnOnce() -> &'a Engine) {}

        #[inline(always)]
        pub(crate) fn split_off(&mut self) -> Self {
            Self(())
        }
    }
}
