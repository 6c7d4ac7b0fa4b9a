//! What an operator sets: flags, environment, a file.
//!
//! A flag counts more than the environment, that more than the file, and that more than the
//! default. Apps and tokens are in the file alone; they are read again at each SIGHUP.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

use crate::callback::Destination;
use crate::model;

/// Where the service listens unless told otherwise.
pub const LISTEN: &str = "127.0.0.1:8321";

/// The file of timers unless told otherwise.
pub const FILE: &str = "tourbillon.db";

/// The app that a service without tokens has.
pub const DEFAULT_APP: &str = "default";

/// The longest name of an app.
const APP_MAX: usize = 40;

/// What can be set on the command line, each also by the environment.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// Address and port to listen on. Other than loopback only if tokens are configured.
    #[arg(long, value_name = "ADDRESS", env = "TOURBILLOND_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Where timers are kept: a file for SQLite, or `postgres://user:password@host/database`. All
    /// nodes with one database are a cluster.
    #[arg(long, value_name = "FILE|URL", env = "TOURBILLOND_STORE")]
    pub store: Option<StoreAt>,
    /// A TOML file with apps, tokens, limits, and anything that the flags set too.
    #[arg(long, value_name = "FILE", env = "TOURBILLOND_CONFIG")]
    pub config: Option<PathBuf>,
    /// A further app of a service without tokens, beside `default`. Can be repeated.
    #[arg(long, value_name = "NAME", env = "TOURBILLOND_APP", value_delimiter = ',')]
    pub app: Vec<String>,
    /// How log lines are written.
    #[arg(long, value_name = "FORMAT", env = "TOURBILLOND_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What is logged: `error`, `warn`, `info`, `debug` or `trace`, for all or by part, as in
    /// `info,tourbillon_durable=debug`.
    #[arg(long, value_name = "FILTER", env = "TOURBILLOND_LOG")]
    pub log: Option<String>,
    /// How many connections may be open at a time.
    #[arg(long, value_name = "COUNT", env = "TOURBILLOND_CONNECTIONS")]
    pub connections: Option<usize>,
    /// For how long it is kept what became of runs, such as `14d`.
    #[arg(long, value_name = "SPAN", env = "TOURBILLOND_KEEP", value_parser = model::span)]
    pub keep: Option<Duration>,
    /// The zone of the expressions that come by XTimer's routes.
    #[arg(long, value_name = "ZONE", env = "TOURBILLOND_XTIMER_ZONE")]
    pub xtimer_zone: Option<String>,
}

/// Where timers are kept.
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
            Some((scheme, _)) => Err(format!("`{scheme}` is neither `postgres` nor `sqlite`")),
            None if text.is_empty() => Err("no file is named".to_owned()),
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

/// How log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// What is set once, when the service starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where timers are kept.
    pub store: StoreAt,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log: String,
    /// How many connections may be open at a time.
    pub connections: usize,
    /// For how long it is kept what became of runs.
    pub keep: Duration,
}

/// What may change while the service runs: apps and tokens.
#[derive(Clone, Debug)]
pub struct Config {
    /// The apps, by name.
    pub apps: BTreeMap<String, App>,
    /// Tokens for all apps.
    pub admin: Vec<Token>,
    /// The zone of the expressions that come by XTimer's routes.
    pub xtimer_zone: String,
}

/// A namespace of schedules, with its tokens and limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct App {
    /// Who may see or change it.
    pub tokens: Vec<Token>,
    /// How much it may have.
    pub limits: Limits,
    /// Hosts that may be called: `hooks.example.com`, `*.example.com`, each with a port or without.
    /// Any if there is none.
    pub destinations: Vec<Destination>,
    /// Networks that may be called although they are private, such as `10.1.0.0/16`.
    pub networks: Vec<Network>,
    /// What callbacks are signed with, by each of them; unsigned if there is none.
    pub secrets: Vec<Secret>,
}

/// How much an app may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// How many schedules and one-shots that are not over.
    pub schedules: u32,
    /// How many callbacks a second each node starts.
    pub due_per_second: u32,
    /// How many callbacks run at a time on each node.
    pub concurrent: u32,
    /// How many of those go to one host.
    pub per_host: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { schedules: 10_000, due_per_second: 1_000, concurrent: 256, per_host: 64 }
    }
}

/// A token, as it is configured: by its hash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// SHA-256 of the token, in hexadecimal digits; `tourbillond token` prints one.
    pub sha256: Sha,
    /// What it lets do.
    #[serde(default)]
    pub scope: Scope,
}

impl Token {
    /// Whether it is the token with this hash. The time it takes depends on neither.
    pub fn is(&self, hash: &[u8; 32]) -> bool {
        self.sha256.0.ct_eq(hash).into()
    }
}

/// The hash of a token, as it is configured and compared.
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// A SHA-256.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Sha([u8; 32]);

impl TryFrom<String> for Sha {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes)
            .map_err(|_| "a SHA-256 has 64 hexadecimal digits".to_owned())?;
        Ok(Self(bytes))
    }
}

/// What a token lets do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To see.
    #[default]
    Read,
    /// To see and to change.
    Write,
}

/// What signs callbacks. Not shown by `Debug`.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether `address` is one of its own. One of IPv4 that is written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differs = |one: u128, other: u128, len: u8| {
            let low = u32::from(len - self.bits);
            (one ^ other).checked_shr(low).unwrap_or(0) != 0
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                !differs(u32::from(own).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => !differs(own.into(), other.into(), 128),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not a network such as `10.1.0.0/16`");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<SocketAddr>,
    store: Option<String>,
    log_format: Option<LogFormat>,
    log: Option<String>,
    connections: Option<usize>,
    keep: Option<String>,
    xtimer_zone: Option<String>,
    admin: Admin,
    apps: BTreeMap<String, App>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Admin {
    tokens: Vec<Token>,
}

/// Why a configuration cannot be used.
#[derive(Debug)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Reads the file, if one is named, and puts all together.
///
/// # Errors
///
/// If the file cannot be read or has what is not known, with the line; if a value makes no sense;
/// or if other than loopback is to be listened on without a token.
pub fn load(flags: &Flags) -> Result<(Settings, Config), ConfigError> {
    let file = flags.config.as_deref().map(read).transpose()?.unwrap_or_default();
    let wrong = |field: &str, why: String| ConfigError(format!("`{field}`: {why}"));
    let listen = flags.listen.or(file.listen);
    let store = file.store.map(|text| text.parse::<StoreAt>()).transpose();
    let store = store.map_err(|why| wrong("store", why))?;
    let keep = file.keep.map(|text| model::span(&text)).transpose();
    let keep = keep.map_err(|why| wrong("keep", why))?;
    let settings = Settings {
        listen: listen.unwrap_or_else(|| LISTEN.parse().expect("the default is an address")),
        store: flags.store.clone().or(store).unwrap_or_else(|| StoreAt::File(FILE.into())),
        log_format: flags.log_format.or(file.log_format).unwrap_or_default(),
        log: flags.log.clone().or(file.log).unwrap_or_else(|| "info".to_owned()),
        connections: flags.connections.or(file.connections).unwrap_or(20_000).max(1),
        keep: flags.keep.or(keep).unwrap_or(Duration::from_secs(14 * 86_400)),
    };
    let zone = flags.xtimer_zone.clone().or(file.xtimer_zone);
    let xtimer_zone = zone.unwrap_or_else(|| "UTC".to_owned());
    jiff::tz::TimeZone::get(&xtimer_zone)
        .map_err(|_| wrong("xtimer_zone", format!("`{xtimer_zone}` is not known")))?;
    let mut config = Config { apps: file.apps, admin: file.admin.tokens, xtimer_zone };
    if config.is_open() {
        if !settings.listen.ip().is_loopback() {
            let why = format!(
                "`{}` can be reached from other hosts, and no token is configured: add some \
                 (`tourbillond token` makes one), or listen on 127.0.0.1",
                settings.listen
            );
            return Err(wrong("listen", why));
        }
        for name in [DEFAULT_APP].into_iter().chain(flags.app.iter().map(String::as_str)) {
            config.apps.entry(name.to_owned()).or_insert_with(App::open);
        }
    } else if let Some(name) = flags.app.first() {
        let why = "with tokens, apps are in the file".to_owned();
        return Err(wrong(&format!("--app {name}"), why));
    }
    for (name, app) in &config.apps {
        app.check(name).map_err(|why| wrong(&format!("apps.{name}"), why))?;
    }
    Ok((settings, config))
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let wrong = |why: &dyn fmt::Display| ConfigError(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    toml::from_str(&text).map_err(|error| wrong(&error))
}

impl Config {
    /// Whether there are no tokens, so that every request may do all.
    pub fn is_open(&self) -> bool {
        self.admin.is_empty() && self.apps.values().all(|app| app.tokens.is_empty())
    }
}

impl App {
    /// One of a service without tokens: it may call what the service may be called from.
    fn open() -> Self {
        let networks = ["127.0.0.0/8", "::1/128"].map(|text| text.parse().expect("a network"));
        Self { networks: networks.into(), ..Self::default() }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.len() > APP_MAX || !name.bytes().all(is_name) {
            return Err(format!(
                "a name has 1 to {APP_MAX} characters of `A-Z`, `a-z`, `0-9`, `-`, `_` and `.`"
            ));
        }
        let Limits { due_per_second, concurrent, per_host, .. } = self.limits;
        let none = [("due_per_second", due_per_second), ("concurrent", concurrent)]
            .into_iter()
            .chain([("per_host", per_host)])
            .find(|(_, limit)| *limit == 0);
        match none {
            Some((field, _)) => Err(format!("`limits.{field}` is zero")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
