mod kept;
mod tls;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::unbounded_channel;

use super::*;
use crate::config::App;
use crate::dispatch::head;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(100);

/// A receiver: its conduct on each connection, and the number of connections.
async fn receiver<F>(handle: impl Fn(TcpStream) -> F + Send + 'static) -> (String, Arc<AtomicUsize>)
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, SeqCst);
            tokio::spawn(handle(stream));
        }
    });
    (url, count)
}

fn client(network: &str) -> Client {
    let app = App { networks: vec![network.parse().unwrap()], ..App::default() };
    Client::new(&app, &Timer::global())
}

fn get(url: &str) -> Request<Full<Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

async fn send(client: &Client, url: &str) -> Result<Answer, Lack> {
    client.send(get(url), LONG).await.0
}

/// Why a receiver is to blame for there being no answer.
fn failure(answer: Result<Answer, Lack>) -> String {
    match answer.unwrap_err() {
        Lack::Failure(why) => why,
        lack => panic!("{lack:?}"),
    }
}

#[tokio::test]
async fn an_answer_has_its_status_and_the_beginning_of_its_body() {
    let (url, connections) = receiver(async |mut stream: TcpStream| {
        loop {
            head(&mut stream).await?;
            let answer = "HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 20000\r\n\r\n";
            stream.write_all(answer.as_bytes()).await?;
            stream.write_all(&[b'x'; 20_000]).await?;
        }
    })
    .await;
    let client = client("127.0.0.0/8");
    for _ in 0..2 {
        let answer = send(&client, &url).await.unwrap();
        assert_eq!(answer.status, 503);
        assert_eq!(answer.headers["retry-after"], "7");
        assert_eq!(answer.body, [b'x'; BODY_KEPT]);
    }
    assert_eq!(connections.load(SeqCst), 1);
}

#[tokio::test]
async fn steps_of_a_connection_are_those_of_the_attempt_that_made_it() {
    let (url, connections) = receiver(async |mut stream: TcpStream| {
        loop {
            let request = head(&mut stream).await?;
            assert!(request.contains("host: localhost:"), "{request}");
            stream.write_all(b"HTTP/1.1 204 Done\r\n\r\n").await?;
        }
    })
    .await;
    let url = url.replace("127.0.0.1", "localhost");
    let client = client("127.0.0.0/8");
    loop {
        let before = connections.load(SeqCst);
        let (answer, timing) = client.send(get(&url), LONG).await;
        answer.unwrap();
        let Timing { resolve_ms, connect_ms, tls_ms, first_byte_ms } = timing;
        let is_made = connections.load(SeqCst) > before;
        assert_eq!((resolve_ms.is_some(), connect_ms.is_some()), (is_made, is_made), "{timing:?}");
        assert!(tls_ms.is_none() && first_byte_ms.is_some(), "{timing:?}");
        if !is_made {
            break;
        }
    }
}

#[tokio::test]
async fn steps_that_came_to_their_end_are_known_without_an_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
    let mut limit = Duration::from_millis(1);
    let made = loop {
        let (answer, timing) = client("127.0.0.0/8").send(get(&url), limit).await;
        assert!(answer.is_err());
        if timing.connect_ms.is_some() {
            break timing;
        }
        limit *= 2;
    };
    assert!(made.resolve_ms.is_some() && made.first_byte_ms.is_none(), "{made:?}");
    drop(listener);
    let (answer, refused) = client("127.0.0.0/8").send(get(&url), LONG).await;
    assert!(answer.is_err());
    assert!(refused.resolve_ms.is_some() && refused.connect_ms.is_none(), "{refused:?}");
}

#[tokio::test]
async fn what_is_not_allowed_gets_no_connection() {
    let (url, connections) = receiver(async |_| Ok(())).await;
    let named = url.replace("127.0.0.1", "localhost");
    for url in [&url, &named] {
        let error = failure(send(&client("10.0.0.0/8"), url).await);
        assert!(error.contains("is loopback"), "{error}");
    }
    assert_eq!(connections.load(SeqCst), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (target, connections) = receiver(async |_| Ok(())).await;
    let (url, _) = receiver(move |mut stream: TcpStream| {
        let answer = format!("HTTP/1.1 307 Go\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n");
        async move {
            head(&mut stream).await?;
            stream.write_all(answer.as_bytes()).await
        }
    })
    .await;
    assert_eq!(send(&client("127.0.0.0/8"), &url).await.unwrap().status, 307);
    assert_eq!(connections.load(SeqCst), 0);
}

/// Sends a request to a receiver with this answer, which continues byte by byte if it dribbles, and
/// waits until the receiver has noticed that it was cut.
async fn is_cut(answer: &'static str, dribble: bool) {
    let (asked, mut was_asked) = unbounded_channel();
    let (cut, mut noticed) = unbounded_channel();
    let (url, _) = receiver(move |mut stream: TcpStream| {
        let (asked, cut) = (asked.clone(), cut.clone());
        async move {
            head(&mut stream).await?;
            let _ = asked.send(());
            stream.write_all(answer.as_bytes()).await?;
            if dribble {
                while stream.write_all(b"x").await.is_ok() {
                    tourbillon::sleep(Duration::from_millis(1)).await;
                }
            } else {
                assert_eq!(stream.read(&mut [0]).await?, 0);
            }
            let _ = cut.send(());
            Ok(())
        }
    })
    .await;
    let client = client("127.0.0.0/8");
    // A short limit may end before the receiver has the request.
    let mut limit = Duration::from_millis(1);
    while was_asked.try_recv().is_err() {
        limit *= 2;
        let error = failure(client.send(get(&url), limit).await.0);
        assert!(error.contains(&format!("within {limit:?}")), "{error}");
    }
    noticed.recv().await.unwrap();
}

#[tokio::test]
async fn a_receiver_that_does_not_come_to_the_end_of_its_answer_is_cut() {
    is_cut("", false).await;
    is_cut("HTTP/1.1 200 OK\r\nX: ", true).await;
    is_cut("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n", true).await;
}

#[tokio::test]
async fn of_an_endless_body_no_more_is_read_than_the_limit() {
    let (url, _) = receiver(async |mut stream: TcpStream| {
        head(&mut stream).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        loop {
            stream.write_all(&[b'x'; 4_096]).await?;
        }
    })
    .await;
    let answer = send(&client("127.0.0.0/8"), &url).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, BODY_KEPT));
}

#[tokio::test]
async fn a_head_is_limited_by_its_bytes_and_not_by_its_headers() {
    let (url, _) = receiver(async |mut stream: TcpStream| {
        let path = head(&mut stream).await?;
        let count = path.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        let lines = "a:\r\n".repeat(count);
        stream.write_all(format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes()).await
    })
    .await;
    let client = client("127.0.0.0/8");
    for (count, is_taken) in [(101, true), (16_379, true), (16_380, false)] {
        let answer = send(&client, &format!("{url}{count}")).await;
        assert_eq!(answer.is_ok(), is_taken, "{count}");
    }
}

#[tokio::test]
async fn what_may_have_a_body_says_that_it_has_none() {
    let (url, _) = receiver(async |mut stream: TcpStream| {
        loop {
            let head = head(&mut stream).await?;
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let answer = format!("HTTP/1.1 204 Done\r\nX-Length: {length:?}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await?;
        }
    })
    .await;
    let client = client("127.0.0.0/8");
    for method in ["POST", "PUT", "PATCH", "GET", "HEAD", "DELETE", "OPTIONS"] {
        let request = Request::builder().method(method).uri(&url).body(Full::default()).unwrap();
        let answer = client.send(request, LONG).await.0.unwrap();
        let has_meaning = method.starts_with('P');
        let expected = if has_meaning { r#"Some("0")"# } else { "None" };
        assert_eq!(answer.headers["x-length"], expected, "{method}");
    }
}

#[tokio::test]
async fn an_error_names_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = failure(send(&client("127.0.0.0/8"), &url).await);
    assert!(error.contains("refused"), "{error}");
}

#[test]
fn a_shortage_is_found_however_deep_it_is() {
    use rustix::io::Errno;
    let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
    for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS, Errno::ADDRNOTAVAIL] {
        let within = io::Error::other(io::Error::other(of(errno)));
        for error in [of(errno), within] {
            let lack = Lack::of(&error);
            assert!(matches!(lack, Lack::Shortage(_)), "{errno:?}: {lack:?}");
        }
    }
    assert!(matches!(Lack::of(&io::Error::other(Shortage("threads"))), Lack::Shortage(_)));
    for errno in [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::ACCESS] {
        assert!(matches!(Lack::of(&of(errno)), Lack::Failure(_)), "{errno:?}");
    }
}
