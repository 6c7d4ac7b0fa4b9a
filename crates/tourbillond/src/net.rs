//! Hosts and networks, in an operator's notation.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;
use url::Host;

/// A host in an operator's notation: `hooks.example.com`, or `*.example.com` for its subdomains,
/// each with a port or without. Names hosts that may be called, or the service's own names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Destination {
    host: Host,
    is_below: bool,
    port: Option<u16>,
}

impl Destination {
    /// Returns whether the host matches, and the port if one is given.
    pub(crate) fn has(&self, host: &Host<&str>, port: Option<u16>) -> bool {
        let is_host = match (&self.host, host) {
            (Host::Domain(own), Host::Domain(other)) => {
                let other = other.strip_suffix('.').unwrap_or(other);
                match other.strip_suffix(own.as_str()) {
                    Some("") => !self.is_below,
                    Some(before) => self.is_below && before.ends_with('.'),
                    None => false,
                }
            }
            (Host::Ipv4(own), Host::Ipv4(other)) => own == other,
            (Host::Ipv6(own), Host::Ipv6(other)) => own == other,
            _ => false,
        };
        is_host && (self.port.is_none() || self.port == port)
    }

    /// The only port that it has; `None` if any.
    pub(crate) fn port(&self) -> Option<u16> {
        self.port
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || format!("`{text}` is no host such as `*.example.com` or `example.com:8080`");
        let (host, is_below) = match text.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (text, false),
        };
        let (host, port) = match host.rsplit_once(':') {
            // Not one within an address of IPv6.
            Some((host, port)) if !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| error())?))
            }
            _ => (host, None),
        };
        let host = Host::parse(host).map_err(|_| error())?;
        if is_below && !matches!(host, Host::Domain(_)) {
            return Err(error());
        }
        Ok(Self { host, is_below, port })
    }
}

impl TryFrom<String> for Destination {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
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
    /// Returns whether `address` is in this network. An IPv4 address written as IPv6 counts as
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
        // Such addresses count as IPv4, so that this network would have no address.
        let is_mapped = |address: Ipv6Addr| address.to_ipv4_mapped().is_some() && bits >= 96;
        if bits > most || matches!(address, IpAddr::V6(own) if is_mapped(own)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_what_begins_as_it_does() {
        let has = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(has("10.1.0.0/16", "10.1.255.1"));
        assert!(!has("10.1.0.0/16", "10.2.0.1"));
        assert!(has("10.1.0.0/16", "::ffff:10.1.0.1"));
        assert!(has("0.0.0.0/0", "255.1.1.1"));
        assert!(has("::/0", "fe80::1"));
        assert!(!has("::/0", "10.0.0.1"));
        assert!(has("::1", "::1"));
        assert!(!has("::1", "::2"));
        assert!(has("fc00::/7", "fdff::1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0", "::/129", "::ffff:10.0.0.1", "::ffff:0:0/96"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert!("::ffff:0:0/95".parse::<Network>().is_ok());
    }

    #[test]
    fn what_is_no_destination_is_refused() {
        for text in ["", "*.", "*.1.2.3.4", "a b", "a:x", "a:70000", "http://a", "a/8"] {
            assert!(text.parse::<Destination>().is_err(), "{text}");
        }
    }
}
