//! hyper's server and client over our timers, on smol: no tokio runtime runs.
//!
//! The stalling side is a plain socket. That it was cut by a timer of ours shows in that timer's
//! counters, since nothing else uses it.
#![cfg(test)]

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};
use smol_hyper::rt::{FuturesIo, SmolExecutor};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

const LIMIT: Duration = Duration::from_millis(100);
const HOUR: Duration = Duration::from_secs(3600);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
const PART: &[u8] = b"GET / HTTP/1.1\r\nx-long: ";

type Executor = Arc<smol::Executor<'static>>;

/// Runs a test on an executor of its own, with a timer of its own.
fn run<F: Future<Output = io::Result<()>>>(test: impl FnOnce(Executor, Timer) -> F) {
    let timer = Timer::builder().build().expect("the options are valid");
    let executor = Executor::default();
    let result = smol::block_on(executor.run(test(Arc::clone(&executor), timer)));
    result.expect("loopback works");
}

fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

async fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let client = TcpStream::connect(listener.local_addr()?).await?;
    Ok((client, listener.accept().await?.0))
}

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

async fn serve(stream: TcpStream, timer: Timer, limit: Duration) -> hyper::Result<()> {
    let mut builder = server::conn::http1::Builder::new();
    builder.timer(timer).header_read_timeout(limit);
    builder.serve_connection(FuturesIo::new(stream), service_fn(hello)).await
}

fn get() -> Request<Empty<Bytes>> {
    Request::get("http://localhost/").body(Empty::new()).expect("a valid request")
}

async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.expect("the body comes").to_bytes()
}

#[test]
fn the_server_resets_its_timer_from_request_to_request() {
    let (timer, clock) = virtual_timer();
    run(async |executor, _| {
        let (mut client, stream) = pair().await?;
        let server = executor.spawn(serve(stream, timer.clone(), LIMIT));
        for _ in 0..3 {
            client.write_all(REQUEST).await?;
            let mut response = Vec::new();
            while !response.ends_with(b"hello") {
                let mut byte = [0];
                client.read_exact(&mut byte).await?;
                response.extend(byte);
            }
            clock.advance(LIMIT * 3 / 4);
        }
        // When the server gets round to its timer is its own affair.
        while !server.is_finished() {
            clock.advance(LIMIT);
            smol::future::yield_now().await;
        }
        let error = server.await.expect_err("the next head does not come");
        assert!(error.is_timeout(), "{error:?}");
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await?;
        assert_eq!(rest, b"");
        assert_eq!(timer.stats().fired, 1);
        Ok(())
    });
}

#[test]
fn the_server_waits_an_hour_of_virtual_time() {
    let (timer, clock) = virtual_timer();
    let (_client, stream) = smol::block_on(async {
        let (mut client, stream) = pair().await?;
        client.write_all(PART).await?;
        io::Result::Ok((client, stream))
    })
    .expect("loopback works");
    let start = clock.now();
    let error = clock.block_on(serve(stream, timer, HOUR)).expect_err("the head never ends");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(clock.now() - start, HOUR);
}

#[test]
fn a_client_and_a_server_keep_a_connection_alive() {
    const EVERY: Duration = Duration::from_millis(20);
    run(async |executor, timer| {
        let (client, stream) = pair().await?;
        let server_timer = Timer::builder().build()?;
        let timers = [timer.clone(), server_timer.clone()];
        let slow = service_fn(move |request| {
            let timers = timers.clone();
            // Until both ends have sent a ping. Not on our timers: they count pings only.
            async move {
                while timers.iter().any(|timer| timer.stats().fired == 0) {
                    smol::Timer::after(EVERY).await;
                }
                hello(request).await
            }
        });
        let mut builder = server::conn::http2::Builder::new(SmolExecutor::new(executor.clone()));
        builder.timer(server_timer.clone()).keep_alive_interval(EVERY);
        builder.keep_alive_timeout(HOUR);
        let server = builder.serve_connection(FuturesIo::new(stream), slow);
        // How it ends depends on whether the client's socket is there to be said goodbye to.
        let server = async { drop(server.await) };

        let mut builder = client::conn::http2::Builder::new(SmolExecutor::new(executor));
        builder.timer(timer.clone()).keep_alive_interval(EVERY).keep_alive_timeout(HOUR);
        let client = async {
            let handshake = builder.handshake(FuturesIo::new(client)).await;
            let (mut sender, connection) = handshake.expect("the other side speaks HTTP/2");
            let request = async {
                let response = sender.send_request(get()).await.expect("it is answered");
                assert_eq!(text(response).await, "hello");
                drop(sender);
            };
            let (_, ()) = smol::future::zip(connection, request).await;
        };
        smol::future::zip(server, client).await;
        Ok(())
    });
}

#[test]
fn the_client_gives_up_on_a_server_that_does_not_answer_pings() {
    // An empty frame of settings: a server of HTTP/2 begins with it.
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    run(async |executor, timer| {
        let (client, mut stream) = pair().await?;
        let start = Instant::now();
        stream.write_all(&SETTINGS).await?;
        let mut builder = client::conn::http2::Builder::new(SmolExecutor::new(executor));
        builder.timer(timer.clone()).keep_alive_interval(LIMIT).keep_alive_timeout(LIMIT);
        let handshake = builder.handshake(FuturesIo::new(client)).await;
        let (mut sender, connection) = handshake.expect("the settings have come");
        let (end, answer) = smol::future::zip(connection, sender.send_request(get())).await;
        let error = answer.expect_err("nobody answers");
        assert!(start.elapsed() >= LIMIT * 2, "{end:?}, {error:?}");
        assert!(timer.stats().fired >= 2, "{:?}", timer.stats());
        Ok(())
    });
}

#[test]
fn the_client_is_cut_off_by_a_timeout_around_its_request() {
    run(async |executor, timer| {
        let (client, _silent) = pair().await?;
        let handshake = client::conn::http1::handshake(FuturesIo::new(client)).await;
        let (mut sender, connection) = handshake.expect("there is none in HTTP/1");
        let connection = executor.spawn(connection);
        let start = Instant::now();
        let answer = timer.timeout(LIMIT, sender.send_request(get())).await;
        assert!(answer.is_err());
        assert!(start.elapsed() >= LIMIT);
        assert_eq!(timer.stats().fired, 1);
        drop(connection);
        Ok(())
    });
}
