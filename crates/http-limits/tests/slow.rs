//! Clients that are slow in each way, on a virtual clock, and clients that are not.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;
use tourbillon_http_limits::{Limit, Limits, Socket, Standing, Watch};

const HELLO: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const ECHO: &[u8] = b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n1\r\n\r\n2";
const LARGE: usize = 1 << 20;
const MOMENT: Duration = Duration::from_millis(1);

/// Both directions of a connection.
#[derive(Default)]
struct Pipe {
    /// Bytes that the client has sent, and that were not read yet.
    sent: Vec<u8>,
    /// Bytes that the client has got.
    got: Vec<u8>,
    /// Bytes that the client still takes.
    room: usize,
}

/// The server's end.
#[derive(Clone)]
struct End(Arc<Mutex<Pipe>>);

impl End {
    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap()
    }
}

impl Read for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe();
        if pipe.sent.is_empty() {
            return Poll::Pending;
        }
        let count = pipe.sent.len().min(buffer.remaining());
        buffer.put_slice(&pipe.sent[..count]);
        pipe.sent.drain(..count);
        Poll::Ready(Ok(()))
    }
}

impl Write for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.pipe();
        let count = bytes.len().min(pipe.room);
        if count == 0 {
            return Poll::Pending;
        }
        pipe.room -= count;
        pipe.got.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A server with one client. Its test polls it, so there is nothing to wake.
struct Server {
    clock: VirtualClock,
    client: End,
    watch: Arc<Watch>,
    serves: Pin<Box<dyn Future<Output = Option<Limit>>>>,
}

impl Server {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
        let client = End(Arc::new(Mutex::new(Pipe { room: 1 << 20, ..Pipe::default() })));
        let watch = Arc::new(Watch::new(&timer, Limits::default()));
        let (own, stream) = (Arc::clone(&watch), client.clone());
        let serves = Box::pin(async move {
            let seen = Arc::clone(&own);
            let service = service_fn(move |request: Request<Incoming>| {
                let length = request.body().size_hint().exact();
                seen.request_begins(length);
                let (seen, path) = (Arc::clone(&seen), request.uri().path().to_owned());
                async move {
                    if path == "/echo" {
                        request.collect().await.expect("a whole body");
                    }
                    let size = if path == "/large" { LARGE } else { 5 };
                    let mut answer = Response::new(Full::new(Bytes::from(vec![b'.'; size])));
                    if path == "/refuse" || length.is_none() {
                        answer.headers_mut().insert("connection", "close".parse().unwrap());
                    }
                    seen.response_begins(path != "/refuse");
                    Ok::<_, Infallible>(answer)
                }
            });
            let mut builder = http1::Builder::new();
            builder.header_read_timeout(None);
            let mut connection =
                Box::pin(builder.serve_connection(Socket::new(stream, own.clone()), service));
            poll_fn(|cx| match connection.as_mut().poll(cx) {
                Poll::Ready(_) => Poll::Ready(None),
                Poll::Pending => own.poll_limit(cx).map(Some),
            })
            .await
        });
        Self { clock, client, watch, serves }
    }

    /// Polls the server a few times: hyper may continue only with the next poll.
    fn turn(&mut self) -> Option<Option<Limit>> {
        for _ in 0..8 {
            if let Poll::Ready(end) =
                self.serves.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return Some(end);
            }
        }
        None
    }

    fn send(&mut self, bytes: &[u8]) {
        self.client.pipe().sent.extend_from_slice(bytes);
        assert_eq!(self.turn(), None);
    }

    /// Lets time go by; returns the end of the connection, if that is there.
    fn after(&mut self, span: Duration) -> Option<Option<Limit>> {
        self.clock.advance(span);
        self.turn()
    }

    /// Returns how many answers the client has got.
    fn answers(&self) -> usize {
        String::from_utf8_lossy(&self.client.pipe().got).matches("HTTP/1.1 200 ").count()
    }

    fn standing(&self) -> Option<Standing> {
        self.watch.standing().map(|(standing, _)| standing)
    }
}

fn span(limit: Limit) -> Duration {
    Limits::default().span(limit)
}

#[test]
fn a_client_that_says_nothing_is_closed_when_idle_is_over() {
    let mut server = Server::new();
    assert_eq!(server.after(span(Limit::Idle) - MOMENT), None);
    assert_eq!(server.after(MOMENT), Some(Some(Limit::Idle)));
}

#[test]
fn a_head_that_trickles_in_is_limited_from_its_first_byte() {
    for before in [HELLO, b""] {
        let mut server = Server::new();
        server.send(before);
        assert_eq!(server.after(span(Limit::Idle) - MOMENT), None);
        for _ in 0..9 {
            server.send(b"G");
            assert_eq!(server.after(Duration::from_secs(1)), None);
        }
        assert_eq!(server.after(Duration::from_secs(1)), Some(Some(Limit::Header)));
    }
}

/// The limit counts from the last byte that it has taken.
#[test]
fn a_client_that_takes_no_answer_is_cut_whatever_it_sends() {
    let mut server = Server::new();
    server.client.pipe().room = 1_000;
    server.send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(server.after(span(Limit::Write) - MOMENT), None);
    server.client.pipe().room = 1;
    assert_eq!(server.turn(), None);
    for _ in 0..2 {
        server.send(HELLO);
        assert_eq!(server.after((span(Limit::Write) - MOMENT) / 2), None);
    }
    assert_eq!(server.standing(), Some(Standing::Unread));
    assert_eq!(server.after(MOMENT), Some(Some(Limit::Write)));
}

#[test]
fn a_client_that_takes_an_answer_slowly_is_served_to_the_end() {
    for (behind, answers) in [(&b""[..], 1), (HELLO, 2)] {
        let mut server = Server::new();
        server.client.pipe().room = 0;
        server.send(&[b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n", behind].concat());
        for _ in 0..65 {
            assert_eq!(server.after(span(Limit::Write) - MOMENT), None);
            server.client.pipe().room += LARGE / 64;
            assert_eq!(server.turn(), None);
        }
        assert_eq!(server.answers(), answers);
        // The silence begins with the last byte that is taken.
        assert_eq!(server.after(span(Limit::Idle) - MOMENT), None);
        assert_eq!(server.after(MOMENT), Some(Some(Limit::Idle)));
    }
}

#[test]
fn a_body_that_nobody_reads_is_drained_until_linger_is_over() {
    let mut server = Server::new();
    server.send(b"POST /refuse HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc");
    assert!(server.client.pipe().got.starts_with(b"HTTP/1.1 200"));
    assert_eq!(server.after(span(Limit::Linger) - MOMENT), None);
    assert_eq!(server.after(MOMENT), Some(Some(Limit::Linger)));
}

#[test]
fn a_client_that_keeps_asking_is_never_closed() {
    let mut server = Server::new();
    for _ in 0..100 {
        server.send(HELLO);
        assert_eq!(server.after(span(Limit::Idle) - MOMENT), None);
    }
}

#[test]
fn a_head_that_begins_with_the_request_before_is_cut_at_the_header_limit() {
    for (before, answers) in [(HELLO, 1), (ECHO, 1), (&[HELLO, ECHO, HELLO].concat(), 3)] {
        let mut server = Server::new();
        server.send(&[before, &HELLO[..9]].concat());
        assert_eq!(server.answers(), answers);
        assert_eq!(server.after(span(Limit::Header) - MOMENT), None);
        assert_eq!(server.after(MOMENT), Some(Some(Limit::Header)));
    }
    // Nothing of the next: that is idle, also if the end of the body or head comes by itself.
    for (first, rest) in
        [HELLO.split_at(0), HELLO.split_at(HELLO.len() - 1), ECHO.split_at(ECHO.len() - 3)]
    {
        let mut server = Server::new();
        server.send(first);
        assert_eq!(server.after(MOMENT), None);
        server.send(rest);
        assert_eq!(server.answers(), 1);
        assert_eq!(server.after(span(Limit::Idle) - MOMENT), None);
        assert_eq!(server.after(MOMENT), Some(Some(Limit::Idle)));
    }
}

#[test]
fn a_body_in_chunks_is_served_and_ends_the_connection() {
    let mut server = Server::new();
    let request = b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n\
                    2\r\nab\r\n0\r\n\r\nGET / HTTP/1.1\r\nho";
    server.send(request);
    assert_eq!(server.answers(), 1);
    assert_eq!(server.after(span(Limit::Linger)), Some(Some(Limit::Linger)));
}

#[test]
fn a_client_is_a_stranger_until_it_is_granted_something() {
    let mut server = Server::new();
    assert_eq!(server.standing(), Some(Standing::Silent));
    server.send(&HELLO[..9]);
    assert_eq!(server.standing(), Some(Standing::Begins));
    server.send(&HELLO[9..]);
    assert_eq!(server.standing(), Some(Standing::Idle));
    server.send(&HELLO[..9]);
    assert_eq!(server.standing(), Some(Standing::Continues));
}
