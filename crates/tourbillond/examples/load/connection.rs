//! [`Connection`]: requests to the API, one after another.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{APP, Result};

/// Connection to the API that is kept open.
pub(crate) struct Connection {
    api: SocketAddr,
    stream: TcpStream,
    read: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(api: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(api).await?;
        stream.set_nodelay(true)?;
        Ok(Self { api, stream, read: Vec::with_capacity(4_096) })
    }

    /// Sends a request about the schedules of the app, and returns the body of its answer.
    ///
    /// # Errors
    ///
    /// The answer, if its status is not 2xx.
    pub(crate) async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<&[u8]> {
        let request = format!(
            "{method} /v1/apps/{APP}/schedules{path} HTTP/1.1\r\nHost: {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.api,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        self.read.clear();
        loop {
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err("the service closed the connection".into());
            }
            let Some((start, head)) = head_of(&self.read) else { continue };
            let is_good = head.starts_with("HTTP/1.1 2");
            let length: usize = header(head, "content-length").ok_or("no length")?.parse()?;
            if self.read.len() < start + length {
                continue;
            }
            if !is_good {
                return Err(String::from_utf8_lossy(&self.read).into_owned().into());
            }
            return Ok(&self.read[start..start + length]);
        }
    }
}

/// The head of a message, if it is whole, and where it ends.
pub(crate) fn head_of(read: &[u8]) -> Option<(usize, &str)> {
    let end = read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    Some((end, std::str::from_utf8(&read[..end]).ok()?))
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (own, value) = line.split_once(':')?;
        own.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}
