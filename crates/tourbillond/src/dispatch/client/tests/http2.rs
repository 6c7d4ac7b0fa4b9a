//! Receivers by HTTP/2, with an authority that the test makes.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use futures_util::future::join_all;
use h2::Reason;
use h2::server::{self, SendResponse};
use hyper::Response;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Barrier, Notify};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tourbillon::virtual_time::VirtualClock;

use super::*;
use crate::config::{Proxies, Trust};

const BOTH: &[&str] = &["h2", "http/1.1"];

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
    fn acceptor(&self, protocols: &[&str], asks: bool) -> TlsAcceptor {
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
        let (own, key) = self.certify();
        let key = PrivatePkcs8KeyDer::from(key).into();
        let mut config = builder.with_single_cert(vec![own.into()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config).into()
    }

    /// An app that asks for HTTP/2 and trusts the authority, with these settings beside.
    fn app(&self, mut settings: serde_json::Value) -> App {
        settings.as_object_mut().unwrap().entry("http2").or_insert(true.into());
        let mut app: App = serde_json::from_value(settings).unwrap();
        app.ca = Some(self.folder.path().join("ca.pem"));
        app.trust = Trust::read(&app).unwrap();
        app.proxies = Proxies::read(&app.proxy, |_| None).unwrap();
        app
    }

    fn client(&self) -> Client {
        let app = self.app(serde_json::json!({ "networks": ["127.0.0.0/8"] }));
        Client::new(&app, &Timer::global())
    }

    /// Starts a receiver, which speaks these protocols. `handle` has each connection, and the
    /// number of those before it. Returns its URL, and the number of connections.
    async fn receiver<F>(
        &self,
        (protocols, asks): (&[&str], bool),
        handle: impl Fn(TlsStream<TcpStream>, usize) -> F + Send + Sync + 'static,
    ) -> (String, Arc<AtomicUsize>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = self.acceptor(protocols, asks);
        let number = AtomicUsize::new(0);
        let handle = Arc::new(handle);
        let (url, count) = receiver(move |stream| {
            let (acceptor, handle) = (acceptor.clone(), handle.clone());
            let number = number.fetch_add(1, SeqCst);
            async move {
                handle(acceptor.accept(stream).await?, number).await;
                Ok(())
            }
        })
        .await;
        (url.replace("http://", "https://"), count)
    }

    /// Starts a receiver by HTTP/2 that permits so many streams, and hands on all requests, each
    /// with the number of its connection.
    async fn calls(&self, most: u32) -> (String, Arc<AtomicUsize>, UnboundedReceiver<Call>) {
        let (called, calls) = unbounded_channel();
        let (url, count) = self
            .receiver((BOTH, false), move |stream, number| {
                let called = called.clone();
                async move {
                    let mut connection = serve(stream, most).await;
                    while let Some(Ok((request, respond))) = connection.accept().await {
                        let _ = called.send(Call::new(&request, respond, number));
                    }
                }
            })
            .await;
        (url, count, calls)
    }
}

async fn serve(
    stream: TlsStream<TcpStream>,
    most: u32,
) -> server::Connection<TlsStream<TcpStream>, Bytes> {
    let alpn = stream.get_ref().1.alpn_protocol();
    assert_eq!(alpn, Some(&b"h2"[..]));
    server::Builder::new().max_concurrent_streams(most).handshake(stream).await.unwrap()
}

/// Request that a receiver has.
struct Call {
    path: String,
    respond: SendResponse<Bytes>,
    /// Number of its connection.
    number: usize,
}

impl Call {
    fn new<B>(request: &Request<B>, respond: SendResponse<Bytes>, number: usize) -> Self {
        Self { path: request.uri().path().to_owned(), respond, number }
    }

    fn answer(mut self) {
        self.respond.send_response(done(), true).unwrap();
    }

    /// Waits until the client has reset the stream.
    async fn reset(mut self) -> Reason {
        std::future::poll_fn(|cx| self.respond.poll_reset(cx)).await.unwrap()
    }
}

fn done() -> Response<()> {
    Response::builder().status(204).body(()).unwrap()
}

/// Returns the next call of a path, and forgets those before it.
async fn called(calls: &mut UnboundedReceiver<Call>, path: &str) -> Call {
    loop {
        let call = calls.recv().await.unwrap();
        if call.path == path {
            return call;
        }
    }
}

/// Answers all calls.
fn answer(mut calls: UnboundedReceiver<Call>) {
    tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            call.answer();
        }
    });
}

fn sends(client: &Client, url: &str, limit: Duration) -> tokio::task::JoinHandle<Sent> {
    let (client, url) = (client.clone(), url.to_owned());
    tokio::spawn(async move { client.send(get(&url), limit).await })
}

type Sent = (Result<Answer, Lack>, Timing);

#[tokio::test]
async fn callbacks_to_one_origin_share_a_connection_from_the_first_on() {
    let authority = Authority::new();
    let all = Arc::new(Barrier::new(20));
    let (url, count, mut calls) = authority.calls(100).await;
    tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            let all = all.clone();
            tokio::spawn(async move {
                all.wait().await;
                call.answer();
            });
        }
    });
    let client = authority.client();
    for round in 0..2 {
        let sent = join_all((0..20).map(|_| client.send(get(&url), LONG))).await;
        let mut made = 0;
        for (answer, timing) in sent {
            assert_eq!(answer.unwrap().status, 204);
            assert!(timing.first_byte_ms.is_some(), "{timing:?}");
            assert_eq!(timing.connect_ms.is_some(), timing.tls_ms.is_some(), "{timing:?}");
            made += usize::from(timing.tls_ms.is_some());
        }
        assert_eq!(made, usize::from(round == 0));
        assert_eq!(count.load(SeqCst), 1);
    }
}

#[tokio::test]
async fn a_handshake_that_hangs_holds_up_no_other_callback() {
    let authority = Authority::new();
    let acceptor = authority.acceptor(BOTH, false);
    let number = AtomicUsize::new(0);
    let (url, count) = receiver(move |stream| {
        let (acceptor, number) = (acceptor.clone(), number.fetch_add(1, SeqCst));
        async move {
            if number == 0 {
                // Never a handshake.
                return std::future::pending().await;
            }
            let mut connection = serve(acceptor.accept(stream).await?, 100).await;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(done(), true).unwrap();
            }
            Ok(())
        }
    })
    .await;
    let (client, url) = (authority.client(), url.replace("http://", "https://"));
    let first = sends(&client, &url, LONG);
    while count.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // Less than it takes until the first gives up.
    let limit = Duration::from_secs(8);
    for (answer, _) in join_all((0..10).map(|_| client.send(get(&url), limit))).await {
        assert_eq!(answer.unwrap().status, 204);
    }
    first.abort();
}

#[tokio::test]
async fn a_receiver_without_http2_and_an_app_without_it_have_http1() {
    let authority = Authority::new();
    for (protocols, settings) in [
        (&["http/1.1"][..], serde_json::json!({})),
        (&[], serde_json::json!({})),
        (BOTH, serde_json::json!({ "http2": false })),
    ] {
        let (url, _) = authority
            .receiver((protocols, false), async |mut stream: TlsStream<TcpStream>, _| {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                assert!(head.starts_with(b"GET / HTTP/1.1\r\n"));
                let answer = b"HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n";
                stream.write_all(answer).await.unwrap();
                stream.shutdown().await.unwrap();
            })
            .await;
        let mut settings = settings;
        settings["networks"] = serde_json::json!(["127.0.0.0/8"]);
        let client = Client::new(&authority.app(settings), &Timer::global());
        for (answer, _) in join_all((0..10).map(|_| client.send(get(&url), LONG))).await {
            assert_eq!(answer.unwrap().status, 204, "{protocols:?}");
        }
    }
}

#[tokio::test]
async fn no_more_streams_are_open_than_the_receiver_permits() {
    let authority = Authority::new();
    let (url, count, mut calls) = authority.calls(2).await;
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    tokio::spawn(async move {
        while let Some(call) = calls.recv().await {
            seen.fetch_max(open.fetch_add(1, SeqCst) + 1, SeqCst);
            let open = open.clone();
            tokio::spawn(async move {
                tourbillon::sleep(Duration::from_millis(5)).await;
                open.fetch_sub(1, SeqCst);
                call.answer();
            });
        }
    });
    let client = authority.client();
    for (answer, _) in join_all((0..20).map(|_| client.send(get(&url), LONG))).await {
        assert_eq!(answer.unwrap().status, 204);
    }
    assert_eq!(count.load(SeqCst), 1);
    assert!(most.load(SeqCst) <= 2, "{most:?}");
}

#[tokio::test]
async fn a_connection_that_ends_gracefully_leaves_its_callbacks_their_answers() {
    let authority = Authority::new();
    let (called, mut calls) = unbounded_channel();
    let goes = Arc::new(Notify::new());
    let leave = goes.clone();
    let (url, count) = authority
        .receiver((BOTH, false), move |stream, number| {
            let (called, leave) = (called.clone(), leave.clone());
            async move {
                let mut connection = serve(stream, 100).await;
                loop {
                    tokio::select! {
                        call = connection.accept() => {
                            let Some(Ok((request, respond))) = call else { break };
                            let _ = called.send(Call::new(&request, respond, number));
                        }
                        () = leave.notified() => connection.graceful_shutdown(),
                    }
                }
            }
        })
        .await;
    let client = authority.client();
    let first = sends(&client, &url, LONG);
    let held = calls.recv().await.unwrap();
    goes.notify_one();
    // Those that the connection still takes are answered by it.
    let mut number = 0;
    while number == 0 {
        let next = sends(&client, &url, LONG);
        let call = calls.recv().await.unwrap();
        number = call.number;
        call.answer();
        assert_eq!(next.await.unwrap().0.unwrap().status, 204);
    }
    held.answer();
    assert_eq!(first.await.unwrap().0.unwrap().status, 204);
    assert_eq!(count.load(SeqCst), 2);
}

/// Frame of the connection as a whole.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, 0], payload].concat()
}

/// Starts a receiver whose first connection has this as the last stream that it processes, and is
/// closed then; later ones answer. Returns also the number of requests that were answered.
async fn leaving(authority: &Authority, last: u8) -> (String, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let counted = answered.clone();
    let handle = move |mut stream: TlsStream<TcpStream>, number| {
        let counted = counted.clone();
        async move {
            if number > 0 {
                let mut connection = serve(stream, 100).await;
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    counted.fetch_add(1, SeqCst);
                    respond.send_response(done(), true).unwrap();
                }
                return;
            }
            stream.read_exact(&mut [0; 24]).await.unwrap();
            // Until the head of a request has come.
            loop {
                let mut head = [0; 9];
                stream.read_exact(&mut head).await.unwrap();
                let length = usize::from(head[1]) * 256 + usize::from(head[2]);
                stream.read_exact(&mut vec![0; length]).await.unwrap();
                if head[3] == 1 {
                    break;
                }
            }
            let goaway = frame(7, &[0, 0, 0, last, 0, 0, 0, 0]);
            stream.write_all(&[frame(4, &[]), goaway].concat()).await.unwrap();
            stream.shutdown().await.unwrap();
            // What is not read makes the system reset the connection, frames and all.
            while stream.read_u8().await.is_ok() {}
        }
    };
    let (url, count) = authority.receiver((BOTH, false), handle).await;
    (url, count, answered)
}

#[tokio::test]
async fn a_request_that_goaway_says_is_not_processed_is_sent_again() {
    let authority = Authority::new();
    let (url, count, answered) = leaving(&authority, 0).await;
    assert_eq!(send(&authority.client(), &url).await.unwrap().status, 204);
    assert_eq!((count.load(SeqCst), answered.load(SeqCst)), (2, 1));
}

#[tokio::test]
async fn a_request_that_may_be_processed_is_not_sent_again() {
    let authority = Authority::new();
    let (url, count, answered) = leaving(&authority, 1).await;
    let client = authority.client();
    failure(send(&client, &url).await);
    assert_eq!((count.load(SeqCst), answered.load(SeqCst)), (1, 0));
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
}

#[tokio::test]
async fn a_stream_that_is_refused_is_sent_again_and_not_for_ever() {
    let authority = Authority::new();
    for (reason, refused, sent) in [
        (Reason::REFUSED_STREAM, SENDS - 1, SENDS),
        (Reason::REFUSED_STREAM, usize::MAX, SENDS),
        (Reason::INTERNAL_ERROR, usize::MAX, 1),
    ] {
        let (url, _, mut calls) = authority.calls(100).await;
        let came = Arc::new(AtomicUsize::new(0));
        let counted = came.clone();
        tokio::spawn(async move {
            while let Some(mut call) = calls.recv().await {
                match counted.fetch_add(1, SeqCst) < refused {
                    true => call.respond.send_reset(reason),
                    false => call.answer(),
                }
            }
        });
        let answer = send(&authority.client(), &url).await;
        if refused < SENDS {
            assert_eq!(answer.unwrap().status, 204);
        } else {
            let why = failure(answer);
            assert_eq!(why.contains("refused"), reason == Reason::REFUSED_STREAM, "{why}");
        }
        assert_eq!(came.load(SeqCst), sent, "{reason:?}");
    }
}

#[tokio::test]
async fn a_stream_that_hangs_is_reset_and_those_beside_it_are_answered() {
    let authority = Authority::new();
    let (url, _, mut calls) = authority.calls(100).await;
    let client = authority.client();
    let beside = sends(&client, &url, LONG);
    let held = calls.recv().await.unwrap();
    let mut limit = Duration::from_millis(500);
    loop {
        let mut late = sends(&client, &format!("{url}late"), limit);
        // A short limit may end before the receiver has the request, or has answered the next.
        let hangs = tokio::select! {
            call = called(&mut calls, "/late") => Some(call),
            _ = &mut late => None,
        };
        let next = sends(&client, &format!("{url}next"), LONG);
        called(&mut calls, "/next").await.answer();
        assert_eq!(next.await.unwrap().0.unwrap().status, 204);
        limit *= 2;
        let Some(hangs) = hangs.filter(|_| !late.is_finished()) else { continue };
        let error = failure(late.await.unwrap().0);
        assert!(error.contains("no whole answer within"), "{error}");
        let number = hangs.number;
        assert_eq!(hangs.reset().await, Reason::CANCEL);
        let next = sends(&client, &format!("{url}next"), LONG);
        let call = called(&mut calls, "/next").await;
        assert_eq!(call.number, number);
        call.answer();
        assert_eq!(next.await.unwrap().0.unwrap().status, 204);
        break;
    }
    held.answer();
    assert_eq!(beside.await.unwrap().0.unwrap().status, 204);
}

#[tokio::test]
async fn a_connection_by_which_nothing_came_is_not_used_again() {
    let authority = Authority::new();
    let is_dead = Arc::new(AtomicBool::new(false));
    let dies = is_dead.clone();
    let handle = move |stream, number| {
        let dies = dies.clone();
        async move {
            let mut connection = serve(stream, 100).await;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if number == 0 && dies.load(SeqCst) {
                    // Read and written no more, and not closed.
                    std::future::pending::<()>().await;
                }
                respond.send_response(done(), true).unwrap();
            }
        }
    };
    let (url, count) = authority.receiver((BOTH, false), handle).await;
    let client = authority.client();
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    is_dead.store(true, SeqCst);
    // What was under way when it died may still come.
    for _ in 0..100 {
        if count.load(SeqCst) == 1 {
            let _ = client.send(get(&url), Duration::from_millis(200)).await;
        }
    }
    assert_eq!(count.load(SeqCst), 2);
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    assert_eq!(count.load(SeqCst), 2);
}

#[tokio::test]
async fn of_a_body_no_more_is_read_than_the_limit_and_the_connection_stays() {
    let authority = Authority::new();
    let (url, count, mut calls) = authority.calls(100).await;
    let ends = Arc::new(Mutex::new(Vec::new()));
    let ended = ends.clone();
    tokio::spawn(async move {
        while let Some(mut call) = calls.recv().await {
            let ended = ended.clone();
            tokio::spawn(async move {
                let head = Response::new(());
                let mut body = call.respond.send_response(head, false).unwrap();
                // Without end, as far as the client lets it.
                let end = loop {
                    body.reserve_capacity(4_096);
                    match std::future::poll_fn(|cx| body.poll_capacity(cx)).await {
                        Some(Ok(room)) => body.send_data(vec![b'x'; room].into(), false).unwrap(),
                        _ => break std::future::poll_fn(|cx| body.poll_reset(cx)).await,
                    }
                };
                ended.lock().unwrap().push(end.unwrap());
            });
        }
    });
    let client = authority.client();
    for _ in 0..40 {
        let answer = send(&client, &url).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, BODY_KEPT));
    }
    assert_eq!(count.load(SeqCst), 1);
    assert!(ends.lock().unwrap().iter().all(|reason| *reason == Reason::CANCEL), "{ends:?}");
}

#[tokio::test]
async fn an_answer_with_too_long_a_head_is_an_error_of_its_own() {
    let authority = Authority::new();
    let (url, count, mut calls) = authority.calls(100).await;
    tokio::spawn(async move {
        let mut first = calls.recv().await.unwrap();
        let head = Response::builder().header("x-long", "x".repeat(HEAD_MAX));
        first.respond.send_response(head.body(()).unwrap(), true).unwrap();
        answer(calls);
    });
    let client = authority.client();
    failure(send(&client, &url).await);
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    assert_eq!(count.load(SeqCst), 1);
}

#[tokio::test]
async fn a_connection_that_another_app_may_have_is_not_used() {
    let authority = Authority::new();
    let (url, _, mut calls) = authority.calls(100).await;
    let client = authority.client();
    let under_way = sends(&client, &url, LONG);
    let held = calls.recv().await.unwrap();
    let none = Client::new(&authority.app(serde_json::json!({})), &Timer::global());
    let error = failure(send(&none, &url).await);
    assert!(error.contains("is loopback"), "{error}");
    held.answer();
    assert_eq!(under_way.await.unwrap().0.unwrap().status, 204);
}

#[tokio::test]
async fn a_client_certificate_is_shown_through_a_proxy() {
    let authority = Authority::new();
    let (url, count) = authority
        .receiver((BOTH, true), async |stream, _| {
            assert_eq!(stream.get_ref().1.peer_certificates().unwrap().len(), 1);
            let mut connection = serve(stream, 100).await;
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(done(), true).unwrap();
            }
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
    for (answer, _) in join_all((0..10).map(|_| client.send(get(&url), LONG))).await {
        assert_eq!(answer.unwrap().status, 204);
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
        .receiver((BOTH, false), move |stream, _| {
            let closed = closed.clone();
            async move {
                let mut connection = serve(stream, 100).await;
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    respond.send_response(done(), true).unwrap();
                }
                closed.store(true, SeqCst);
            }
        })
        .await;
    let app = authority.app(serde_json::json!({ "networks": ["127.0.0.0/8"] }));
    let client = Client::new(&app, &timer);
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    while !is_closed.load(SeqCst) {
        clock.advance(IDLE);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_connection_that_is_old_takes_no_further_callbacks() {
    let authority = Authority::new();
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let (url, count, calls) = authority.calls(100).await;
    answer(calls);
    let app = authority.app(serde_json::json!({ "networks": ["127.0.0.0/8"] }));
    let client = Client::new(&app, &timer);
    let (mut age, step) = (Duration::ZERO, IDLE / 2);
    for connections in [1, 2] {
        while age < AGE * connections {
            assert_eq!(send(&client, &url).await.unwrap().status, 204);
            assert_eq!(count.load(SeqCst), connections as usize, "{age:?}");
            clock.advance(step);
            age += step;
        }
        // The first by which its age is seen is its last.
        assert_eq!(send(&client, &url).await.unwrap().status, 204);
        assert_eq!(count.load(SeqCst), connections as usize, "{age:?}");
    }
}

#[tokio::test]
async fn a_connection_that_does_not_work_ends_its_callbacks() {
    let authority = Authority::new();
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    // Reads, and never answers anything.
    let (url, _) = authority
        .receiver((BOTH, false), async |mut stream: TlsStream<TcpStream>, _| {
            stream.write_all(&frame(4, &[])).await.unwrap();
            while stream.read_u8().await.is_ok() {}
        })
        .await;
    let app = authority.app(serde_json::json!({ "networks": ["127.0.0.0/8"] }));
    let sent = sends(&Client::new(&app, &timer), &url, LONG);
    while !sent.is_finished() {
        clock.advance(ASK);
        tokio::task::yield_now().await;
    }
    let why = failure(sent.await.unwrap().0);
    assert!(why.contains("keep-alive timed out"), "{why}");
}

/// Name of the variable that says that a test has a process of its own.
const SCARCE: &str = "TOURBILLOND_TEST_SCARCE";

#[test]
fn a_connection_is_not_kept_while_descriptors_are_scarce() {
    if std::env::var_os(SCARCE).is_some() {
        return scarce();
    }
    // In a process of its own, as a limit is the whole process's.
    let own = std::env::current_exe().unwrap();
    let name = "dispatch::client::tests::http2::\
                a_connection_is_not_kept_while_descriptors_are_scarce";
    let mut shell = std::process::Command::new("sh");
    let script = "ulimit -n 256; exec \"$0\" --exact --nocapture --test-threads 1 \"$1\"";
    let output = shell.args(["-c", script]).arg(own).arg(name).env(SCARCE, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
}

#[tokio::main(flavor = "current_thread")]
async fn scarce() {
    let authority = Authority::new();
    let (url, count, calls) = authority.calls(100).await;
    answer(calls);
    let client = authority.client();
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
}
