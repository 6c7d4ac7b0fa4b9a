//! An authority that a test makes, and servers with its certificates.

use std::path::Path;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

/// An authority.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        // A unique name, so that a certificate matches no other authority.
        let name = format!("{:x?}", &key.public_key_raw()[1..9]);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// The authority's own certificate.
    pub(crate) fn own(&self) -> &CertificateDer<'static> {
        self.0.der()
    }

    /// Returns a certificate for this host, and its key.
    fn certify(&self) -> (CertificateDer<'static>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
        let own = params.signed_by(&key, &self.0).unwrap();
        (own.der().clone(), key.serialize_der())
    }

    /// Writes a certificate and its key for this host, and the authority's own certificate.
    pub(crate) fn issue(&self, folder: &Path) -> CertificateDer<'static> {
        let (own, key) = self.certify();
        let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
        write("key.pem", pem("PRIVATE KEY", &key));
        write("chain.pem", pem("CERTIFICATE", &own));
        write("ca.pem", pem("CERTIFICATE", self.own()));
        own
    }

    /// The TLS of a server with a certificate for this host. With `asks`, a client needs one, too.
    pub(crate) fn server(&self, asks: bool) -> Arc<ServerConfig> {
        self.server_by(self.certify(), asks)
    }

    /// The TLS of a server with a certificate and its key.
    pub(crate) fn server_by(
        &self,
        (own, key): (CertificateDer<'static>, Vec<u8>),
        asks: bool,
    ) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(self.own().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivatePkcs8KeyDer::from(key).into();
        Arc::new(builder.with_single_cert(vec![own], key).unwrap())
    }
}
