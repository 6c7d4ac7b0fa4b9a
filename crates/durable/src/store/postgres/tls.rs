//! [`Connector`]: TLS, by rustls.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client, rustls};

use super::address::{Encryption, Roots, Trust};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Protocol that the client names to the server.
const ALPN: &[u8] = b"postgresql";

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Connector(Arc<ClientConfig>);

/// Reads the files that `encryption` names.
pub(super) fn connector(encryption: &Encryption) -> Result<Connector> {
    let config = configure(encryption);
    let config = config.map_err(|error| StoreError::new(StoreErrorKind::Invalid, error))?;
    Ok(Connector(Arc::new(config)))
}

fn configure(encryption: &Encryption) -> std::result::Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let signed_by = |roots| Arc::new(SignedBy { roots, algorithms });
    let dangerous =
        |roots| builder.clone().dangerous().with_custom_certificate_verifier(signed_by(roots));
    let builder = match &encryption.trust {
        Trust::Anyone => dangerous(None),
        Trust::Signed(file) => dangerous(Some(roots(file)?)),
        Trust::Named(Roots::File(file)) => builder.with_root_certificates(roots(file)?),
        Trust::Named(Roots::System) => builder.with_root_certificates(system()?),
    };
    let mut config = match &encryption.identity {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => {
            let certificates = read(certificates)?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("{}: {error}", key.display()))?;
            builder.with_client_auth_cert(certificates, key)?
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// The certificates of a PEM file.
fn read(file: &Path) -> std::result::Result<Vec<CertificateDer<'static>>, Error> {
    let of_file = |error| format!("{}: {error}", file.display());
    let all: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(of_file)?.collect();
    let all = all.map_err(of_file)?;
    if all.is_empty() {
        return Err(format!("{} has no certificate", file.display()).into());
    }
    Ok(all)
}

fn roots(file: &Path) -> std::result::Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in read(file)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(roots)
}

fn system() -> std::result::Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some systems have some that are malformed.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
        return Err(format!("the system trusts no authority{why}").into());
    }
    Ok(roots)
}

/// Takes a certificate for any host: signed by one of these authorities, or by anybody.
#[derive(Debug)]
struct SignedBy {
    roots: Option<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl SignedBy {
    /// Returns the result of `verify` if the certificate is to be verified. If it is not, its key
    /// proves nothing, and may be of a version that cannot be read.
    fn is_signed(
        &self,
        verify: impl FnOnce() -> std::result::Result<HandshakeSignatureValid, rustls::Error>,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        if self.roots.is_some() { verify() } else { Ok(HandshakeSignatureValid::assertion()) }
    }
}

impl ServerCertVerifier for SignedBy {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        if let Some(roots) = &self.roots {
            let certificate = ParsedCertificate::try_from(certificate)?;
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                roots,
                between,
                now,
                algorithms,
            )?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.is_signed(|| verify_tls12_signature(message, certificate, signed, &self.algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.is_signed(|| verify_tls13_signature(message, certificate, signed, &self.algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type TlsConnect = ToHost;
    type Error = Error;

    fn make_tls_connect(&mut self, host: &str) -> std::result::Result<ToHost, Error> {
        let host = ServerName::try_from(host.to_owned())?;
        Ok(ToHost { connector: self.0.clone().into(), host })
    }
}

/// Encrypts one connection.
pub(super) struct ToHost {
    connector: TlsConnector,
    host: ServerName<'static>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToHost {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.host, stream).await?)) })
    }
}

/// A connection that is encrypted.
pub(super) struct Encrypted<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let certificate = self.0.get_ref().1.peer_certificates().and_then(<[_]>::first);
        match certificate.and_then(|certificate| Some((certificate, hash_of(certificate)?))) {
            Some((certificate, hash)) => {
                let hashed = digest(hash, certificate).as_ref().to_vec();
                ChannelBinding::tls_server_end_point(hashed)
            }
            None => ChannelBinding::none(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Returns the hash that binds a login to a certificate: by RFC 5929, that of its signature, or
/// SHA-256 in place of a weaker one. `None` for signatures that do not name one.
fn hash_of(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (_, certificate, _) = element(certificate)?;
    let (_, _, after_content) = element(certificate)?;
    let (_, signature, _) = element(after_content)?;
    let (OBJECT, name, _) = element(signature)? else { return None };
    Some(match name {
        // RSA (PKCS #1): with MD5, SHA-1, SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04 | 0x05 | 0x0b] => &SHA256,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c] => &SHA384,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d] => &SHA512,
        // ECDSA: with SHA-1, SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => &SHA256,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02] => &SHA256,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03] => &SHA384,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04] => &SHA512,
        _ => return None,
    })
}

/// The tag of an object identifier.
const OBJECT: u8 = 0x06;

/// Returns the first element of `der`: its tag and content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}
