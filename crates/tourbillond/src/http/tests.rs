//! Clients that are slow in each way, on a virtual clock, and clients that are not.

use std::future::pending;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::{get, post};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, yield_now};
use tourbillon::virtual_time::VirtualClock;
use tourbillon_http_limits::Limit;

use super::{Answers, Room, Server as Served, ServerLimits, connection};

const HELLO: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// A server with one client, whose socket holds 64 KiB.
struct Server {
    clock: VirtualClock,
    client: DuplexStream,
    serves: JoinHandle<()>,
    stops: watch::Sender<bool>,
}

impl Server {
    fn new() -> Self {
        let (clock, timer) = crate::watched::clocked();
        let echo = async |request: Request| match request.into_body().collect().await {
            Ok(body) => Body::from(body.to_bytes()),
            Err(_) => Body::empty(),
        };
        let router = Router::new()
            .route("/", get(async || "hello"))
            .route("/refuse", post(async || "no"))
            .route("/wait", post(async |_: Bytes| pending::<&str>().await))
            .route("/echo", post(echo));
        let (client, stream) = tokio::io::duplex(64 * 1024);
        let (stops, stopped) = watch::channel(false);
        let serves = tokio::spawn(async move {
            let answers = Answers::new(1 << 30);
            let seat = Room::new(1, std::sync::Arc::clone(&answers)).seat().await;
            let limits = ServerLimits::default();
            let served = Served { router, timer, limits, answers };
            connection(stream, served, seat, None, stopped).await;
        });
        Self { clock, client, serves, stops }
    }

    async fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).await.unwrap();
        settle().await;
    }

    /// Lets time go by; returns whether the client was cut.
    async fn is_cut_after(&mut self, span: Duration) -> bool {
        self.clock.advance(span);
        settle().await;
        self.serves.is_finished()
    }

    /// The answer so far.
    async fn answer(&mut self) -> String {
        let mut bytes = vec![0; 4096];
        let count = self.client.read(&mut bytes).await.unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }
}

/// Lets the other tasks run until they wait.
async fn settle() {
    for _ in 0..200 {
        yield_now().await;
    }
}

fn span(limit: Limit) -> Duration {
    ServerLimits::default().connection.span(limit)
}

const MOMENT: Duration = Duration::from_millis(1);

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_for_and_cut() {
    let mut server = Server::new();
    server.send(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\npart").await;
    let (request, linger) = (ServerLimits::default().request, span(Limit::Linger));
    assert!(!server.is_cut_after(request - MOMENT).await);
    assert!(!server.is_cut_after(MOMENT).await);
    let answer = server.answer().await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(server.is_cut_after(linger).await);
}

#[tokio::test]
async fn a_server_that_is_slow_does_not_blame_its_client() {
    let mut server = Server::new();
    server.send(b"POST /wait HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\npart").await;
    let request = ServerLimits::default().request;
    assert!(!server.is_cut_after(request - MOMENT).await);
    assert!(server.is_cut_after(MOMENT).await);
    let answer = server.answer().await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("retry-after: "), "{answer}");
}

#[tokio::test]
async fn a_client_that_is_answered_early_sees_the_answer() {
    let mut server = Server::new();
    server.send(b"POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000\r\n\r\n").await;
    for _ in 0..8 {
        server.send(&[b'x'; 32 * 1024]).await;
    }
    let answer = server.answer().await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("no"), "{answer}");
    assert!(!server.serves.is_finished());
    assert!(server.is_cut_after(span(Limit::Linger)).await);
}

#[tokio::test]
async fn requests_that_come_together_are_answered_in_turn() {
    let mut server = Server::new();
    let echo = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbody";
    server.send(&[HELLO, echo, HELLO, &HELLO[..20]].concat()).await;
    let answer = server.answer().await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    assert!(answer.contains("\r\n\r\nbodyHTTP/1.1"), "{answer}");
    assert!(!server.is_cut_after(span(Limit::Header) - MOMENT).await);
    assert!(server.is_cut_after(MOMENT).await);
}

#[tokio::test]
async fn a_stop_waits_for_what_is_being_answered() {
    let mut server = Server::new();
    server.send(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nbo").await;
    server.stops.send_replace(true);
    settle().await;
    assert!(!server.serves.is_finished());
    server.send(b"dy").await;
    assert!(server.answer().await.ends_with("body"));
    settle().await;
    assert!(server.serves.is_finished());

    let mut idle = Server::new();
    idle.send(HELLO).await;
    idle.stops.send_replace(true);
    settle().await;
    assert!(idle.serves.is_finished());
}
