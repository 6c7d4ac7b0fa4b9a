//! PEM files of certificates and keys, and authorities.

use std::fmt;
use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{Error, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reason for which no certificate can be verified.
pub(crate) const NO_AUTHORITY: &str = "the system trusts no authority: install `ca-certificates`, \
                                       or name a file of authorities in `SSL_CERT_FILE`";

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

/// Reads the authorities that the system trusts. There may be none.
pub(crate) fn system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    // Some systems have some that are malformed.
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}

/// Adds the authorities of a file, one at least.
///
/// # Errors
///
/// Like [`certificates`].
pub(crate) fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), String> {
    for (number, authority) in (1..).zip(certificates(path)?) {
        roots.add(authority).map_err(|error| {
            wrong(path, &format_args!("certificate {number} cannot serve as an authority: {error}"))
        })?;
    }
    Ok(())
}
