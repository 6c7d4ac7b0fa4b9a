//! Receivers by TLS, with an authority that the test makes.

use std::sync::atomic::AtomicBool;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tourbillon::virtual_time::VirtualClock;

use super::*;
use crate::config::{Proxies, Trust};
use crate::dispatch::pool::IDLE;

/// Answer of a receiver that keeps its connection.
const DONE: &[u8] = b"HTTP/1.1 204 Done\r\n\r\n";

/// An authority, and a folder with its files.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let this = Self { issuer, folder: tempfile::tempdir().unwrap() };
        this.write("ca.pem", "CERTIFICATE", this.issuer.der());
        let (own, key) = this.certify();
        this.write("own.pem", "CERTIFICATE", &own);
        this.write("own.key", "PRIVATE KEY", &key);
        this
    }

    fn certify(&self) -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".into(), "127.0.0.1".into()]).unwrap();
        let own = params.signed_by(&key, &self.issuer).unwrap();
        (own.der().to_vec(), key.serialize_der())
    }

    fn write(&self, name: &str, label: &str, der: &[u8]) {
        let text = BASE64_STANDARD.encode(der);
        let text = format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    /// A server's TLS. With `asks`, a client needs a certificate.
    fn acceptor(&self, asks: bool) -> TlsAcceptor {
        let (own, key) = self.certify();
        self.acceptor_of(own, key, asks)
    }

    /// A server's TLS, by a certificate and its key.
    fn acceptor_of(&self, own: Vec<u8>, key: Vec<u8>, asks: bool) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = if asks {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivatePkcs8KeyDer::from(key).into();
        Arc::new(builder.with_single_cert(vec![own.into()], key).unwrap()).into()
    }

    /// An app that trusts the authority, with these settings beside.
    fn app(&self, settings: serde_json::Value) -> App {
        let mut app: App = serde_json::from_value(settings).unwrap();
        app.ca = Some(self.folder.path().join("ca.pem"));
        app.trust = Trust::read(&app, &Arc::new(RootCertStore::empty())).unwrap();
        app.proxies = Proxies::read(&app.proxy, |_| None).unwrap();
        app
    }

    fn client(&self, timer: &Timer) -> Client {
        Client::new(&self.app(serde_json::json!({ "networks": ["127.0.0.0/8"] })), timer)
    }

    /// Starts a receiver that hands each connection to `handle`. Returns its URL, and the number
    /// of connections.
    async fn receiver<F>(
        &self,
        asks: bool,
        handle: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
    ) -> (String, Arc<AtomicUsize>)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let (acceptor, handle) = (self.acceptor(asks), Arc::new(handle));
        let (url, count) = receiver(move |stream| {
            let (acceptor, handle) = (acceptor.clone(), handle.clone());
            async move { handle(acceptor.accept(stream).await?).await }
        })
        .await;
        (url.replace("http://", "https://"), count)
    }
}

/// Answers the requests of a connection until the client closes it.
async fn serve(mut stream: TlsStream<TcpStream>) -> io::Result<()> {
    loop {
        head(&mut stream).await?;
        stream.write_all(DONE).await?;
    }
}

#[tokio::test]
async fn a_connection_that_another_app_may_have_is_not_used() {
    let authority = Authority::new();
    let (url, count) = authority.receiver(false, serve).await;
    let client = authority.client(&Timer::global());
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    let none = Client::new(&authority.app(serde_json::json!({})), &Timer::global());
    let error = failure(send(&none, &url).await);
    assert!(error.contains("is loopback"), "{error}");
    // The connection was there all the time.
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    assert_eq!(count.load(SeqCst), 1);
}

#[tokio::test]
async fn a_client_certificate_is_shown_through_a_proxy() {
    let authority = Authority::new();
    let (url, count) = authority
        .receiver(true, async |stream: TlsStream<TcpStream>| {
            assert_eq!(stream.get_ref().1.peer_certificates().unwrap().len(), 1);
            serve(stream).await
        })
        .await;
    let target = url.trim_start_matches("https://").trim_end_matches('/').to_owned();
    let (proxy, tunnels) = receiver(move |mut stream: TcpStream| {
        let target = target.clone();
        async move {
            let head = head(&mut stream).await?;
            assert!(head.starts_with(&format!("CONNECT {target} ")), "{head}");
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
            let mut far = TcpStream::connect(target).await?;
            tokio::io::copy_bidirectional(&mut stream, &mut far).await?;
            Ok(())
        }
    })
    .await;
    let file = |name: &str| authority.folder.path().join(name);
    let own = serde_json::json!({
        "certificate": file("own.pem"), "key": file("own.key"), "hosts": ["localhost"],
    });
    let app = authority.app(serde_json::json!({
        "networks": ["127.0.0.0/8"], "proxy": { "https": proxy }, "client_certificates": [own],
    }));
    let client = Client::new(&app, &Timer::global());
    let url = url.replace("127.0.0.1", "localhost");
    for _ in 0..10 {
        assert_eq!(send(&client, &url).await.unwrap().status, 204);
    }
    assert_eq!((count.load(SeqCst), tunnels.load(SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_connection_without_callbacks_is_closed() {
    let authority = Authority::new();
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = is_closed.clone();
    let (url, _) = authority
        .receiver(false, move |stream| {
            let closed = closed.clone();
            async move {
                let _ = serve(stream).await;
                closed.store(true, SeqCst);
                Ok(())
            }
        })
        .await;
    let client = authority.client(&timer);
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    while !is_closed.load(SeqCst) {
        clock.advance(IDLE);
        tokio::task::yield_now().await;
    }
}

/// Name of the variable that says that a test has a process of its own.
const SCARCE: &str = "TOURBILLOND_TEST_SCARCE";

#[test]
fn a_connection_is_not_kept_while_descriptors_are_scarce() {
    if std::env::var_os(SCARCE).is_some() {
        return scarce();
    }
    // In a separate process, because a limit is the whole process's.
    let own = std::env::current_exe().unwrap();
    let name =
        "dispatch::client::tests::tls::a_connection_is_not_kept_while_descriptors_are_scarce";
    let mut shell = std::process::Command::new("sh");
    let script = "ulimit -n 256; exec \"$0\" --exact --nocapture --test-threads 1 \"$1\"";
    let output = shell.args(["-c", script]).arg(own).arg(name).env(SCARCE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[tokio::main(flavor = "current_thread")]
async fn scarce() {
    let authority = Authority::new();
    // Each request says whether its connection is to be kept.
    let (came, heads) = unbounded_channel();
    let (url, count) = authority
        .receiver(false, move |mut stream: TlsStream<TcpStream>| {
            let came = came.clone();
            async move {
                loop {
                    let head = head(&mut stream).await?;
                    let _ = came.send(head.contains("connection: close\r\n"));
                    stream.write_all(DONE).await?;
                }
            }
        })
        .await;
    let client = authority.client(&Timer::global());
    let taken = Vec::from_iter((0..=descriptors::share() / 2).map(|_| descriptors::for_callback()));
    for connections in [1, 2, 3] {
        assert_eq!(send(&client, &url).await.unwrap().status, 204);
        assert_eq!(count.load(SeqCst), connections);
    }
    drop(taken);
    for _ in 0..3 {
        assert_eq!(send(&client, &url).await.unwrap().status, 204);
        assert_eq!(count.load(SeqCst), 4);
    }
    assert_eq!(closes(heads), [true, true, true, false, false, false]);
}

fn closes(mut heads: UnboundedReceiver<bool>) -> Vec<bool> {
    std::iter::from_fn(|| heads.try_recv().ok()).collect()
}

#[tokio::test]
async fn a_system_without_authorities_is_short_of_them_where_the_app_has_none() {
    let authority = Authority::new();
    let (url, _) = authority.receiver(false, serve).await;
    let timer = Timer::global();
    let mut app = authority.app(serde_json::json!({ "networks": ["127.0.0.0/8"] }));
    let request = || Request::get(&url).body(Full::<Bytes>::default()).unwrap();
    let answer = Client::new(&app, &timer).send(request(), LONG).await.0.unwrap();
    assert_eq!(answer.status, 204);
    app.ca = None;
    app.trust = Trust::read(&app, &Arc::new(RootCertStore::empty())).unwrap();
    let lack = Client::new(&app, &timer).send(request(), LONG).await.0.unwrap_err();
    assert!(matches!(&lack, Lack::Shortage(why) if why.contains("ca-certificates")), "{lack:?}");
}

#[tokio::test]
async fn a_receiver_with_the_certificate_of_an_authority_is_told_what_it_needs() {
    let authority = Authority::new();
    let own = authority.issuer.der().to_vec();
    let acceptor = authority.acceptor_of(own, authority.issuer.key().serialize_der(), false);
    let (url, _) = receiver(move |stream| {
        let acceptor = acceptor.clone();
        async move { acceptor.accept(stream).await.map(drop) }
    })
    .await;
    let url = url.replace("http://127.0.0.1", "https://localhost");
    let error = failure(send(&authority.client(&Timer::global()), &url).await);
    assert!(error.contains("CA:TRUE") && error.contains("CA:FALSE"), "{error}");
}
