//! Clients that try the limits, and clients that keep well within them.
//!
//! They keep time with smol's timer and the system's clock, so that nothing is its own judge.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use smol::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use smol::net::TcpStream;

use super::limits::Limit;
use super::server::LARGE;

/// A way to be slow.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Limit that is to cut it.
    pub(crate) limit: Limit,
    /// Text that it sends at once.
    sends: &'static str,
    then: Then,
}

/// Behaviour of a slow client when it has sent that.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Wait,
    /// Waits, and sends a byte now and then.
    Dribble,
    /// Takes an answer before it waits.
    Greet,
    /// Takes an answer, is idle for most of the limit, and begins another head.
    GreetAndStall,
    /// Sends on, and reads nothing.
    Deaf,
}

const HELLO: &str = "GET / HTTP/1.1\r\nhost: example\r\n\r\n";
const HELLO_AND_PART: &str = "GET / HTTP/1.1\r\nhost: example\r\n\r\nGET / HTTP/1.1\r\nho";
const LARGE_PAGE: &str = "GET /large HTTP/1.1\r\nhost: example\r\n\r\n";
const SLOW_PAGE: &str = "GET /slow HTTP/1.1\r\nhost: example\r\n\r\n";
const HEAD_PART: &str = "GET / HTTP/1.1\r\nx-long: ";
const BODY_PART: &str = "POST /echo HTTP/1.1\r\nhost: example\r\ncontent-length: 100\r\n\r\npart";

pub(crate) const KINDS: [Kind; 8] = [
    kind("silent from the start", Limit::Idle, "", Then::Wait),
    kind("idle after a request", Limit::Idle, HELLO, Then::Greet),
    kind("dribbles its head", Limit::Header, HEAD_PART, Then::Dribble),
    kind("stalls in a later head", Limit::Header, HELLO, Then::GreetAndStall),
    kind("sends part of a second", Limit::Header, HELLO_AND_PART, Then::Greet),
    kind("stalls in its body", Limit::Request, BODY_PART, Then::Wait),
    kind("asks for a slow page", Limit::Request, SLOW_PAGE, Then::Wait),
    kind("reads no answer", Limit::Write, LARGE_PAGE, Then::Deaf),
];

const fn kind(name: &'static str, limit: Limit, sends: &'static str, then: Then) -> Kind {
    Kind { name, limit, sends, then }
}

type Stream = BufReader<TcpStream>;

async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Reads the head of a response, and expects this status.
async fn expect_head(stream: &mut Stream, status: &str) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if !head.starts_with(format!("HTTP/1.1 {status} ").as_bytes()) {
        return Err(io::Error::other(format!(
            "wrong answer: {:?}",
            String::from_utf8_lossy(&head)
        )));
    }
    Ok(())
}

/// Reads a response, and expects this status and body.
async fn expect(stream: &mut Stream, status: &str, body: &str) -> io::Result<()> {
    expect_head(stream, status).await?;
    let mut bytes = vec![0; body.len()];
    stream.read_exact(&mut bytes).await?;
    if bytes != body.as_bytes() {
        return Err(io::Error::other(format!("wrong body: {:?}", String::from_utf8_lossy(&bytes))));
    }
    Ok(())
}

/// Is slow until it is cut; returns how late that was.
///
/// The deadline counts from an instant before anything that could start the server's timer, so a
/// cut that seems early is early, and the lateness is at most the span returned.
pub(crate) async fn slow_client(address: SocketAddr, kind: Kind) -> io::Result<Duration> {
    let mut deadline = Instant::now() + kind.limit.span();
    let mut stream = connect(address).await?;
    stream.get_mut().write_all(kind.sends.as_bytes()).await?;
    if matches!(kind.then, Then::Greet | Then::GreetAndStall) {
        expect(&mut stream, "200", "hello\n").await?;
    }
    if kind.then == Then::GreetAndStall {
        smol::Timer::after(Limit::Idle.span() * 3 / 4).await;
        deadline = Instant::now() + kind.limit.span();
        stream.get_mut().write_all(HEAD_PART.as_bytes()).await?;
    }
    let was_answered = match kind.then {
        Then::Deaf => {
            until_it_cannot_send(stream.get_mut()).await;
            false
        }
        _ => until_it_hears(&mut stream, kind.then == Then::Dribble).await,
    };
    let late = Instant::now().checked_duration_since(deadline);
    match (was_answered, kind.limit) {
        // The server has read the head, and owes an answer before it cuts.
        (true, Limit::Request) => {
            expect(&mut stream, "503", "that took too long\n").await?;
            if !stream.fill_buf().await?.is_empty() {
                return Err(io::Error::other("answered, but not cut"));
            }
        }
        (false, Limit::Request) => return Err(io::Error::other("cut without an answer")),
        (true, _) => return Err(io::Error::other("answered")),
        (false, _) => {}
    }
    late.ok_or_else(|| io::Error::other("cut early"))
}

/// Waits for an answer, or to be cut. Returns whether it was an answer.
async fn until_it_hears(stream: &mut Stream, dribbles: bool) -> bool {
    let mut writer = stream.get_ref().clone();
    let dribble = async {
        if !dribbles {
            return pending().await;
        }
        loop {
            smol::Timer::after(Duration::from_millis(40)).await;
            // Fails once the connection is cut.
            writer.write_all(b"x").await?;
        }
    };
    let answer = async { stream.fill_buf().await.map(|bytes| !bytes.is_empty()) };
    // An error is a cut too: closing resets the connection where bytes of the client are unread.
    smol::future::or(answer, dribble).await.unwrap_or(false)
}

/// Sends request after request, and reads nothing. That the connection is cut shows when it sends.
async fn until_it_cannot_send(stream: &mut TcpStream) {
    while stream.write_all(LARGE_PAGE.as_bytes()).await.is_ok() {
        smol::Timer::after(Duration::from_millis(1)).await;
    }
}

/// Sends good requests on one connection until the time is up: whole ones, and some that rest for a
/// moment in the head or in the body, well within the limits.
pub(crate) async fn good_client(
    address: SocketAddr,
    number: u64,
    run: Duration,
    is_good: impl Fn(),
) -> io::Result<()> {
    let start = Instant::now();
    let mut stream = connect(address).await?;
    let mut round = number;
    while start.elapsed() < run {
        round += 1;
        let body = format!("round {round} of client {number}");
        let head = "POST /echo HTTP/1.1\r\nhost: example\r\ncontent-length:";
        let echo = format!("{head} {}\r\n\r\n{body}", body.len());
        let (request, rest_at, expected) = match round % 16 {
            0 => (echo.as_str(), echo.len() - 4, body.as_str()),
            1 => (HELLO, 9, "hello\n"),
            turn if turn % 2 == 0 => (echo.as_str(), 0, body.as_str()),
            _ => (HELLO, 0, "hello\n"),
        };
        let (before, after) = request.as_bytes().split_at(rest_at);
        if !before.is_empty() {
            stream.get_mut().write_all(before).await?;
            smol::Timer::after(Duration::from_millis(50)).await;
        }
        stream.get_mut().write_all(after).await?;
        expect(&mut stream, "200", expected).await?;
        is_good();
        smol::Timer::after(Duration::from_millis(1 + round % 7)).await;
    }
    Ok(())
}

/// Takes its time over a large page: longer than the limit on writes in all, but with something
/// taken every few milliseconds.
pub(crate) async fn leisurely_client(
    address: SocketAddr,
    run: Duration,
    is_good: impl Fn(),
) -> io::Result<()> {
    const STEPS: u32 = 100;
    let start = Instant::now();
    let mut stream = connect(address).await?;
    let mut part = vec![0; LARGE.div_ceil(STEPS as usize)];
    while start.elapsed() < run {
        stream.get_mut().write_all(LARGE_PAGE.as_bytes()).await?;
        expect_head(&mut stream, "200").await?;
        let mut left = LARGE;
        while left > 0 {
            smol::Timer::after(Limit::Write.span() * 5 / 4 / STEPS).await;
            let length = left.min(part.len());
            stream.read_exact(&mut part[..length]).await?;
            left -= length;
        }
        is_good();
    }
    Ok(())
}
