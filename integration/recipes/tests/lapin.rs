//! async-rs's runtime, which lapin is generic over: smol's, with our timers.
#![cfg(unix)]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::Task;
use async_rs::{Runtime, Smol};
use futures::{AsyncRead, AsyncWrite, Stream, StreamExt};
use lapin::{Connection, ConnectionProperties};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

/// smol, and a timer in place of its own.
#[derive(Clone, Debug)]
struct Ours(Smol, Timer);

impl RuntimeKit for Ours {}

impl Executor for Ours {
    type Task<T: Send + 'static> = <Smol as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.0.block_on(future)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        future: F,
    ) -> Task<Self::Task<T>> {
        self.0.spawn(future)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
        &self,
        work: F,
    ) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(work)
    }
}

impl Reactor for Ours {
    type TcpStream = <Smol as Reactor>::TcpStream;
    type Sleep = Sleep;

    fn register<H: Read + Write + AsFd + AsRawFd + Send + 'static>(
        &self,
        socket: H,
    ) -> io::Result<impl AsyncRead + AsyncWrite + Send + Unpin + 'static> {
        self.0.register(socket)
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.1.sleep(duration)
    }

    fn interval(&self, period: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.1.interval(period)
    }

    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        self.0.tcp_connect_addr(address)
    }
}

#[test]
fn lapin_waits_between_attempts_to_connect_on_our_timers() {
    let timer = Timer::builder().build().expect("the options are valid");
    let runtime = Runtime::new(Ours(Smol, timer.clone()));
    let pause = Duration::from_millis(20);
    let properties = ConnectionProperties::default()
        .configure_backoff(|backoff| backoff.with_min_delay(pause).with_max_times(3));
    // Nobody listens there any more.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let start = Instant::now();
    let uri = format!("amqp://{address}");
    let connected = smol::block_on(Connection::connect_with_runtime(&uri, properties, runtime));
    assert!(connected.is_err());
    assert!(start.elapsed() >= pause * 3);
    assert!(timer.stats().fired >= 3);
}

#[test]
fn its_stream_of_instants_ticks_at_once_and_then_at_each_period() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let runtime = Runtime::new(Ours(Smol, timer));
    let hour = Duration::from_secs(3600);
    let start = clock.now();
    let ticks = clock.block_on(runtime.interval(hour).take(3).collect::<Vec<_>>());
    assert_eq!(ticks, [start, start + hour, start + hour * 2]);
}
