//! Apps: their tokens, limits, and secrets.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::{ClientCertificate, OAuth, Proxies, ProxySettings, Trust};
use crate::model::{Alerts, AppLimits, Notify};
use crate::net::{Destination, Network};

/// The longest name of an app.
const APP_MAX: usize = 40;

/// The longest name of a secret for headers.
const SECRET_NAME_MAX: usize = 64;

/// The longest name of a token.
const TOKEN_NAME_MAX: usize = 64;

/// Lengths that the value of such a secret may have. A shorter one could not be
/// distinguished from other text that a receiver answers.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 8..=8 * 1024;

/// A namespace of schedules, with its tokens and limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct App {
    /// Tokens that may see or change it.
    pub tokens: Vec<Token>,
    /// Limits of the app.
    pub limits: AppLimits,
    /// Hosts that may be called: `hooks.example.com`, `*.example.com`, each with a port or without.
    /// Any if there is none.
    pub destinations: Vec<Destination>,
    /// Networks that may be called although they are private, such as `10.1.0.0/16`.
    pub networks: Vec<Network>,
    /// Secrets that callbacks are signed with, by each of them; unsigned if there is none.
    pub secrets: Vec<Secret>,
    /// Receiver of the notices of schedules that have none of their own.
    pub notify: Option<Notify>,
    /// Time in which a run has to succeed, for schedules without a `success_within`.
    pub success_within: Option<String>,
    /// Number of dead runs in a row that disables a schedule without a `disable_after`.
    pub disable_after: Option<u32>,
    /// Values of headers, by the names that callbacks of this app have for them.
    pub header_secrets: BTreeMap<String, HeaderSecret>,
    /// PEM file of authorities whose certificates receivers may have, beside the system's.
    pub ca: Option<PathBuf>,
    /// True if no receiver may have a certificate of the system's authorities.
    pub ca_only: bool,
    /// Certificates for receivers that ask for one. The first that has the host is shown.
    pub client_certificates: Vec<ClientCertificate>,
    /// Proxies that callbacks go through.
    pub proxy: ProxySettings,
    /// Proxies of the callbacks, by `proxy` and the environment.
    #[serde(skip)]
    pub proxies: Proxies,
    /// TLS of the callbacks, by the files that are named above.
    #[serde(skip)]
    pub trust: Trust,
}

/// A configured token: its hash.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Name of the token in the audit log; by default the first digits of its hash.
    #[serde(default)]
    name: Option<String>,
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

    /// Returns the name of the token; that of one without a name is made of its hash.
    pub(crate) fn name(&self) -> String {
        let digits = || format!("sha256:{}", hex::encode(&self.sha256.0[..6]));
        self.name.clone().unwrap_or_else(digits)
    }

    /// Fails unless the name is one, is of no other token of `known`, and no other name there is of
    /// this token.
    pub(super) fn check(&self, known: &mut Names) -> Result<(), String> {
        if let Some(name) = &self.name {
            check_name(name)?;
        }
        let (name, Sha(hash)) = (self.name(), &self.sha256);
        let named = known.by_hash.insert(*hash, name.clone());
        if let Some(other) = named.filter(|other| *other != name) {
            return Err(format!(
                "the names `{other}` and `{name}` have the same token, so the audit log could not \
                 tell them apart"
            ));
        }
        match known.by_name.insert(name.clone(), *hash) {
            Some(other) if other != *hash => Err(format!(
                "two tokens have the name `{name}`, so the audit log could not tell them apart"
            )),
            _ => Ok(()),
        }
    }
}

/// Tokens that are checked, and their names.
#[derive(Default)]
pub(super) struct Names {
    by_name: BTreeMap<String, [u8; 32]>,
    by_hash: BTreeMap<[u8; 32], String>,
}

/// Fails unless it can be the name of a token.
///
/// # Errors
///
/// The characters that a name has.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if name.is_empty() || name.len() > TOKEN_NAME_MAX || !name.bytes().all(is_name) {
        return Err(format!(
            "the name of a token has 1 to {TOKEN_NAME_MAX} characters of `A-Z a-z 0-9 - _ . @`"
        ));
    }
    Ok(())
}

/// Returns the hash of a token, for the configuration and comparisons.
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
    /// Reading.
    #[default]
    Read,
    /// Reading and changing.
    Write,
}

/// Value of a header that callbacks can name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderSecret {
    /// Value of the header as sent. With `oauth`, it exists once there is a token.
    #[serde(default)]
    pub(crate) value: Option<Secret>,
    /// Credentials to fetch the value: a token.
    #[serde(default)]
    pub(crate) oauth: Option<OAuth>,
    /// Hosts that it may be sent to, as in [`App::destinations`].
    hosts: Vec<Destination>,
    /// True if it may be sent to them without TLS.
    #[serde(default)]
    plain_http: bool,
}

impl HeaderSecret {
    /// Returns whether it may be sent there. Through a proxy, a request to the loopback leaves this
    /// host, and needs TLS as elsewhere.
    ///
    /// # Errors
    ///
    /// The reason why not: the end of a sentence about the secret, for people to read.
    pub(crate) fn judge(&self, url: &url::Url, is_proxied: bool) -> Result<(), &'static str> {
        let port = url.port_or_known_default();
        let Some(host) = url.host().filter(|host| self.hosts.iter().any(|own| own.has(host, port)))
        else {
            return Err("may not be sent to this host");
        };
        match url.scheme() {
            "https" => Ok(()),
            _ if self.plain_http || (is_local(&host) && !is_proxied) => Ok(()),
            _ => Err("is sent over https only"),
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_value = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        let is_text =
            |value: &str| SECRET_LEN.contains(&value.len()) && value.bytes().all(is_value);
        let why = if name.is_empty() || name.len() > SECRET_NAME_MAX || !name.bytes().all(is_name) {
            format!("a name has 1 to {SECRET_NAME_MAX} characters of `A-Z a-z 0-9 - _ .`")
        } else if self.value.is_some() == self.oauth.is_some() {
            "it needs either `value` or `oauth`, not both".to_owned()
        } else if let Some(Err(why)) = self.oauth.as_ref().map(OAuth::check) {
            why.to_owned()
        } else if self.value.as_ref().is_some_and(|Secret(value)| !is_text(value)) {
            let (least, most) = (SECRET_LEN.start(), SECRET_LEN.end());
            format!("`value` does not have {least} to {most} characters of visible ASCII")
        } else if self.hosts.is_empty() {
            "`hosts` is empty; list the hosts that the secret may be sent to".to_owned()
        } else {
            return Ok(());
        };
        Err(format!("`header_secrets.{name}`: {why}"))
    }
}

/// Returns whether a host is this one by its name or address.
pub(super) fn is_local(host: &url::Host<&str>) -> bool {
    match host {
        url::Host::Domain(name) => *name == "localhost",
        url::Host::Ipv4(address) => address.is_loopback(),
        url::Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Secret that signs callbacks. Not shown by `Debug`.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

/// Prefix of a secret by Standard Webhooks, before its bytes in base64.
const STANDARD: &str = "whsec_";

impl Secret {
    /// Returns the key that signs by Standard Webhooks: the bytes that follow `whsec_` in base64,
    /// or else all of the text.
    ///
    /// # Errors
    ///
    /// If the rest of the text is no key, with the reason.
    pub(crate) fn standard_key(&self) -> Result<Cow<'_, [u8]>, String> {
        let Some(text) = self.0.strip_prefix(STANDARD) else {
            return Ok(Cow::Borrowed(self.0.as_bytes()));
        };
        match BASE64_STANDARD.decode(text) {
            Ok(key) if !key.is_empty() => Ok(Cow::Owned(key)),
            _ => Err(format!("a secret that begins with `{STANDARD}` continues with base64")),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl App {
    /// An app of a service without tokens: it may call the addresses that may call the service.
    pub(super) fn open() -> Self {
        let networks = ["127.0.0.0/8", "::1/128"].map(|text| text.parse().expect("a network"));
        Self { networks: networks.into(), ..Self::default() }
    }

    /// Returns it with this token as the value of a secret.
    pub(crate) fn with_token(mut self, name: &str, token: String) -> Self {
        if let Some(secret) = self.header_secrets.get_mut(name) {
            secret.value = Some(Secret(token));
        }
        self
    }

    /// Returns the alerts of schedules that have none of their own.
    pub(crate) fn alerts(&self) -> Alerts {
        Alerts::new(self.success_within.as_ref(), self.disable_after, Alerts::default())
    }

    fn check_alerts(&self) -> Result<(), String> {
        if let Some(text) = &self.success_within {
            let within = Alerts::success_within(text);
            let within = within.map_err(|why| format!("`success_within`: {why}"))?;
            if !within.is_zero() && self.notify.is_none() {
                return Err("`success_within` needs a `notify`, which gets the notice".to_owned());
            }
        }
        let checked = self.disable_after.map_or(Ok(()), Alerts::check_disable_after);
        checked.map_err(|why| format!("`disable_after`: {why}"))
    }

    pub(super) fn check(&self, name: &str) -> Result<(), String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_path = matches!(name, "." | "..");
        if is_path || name.is_empty() || name.len() > APP_MAX || !name.bytes().all(is_name) {
            return Err(format!(
                "a name has 1 to {APP_MAX} characters of `A-Z`, `a-z`, `0-9`, `-`, `_` and `.`, \
                 and is neither `.` nor `..`"
            ));
        }
        let AppLimits { due_per_second, concurrent, per_host, .. } = self.limits;
        let none = [("due_per_second", due_per_second), ("concurrent", concurrent)]
            .into_iter()
            .chain([("per_host", per_host)])
            .find(|(_, limit)| *limit == 0);
        if let Some((field, _)) = none {
            return Err(format!("`limits.{field}` is zero"));
        }
        self.check_alerts()?;
        for secret in &self.secrets {
            secret.standard_key().map_err(|why| format!("`secrets`: {why}"))?;
        }
        self.header_secrets.iter().try_for_each(|(name, secret)| secret.check(name))
    }
}
