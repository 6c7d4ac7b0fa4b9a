//! [`Identity`]: whether a path still names the file that is open.

use std::io;
use std::path::Path;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Identity of a file: device and inode on Unix, nothing elsewhere.
///
/// A file that is open keeps its inode, so another file cannot have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    inode: (u64, u64),
}

impl Identity {
    /// Identity of the file that `path` names.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let gone = |why: String| Err(StoreError::new(StoreErrorKind::Gone, why));
        match Self::read(path) {
            Ok(identity) => Ok(identity),
            Err(error) if is_absent(&error) => gone(format!("{} is not there", path.display())),
            Err(error) => Err(StoreError::new(StoreErrorKind::Unavailable, error)),
        }
    }

    /// Fails with [`Gone`](StoreErrorKind::Gone) unless `path` names this file.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        if Self::of(path)? == *self {
            return Ok(());
        }
        let why = format!("{} is no longer the file that was opened", path.display());
        Err(StoreError::new(StoreErrorKind::Gone, why))
    }

    #[cfg(unix)]
    fn read(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let file = path.metadata()?;
        Ok(Self { inode: (file.dev(), file.ino()) })
    }

    #[cfg(not(unix))]
    fn read(path: &Path) -> io::Result<Self> {
        path.metadata()?;
        Ok(Self {})
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
