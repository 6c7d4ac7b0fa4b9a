//! The configuration: flags, environment, a file.
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
use crate::private::{self, OTHERS};

/// Address on which the service listens by default.
pub const LISTEN: &str = "127.0.0.1:8321";

/// The file of timers unless told otherwise.
pub const FILE: &str = "tourbillon.db";

/// The app that a service without tokens has.
pub const DEFAULT_APP: &str = "default";

/// The longest name of an app.
const APP_MAX: usize = 40;

/// The longest name of a secret for headers.
const SECRET_NAME_MAX: usize = 64;

/// Lengths that the value of such a secret may have. A shorter one could not be told from other
/// text that a receiver answers.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 8..=8 * 1024;

/// Flags of the command line, each of which the environment can also set.
#[derive(Args, Clone, Debug, Default)]
pub struct Flags {
    /// Address and port to listen on. Other than loopback only if tokens are configured.
    #[arg(long, value_name = "ADDRESS", env = "TOURBILLOND_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Database: a file for SQLite, or `postgres://user:password@host/database`. All nodes with one
    /// database are a cluster.
    #[arg(long, value_name = "FILE|URL", env = "TOURBILLOND_STORE")]
    pub store: Option<StoreAt>,
    /// A TOML file with apps, tokens, limits, and anything that the flags set too.
    #[arg(long, value_name = "FILE", env = "TOURBILLOND_CONFIG")]
    pub config: Option<PathBuf>,
    /// A further app of a service without tokens, beside `default`. Can be repeated.
    #[arg(long, value_name = "NAME", env = "TOURBILLOND_APP", value_delimiter = ',')]
    pub app: Vec<String>,
    /// A further host by which the service is reached, such as `timers.example.com` or
    /// `*.example.com`. Requests that name another are refused, but for loopback and the address
    /// that they came to. Can be repeated.
    #[arg(long, value_name = "HOST", env = "TOURBILLOND_HOST", value_delimiter = ',')]
    pub host: Vec<Destination>,
    /// Format of log lines.
    #[arg(long, value_name = "FORMAT", env = "TOURBILLOND_LOG_FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Log filter: `error`, `warn`, `info`, `debug` or `trace`, for all or by part, as in
    /// `info,tourbillon_durable=debug`.
    #[arg(long, value_name = "FILTER", env = "TOURBILLOND_LOG")]
    pub log: Option<String>,
    /// Most connections that may be open at a time.
    #[arg(long, value_name = "COUNT", env = "TOURBILLOND_CONNECTIONS")]
    pub connections: Option<usize>,
    /// Time for which ended runs are kept, such as `14d`.
    #[arg(long, value_name = "SPAN", env = "TOURBILLOND_KEEP", value_parser = model::span)]
    pub keep: Option<Duration>,
    /// Zone of the expressions that come by XTimer's routes.
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

/// Settings that hold from the start of the service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Address on which it listens.
    pub listen: SocketAddr,
    /// Database of the timers.
    pub store: StoreAt,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Log filter.
    pub log: String,
    /// Most open connections.
    pub connections: usize,
    /// Time for which ended runs are kept.
    pub keep: Duration,
    /// Warning for the log if the file holds tokens or secrets and everybody can read it.
    pub exposed: Option<String>,
}

/// Configuration that may change while the service runs: apps and tokens.
#[derive(Clone, Debug)]
pub struct Config {
    /// The apps, by name.
    pub apps: BTreeMap<String, App>,
    /// Tokens for all apps.
    pub admin: Vec<Token>,
    /// Hosts by which the service is reached, beside loopback and the address that it listens on.
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

/// A namespace of schedules, with its tokens and limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct App {
    /// Tokens that may see or change it.
    pub tokens: Vec<Token>,
    /// Limits of the app.
    pub limits: Limits,
    /// Hosts that may be called: `hooks.example.com`, `*.example.com`, each with a port or without.
    /// Any if there is none.
    pub destinations: Vec<Destination>,
    /// Networks that may be called although they are private, such as `10.1.0.0/16`.
    pub networks: Vec<Network>,
    /// Secrets that callbacks are signed with, by each of them; unsigned if there is none.
    pub secrets: Vec<Secret>,
    /// Values of headers, by the names that callbacks of this app have for them.
    pub header_secrets: BTreeMap<String, HeaderSecret>,
}

/// Limits of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most schedules and one-shots that are not over.
    pub schedules: u32,
    /// Most callbacks that each node starts in a second.
    pub due_per_second: u32,
    /// Most callbacks that run at a time on each node.
    pub concurrent: u32,
    /// Most of those that go to one host.
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
    /// Permissions of the token.
    #[serde(default)]
    pub scope: Scope,
}

impl Token {
    /// Returns whether it is the token with this hash. The time it takes depends on neither.
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

/// Permissions of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To see.
    #[default]
    Read,
    /// To see and to change.
    Write,
}

/// Value of a header that callbacks can name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderSecret {
    /// Value of the header, as it is sent.
    pub(crate) value: Secret,
    /// Hosts that it may be sent to, as in [`App::destinations`].
    hosts: Vec<Destination>,
    /// True if it may be sent to them without TLS.
    #[serde(default)]
    plain_http: bool,
}

impl HeaderSecret {
    /// Returns whether it may be sent there.
    ///
    /// # Errors
    ///
    /// The reason why not, for people to read.
    pub(crate) fn judge(&self, url: &url::Url) -> Result<(), &'static str> {
        let host = url.host().ok_or("the URL has no host")?;
        let port = url.port_or_known_default();
        if !self.hosts.iter().any(|known| known.has(&host, port)) {
            return Err("it is for other hosts");
        }
        let is_local = match host {
            url::Host::Domain(name) => name == "localhost",
            url::Host::Ipv4(address) => address.is_loopback(),
            url::Host::Ipv6(address) => address.is_loopback(),
        };
        match url.scheme() {
            "https" => Ok(()),
            _ if self.plain_http || is_local => Ok(()),
            _ => Err("it is sent by https alone"),
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_value = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let Secret(value) = &self.value;
        let why = if name.is_empty() || name.len() > SECRET_NAME_MAX || !name.bytes().all(is_name) {
            format!("a name has 1 to {SECRET_NAME_MAX} characters of `A-Z a-z 0-9 - _ .`")
        } else if !SECRET_LEN.contains(&value.len()) || !value.bytes().all(is_value) {
            let (least, most) = (SECRET_LEN.start(), SECRET_LEN.end());
            format!("`value` does not have {least} to {most} characters of visible ASCII")
        } else if self.hosts.is_empty() {
            "`hosts` names no host that it may be sent to".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("`header_secrets.{name}`: {why}"))
    }
}

/// Secret that signs callbacks. Not shown by `Debug`.
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
    /// Returns whether `address` is one of its own. One of IPv4 that is written as IPv6 counts as
    /// IPv4.
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
    xtimer_app: Option<String>,
    hosts: Vec<Destination>,
    admin: Admin,
    apps: BTreeMap<String, App>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Admin {
    tokens: Vec<Token>,
}

impl File {
    /// Returns whether there is anything in it that is not for everybody.
    fn has_secrets(&self) -> bool {
        let store = self.store.as_ref().and_then(|store| url::Url::parse(store).ok());
        let has = |app: &App| {
            !(app.tokens.is_empty() && app.secrets.is_empty() && app.header_secrets.is_empty())
        };
        store.is_some_and(|store| store.password().is_some())
            || !self.admin.tokens.is_empty()
            || self.apps.values().any(has)
    }
}

/// Error of a configuration.
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
    let path = flags.config.as_deref().filter(|_| file.has_secrets());
    let exposed = path.and_then(|path| private::exposed(path, OTHERS));
    let wrong = |field: &str, why: String| ConfigError(format!("`{field}`: {why}"));
    let listen = flags.listen.or(file.listen);
    let store = file.store.map(|text| text.parse::<StoreAt>()).transpose();
    let store = store.map_err(|why| wrong("store", why))?;
    let keep = file.keep.map(|text| model::span(&text)).transpose();
    let keep = keep.map_err(|why| wrong("keep", why))?;
    let settings = Settings {
        exposed,
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
    let xtimer_app = flags.xtimer_app.clone().or(file.xtimer_app);
    let hosts = if flags.host.is_empty() { file.hosts } else { flags.host.clone() };
    let (apps, admin) = (file.apps, file.admin.tokens);
    let mut config = Config { apps, admin, hosts, xtimer_zone, xtimer_app };
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
    if let Some(name) = config.xtimer_app.as_ref().filter(|name| !config.apps.contains_key(*name)) {
        return Err(wrong("xtimer_app", format!("there is no app `{name}`")));
    }
    for (name, app) in &config.apps {
        app.check(name).map_err(|why| wrong(&format!("apps.{name}"), why))?;
    }
    Ok((settings, config))
}

fn read(path: &Path) -> Result<File, ConfigError> {
    let wrong = |why: &dyn fmt::Display| ConfigError(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    toml::from_str(&text).map_err(|error| wrong(&said(&text, &error)))
}

/// Returns what is wrong with a file and where, without the line itself, and without a value in the
/// place of another: either may be a secret, and this goes into the log.
fn said(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = error.message();
    let message = match (message.find("string \""), message.rfind('"')) {
        (Some(first), Some(last)) if message.starts_with("invalid") => {
            format!("{}{}", &message[..first + "string".len()], &message[last + 1..])
        }
        _ => message.to_owned(),
    };
    format!("line {line}, column {column}: {message}")
}

impl Config {
    /// Returns whether there are no tokens, so that every request may do all.
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
        let is_path = matches!(name, "." | "..");
        if is_path || name.is_empty() || name.len() > APP_MAX || !name.bytes().all(is_name) {
            return Err(format!(
                "a name has 1 to {APP_MAX} characters of `A-Z`, `a-z`, `0-9`, `-`, `_` and `.`, \
                 and is neither `.` nor `..`"
            ));
        }
        let Limits { due_per_second, concurrent, per_host, .. } = self.limits;
        let none = [("due_per_second", due_per_second), ("concurrent", concurrent)]
            .into_iter()
            .chain([("per_host", per_host)])
            .find(|(_, limit)| *limit == 0);
        if let Some((field, _)) = none {
            return Err(format!("`limits.{field}` is zero"));
        }
        self.header_secrets.iter().try_for_each(|(name, secret)| secret.check(name))
    }
}

#[cfg(test)]
mod tests;
