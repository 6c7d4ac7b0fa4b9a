//! The file, and how all that is set is put together.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tourbillon_cron::Cron;

use super::app::Names;
use super::{
    App, ClientCertificate, Config, DEFAULT_APP, FILE, Flags, LISTEN, LogFormat, Proxies, Settings,
    StoreAt, TlsFlags, Token, Trust,
};
use crate::model;
use crate::net::Destination;
use crate::pem;
use crate::private::{self, OTHERS};

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    listen: Option<SocketAddr>,
    tls: TlsFlags,
    store: Option<String>,
    log_format: Option<LogFormat>,
    log: Option<String>,
    connections: Option<usize>,
    audit: Option<PathBuf>,
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
                || app.proxy.has_secrets()
        };
        store.is_some_and(|store| store.password().is_some())
            || !self.admin.tokens.is_empty()
            || self.apps.values().any(has)
    }
}

/// Reads the file, if one is named, and puts all together.
///
/// # Errors
///
/// If the file, or a file that it names for an app, cannot be read or has unknown fields; if a
/// value is invalid; or if the service would listen beyond loopback without a token.
pub fn load(flags: &Flags) -> Result<(Settings, Config), String> {
    let file = flags.config.as_deref().map(read).transpose()?.unwrap_or_default();
    let path = flags.config.as_deref().filter(|_| file.has_secrets());
    let mut exposed = Vec::from_iter(path.and_then(|path| private::exposed(path, OTHERS)));
    let certificates = file.apps.values().flat_map(|app| &app.client_certificates);
    exposed.extend(certificates.filter_map(ClientCertificate::exposed));
    let store = file.store.map(|text| text.parse::<StoreAt>()).transpose();
    let store = store.map_err(|why| wrong("store", why))?;
    let keep = file.keep.map(|text| model::span(&text)).transpose();
    let keep = keep.map_err(|why| wrong("keep", why))?;
    let tls = flags.tls.clone().or(file.tls).map_err(|why| wrong("tls", why.to_owned()))?;
    let settings = Settings {
        tls,
        exposed,
        listen: flags.listen.or(file.listen).unwrap_or(LISTEN),
        store: flags.store.clone().or(store).unwrap_or_else(|| StoreAt::File(FILE.into())),
        log_format: flags.log_format.or(file.log_format).unwrap_or_default(),
        log: flags.log.clone().or(file.log).unwrap_or_else(|| "info".to_owned()),
        connections: flags.connections.or(file.connections).unwrap_or(20_000).max(1),
        audit: flags.audit.clone().or(file.audit),
        keep: flags.keep.or(keep).unwrap_or(Duration::from_secs(14 * 86_400)),
    };
    let zone = flags.xtimer_zone.clone().or(file.xtimer_zone);
    let xtimer_zone = zone.unwrap_or_else(|| "UTC".to_owned());
    Cron::parse("@daily", &xtimer_zone).map_err(|_| {
        wrong("xtimer_zone", format!("`{xtimer_zone}` is not a time zone of the IANA database"))
    })?;
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
        let why = "with tokens, apps come from the file: add this app there".to_owned();
        return Err(wrong(&format!("--app {name}"), why));
    }
    check(&mut config)?;
    Ok((settings, config))
}

fn wrong(field: &str, why: String) -> String {
    format!("`{field}`: {why}")
}

/// Checks tokens and apps, and reads the proxies and authorities of apps.
fn check(config: &mut Config) -> Result<(), String> {
    if let Some(name) = config.xtimer_app.as_ref().filter(|name| !config.apps.contains_key(*name)) {
        return Err(wrong("xtimer_app", format!("there is no app `{name}`: add it to the file")));
    }
    let mut names = Names::default();
    for token in &config.admin {
        token.check(&mut names).map_err(|why| wrong("admin.tokens", why))?;
    }
    let system = Arc::new(pem::system());
    for (name, app) in &mut config.apps {
        for token in &app.tokens {
            let field = format!("apps.{name}.tokens");
            token.check(&mut names).map_err(|why| wrong(&field, why))?;
        }
        let field = format!("apps.{name}");
        app.check(name).map_err(|why| wrong(&field, why))?;
        let proxies = Proxies::read(&app.proxy, |name| std::env::var(name).ok());
        app.proxies = proxies.map_err(|why| wrong(&field, why))?;
        app.trust = Trust::read(app, &system).map_err(|why| wrong(&field, why))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<File, String> {
    let wrong = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    toml::from_str(&text).map_err(|error| wrong(&said(&text, &error)))
}

/// Returns the fault in a file and its place, without the line itself, and without an invalid
/// value: either may be a secret, and this text is logged.
fn said(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = error.message();
    let is_variant = message.starts_with("unknown variant ");
    // A text is in quotes, unless it stands for a variant; any other value is in backticks.
    let value = message.find(['"', '`']).filter(|_| message.starts_with("invalid ") || is_variant);
    let end = value.and_then(|first| match message[first..].starts_with('"') {
        true => message.rfind('"').map(|last| last + 1),
        // The list of expected values has nothing from the file.
        false if is_variant => message.rfind(", expected "),
        false => message.find(", expected "),
    });
    let message = match (value, end) {
        (Some(first), Some(end)) if first < end => {
            format!("{}{}", message[..first].trim_end(), &message[end..])
        }
        _ => message.to_owned(),
    };
    format!("line {line}, column {column}: {message}")
}
