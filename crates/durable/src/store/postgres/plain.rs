//! Connections that are not encrypted, without the feature `tls`.

use tokio_postgres::NoTls;

use super::address::Encryption;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Encrypts nothing.
pub(super) type Connector = NoTls;

/// Refuses addresses that require encryption.
pub(super) fn connector(encryption: &Encryption) -> Result<Connector> {
    if encryption.is_optional {
        return Ok(NoTls);
    }
    let why = "the address demands encryption, which needs the feature `tls`";
    Err(StoreError::new(StoreErrorKind::Invalid, why))
}
