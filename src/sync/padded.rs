//! Memory that no two processors write at the same time.

use core::fmt;
use core::ops::Deref;

/// A value with cache lines of its own. x86-64 fetches lines of 64 bytes in pairs, and some aarch64
/// and powerpc64 have lines of 128 bytes. Lines of s390x have 256. A microcontroller has little
/// memory, and mostly one processor without a cache, and a program of WebAssembly mostly one
/// thread, so nothing is padded there.
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "powerpc64"),
    repr(align(128))
)]
#[cfg_attr(target_arch = "s390x", repr(align(256)))]
#[cfg_attr(
    not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "powerpc64",
        target_arch = "s390x",
        all(target_os = "none", target_pointer_width = "32"),
        target_family = "wasm",
    )),
    repr(align(64))
)]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for CachePadded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
