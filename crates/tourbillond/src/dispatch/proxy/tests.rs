use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use rustls::RootCertStore;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tourbillon::Timer;

use super::*;
use crate::callback::Answer;
use crate::config::{App, Proxies, Trust};
use crate::dispatch::client::{Client, Lack};
use crate::dispatch::connect::Way;
use crate::dispatch::head;
use crate::dispatch::reach::{CONNECT_ONE, Reach};

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100);

/// Answer of a receiver.
const DONE: &str = "HTTP/1.1 204 Done\r\nConnection: close\r\n\r\n";

/// Starts what says `first` to the first head of each connection, and [`DONE`] to the next. Returns
/// its port, and the heads.
async fn peer(first: &'static str) -> (u16, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (came, heads) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            for answer in [first, DONE] {
                let Ok(head) = head(&mut stream).await else { break };
                let _ = came.send(head);
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    (port, heads)
}

/// A client of an app with these settings.
fn client(settings: serde_json::Value, networks: &[&str]) -> Client {
    let app = serde_json::json!({ "proxy": settings, "networks": networks });
    let mut app: App = serde_json::from_value(app).unwrap();
    app.proxies = Proxies::read(&app.proxy, |_| None).unwrap();
    app.trust = Trust::read(&app, &Arc::new(RootCertStore::empty())).unwrap();
    Client::new(&app, &Timer::global())
}

async fn send(client: &Client, url: &str) -> Result<Answer, Lack> {
    let request = Request::get(url).body(Full::<Bytes>::default()).unwrap();
    client.send(request, LONG).await.0
}

const TUNNEL: &str = "HTTP/1.1 200 Connected\r\n\r\n";

#[tokio::test]
async fn a_proxy_connects_to_the_address_that_was_judged() {
    let (port, mut heads) = peer(TUNNEL).await;
    let url = format!("http://us%20er:word@127.0.0.1:{port}");
    let client = client(serde_json::json!({ "http": url }), &["127.0.0.0/8"]);
    let answer = send(&client, "http://localhost:7/path").await.unwrap();
    assert_eq!(answer.status, 204);
    let connect = heads.recv().await.unwrap();
    assert!(connect.starts_with("CONNECT 127.0.0.1:7 HTTP/1.1\r\n"), "{connect}");
    // `us er:word`.
    assert!(connect.contains("\r\nProxy-Authorization: Basic dXMgZXI6d29yZA==\r\n"), "{connect}");
    let request = heads.recv().await.unwrap();
    assert!(request.starts_with("GET /path HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nhost: localhost:7\r\n"), "{request}");
    assert!(!request.to_ascii_lowercase().contains("proxy"), "{request}");
}

#[tokio::test]
async fn what_is_not_allowed_is_not_asked_of_a_proxy() {
    let (port, mut heads) = peer(TUNNEL).await;
    let proxy = format!("http://127.0.0.1:{port}");
    for (trusted, url) in [
        (false, "http://localhost:7/"),
        (false, "http://127.0.0.1:7/"),
        (false, "https://localhost:7/"),
        (true, "http://10.0.0.1/"),
        (true, "https://[::ffff:127.0.0.1]/"),
    ] {
        let settings = serde_json::json!({ "http": proxy, "https": proxy, "trusted": trusted });
        let lack = send(&client(settings, &[]), url).await.unwrap_err();
        assert!(matches!(&lack, Lack::Failure(why) if why.contains("networks")), "{url}: {lack:?}");
    }
    assert!(heads.try_recv().is_err());
}

#[tokio::test]
async fn a_trusted_proxy_gets_names_and_whole_urls() {
    let (port, mut heads) = peer(DONE).await;
    let url = format!("http://u:p@127.0.0.1:{port}");
    let settings = serde_json::json!({ "http": url, "https": url, "trusted": true });
    let client = client(settings, &[]);
    send(&client, "http://nowhere.invalid/path").await.unwrap();
    let request = heads.recv().await.unwrap();
    assert!(request.starts_with("GET http://nowhere.invalid/path HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nproxy-authorization: Basic dTpw\r\n"), "{request}");
    // What this answer is followed by is no TLS.
    send(&client, "https://nowhere.invalid/").await.unwrap_err();
    let request = heads.recv().await.unwrap();
    assert!(request.starts_with("CONNECT nowhere.invalid:443 HTTP/1.1\r\n"), "{request}");
}

#[tokio::test]
async fn what_needs_no_proxy_is_called_without_one() {
    let (port, mut heads) = peer(DONE).await;
    let settings = serde_json::json!({ "http": "http://127.0.0.1:1", "no_proxy": "localhost" });
    let client = client(settings, &["127.0.0.0/8"]);
    send(&client, &format!("http://localhost:{port}/path")).await.unwrap();
    assert!(heads.recv().await.unwrap().starts_with("GET /path HTTP/1.1\r\n"));
}

#[tokio::test]
async fn a_fault_of_a_proxy_is_not_the_receivers() {
    for (answer, is_fault, why) in [
        ("", false, "hung up before its answer to CONNECT 127.0.0.1:7"),
        ("HTTP/1.1 200 Conn", false, "hung up before its answer to CONNECT 127.0.0.1:7"),
        ("SSH-2.0-OpenSSH_9.6\r\n\r\n", true, "something else than HTTP"),
        ("HTTP/1.1 407 No\r\n\r\n", true, "user or password"),
        ("HTTP/1.1 200 Connected\r\n\r\nmore", false, "sent more than an answer"),
        ("HTTP/1.1 403 No\r\n\r\n", false, "answered 403 to CONNECT 127.0.0.1:7"),
        ("HTTP/1.1 503 No\r\n\r\n", false, "answered 503 to CONNECT 127.0.0.1:7"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        let settings = serde_json::json!({ "http": format!("http://127.0.0.1:{port}") });
        let client = client(settings, &["127.0.0.0/8"]);
        let lack = send(&client, "http://127.0.0.1:7/").await.unwrap_err();
        let (found, text) = match &lack {
            Lack::Proxy(text) => (true, text),
            Lack::Failure(text) => (false, text),
            Lack::Shortage(_) => panic!("{lack:?}"),
        };
        assert!(found == is_fault && text.contains(why), "{answer}: {lack:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_at_fault_and_a_407_by_it_is_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let of = |port: u16, trusted: bool| {
        let settings =
            serde_json::json!({ "http": format!("http://127.0.0.1:{port}"), "trusted": trusted });
        client(settings, &["127.0.0.0/8"])
    };
    for trusted in [false, true] {
        let lack = send(&of(port, trusted), "http://127.0.0.1:7/").await.unwrap_err();
        assert!(matches!(&lack, Lack::Proxy(why) if why.contains("refused")), "{lack:?}");
    }
    let (port, _heads) = peer("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n").await;
    // The receiver itself may say so.
    assert_eq!(send(&of(port, true), "http://127.0.0.1:7/").await.unwrap().status, 407);
}

#[tokio::test]
async fn an_attempt_that_ends_on_the_way_to_a_proxy_is_no_failure_of_its_receiver() {
    // Connections that nobody accepts fill its queue, so that the next one is not made.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    let short = Duration::from_millis(500);
    while let Ok(Ok(stream)) = tourbillon::timeout(short, TcpStream::connect(address)).await {
        queued.push(stream);
    }
    let settings = serde_json::json!({ "https": format!("http://{address}") });
    let client = client(settings, &["127.0.0.0/8"]);
    let request = || Request::get("https://127.0.0.1:7/").body(Full::<Bytes>::default()).unwrap();
    let lack = client.send(request(), CONNECT_ONE).await.0.unwrap_err();
    assert!(matches!(&lack, Lack::Proxy(_)), "{lack:?}");
    // A proxy that works may not be reached within that.
    let lack = client.send(request(), short).await.0.unwrap_err();
    assert!(matches!(&lack, Lack::Failure(why) if why.contains("no whole answer")), "{lack:?}");
}

#[tokio::test]
async fn an_attempt_that_ends_on_the_way_to_its_receiver_is_its_failure() {
    let (port, mut heads) = peer("").await;
    let settings = serde_json::json!({ "http": format!("http://127.0.0.1:{port}") });
    let client = client(settings, &["127.0.0.0/8"]);
    let request = Request::get("http://127.0.0.1:7/").body(Full::<Bytes>::default()).unwrap();
    let sent = tokio::spawn(async move { client.send(request, Duration::from_secs(1)).await.0 });
    heads.recv().await.unwrap();
    let lack = sent.await.unwrap().unwrap_err();
    assert!(matches!(&lack, Lack::Failure(_)), "{lack:?}");
}

#[tokio::test]
async fn a_target_that_hangs_leaves_time_for_the_next() {
    // Says nothing to the first CONNECT, and makes the tunnel of any other.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = head(&mut stream).await.unwrap();
            if !head.starts_with("CONNECT 10.0.0.1:7 ") {
                stream.write_all(TUNNEL.as_bytes()).await.unwrap();
            }
            kept.push(stream);
        }
    });
    let proxy = Proxy { host: "127.0.0.1".to_owned(), port, authorization: None };
    let near = [([127, 0, 0, 1], port).into()];
    let targets = ["10.0.0.1:7", "10.0.0.2:7"].map(|text| text.parse().unwrap());
    let (reach, steps) = (Reach::new(&Timer::global()), Arc::default());
    let way = Way { reach: &reach, proxy: &proxy, near: &near, steps: &steps };
    let tunnel = |address: SocketAddr| way.tunnel(address.to_string());
    reach.first("host", targets.to_vec(), tunnel).await.unwrap();
}
