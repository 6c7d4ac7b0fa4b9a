//! zbus's runtime: smol's reactor and executor, and our timers.
#![cfg(unix)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, ExitStatus, Stdio};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::future::join;
use smol::Async;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};
use zbus::connection::Builder;
use zbus::runtime::traits::{PollIo, Runtime, TaskHandle};
use zbus::runtime::{Interest, IoSource};
use zbus::{Connection, Guid};

/// smol's global executor, and a timer.
struct Ours(Timer);

impl Runtime for Ours {
    type RegisteredIoSource = Source;
    type Sleep = Sleep;
    type Task<T: Send + 'static> = Task<T>;

    fn register_io_source(&self, source: IoSource) -> io::Result<Source> {
        Async::new(source).map(Source)
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        self.0.sleep(duration)
    }

    fn spawn<T>(&self, _name: &str, future: impl Future<Output = T> + Send + 'static) -> Task<T>
    where
        T: Send + 'static,
    {
        Task(smol::spawn(future))
    }

    async fn connect_tcp(&self, address: SocketAddr) -> io::Result<IoSource> {
        let stream = Async::<std::net::TcpStream>::connect(address).await?.into_inner()?;
        Ok(OwnedFd::from(stream).into())
    }

    async fn connect_unix(&self, path: &Path) -> io::Result<IoSource> {
        let stream = Async::<UnixStream>::connect(path).await?.into_inner()?;
        Ok(OwnedFd::from(stream).into())
    }

    fn spawn_process(
        &self,
        mut command: Command,
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> io::Result<Pin<Box<dyn Future<Output = io::Result<ExitStatus>> + Send>>> {
        let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
        Ok(Box::pin(smol::unblock(move || child.wait())))
    }
}

struct Source(Async<IoSource>);

impl PollIo for Source {
    fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        mut operation: impl FnMut() -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            match operation() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
            ready!(match interest {
                Interest::Writable => self.0.poll_writable(cx),
                _ => self.0.poll_readable(cx),
            })?;
        }
    }
}

struct Task<T>(smol::Task<T>);

impl<T> Future for Task<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Pin::new(&mut self.0).poll(cx).map(Ok)
    }
}

impl<T: Send + 'static> TaskHandle<T> for Task<T> {
    fn detach(self) {
        self.0.detach();
    }
}

/// Two ends of one connection, on timers of their own; the first has a limit for its calls.
fn connected(timer: &Timer, limit: Duration) -> zbus::Result<(Connection, Connection)> {
    let (one, other) = UnixStream::pair()?;
    let guid = Guid::generate();
    let client = Builder::unix_stream(one).p2p().method_timeout(limit);
    let client = client.runtime(Ours(timer.clone())).build();
    let real = Timer::builder().build()?;
    let server = Builder::unix_stream(other).server(guid).p2p().runtime(Ours(real)).build();
    let (client, server) = smol::block_on(join(client, server));
    Ok((client?, server?))
}

#[test]
fn a_call_that_nobody_answers_ends_in_virtual_time() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let limit = Duration::from_secs(3600);
    // The server has no object, so nobody reads its calls.
    let (client, _server) = connected(&timer, limit).expect("both are there");
    let start = clock.now();
    let call = client.call_method(None::<&str>, "/", Some("org.example.One"), "Ask", &());
    let error = clock.block_on(call).expect_err("nobody answers");
    assert!(error.to_string().contains("timed out"), "{error}");
    assert_eq!(clock.now() - start, limit);
}
