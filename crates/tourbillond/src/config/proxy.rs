//! Proxies of an app's callbacks, and hosts called without a proxy.

use std::fmt;
use std::net::IpAddr;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use url::{Host, Url};

use super::Secret;
use crate::net::Network;

/// Port of a proxy whose URL has none, as curl has it.
const PORT: u16 = 1080;

/// Configured proxies of an app.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxySettings {
    /// URL of the proxy for `https` URLs: `http://user:password@host:port`.
    https: Option<Secret>,
    /// URL of the proxy for `http` URLs.
    http: Option<Secret>,
    /// Hosts that are called without a proxy, as curl reads `NO_PROXY`.
    no_proxy: Option<String>,
    /// True if variables of the environment stand for the fields that are missing.
    environment: bool,
    /// True if the proxy resolves names, and refuses forbidden receivers.
    trusted: bool,
}

impl ProxySettings {
    /// Returns whether there is a password in it.
    pub(super) fn has_secrets(&self) -> bool {
        let urls = [&self.https, &self.http].into_iter().flatten();
        let mut urls = urls.filter_map(|Secret(url)| Url::parse(&with_scheme(url)).ok());
        urls.any(|url| url.password().is_some())
    }
}

/// Proxy that connections are made through.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Value of `Proxy-Authorization`.
    pub(crate) authorization: Option<String>,
}

impl fmt::Display for Proxy {
    /// URL without the user and the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({self})")
    }
}

/// Proxies of an app. By default there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    https: Option<Proxy>,
    http: Option<Proxy>,
    direct: Vec<Direct>,
    is_trusted: bool,
}

impl Proxies {
    /// Reads the settings, and the variables of the environment if they say so.
    ///
    /// # Errors
    ///
    /// The field or variable that is wrong and why, without its value if that may have a password.
    pub(crate) fn read(
        settings: &ProxySettings,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        // In small letters first, as curl does.
        let variable = |name: &str| {
            let names = [name.to_owned(), name.to_ascii_uppercase()];
            names.into_iter().filter(|_| settings.environment).find_map(|name| {
                let text = environment(&name).filter(|text| !text.is_empty())?;
                Some((format!("${name}"), text))
            })
        };
        let own = |name: &str, field: &Option<Secret>| {
            let own = field.as_ref().map(|Secret(url)| (format!("proxy.{name}"), url.clone()));
            let set = own.or_else(|| variable(&format!("{name}_proxy")));
            let set = set.or_else(|| variable("all_proxy"));
            set.map(|(name, url)| proxy(&url).map_err(|why| format!("`{name}` {why}"))).transpose()
        };
        let (https, http) = (own("https", &settings.https)?, own("http", &settings.http)?);
        let no_proxy = settings.no_proxy.clone().map(|text| ("proxy.no_proxy".to_owned(), text));
        let (name, direct) = no_proxy.or_else(|| variable("no_proxy")).unwrap_or_default();
        let entries = direct.split([',', ' ']).filter(|entry| !entry.is_empty());
        // It may be the URL of a proxy with its password, even one with a comma.
        let is_shown = !direct.contains('@');
        let direct = entries.enumerate().map(|(index, entry)| {
            Direct::read(entry).ok_or_else(|| {
                let entry =
                    if is_shown { format!("`{entry}`") } else { format!("entry {}", index + 1) };
                format!(
                    "`{name}` has {entry}, which matches no host: an entry is a host with what \
                     is below it, as in `example.com`, an address, a network, or `*`"
                )
            })
        });
        let direct = direct.collect::<Result<_, _>>()?;
        Ok(Self { https, http, direct, is_trusted: settings.trusted })
    }

    /// Returns the proxy of a URL; `None` if it is called without one.
    pub(crate) fn of(&self, url: &Url) -> Option<&Proxy> {
        let proxy = if url.scheme() == "https" { &self.https } else { &self.http };
        let host = url.host()?;
        proxy.as_ref().filter(|_| !self.direct.iter().any(|direct| direct.has(&host)))
    }

    /// Returns whether the proxies resolve names, and refuse forbidden receivers.
    pub(crate) fn are_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns the proxy that receives a whole request for a URL; `None` if the request is sent to
    /// the receiver, by a tunnel or without a proxy.
    pub(crate) fn forwards(&self, url: &Url) -> Option<&Proxy> {
        self.of(url).filter(|_| self.is_trusted && url.scheme() == "http")
    }
}

/// The URL of a proxy: without a scheme it is HTTP, as for curl.
fn with_scheme(url: &str) -> String {
    if url.contains("://") { url.to_owned() } else { format!("http://{url}") }
}

/// Reads the URL of a proxy.
fn proxy(url: &str) -> Result<Proxy, &'static str> {
    let url = with_scheme(url);
    let has_port = url.split('/').nth(2).is_some_and(|authority| {
        let host = authority.rsplit('@').next().unwrap_or_default();
        host.rsplit(']').next().is_some_and(|rest| rest.contains(':'))
    });
    let url = Url::parse(&url).map_err(|_| "is no URL of a proxy, such as `http://proxy:3128`")?;
    if url.scheme() != "http" {
        return Err("is no `http://` URL: proxies by TLS or SOCKS are not supported");
    }
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (user, password) = (url.username(), url.password());
    let authorization = (!user.is_empty() || password.is_some()).then(|| {
        let pair = format!("{}:{}", decoded(user), decoded(password.unwrap_or_default()));
        format!("Basic {}", BASE64_STANDARD.encode(pair))
    });
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or("has no host")?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = if has_port { url.port().unwrap_or(80) } else { PORT };
    Ok(Proxy { host, port, authorization })
}

/// Hosts that are called without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Direct {
    All,
    /// A domain, and its subdomains.
    Domain(String),
    /// Addresses, not of names but of URLs that have one.
    Network(Network),
}

impl Direct {
    /// Reads an entry; `None` if no host could match it.
    fn read(entry: &str) -> Option<Self> {
        if entry == "*" {
            return Some(Self::All);
        }
        let address = entry.trim_start_matches('[').trim_end_matches(']');
        if let Ok(network) = address.parse() {
            return Some(Self::Network(network));
        }
        let domain = entry.trim_start_matches('.').trim_end_matches('.');
        match Host::parse(domain) {
            Ok(Host::Domain(domain)) if !domain.contains('*') => Some(Self::Domain(domain)),
            _ => None,
        }
    }

    fn has(&self, host: &Host<&str>) -> bool {
        let address: Option<IpAddr> = match host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some((*address).into()),
            Host::Ipv6(address) => Some((*address).into()),
        };
        match (self, host) {
            (Self::All, _) => true,
            (Self::Domain(domain), Host::Domain(host)) => {
                let host = host.trim_end_matches('.');
                host.strip_suffix(domain.as_str())
                    .is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
            (Self::Network(network), _) => address.is_some_and(|own| network.contains(own)),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> ProxySettings {
        toml::from_str(text).unwrap()
    }

    fn none(_: &str) -> Option<String> {
        None
    }

    fn of(proxies: &Proxies, url: &str) -> Option<String> {
        proxies.of(&Url::parse(url).unwrap()).map(ToString::to_string)
    }

    #[test]
    fn a_proxy_is_of_the_scheme_and_its_password_is_not_shown() {
        let text = "https = 'http://us%40er:p%3A&w+d@proxy.example:3128'\nhttp = 'other.example'";
        let proxies = Proxies::read(&settings(text), none).unwrap();
        assert_eq!(of(&proxies, "https://a.example/").as_deref(), Some("proxy.example:3128"));
        assert_eq!(of(&proxies, "http://a.example/").as_deref(), Some("other.example:1080"));
        let https = proxies.https.as_ref().unwrap().authorization.as_deref();
        let pair = BASE64_STANDARD.encode("us@er:p:&w+d");
        assert_eq!(https, Some(&*format!("Basic {pair}")));
        assert_eq!(proxies.http.as_ref().unwrap().authorization, None);
        let shown = format!("{proxies:?} {:?}", settings(text));
        assert!(!shown.contains(&pair) && !shown.contains("w+d"), "{shown}");
        assert!(settings(text).has_secrets() && !settings("http = 'a:80'").has_secrets());
        assert!(settings("http = 'user:hunter2@proxy:3128'").has_secrets());
        for (url, host, port) in [
            ("http://[::1]:80", "::1", 80),
            ("http://[::1]", "::1", 1080),
            ("a:80/", "a", 80),
            ("10.0.0.1", "10.0.0.1", 1080),
        ] {
            let proxy = proxy(url).unwrap();
            assert_eq!((&*proxy.host, proxy.port), (host, port), "{url}");
        }
    }

    #[test]
    fn a_url_that_is_wrong_is_refused_without_its_text() {
        for (url, why) in [
            ("https://user:hunter2@proxy", "TLS or SOCKS"),
            ("socks5h://user:hunter2@proxy", "TLS or SOCKS"),
            ("http://user:hunter2@", "is no URL"),
            ("http://user:hunter2@a b", "is no URL"),
        ] {
            let settings = ProxySettings { https: Some(Secret(url.into())), ..Default::default() };
            let error = Proxies::read(&settings, none).unwrap_err();
            let is_named = error.starts_with("`proxy.https` ");
            assert!(is_named && error.contains(why) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_environment_is_read_if_the_settings_say_so_and_fields_count_more() {
        let environment = |name: &str| {
            let text = match name {
                "HTTPS_PROXY" => "http://upper:1",
                "https_proxy" => "http://lower:2",
                "ALL_PROXY" => "http://all:3",
                "NO_PROXY" => "env.example",
                "http_proxy" => "",
                _ => return None,
            };
            Some(text.to_owned())
        };
        let read = |text: &str| Proxies::read(&settings(text), environment).unwrap();
        assert_eq!(read(""), Proxies::default());
        let set = read("environment = true");
        assert_eq!(of(&set, "https://a.example").as_deref(), Some("lower:2"));
        assert_eq!(of(&set, "http://a.example").as_deref(), Some("all:3"));
        assert_eq!(of(&set, "http://env.example"), None);
        let set = read("environment = true\nhttps = 'own:4'\nno_proxy = 'own.example'");
        assert_eq!(of(&set, "https://env.example").as_deref(), Some("own:4"));
        assert_eq!(of(&set, "https://own.example"), None);
        let wrong = |name: &str| (name == "HTTP_PROXY").then(|| "socks5://a".to_owned());
        let error = Proxies::read(&settings("environment = true"), wrong).unwrap_err();
        assert!(error.starts_with("`$HTTP_PROXY` "), "{error}");
    }

    #[test]
    fn an_entry_that_no_host_matches_is_refused() {
        let read = |name: &str, text: &str| {
            let text = format!("environment = true\n{name} = '{text}'");
            Proxies::read(&settings(&text), |name| {
                (name == "NO_PROXY").then(|| "good.example http://a.example".to_owned())
            })
        };
        for entry in [
            "a.example:80",
            "http://a.example",
            "a.example/path",
            "*.a.example",
            "10.0.0.0/33",
            "10.0.0/8",
            "169.254/16",
            "127.1",
            "[::1]:80",
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.0/104",
            "..",
            "a_b%",
        ] {
            let error = read("no_proxy", &format!("good.example,{entry}")).unwrap_err();
            let start = format!("`proxy.no_proxy` has `{entry}`, which matches no host");
            assert!(error.starts_with(&start), "{entry}: {error}");
        }
        for (text, place) in [
            ("http://user:hunter2@proxy:3128", 1),
            ("good.example http://user:hunter2,hunter2@proxy", 2),
        ] {
            let error = read("no_proxy", text).unwrap_err();
            assert!(error.contains(&format!("has entry {place}, ")), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = read("http", "proxy").unwrap_err();
        assert!(error.starts_with("`$NO_PROXY` has `http://a.example`, "), "{error}");
    }

    #[test]
    fn what_is_called_without_a_proxy_is_as_for_curl() {
        let is_direct = |no_proxy: &str, host: &str| {
            let text = format!("http = 'proxy'\nno_proxy = '{no_proxy}'");
            let proxies = Proxies::read(&settings(&text), none).unwrap();
            of(&proxies, &format!("http://{host}/")).is_none()
        };
        for (no_proxy, host, expected) in [
            ("", "a.example", false),
            ("*", "a.example", true),
            ("a.example", "a.example", true),
            ("A.example", "a.EXAMPLE.", true),
            ("bücher.example", "www.BÜCHER.example", true),
            (".a.example", "a.example", true),
            ("a.example", "b.a.example", true),
            ("a.example", "ba.example", false),
            ("b.example, a.example", "a.example", true),
            ("b.example a.example", "a.example", true),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.1.2.3", "10.1.2.3:8080", true),
            ("::1", "[::1]", true),
            ("[::1]", "[::1]", true),
            ("fd00::/8", "[fd12::1]", true),
            ("0.0.0.0/0", "a.example", false),
        ] {
            assert_eq!(is_direct(no_proxy, host), expected, "{no_proxy}: {host}");
        }
    }
}
