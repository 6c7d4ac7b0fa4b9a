//! Values whose drop is reached by a pointer.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::Deref;

/// A value, and the address of the function that drops it. That of the process-wide timer does
/// nothing: the timer lasts as long as the program. So a program with sleeps alone has no code to
/// take an engine apart. Without an operating system RAM is dearer, and there is no such pointer.
pub(crate) struct DropByPointer<T> {
    value: ManuallyDrop<T>,
    /// Drops `value`, or leaves it.
    #[cfg(not(target_os = "none"))]
    end: unsafe fn(&mut ManuallyDrop<T>),
}

impl<T> DropByPointer<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            #[cfg(not(target_os = "none"))]
            end: ManuallyDrop::drop,
        }
    }

    /// Keeps `value` for the life of the program, and leaks it if that has no use for it.
    #[cfg(not(target_os = "none"))]
    pub(crate) fn for_good(value: T) -> Self {
        unsafe fn leave<T>(_: &mut ManuallyDrop<T>) {}
        Self { value: ManuallyDrop::new(value), end: leave }
    }
}

impl<T> Deref for DropByPointer<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for DropByPointer<T> {
    fn drop(&mut self) {
        #[cfg(not(target_os = "none"))]
        let end = self.end;
        #[cfg(target_os = "none")]
        let end = ManuallyDrop::drop;
        // SAFETY: this is the only drop, and nothing uses the value after it.
        unsafe { end(&mut self.value) };
    }
}

impl<T: fmt::Debug> fmt::Debug for DropByPointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}
