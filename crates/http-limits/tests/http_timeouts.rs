//! The example's server: its connections under virtual time.

#[path = "../examples/http_timeouts/limits.rs"]
mod limits;
#[path = "../examples/http_timeouts/server.rs"]
mod server;
#[path = "../examples/http_timeouts/socket.rs"]
mod socket;

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smol::io::{AsyncRead, AsyncWrite};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

use limits::Limit;
use server::{Counters, LARGE};

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const HELLO: &str = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
const PART: &str = "GET / HTTP/1.1\r\nho";

/// A connection, for both of its ends.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    sent: Vec<u8>,
    answered: Vec<u8>,
    /// Number of bytes of answers that the client still takes.
    room: usize,
    waker: Option<Waker>,
}

impl Wire {
    /// All that is sent at once comes with one read.
    fn send(&self, text: &str) {
        let mut state = self.0.lock().unwrap();
        state.sent.extend_from_slice(text.as_bytes());
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn take(&self, count: usize) {
        let mut state = self.0.lock().unwrap();
        state.room += count;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn answered(&self) -> usize {
        self.0.lock().unwrap().answered.len()
    }

    fn answers(&self, status: &str) -> usize {
        let answered = String::from_utf8_lossy(&self.0.lock().unwrap().answered).into_owned();
        answered.matches(&format!("HTTP/1.1 {status} ")).count()
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.sent.is_empty() {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.len().min(state.sent.len());
        buffer[..count].copy_from_slice(&state.sent[..count]);
        state.sent.drain(..count);
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if state.room == 0 {
            state.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = bytes.len().min(state.room);
        state.room -= count;
        state.answered.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Serves a client that follows `script`. Returns the limit that it was cut for, the time from its
/// start to the cut, and the wire.
fn cut(script: impl AsyncFnOnce(&Wire, &Timer)) -> (Option<Limit>, Duration, Wire) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let (wire, counters) = (Wire::default(), Counters::default());
    let start = clock.now();
    let limit = clock.block_on(async {
        let script = async {
            script(&wire, &timer).await;
            pending().await
        };
        smol::future::or(server::connection(wire.clone(), &timer, &counters), script).await
    });
    for of in Limit::ALL.into_iter().filter(|of| *of != Limit::Request) {
        assert_eq!(counters.cuts(of), u64::from(limit == Some(of)), "{}", of.name());
    }
    (limit, clock.now() - start, wire)
}

#[test]
fn a_head_that_begins_with_the_request_before_is_cut_at_the_header_limit() {
    let echo = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 6\r\n\r\n1\r\n\r\n2";
    for (before, answers) in [(HELLO, 1), (echo, 1), (&format!("{HELLO}{echo}{HELLO}"), 3)] {
        let (limit, after, wire) = cut(async |wire, _| {
            wire.take(usize::MAX);
            wire.send(&format!("{before}{PART}"));
        });
        assert_eq!((limit, after), (Some(Limit::Header), Limit::Header.span()), "{before}");
        assert_eq!(wire.answers("200"), answers);
    }
    // Nothing of the next: that is idle, also if the end of the body or head comes by itself.
    for parts in
        [["", HELLO], HELLO.split_at(HELLO.len() - 1).into(), echo.split_at(echo.len() - 3).into()]
    {
        let (limit, after, wire) = cut(async |wire, timer| {
            wire.take(usize::MAX);
            wire.send(parts[0]);
            timer.sleep(ms(100)).await;
            wire.send(parts[1]);
        });
        assert_eq!((limit, after), (Some(Limit::Idle), ms(100) + Limit::Idle.span()), "{parts:?}");
        assert_eq!(wire.answers("200"), 1);
    }
}

#[test]
fn a_client_that_takes_no_answer_is_cut_whatever_it_sends() {
    let (limit, after, wire) = cut(async |wire, timer| {
        wire.take(100_000);
        wire.send("GET /large HTTP/1.1\r\nhost: x\r\n\r\n");
        for _ in 0..100 {
            timer.sleep(ms(100)).await;
            wire.send(HELLO);
        }
    });
    assert_eq!((limit, after), (Some(Limit::Write), Limit::Write.span()));
    assert_eq!(wire.answered(), 100_000);
}

#[test]
fn a_client_that_takes_an_answer_slowly_is_served_to_the_end() {
    let step = Limit::Write.span() - ms(1);
    for (behind, answers) in [("", 1), (HELLO, 2)] {
        let (limit, after, wire) = cut(async |wire, timer| {
            wire.send(&format!("GET /large HTTP/1.1\r\nhost: x\r\n\r\n{behind}"));
            for _ in 0..65 {
                timer.sleep(step).await;
                wire.take(LARGE / 64);
            }
        });
        // The silence begins with the last byte that is taken.
        assert_eq!((limit, after), (Some(Limit::Idle), step * 65 + Limit::Idle.span()));
        assert_eq!(wire.answers("200"), answers);
    }
}

#[test]
fn a_request_that_takes_too_long_is_answered_and_ends_the_connection() {
    let part = "POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\npart";
    for request in ["GET /slow HTTP/1.1\r\nhost: x\r\n\r\n", part] {
        let (limit, after, wire) = cut(async |wire, timer| {
            wire.take(usize::MAX);
            // Neither the silence before it nor the head counts any more.
            timer.sleep(ms(1400)).await;
            wire.send(request);
        });
        assert_eq!((limit, after), (None, ms(1400) + Limit::Request.span()), "{request}");
        assert_eq!(wire.answers("503"), 1);
    }
}

#[test]
fn a_body_in_chunks_is_served_and_ends_the_connection() {
    let head = "POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    let (limit, after, wire) = cut(async |wire, _| {
        wire.take(usize::MAX);
        wire.send(&format!("{head}2\r\nab\r\n0\r\n\r\n{PART}"));
    });
    assert_eq!((limit, after), (None, Duration::ZERO));
    assert_eq!(wire.answers("200"), 1);
}
