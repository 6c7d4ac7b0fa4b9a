//! The configuration: flags, environment, a file.
//!
//! A flag counts more than the environment, that more than the file, and that more than the
//! default. Tokens, and settings of apps, are in the file alone; a SIGHUP has them read again.

mod app;
mod file;
mod flags;
mod oauth;
mod proxy;
#[cfg(test)]
mod tests;
mod tls;
mod trust;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use app::{App, HeaderSecret, Scope, Secret, Sha, Token, check_name, hash};
pub use file::load;
pub use flags::{Flags, LogFormat, StoreAt};
pub use oauth::OAuth;
pub(crate) use proxy::Proxy;
pub use proxy::{Proxies, ProxySettings};
pub use tls::{TlsFiles, TlsFlags, TlsVersion};
pub use trust::{ClientCertificate, Trust};

use crate::net::Destination;

/// Default address to listen on.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8321);

/// The file of timers where none is configured.
pub const FILE: &str = "tourbillon.db";

/// The app that a service without tokens has.
pub const DEFAULT_APP: &str = "default";

/// Settings that hold from the start of the service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// TLS of the listener; none if it is `None`.
    pub tls: Option<TlsFiles>,
    /// Database of the timers.
    pub store: StoreAt,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Log filter.
    pub log: String,
    /// Most open connections.
    pub connections: usize,
    /// File of the audit log; none if it is `None`.
    pub audit: Option<PathBuf>,
    /// Time for which ended runs are kept.
    pub keep: Duration,
    /// Warnings for the log: of the file if it holds tokens or secrets, and of the keys of client
    /// certificates, if everybody can read them.
    pub exposed: Vec<String>,
}

impl Settings {
    /// Returns the names of fields that others have changed: they hold from the next start.
    pub fn changed(&self, others: &Self) -> Vec<&'static str> {
        let fields = [
            ("listen", self.listen != others.listen),
            ("tls", self.tls != others.tls),
            ("store", self.store != others.store),
            ("log_format", self.log_format != others.log_format),
            ("log", self.log != others.log),
            ("connections", self.connections != others.connections),
            ("audit", self.audit != others.audit),
            ("keep", self.keep != others.keep),
        ];
        fields.into_iter().filter_map(|(name, is_changed)| is_changed.then_some(name)).collect()
    }
}

/// Configuration that may change while the service runs: apps and tokens.
#[derive(Clone, Debug)]
pub struct Config {
    /// The apps, by name.
    pub apps: BTreeMap<String, App>,
    /// Tokens for all apps.
    pub admin: Vec<Token>,
    /// The service's own hosts, beside loopback and the address that a request came to.
    pub hosts: Vec<Destination>,
    /// Zone of XTimer's expressions.
    pub xtimer_zone: String,
    /// App that keeps the timers of XTimer apps that are not configured.
    pub xtimer_app: Option<String>,
}

impl Default for Config {
    /// Without apps, tokens and hosts.
    fn default() -> Self {
        Self {
            apps: BTreeMap::new(),
            admin: Vec::new(),
            hosts: Vec::new(),
            xtimer_zone: "UTC".to_owned(),
            xtimer_app: None,
        }
    }
}

impl Config {
    /// Returns whether there are no tokens, so that every request may do all.
    pub fn is_open(&self) -> bool {
        self.tokens().next().is_none()
    }

    /// Returns all tokens: for all apps, and of each.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.admin.iter().chain(self.apps.values().flat_map(|app| &app.tokens))
    }
}
