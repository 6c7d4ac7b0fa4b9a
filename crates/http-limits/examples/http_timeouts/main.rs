//! An HTTP/1.1 server that cuts slow clients, and a crowd of clients to try it on.
//!
//! ```text
//! cargo run --release -p tourbillon-http-limits --example http_timeouts
//! cargo run --release -p tourbillon-http-limits --example http_timeouts -- --serve 127.0.0.1:8080
//! ```
//!
//! The server is hyper on smol's executor, and uses the timers of neither. All limits on a client
//! run on tourbillon. Together they leave no state where a client can stay for ever without doing
//! anything:
//!
//! - `Idle`, on the silence before a request, from the last byte of the response before (or the
//!   start of the connection) to the first byte of the request;
//! - `Header`, on a request's head, from its first byte to its last;
//! - `Request`, from the end of the head to the response, the request's body included;
//! - `Write`, on a response while the client takes not a byte of it. Bytes from the client
//!   meanwhile change nothing.
//!
//! The third is a timeout around the handler ([`server`]). The others are one sleep for each
//! connection. All that happens on the connection moves it to later: the cheapest operation of a
//! timer. This crate keeps it, for a server of yours too. hyper has a limit on heads of its own,
//! which would need no code but the feature `hyper` and `builder.timer(Timer::global())`; but it
//! counts from the end of the response before, so the wait for a request is a part of it.
//!
//! A slow but steady client is not limited: a client that takes a few bytes of a response each
//! second stays as long as there are bytes left. A server may want a limit on the whole as well.
//!
//! Without arguments the example drives itself over loopback for some ten seconds. Well-behaved
//! clients send thousands of requests while hundreds of slow ones are cut ([`clients`]). It reports
//! how late they were cut, and exits with 0 only if every slow client was cut, none early, and no
//! good request failed.

mod clients;
mod crowd;
mod limits;
mod server;

use std::convert::Infallible;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use smol::net::{TcpListener, TcpStream};
use socket2::SockRef;
use tourbillon::{Timer, sleep};

use crowd::Crowd;
use limits::Limit;
use server::Counters;

/// Bytes that the system holds of a response that the client has not taken, for each connection. It
/// would hold megabytes, and let a write continue only when a good part of that has been taken.
const SEND_BUFFER: usize = 64 * 1024;

/// Serves for ever, one task for each connection.
async fn serve(listener: TcpListener, counters: Arc<Counters>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => smol::spawn(serve_one(stream, Arc::clone(&counters))).detach(),
            Err(error) => {
                // Out of descriptors, most likely: some will come free.
                eprintln!("cannot accept: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_one(stream: TcpStream, counters: Arc<Counters>) {
    // Where these fail, all works, but takes longer or more memory.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER);
    let cut = server::connection(stream.clone(), &Timer::global(), &counters).await;
    if cut == Some(Limit::Write) {
        // Else the system would keep trying to send the bytes that it holds for the client.
        let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
}

async fn drive_itself() -> io::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let counters = Arc::new(Counters::default());
    let server = smol::spawn(serve(listener, Arc::clone(&counters)));
    let crowd = Crowd::default();
    crowd.run(address).await;
    drop(server);
    Ok(if crowd.report(&counters) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve_others(address: &str) -> io::Result<ExitCode> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    println!("GET /, GET /large, GET /slow, POST /echo");
    match smol::spawn(serve(listener, Arc::default())).await {}
}

const HELP: &str = "\
Without arguments: runs a server and its clients over loopback, and reports.
  --serve ADDR   serve at ADDR, such as 127.0.0.1:8080, until interrupted
  --help         print this";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        [] => smol::block_on(drive_itself()),
        ["--serve", address] => smol::block_on(serve_others(address)),
        ["--help"] => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("unknown arguments: {}\n{HELP}", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
