//! Receivers by TLS, with an authority that the test makes.

use std::sync::atomic::AtomicBool;

use rustls::{RootCertStore, ServerConfig};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::*;
use crate::authority::Authority;
use crate::config::Trust;
use crate::dispatch::is_starved;
use crate::dispatch::pool::IDLE;

/// Answer of a receiver that keeps its connection.
const DONE: &[u8] = b"HTTP/1.1 204 Done\r\n\r\n";

/// An app that trusts the authority, and may call these networks.
fn app(authority: &Authority, networks: &[&str]) -> App {
    let folder = tempfile::tempdir().unwrap();
    authority.issue(folder.path());
    let networks = networks.iter().map(|text| text.parse().unwrap()).collect();
    let mut app = App { networks, ca: Some(folder.path().join("ca.pem")), ..App::default() };
    app.trust = Trust::read(&app, &Arc::new(RootCertStore::empty())).unwrap();
    app
}

fn client(authority: &Authority, timer: &Timer) -> Client {
    Client::new(&app(authority, &["127.0.0.0/8"]), timer)
}

/// Starts a receiver that hands each connection to `handle`. Returns its URL, and the number of
/// connections.
async fn tls_receiver<F>(
    config: Arc<ServerConfig>,
    handle: impl Fn(TlsStream<TcpStream>) -> F + Send + Sync + 'static,
) -> (String, Arc<AtomicUsize>)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let (acceptor, handle) = (TlsAcceptor::from(config), Arc::new(handle));
    let (url, count) = receiver(move |stream| {
        let (acceptor, handle) = (acceptor.clone(), handle.clone());
        async move { handle(acceptor.accept(stream).await?).await }
    })
    .await;
    (url.replace("http://", "https://"), count)
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
    let (url, count) = tls_receiver(authority.server(false), serve).await;
    let client = client(&authority, &Timer::global());
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    let none = Client::new(&app(&authority, &[]), &Timer::global());
    let error = failure(send(&none, &url).await);
    assert!(error.contains("is loopback"), "{error}");
    // The connection was there all the time.
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    assert_eq!(count.load(SeqCst), 1);
}

#[tokio::test]
async fn a_connection_without_callbacks_is_closed() {
    let authority = Authority::new();
    let (clock, timer) = crate::watched::clocked();
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = is_closed.clone();
    let (url, _) = tls_receiver(authority.server(false), move |stream| {
        let closed = closed.clone();
        async move {
            let _ = serve(stream).await;
            closed.store(true, SeqCst);
            Ok(())
        }
    })
    .await;
    let client = client(&authority, &timer);
    assert_eq!(send(&client, &url).await.unwrap().status, 204);
    while !is_closed.load(SeqCst) {
        clock.advance(IDLE);
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_connection_is_not_kept_while_descriptors_are_scarce() {
    let tests = "dispatch::client::tests::tls";
    if is_starved(&format!("{tests}::a_connection_is_not_kept_while_descriptors_are_scarce")) {
        scarce();
    }
}

#[tokio::main(flavor = "current_thread")]
async fn scarce() {
    let authority = Authority::new();
    // Each request says whether its connection is to be kept.
    let (came, heads) = unbounded_channel();
    let (url, count) = tls_receiver(authority.server(false), move |mut stream| {
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
    let client = client(&authority, &Timer::global());
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
    let (url, _) = tls_receiver(authority.server(false), serve).await;
    let timer = Timer::global();
    let mut app = app(&authority, &["127.0.0.0/8"]);
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
    let own = (authority.own().clone(), authority.0.key().serialize_der());
    let (url, _) = tls_receiver(authority.server_by(own, false), serve).await;
    let url = url.replace("127.0.0.1", "localhost");
    let error = failure(send(&client(&authority, &Timer::global()), &url).await);
    assert!(error.contains("CA:TRUE") && error.contains("CA:FALSE"), "{error}");
}
