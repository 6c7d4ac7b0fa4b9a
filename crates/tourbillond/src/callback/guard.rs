//! The guard: addresses that may be called.
//!
//! A name is resolved once, its addresses are judged, and the connection is made to a permitted
//! one: if the name resolves to something else a moment later, nothing changes.
//!
//! Addresses that are not on the public internet are refused: this host, this network, private and
//! reserved ranges; in whatever notation, and also where IPv4 is written within IPv6. Addresses in
//! the app's networks are called all the same. If an app has destinations, it calls no other host.
//! No port is refused, unless a destination names one.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::LazyLock;

use url::{Host, Url};

use crate::config::App;
use crate::net::{Destination, Network};

/// Networks that are refused, by the registries of special-purpose addresses of IANA. Of IPv6 only
/// 2000::/3 is given to the public internet; the rest is refused whatever it is for.
static REFUSED: LazyLock<Vec<(Network, &str)>> = LazyLock::new(|| {
    let refused = [
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier"),
        ("127.0.0.0/8", "loopback"),
        // Of Azure, for its virtual machines alone.
        ("168.63.129.16/32", "of the host of a cloud"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::1/128", "loopback"),
        // The first address, and the oldest way to write IPv4 within IPv6.
        ("::/96", "unspecified"),
        // Among others, IPv4 within IPv6 as translators write it (`::ffff:0:127.0.0.1`), and the
        // translations that a network sets up for itself (64:ff9b:1::/48).
        ("::/3", "reserved"),
        // Teredo (IPv4 within IPv6), among others.
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "for documentation"),
        // 6to4 (IPv4 within IPv6).
        ("2002::/16", "reserved"),
        ("3fff::/20", "for documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private"),
        ("ff00::/8", "multicast"),
        ("4000::/2", "reserved"),
        ("8000::/1", "reserved"),
    ];
    refused.map(|(text, why)| (text.parse().expect("a network"), why)).into()
});

/// The address that is reached by `address`: IPv4 may be written within IPv6.
fn reached(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(outer) => match outer.segments() {
            // By the translator of a network that has no IPv4.
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                let [.., a, b, c, d] = outer.octets();
                Ipv4Addr::new(a, b, c, d).into()
            }
            _ => outer.to_canonical(),
        },
    }
}

/// Refusal of an address, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {why}, and in none of the app's networks")]
pub(crate) struct Refused {
    address: IpAddr,
    why: &'static str,
}

/// Destinations that an app may call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guard {
    destinations: Vec<Destination>,
    networks: Vec<Network>,
}

impl Guard {
    pub(crate) fn new(app: &App) -> Self {
        Self { destinations: app.destinations.clone(), networks: app.networks.clone() }
    }

    /// Returns whether an address may be called.
    pub(crate) fn judge(&self, address: IpAddr) -> Result<(), Refused> {
        if self.networks.iter().any(|network| network.contains(address)) {
            return Ok(());
        }
        let reached = reached(address);
        match REFUSED.iter().find(|(network, _)| network.contains(reached)) {
            Some(&(_, why)) if reached == address => Err(Refused { address, why }),
            Some(_) => self.judge(reached),
            None => Ok(()),
        }
    }

    /// Returns whether a URL may be called, as far as it says: its host, and its address if it has
    /// one.
    pub(crate) fn judge_url(&self, url: &Url) -> Result<(), String> {
        let Some(host) = url.host() else { return Err("has no host".into()) };
        let port = url.port_or_known_default();
        let is_any = self.destinations.is_empty();
        if !is_any && !self.destinations.iter().any(|known| known.has(&host, port)) {
            return Err("leads to none of the app's destinations".into());
        }
        let judged = match host {
            Host::Ipv4(address) => self.judge(address.into()),
            Host::Ipv6(address) => self.judge(address.into()),
            Host::Domain(_) => Ok(()),
        };
        judged.map_err(|refused| format!("cannot be called: {refused}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(destinations: &[&str], networks: &[&str]) -> Guard {
        Guard {
            destinations: destinations.iter().map(|text| text.parse().unwrap()).collect(),
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
        }
    }

    fn refuses(guard: &Guard, address: &str) -> bool {
        guard.judge(address.parse().unwrap()).is_err()
    }

    fn leads(guard: &Guard, url: &str) -> bool {
        guard.judge_url(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn what_is_not_public_is_refused_from_its_first_address_to_its_last() {
        let ranges = [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("168.63.129.16", "168.63.129.16"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
            ("::", "::ffff:ffff"),
            ("::ffff:127.0.0.0", "::ffff:127.255.255.255"),
            ("::ffff:0:0:0", "::ffff:0:ffff:ffff"),
            ("::1:0:0:0", "::fffe:ffff:ffff:ffff"),
            ("64:ff9b::7f00:0", "64:ff9b::7fff:ffff"),
            ("64:ff9b::1:0:0", "64:ff9b:0:ffff:ffff:ffff:ffff:ffff"),
            ("64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("100::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("4000::", "fbff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe00::", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fe80::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ];
        let guard = Guard::default();
        for (first, last) in ranges {
            assert!(refuses(&guard, first), "{first}");
            assert!(refuses(&guard, last), "{last}");
        }
    }

    #[test]
    fn what_is_beside_a_refused_range_is_public() {
        let public = [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.167.255.255",
            "192.169.0.0",
            "223.255.255.255",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2000::",
            "2001:200::",
            "2003::",
            "2606:4700::1111",
            "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
        ];
        for address in public {
            assert!(!refuses(&Guard::default(), address), "{address}");
        }
    }

    #[test]
    fn an_address_is_judged_however_a_url_spells_it() {
        let spellings = [
            "http://127.1",
            "http://0x7f.0.0.1",
            "http://0177.0.0.1",
            "http://2130706433",
            "http://127.0.0.1.",
            "http://%31%32%37.0.0.1",
            "http://１２７.0.0.1",
            "http://0/",
            "http://[::1]",
            "http://[::ffff:7f00:1]",
            "http://[::ffff:169.254.169.254]",
            "http://[64:ff9b::a9fe:a9fe]",
            "http://[::ffff:0:127.0.0.1]",
            "http://[::127.0.0.1]",
            "http://[64:ff9b::127.0.0.1]",
            "http://[64:ff9b:1::127.0.0.1]",
            "http://[2002:7f00:1::]",
            "http://[2001:0:7f00:1::]",
            "http://[fec0::1]",
            "http://[::]",
        ];
        for spelling in spellings {
            assert!(!leads(&Guard::default(), spelling), "{spelling}");
        }
    }

    #[test]
    fn a_network_of_the_app_may_be_called() {
        let guard = guard(&[], &["10.1.0.0/16", "fd00::/8"]);
        assert!(!refuses(&guard, "10.1.255.255") && refuses(&guard, "10.2.0.0"));
        assert!(!refuses(&guard, "::ffff:10.1.0.1") && !refuses(&guard, "64:ff9b::a01:1"));
        assert!(!refuses(&guard, "fd12::1") && refuses(&guard, "fc12::1"));
        // A translator's own spelling leads wherever the translator has it lead.
        assert!(refuses(&guard, "::ffff:0:10.1.0.1"));
        assert!(leads(&guard, "http://10.1.2.3:8080") && !leads(&guard, "http://10.2.2.3:8080"));
        assert!(!leads(&guard, "http://[::1]"));
    }

    #[test]
    fn an_app_with_destinations_calls_no_other() {
        let guard = guard(&["Hooks.Example", "*.corp.example", "8.8.8.8", "one.example:81"], &[]);
        for url in [
            "http://hooks.example",
            "https://HOOKS.example.:8443/path",
            "https://a.b.corp.example",
            "http://8.8.8.8",
            "http://one.example:81",
        ] {
            assert!(leads(&guard, url), "{url}");
        }
        for url in [
            "http://more.hooks.example",
            "http://corp.example",
            "http://evilcorp.example",
            "http://8.8.4.4",
            "http://one.example",
            "http://hooks.example.evil.example",
        ] {
            assert!(!leads(&guard, url), "{url}");
        }
    }

    #[test]
    fn a_port_is_that_of_the_scheme_if_a_url_has_none() {
        let guard = guard(&["a.example:443", "[2606:4700::1111]:80", "[2606:4700::1001]"], &[]);
        assert!(leads(&guard, "https://a.example") && !leads(&guard, "http://a.example"));
        assert!(leads(&guard, "http://[2606:4700::1111]"));
        assert!(!leads(&guard, "https://[2606:4700::1111]"));
        assert!(leads(&guard, "https://[2606:4700::1001]:9"));
    }
}
