//! Flags of the command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::TlsFlags;
use crate::model;
use crate::net::Destination;

/// Flags of the command line. The environment can also set each of them.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// Address and port to listen on. Other than loopback only if tokens are configured.
    #[arg(long, value_name = "ADDRESS", env = "TOURBILLOND_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// TLS of the listener.
    #[command(flatten)]
    pub tls: TlsFlags,
    /// Database: a file for SQLite, or `postgres://user:password@host/database`. All nodes with one
    /// database are a cluster.
    #[arg(long, value_name = "FILE|URL", env = "TOURBILLOND_STORE")]
    pub store: Option<StoreAt>,
    /// TOML file with apps, tokens, limits, and anything that the flags set too.
    #[arg(long, value_name = "FILE", env = "TOURBILLOND_CONFIG")]
    pub config: Option<PathBuf>,
    /// Further app of a service without tokens, beside `default`. Can be repeated.
    #[arg(long, value_name = "NAME", env = "TOURBILLOND_APP", value_delimiter = ',')]
    pub app: Vec<String>,
    /// Further host of the service, such as `timers.example.com` or `*.example.com`. Requests that
    /// name another are refused, except for loopback and the address that they came to. Can be
    /// repeated.
    #[arg(long, value_name = "HOST", env = "TOURBILLOND_HOST", value_delimiter = ',')]
    pub host: Vec<Destination>,
    /// Format of log lines.
    #[arg(long, value_name = "FORMAT", env = "TOURBILLOND_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Log filter: `error`, `warn`, `info`, `debug` or `trace`, for all or by part, as in
    /// `info,tourbillon_durable=debug`.
    #[arg(long, value_name = "FILTER", env = "TOURBILLOND_LOG")]
    pub log: Option<String>,
    /// Maximum number of open connections.
    #[arg(long, value_name = "COUNT", env = "TOURBILLOND_CONNECTIONS")]
    pub connections: Option<usize>,
    /// File of the audit log, to which each change is appended: its time, the name of its token,
    /// and its operation. By default there is none.
    #[arg(long, value_name = "FILE", env = "TOURBILLOND_AUDIT")]
    pub audit: Option<PathBuf>,
    /// Time for which ended runs are kept, such as `14d`.
    #[arg(long, value_name = "SPAN", env = "TOURBILLOND_KEEP", value_parser = model::span)]
    pub keep: Option<Duration>,
    /// Time zone of the expressions that come by XTimer's routes.
    #[arg(long, value_name = "ZONE", env = "TOURBILLOND_XTIMER_ZONE")]
    pub xtimer_zone: Option<String>,
    /// App that keeps the timers of XTimer apps that are not configured, whatever their names. By
    /// default such apps are refused.
    #[arg(long, value_name = "NAME", env = "TOURBILLOND_XTIMER_APP")]
    pub xtimer_app: Option<String>,
}

/// Database of the timers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAt {
    /// In a file, by SQLite.
    File(PathBuf),
    /// In the database with this address, by PostgreSQL.
    Postgres(String),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Postgres(text.to_owned())),
            Some(("sqlite", path)) => Ok(Self::File(path.into())),
            Some((scheme, _)) => Err(format!(
                "`{scheme}` is not supported: use `postgres://`, or the name of a file"
            )),
            None if text.is_empty() => Err("the name of the file is empty".to_owned()),
            None => Ok(Self::File(text.into())),
        }
    }
}

impl fmt::Display for StoreAt {
    /// Without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(address) => match url::Url::parse(address) {
                Ok(mut url) => {
                    let _ = url.set_password(None);
                    url.set_query(None);
                    write!(f, "{url}")
                }
                Err(_) => f.write_str("postgres"),
            },
        }
    }
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}
