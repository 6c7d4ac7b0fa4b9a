//! TLS of the listener.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;

/// Files of the certificate and its key, and the versions that are spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// File of the certificate, followed by those between it and an authority; PEM.
    pub certificate: PathBuf,
    /// File of its key; PEM.
    pub key: PathBuf,
    /// Lowest version.
    pub minimum: TlsVersion,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    #[value(name = "1.2")]
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3.
    #[value(name = "1.3")]
    #[serde(rename = "1.3")]
    V13,
}

/// Flags of TLS. In the file, each is a field of `[tls]`.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFlags {
    /// PEM file of the listener's certificate, followed by those between it and an authority. With
    /// it, the service answers HTTPS alone. SIGHUP reloads it.
    #[arg(long = "tls-certificate", value_name = "FILE", env = "TOURBILLOND_TLS_CERTIFICATE")]
    certificate: Option<PathBuf>,
    /// PEM file of the certificate's key.
    #[arg(long = "tls-key", value_name = "FILE", env = "TOURBILLOND_TLS_KEY")]
    key: Option<PathBuf>,
    /// Lowest version of TLS that clients may speak; 1.2 by default.
    #[arg(long = "tls-minimum", value_name = "VERSION", env = "TOURBILLOND_TLS_MINIMUM")]
    minimum: Option<TlsVersion>,
}

impl TlsFlags {
    /// Returns these, and `other` where they say nothing.
    ///
    /// # Errors
    ///
    /// If a part of the TLS settings is missing.
    pub(super) fn or(self, other: Self) -> Result<Option<TlsFiles>, &'static str> {
        let minimum = self.minimum.or(other.minimum);
        match (self.certificate.or(other.certificate), self.key.or(other.key)) {
            (Some(certificate), Some(key)) => {
                Ok(Some(TlsFiles { certificate, key, minimum: minimum.unwrap_or_default() }))
            }
            (Some(_), None) => Err("`certificate` needs a `key`"),
            (None, Some(_)) => Err("`key` needs a `certificate`"),
            (None, None) if minimum.is_some() => Err("`minimum` needs a `certificate` and a `key`"),
            (None, None) => Ok(None),
        }
    }
}
