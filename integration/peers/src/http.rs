//! The part of HTTP that the measurements need: a receiver of callbacks, and a client.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Result;
use crate::peer::now_us;

/// Lateness of each callback, in microseconds.
pub(crate) type Late = Arc<Mutex<Vec<i64>>>;

/// Starts a receiver, which answers everything with 204. A body says when it is due, in
/// milliseconds: `{"due":1700000000000}`.
pub(crate) async fn receive() -> Result<(SocketAddr, Late)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let late = Late::default();
    let shared = late.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let late = shared.clone();
            tokio::spawn(async move { answer(stream, &late).await });
        }
    });
    Ok((address, late))
}

async fn answer(stream: TcpStream, late: &Late) -> Result<()> {
    let mut messages = Messages::new(stream)?;
    loop {
        let (_, body) = messages.next().await?;
        let digits: String = body.chars().filter(char::is_ascii_digit).collect();
        let due_us = digits.parse::<i64>()? * 1_000;
        late.lock().expect("no panic").push(now_us() - due_us);
        messages.stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
}

/// A connection to the service.
pub(crate) struct Client {
    messages: Messages,
    host: SocketAddr,
}

impl Client {
    pub(crate) async fn connect(host: SocketAddr) -> Result<Self> {
        Ok(Self { messages: Messages::new(TcpStream::connect(host).await?)?, host })
    }

    /// Sends a request, and reads its answer; its status has to be 2xx.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.host,
            body.len(),
        );
        self.messages.stream.write_all(request.as_bytes()).await?;
        let (head, body) = self.messages.next().await?;
        if head.starts_with("HTTP/1.1 2") { Ok(()) } else { Err(format!("{head}{body}").into()) }
    }
}

/// Messages of a connection, one after the other.
struct Messages {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Messages {
    fn new(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::with_capacity(4_096) })
    }

    /// The next message: its head and its body.
    async fn next(&mut self) -> Result<(String, String)> {
        loop {
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8(self.read[..end + 4].to_vec())?;
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse())
                });
                let whole = end + 4 + length.unwrap_or(Ok(0))?;
                if self.read.len() >= whole {
                    let body = String::from_utf8(self.read[end + 4..whole].to_vec())?;
                    self.read.drain(..whole);
                    return Ok((head, body));
                }
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the other side closed the connection".into());
            }
        }
    }
}
