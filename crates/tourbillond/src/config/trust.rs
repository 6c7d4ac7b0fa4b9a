//! TLS of an app's callbacks: authorities of the receivers, and certificates for them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, Error, RootCertStore, crypto};
use serde::Deserialize;
use url::Url;

use super::App;
use crate::net::Destination;
use crate::pem;
use crate::private::{self, OTHERS};

/// Certificate that an app has for receivers that ask for one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// PEM file of the certificate, followed by those between it and an authority.
    certificate: PathBuf,
    /// PEM file of its key.
    key: PathBuf,
    /// Hosts that it is shown to, as in [`App::destinations`].
    hosts: Vec<Destination>,
}

impl ClientCertificate {
    /// Returns the warning about the key's file if everybody can read it.
    pub(super) fn exposed(&self) -> Option<String> {
        private::exposed(&self.key, OTHERS)
    }
}

/// TLS of an app's callbacks. By default nobody is trusted.
#[derive(Clone, Default)]
pub struct Trust {
    /// Configuration for hosts without a certificate of the app; `None` if there is no authority.
    anonymous: Option<Arc<ClientConfig>>,
    /// Configurations for the others; the first that has the host counts.
    known: Vec<(Vec<Destination>, Arc<ClientConfig>)>,
}

impl Trust {
    /// Reads the files of an app. `system` has the authorities of the system.
    pub(crate) fn read(app: &App, system: &Arc<RootCertStore>) -> Result<Self, String> {
        let roots = roots(app.ca.as_deref(), app.ca_only, system)?;
        let known = app.client_certificates.iter().map(|own| {
            let (hosts, config) = identified(&roots, own)?;
            Ok::<_, String>((hosts, Arc::new(config)))
        });
        let known = known.collect::<Result<_, _>>()?;
        let is_empty = roots.is_empty();
        let anonymous = Arc::new(builder(roots).with_no_client_auth());
        Ok(Self { anonymous: (!is_empty).then_some(anonymous), known })
    }

    /// Returns the configuration of a connection to the host of a URL; `None` if there is no
    /// authority.
    pub(crate) fn config(&self, url: &Url) -> Option<Arc<ClientConfig>> {
        let anonymous = self.anonymous.as_ref()?;
        let port = url.port_or_known_default();
        let is_for = |hosts: &[Destination]| {
            url.host().is_some_and(|host| hosts.iter().any(|known| known.has(&host, port)))
        };
        let known = self.known.iter().find(|(hosts, _)| is_for(hosts));
        Some(known.map_or(anonymous, |(_, config)| config).clone())
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").finish_non_exhaustive()
    }
}

/// The authorities of a file, beside the system's or alone.
fn roots(
    file: Option<&Path>,
    is_only: bool,
    system: &Arc<RootCertStore>,
) -> Result<Arc<RootCertStore>, String> {
    let Some(file) = file else {
        return if is_only { Err("`ca_only` needs a `ca`".to_owned()) } else { Ok(system.clone()) };
    };
    let mut roots = if is_only { RootCertStore::empty() } else { system.as_ref().clone() };
    pem::add_authorities(&mut roots, file).map_err(|why| format!("`ca`: {why}"))?;
    Ok(Arc::new(roots))
}

fn builder(roots: Arc<RootCertStore>) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites of the default versions")
        .with_root_certificates(roots)
}

/// The hosts of a certificate, and the configuration of connections to them.
fn identified(
    roots: &Arc<RootCertStore>,
    own: &ClientCertificate,
) -> Result<(Vec<Destination>, ClientConfig), String> {
    let wrong = |why: String| format!("`client_certificates`: {why}");
    let ClientCertificate { certificate, key, hosts } = own;
    if hosts.is_empty() {
        let file = certificate.display();
        let why = "`hosts` is empty; list the hosts that the certificate may be shown to";
        return Err(wrong(format!("{file}: {why}")));
    }
    let chain = pem::certificates(certificate).map_err(wrong)?;
    let private = pem::key(key).map_err(wrong)?;
    let config = builder(roots.clone()).with_client_auth_cert(chain, private);
    let config = config.map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        wrong(match error {
            Error::InconsistentKeys(_) => format!("{key} is not the key of {certificate}"),
            error => format!("{certificate} and {key}: {error}"),
        })
    })?;
    Ok((hosts.clone(), config))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;

    #[test]
    fn authorities_of_a_file_are_beside_the_systems_or_alone() {
        let [own, other] = [(); 2].map(|()| Authority::new());
        let folder = tempfile::tempdir().unwrap();
        own.issue(folder.path());
        let file = folder.path().join("ca.pem");
        let mut system = RootCertStore::empty();
        system.add(other.own().clone()).unwrap();
        let system = Arc::new(system);
        let count = |file, is_only| roots(file, is_only, &system).map(|roots| roots.len());
        assert_eq!(count(Some(&*file), true), Ok(1));
        assert_eq!(count(Some(&*file), false), Ok(2));
        assert_eq!(count(None, false), Ok(1));
        assert!(count(None, true).is_err());
    }
}
