//! PEM files of certificates and keys.

use std::fmt;
use std::path::Path;

use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn wrong(path: &Path, why: &dyn fmt::Display) -> String {
    format!("{}: {why}", path.display())
}

/// Reads the certificates of a file, one at least.
///
/// # Errors
///
/// The name of the file and the reason, for people to read.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|error| wrong(path, &error))?;
    if all.is_empty() { Err(wrong(path, &"it has no certificate")) } else { Ok(all) }
}

/// Reads the first private key of a file.
///
/// # Errors
///
/// Like [`certificates`].
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| match error {
        Error::NoItemsFound => wrong(path, &"it has no key"),
        error => wrong(path, &error),
    })
}
