//! Finds timers in real time that are awaited in virtual time, in debug builds: a test with one
//! waits, and its clock passes the deadlines of all others meanwhile.
//!
//! The thread that polls a future in virtual time is marked. A poll there that leaves a sleep of a
//! driver thread pending panics. A clock that its user holds stands still, so then such a wait is
//! allowed.

pub(crate) use imp::*;

#[cfg(all(
    debug_assertions,
    not(any(target_os = "none", target_family = "wasm", miri, all(test, tourbillon_model)))
))]
mod imp {
    use core::cell::Cell;

    std::thread_local!(static IS_VIRTUAL: Cell<bool> = const { Cell::new(false) });

    /// Poll of a future in virtual time, by the calling thread.
    #[derive(Debug)]
    pub(crate) struct InVirtualTime(bool);

    impl InVirtualTime {
        /// The poll begins; `is_held` says whether the clock stands still by its user's wish.
        pub(crate) fn begin(is_held: bool) -> Self {
            Self(IS_VIRTUAL.replace(!is_held))
        }

        /// Its user holds the clock from now on.
        pub(crate) fn held() {
            let _ = IS_VIRTUAL.try_with(|is_virtual| is_virtual.set(false));
        }

        pub(crate) fn is_here() -> bool {
            IS_VIRTUAL.try_with(Cell::get).unwrap_or(false)
        }
    }

    impl Drop for InVirtualTime {
        fn drop(&mut self) {
            IS_VIRTUAL.set(self.0);
        }
    }
}

#[cfg(not(all(
    debug_assertions,
    not(any(target_os = "none", target_family = "wasm", miri, all(test, tourbillon_model)))
)))]
mod imp {
    #[derive(Debug)]
    pub(crate) struct InVirtualTime(());

    #[cfg_attr(target_os = "none", allow(dead_code, reason = "no virtual clock is there"))]
    impl InVirtualTime {
        #[inline(always)]
        pub(crate) fn begin(_is_held: bool) -> Self {
            Self(())
        }

        #[inline(always)]
        pub(crate) fn held() {}

        #[inline(always)]
        pub(crate) fn is_here() -> bool {
            false
        }
    }
}
