//! Files that hold secrets: their owner alone is to read them.

use std::fs::OpenOptions;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Bits of a mode that let others than the owner and the group in.
pub(crate) const OTHERS: u32 = 0o007;

/// Bits of a mode that let others than the owner in.
pub(crate) const NOT_OWNER: u32 = 0o077;

/// Makes an empty file that its owner alone can read, whatever the umask is, if there is none.
///
/// A name of no file, and a file that cannot be made, are left to SQLite, whose error says more.
pub(crate) fn make(path: &Path) {
    let text = path.to_string_lossy();
    if text != ":memory:" && !text.starts_with("file:") {
        let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    }
}

/// Returns the warning about a file that any of these bits opens to others.
pub(crate) fn exposed(path: &Path, bits: u32) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let path = path.display();
    (mode & bits != 0).then(|| {
        format!("{path} has mode {mode:03o} and holds secrets: `chmod {:03o} {path}`", mode & !bits)
    })
}
