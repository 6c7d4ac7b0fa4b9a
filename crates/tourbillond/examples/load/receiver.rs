//! Receiver of the callbacks, which answers each with 204.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tourbillon_durable::Time;
use tourbillond::model::time;

use crate::Result;
use crate::connection::{head_of, header};

/// The calls that came.
#[derive(Default)]
pub(crate) struct Calls {
    pub(crate) count: AtomicU64,
    came: Mutex<Came>,
}

#[derive(Default)]
struct Came {
    /// Lateness of each, by this host's clock.
    late_us: Vec<i64>,
    /// Time of the last.
    last: Time,
}

impl Calls {
    /// Prints how many came a second since the first was due, and how late they were.
    pub(crate) fn print(&self, first: SystemTime) -> Result<()> {
        let came = self.came.lock().expect("no panic");
        let mut late = came.late_us.clone();
        late.sort_unstable();
        let took_us = came.last.as_micros() - Time::from(first).as_micros();
        let count = late.len();
        println!("{count} callbacks, {:.0} a second", count as f64 * 1e6 / took_us as f64);
        for (text, part) in
            [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.99", 0.9999), ("max", 1.0)]
        {
            let late = at(&late, part).ok_or("no callback")?;
            println!("  {text}: {:.1} ms late", *late as f64 / 1e3);
        }
        println!("  {} early", late.iter().filter(|late| **late < 0).count());
        Ok(())
    }
}

/// The value of a sorted list that such a part of all are not above; `None` of an empty one.
pub(crate) fn at<T>(sorted: &[T], part: f64) -> Option<&T> {
    let place = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(place.saturating_sub(1))
}

/// Starts a receiver, and returns its address.
pub(crate) async fn start() -> Result<(SocketAddr, Arc<Calls>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let calls = Arc::new(Calls::default());
    let shared = calls.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let calls = shared.clone();
            tokio::spawn(async move { answer(stream, &calls).await });
        }
    });
    Ok((address, calls))
}

async fn answer(mut stream: TcpStream, calls: &Calls) -> Result<()> {
    let mut read = Vec::with_capacity(4_096);
    while stream.read_buf(&mut read).await? > 0 {
        let Some((end, head)) = head_of(&read) else { continue };
        let length = header(head, "content-length").map_or(Ok(0), str::parse)?;
        if read.len() < end + length {
            continue;
        }
        let now = Time::from(SystemTime::now());
        let due = time(header(head, "tourbillon-scheduled-for").ok_or("no time")?)?;
        {
            let mut came = calls.came.lock().expect("no panic");
            came.late_us.push(now.as_micros() - due.as_micros());
            came.last = came.last.max(now);
        }
        calls.count.fetch_add(1, Relaxed);
        read.drain(..end + length);
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
    }
    Ok(())
}
