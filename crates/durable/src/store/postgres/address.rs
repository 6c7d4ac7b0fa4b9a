//! Addresses: encryption and the schema are read here, the rest by `tokio_postgres`.

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::tables::Tables;
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Parts of an address.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) config: Config,
    pub(super) encryption: Encryption,
    pub(super) tables: Tables,
}

/// Demands on the server's certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nothing: any server that answers may read and write.
    Anyone,
    /// The certificate is signed by one of these authorities.
    Signed(PathBuf),
    /// The certificate is signed by one of these authorities, and names the host that was asked
    /// for.
    Named(Roots),
}

/// Authorities.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Roots {
    /// Authorities that the system trusts.
    System,
    /// Authorities of a PEM file.
    File(PathBuf),
}

/// Encryption of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Encryption {
    pub(super) trust: Trust,
    /// PEM files of the client's certificate and its key.
    pub(super) identity: Option<(PathBuf, PathBuf)>,
    /// True if a connection without it, or with any server, is accepted.
    pub(super) is_optional: bool,
}

/// Parameters that `tokio_postgres` does not know, or knows less of.
#[derive(Default)]
struct Own {
    mode: Option<String>,
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
    schema: Option<String>,
}

/// Reads an address, a URL or `key=value` pairs.
pub(super) fn parse(address: &str) -> Result<Address> {
    let mut own = Own::default();
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme));
    let rest = if is_url { own.take_of_url(address) } else { own.take_of_pairs(address) };
    let mut config =
        rest.parse::<Config>().map_err(|error| StoreError::new(StoreErrorKind::Invalid, error))?;
    let tables = own.schema.as_deref().map(Tables::in_schema).transpose()?.unwrap_or_default();
    let (mode, encryption) = own.encryption()?;
    config.ssl_mode(mode);
    Ok(Address { config, encryption, tables })
}

impl Own {
    fn place(&mut self, key: &str) -> Option<&mut Option<String>> {
        match key {
            "sslmode" => Some(&mut self.mode),
            "sslrootcert" => Some(&mut self.roots),
            "sslcert" => Some(&mut self.certificate),
            "sslkey" => Some(&mut self.key),
            "schema" => Some(&mut self.schema),
            _ => None,
        }
    }

    /// Takes the store's own parameters out of a URL.
    fn take_of_url(&mut self, url: &str) -> String {
        // A password may have a question mark.
        let host = url.find('@').unwrap_or(0);
        let Some(length) = url[host..].find('?') else { return url.to_owned() };
        let (server, query) = url.split_at(host + length);
        let mut left = server.to_owned();
        for pair in query[1..].split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let Some(place) = self.place(key) {
                *place = Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
            } else {
                left.push(if left.len() == server.len() { '?' } else { '&' });
                left.push_str(pair);
            }
        }
        left
    }

    /// Takes the store's own parameters out of `key = value` pairs. Malformed ones are left.
    fn take_of_pairs(&mut self, pairs: &str) -> String {
        let mut left = String::new();
        let mut rest = pairs.trim_start();
        while let Some((key, after)) = rest.split_once('=') {
            let (value, end) = value(after.trim_start());
            if let Some(place) = self.place(key.trim_end()) {
                *place = Some(value);
            } else {
                left.push_str(&rest[..rest.len() - end.len()]);
                left.push(' ');
            }
            rest = end.trim_start();
        }
        left + rest
    }

    /// Returns the encryption that libpq would choose, as far as that is possible.
    fn encryption(self) -> Result<(SslMode, Encryption)> {
        let invalid = |why: &str| Err(StoreError::new(StoreErrorKind::Invalid, why));
        let roots = self.roots.filter(|roots| !roots.is_empty()).map(|roots| match &*roots {
            "system" => Roots::System,
            file => Roots::File(file.into()),
        });
        let default = if roots == Some(Roots::System) { "verify-full" } else { "prefer" };
        let asked = self.mode.as_deref().unwrap_or(default);
        let mode = match asked {
            "disable" => SslMode::Disable,
            "prefer" => SslMode::Prefer,
            "require" | "verify-ca" | "verify-full" => SslMode::Require,
            _ => {
                let known = "`sslmode` is disable, prefer, require, verify-ca or verify-full";
                return invalid(&format!("{known}, and not `{asked}`"));
            }
        };
        let trust = match (asked, roots) {
            ("verify-full", roots) => Trust::Named(roots.unwrap_or(Roots::System)),
            ("disable", _) => Trust::Anyone,
            (_, Some(Roots::File(file))) => Trust::Signed(file),
            (_, Some(Roots::System)) => {
                // Anybody can have a certificate from a public authority, for a name of their own.
                return invalid("`sslrootcert=system` needs `sslmode=verify-full`");
            }
            ("verify-ca", None) => return invalid("`sslmode=verify-ca` needs `sslrootcert`"),
            (_, None) => Trust::Anyone,
        };
        let identity = match (self.certificate, self.key) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            _ => return invalid("`sslcert` and `sslkey` go together"),
        };
        let is_optional = mode != SslMode::Require && trust == Trust::Anyone && identity.is_none();
        Ok((mode, Encryption { trust, identity, is_optional }))
    }
}

/// Returns the value at the start of `text`, and the rest.
fn value(text: &str) -> (String, &str) {
    let (quoted, text) = match text.strip_prefix('\'') {
        Some(text) => (true, text),
        None => (false, text),
    };
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            '\'' if quoted => return (value, &text[at + 1..]),
            space if !quoted && space.is_whitespace() => return (value, &text[at..]),
            char => value.push(char),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::{Host, SslMode};

    use super::{Address, Encryption, Roots, Trust, parse};
    use crate::error::StoreErrorKind;

    fn encryption(address: &str) -> (SslMode, Encryption) {
        let Address { config, encryption, .. } = parse(address).unwrap();
        (config.get_ssl_mode(), encryption)
    }

    #[test]
    fn modes_mean_what_they_mean_to_libpq() {
        let trust = |query: &str| {
            let (mode, encryption) = encryption(&format!("postgres://host/db?{query}"));
            (mode, encryption.trust, encryption.is_optional)
        };
        let file = || "/ca.crt".into();
        use SslMode::{Disable, Prefer, Require};
        assert_eq!(trust(""), (Prefer, Trust::Anyone, true));
        assert_eq!(trust("sslmode=disable&sslrootcert=/ca.crt"), (Disable, Trust::Anyone, true));
        assert_eq!(trust("sslmode=prefer"), (Prefer, Trust::Anyone, true));
        assert_eq!(trust("sslrootcert=/ca.crt"), (Prefer, Trust::Signed(file()), false));
        assert_eq!(trust("sslmode=require"), (Require, Trust::Anyone, false));
        let signed = (Require, Trust::Signed(file()), false);
        assert_eq!(trust("sslmode=require&sslrootcert=%2Fca.crt"), signed);
        assert_eq!(trust("sslrootcert=/ca.crt&sslmode=verify-ca"), signed);
        let named = |roots| (Require, Trust::Named(roots), false);
        assert_eq!(trust("sslmode=verify-full"), named(Roots::System));
        assert_eq!(trust("sslrootcert=system"), named(Roots::System));
        let full = "sslmode=verify-full&sslrootcert=/ca.crt";
        assert_eq!(trust(full), named(Roots::File(file())));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for query in [
            "sslmode=allow",
            "sslmode=",
            "sslmode=verify-ca",
            "sslmode=require&sslrootcert=system",
            "sslcert=/client.crt",
            "sslkey=/client.key",
            "schema=",
            "schema=a.b",
        ] {
            let error = parse(&format!("postgres://host/db?{query}")).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{query}: {error}");
        }
        assert!(parse("host=a sslmode").is_err());
        assert!(parse("host=a unknown=b").is_err());
    }

    #[test]
    fn the_rest_of_an_address_is_read_as_it_was() {
        let of = |address: &str| parse(address).unwrap().config;
        let own = "sslmode=require&sslcert=c&sslkey=k";
        let config = of(&format!("postgres://me:a?b@one,two:5433/db?{own}&application_name=x"));
        assert_eq!(config.get_password(), Some(&b"a?b"[..]));
        assert_eq!(config.get_application_name(), Some("x"));
        assert_eq!(config.get_dbname(), Some("db"));
        assert_eq!(config.get_hosts().len(), 2);
        let pairs = r"host = one sslmode= verify-full password='a\' sslmode=x' dbname =d\ b";
        let config = of(pairs);
        assert_eq!(config.get_hosts(), [Host::Tcp("one".to_owned())]);
        assert_eq!(config.get_password(), Some(&b"a' sslmode=x"[..]));
        assert_eq!(config.get_dbname(), Some("d b"));
        let (mode, own) = encryption(r"host=a sslrootcert='/my roots/ca.crt' sslmode=verify-ca");
        assert_eq!(mode, SslMode::Require);
        assert_eq!(own.trust, Trust::Signed("/my roots/ca.crt".into()));
    }

    #[test]
    fn an_address_names_the_schema_in_either_form() {
        let schema = |address: &str| parse(address).unwrap().tables.schema().to_owned();
        assert_eq!(schema("postgres://host/db"), "tourbillon");
        assert_eq!(schema("postgres://host/db?schema=east&application_name=x"), "east");
        assert_eq!(schema("host=a schema = 'east' dbname=b"), "east");
    }
}
