//! An HTTP/1.1 server that cuts slow clients, and a crowd of clients to try it on.
//!
//! ```text
//! cargo run --release --example http_timeouts
//! cargo run --release --example http_timeouts -- --serve 127.0.0.1:8080
//! ```
//!
//! The server is hyper on smol's executor, and knows nothing of each other's timers. All three
//! limits on a client run on tourbillon:
//!
//! - [`HEADER_LIMIT`], on the time a request's head takes to arrive. hyper keeps it itself, with
//!   the timer that it is given ([`HyperTimer`]). It counts from the start of the connection, and
//!   from the end of each response, so it bounds the wait for the next request as well.
//! - [`IDLE_LIMIT`], on the silence between a response and the first byte of the next request. One
//!   sleep for each connection, which every response puts off ([`Idle`]).
//! - [`REQUEST_LIMIT`], on the time from a request's head to its response, the request's body
//!   included. A timeout around the handler ([`answer`]).
//!
//! Without arguments the example drives itself over loopback for some ten seconds. Well-behaved
//! clients send thousands of requests while hundreds of slow ones are cut. It reports how late they
//! were cut, and exits with 0 only if every slow client was cut, none early, and no good request
//! failed. The clients keep time with smol's timer, so that nothing here is its own judge.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONNECTION;
use hyper::rt::ReadBufCursor;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use smol::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use smol::net::{TcpListener, TcpStream};
use tourbillon::{Timer, never, sleep, timeout};

/// For a request's head to arrive.
const HEADER_LIMIT: Duration = Duration::from_millis(2000);
/// From a response to the first byte of the next request.
const IDLE_LIMIT: Duration = Duration::from_millis(1500);
/// From a request's head to its response.
const REQUEST_LIMIT: Duration = Duration::from_millis(1000);
/// The largest request body that is taken.
const BODY_MAX: usize = 64 * 1024;

const SLOW_CLIENTS: usize = 400;
/// A slow client comes this often.
const SLOW_EVERY: Duration = Duration::from_millis(18);
const GOOD_CLIENTS: u64 = 16;
const GOOD_RUN: Duration = Duration::from_secs(9);
/// When a slow client no longer hopes to be cut.
const GIVE_UP: Duration = Duration::from_secs(30);

// The server.

/// What the server has seen so far.
#[derive(Default)]
struct Counters {
    served: AtomicU64,
    header_cuts: AtomicU64,
    idle_cuts: AtomicU64,
    request_cuts: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Gives hyper our timers. `Timer` does so itself with the feature `hyper`; here it is written out,
/// so that the example needs none.
struct HyperTimer;

struct HyperSleep(tourbillon::Sleep);

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for HyperSleep {}

impl hyper::rt::Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(sleep(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(HyperSleep(tourbillon::sleep_until(deadline)))
    }

    fn now(&self) -> Instant {
        Timer::global().now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn hyper::rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut sleep) => sleep.0.reset(deadline),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

/// The keep-alive limit of a connection. Only the connection's task uses it, so nothing ever waits.
///
/// The sleep is put off with each response, and left to run during a request: to put it off is
/// nearly free, while to disarm and to arm it would each take a lock.
struct Idle {
    sleep: Mutex<tourbillon::Sleep>,
    /// Whether a response was the last that happened.
    waiting: AtomicBool,
}

impl Idle {
    fn new() -> Arc<Self> {
        Arc::new(Self { sleep: Mutex::new(never()), waiting: AtomicBool::new(false) })
    }

    fn busy(&self) {
        self.waiting.store(false, Relaxed);
    }

    fn start(&self) {
        self.sleep.lock().unwrap().reset_after(IDLE_LIMIT);
        self.waiting.store(true, Relaxed);
    }

    fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.sleep.lock().unwrap();
        if self.waiting.load(Relaxed) { Pin::new(&mut *sleep).poll(cx) } else { Poll::Pending }
    }
}

/// A socket as hyper wants it, which also sees the first byte of a request.
struct Socket {
    stream: TcpStream,
    idle: Arc<Idle>,
}

impl hyper::rt::Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        use smol::io::AsyncRead;

        // hyper's buffer may be uninitialised; to read by way of this one needs no unsafe code.
        let mut bytes = [0; 4096];
        let room = bytes.len().min(buffer.remaining());
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut bytes[..room]))?;
        if read > 0 {
            self.idle.busy();
        }
        buffer.put_slice(&bytes[..read]);
        Poll::Ready(Ok(()))
    }
}

impl hyper::rt::Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        smol::io::AsyncWrite::poll_write(Pin::new(&mut self.stream), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        smol::io::AsyncWrite::poll_flush(Pin::new(&mut self.stream), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        smol::io::AsyncWrite::poll_close(Pin::new(&mut self.stream), cx)
    }
}

/// Serves for ever, one task for each connection.
async fn serve(listener: TcpListener, counters: Arc<Counters>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => smol::spawn(connection(stream, Arc::clone(&counters))).detach(),
            Err(error) => {
                // Out of descriptors, most likely: some will come free.
                eprintln!("cannot accept: {error}");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, counters: Arc<Counters>) {
    // Without it things only take longer.
    let _ = stream.set_nodelay(true);
    let idle = Idle::new();
    let service = service_fn(|request| answer(request, &idle, &counters));
    let socket = Socket { stream, idle: Arc::clone(&idle) };
    let mut builder = http1::Builder::new();
    builder.timer(HyperTimer).header_read_timeout(HEADER_LIMIT);
    let mut connection = pin!(builder.serve_connection(socket, service));
    // The connection first: a request that has come is served, however late we are to look.
    let end = poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(end) => Poll::Ready(Some(end)),
        Poll::Pending => idle.poll_over(cx).map(|()| None),
    });
    match end.await {
        None => count(&counters.idle_cuts),
        Some(Err(error)) if error.is_timeout() => count(&counters.header_cuts),
        // The client closed the connection, orderly or not, or we did after a response.
        Some(_) => {}
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(
    request: Request<Incoming>,
    idle: &Idle,
    counters: &Counters,
) -> Result<Answer, Infallible> {
    // Its first byte may have come with the request before, and not have been seen.
    idle.busy();
    let answer = match timeout(REQUEST_LIMIT, handle(request)).await {
        Ok(answer) => {
            count(&counters.served);
            answer
        }
        Err(_) => {
            count(&counters.request_cuts);
            let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "that took too long\n");
            answer.headers_mut().insert(CONNECTION, "close".parse().expect("a valid value"));
            answer
        }
    };
    idle.start();
    Ok(answer)
}

async fn handle(request: Request<Incoming>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => text(StatusCode::OK, "hello\n"),
        (&Method::GET, "/slow") => {
            sleep(Duration::from_secs(60)).await;
            text(StatusCode::OK, "at last\n")
        }
        (&Method::POST, "/echo") => match Limited::new(request, BODY_MAX).collect().await {
            Ok(body) => text(StatusCode::OK, body.to_bytes()),
            Err(_) => text(StatusCode::BAD_REQUEST, "the body is too long or broken\n"),
        },
        _ => text(StatusCode::NOT_FOUND, "try GET /, GET /slow or POST /echo\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer
}

// The clients.

#[derive(Clone, Copy, PartialEq)]
enum Slow {
    Silent,
    Dribble,
    Idle,
    Body,
    Handler,
}

const HELLO: &str = "GET / HTTP/1.1\r\nhost: example\r\n\r\n";
const PART: &str = "POST /echo HTTP/1.1\r\nhost: example\r\ncontent-length: 100\r\n\r\npart";

/// The ways to be slow: what a client sends at once, and the limit that is to cut it.
const KINDS: [(Slow, &str, &str, Duration); 5] = [
    (Slow::Silent, "silent from the start", "", HEADER_LIMIT),
    (Slow::Dribble, "dribbles its head", "GET / HTTP/1.1\r\nx-long: ", HEADER_LIMIT),
    (Slow::Idle, "idle after a request", HELLO, IDLE_LIMIT),
    (Slow::Body, "stalls in its body", PART, REQUEST_LIMIT),
    (Slow::Handler, "asks for a slow page", "GET /slow HTTP/1.1\r\n\r\n", REQUEST_LIMIT),
];

type Stream = BufReader<TcpStream>;

async fn connect(address: SocketAddr) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// Reads a response, which is to be this one.
async fn expect(stream: &mut Stream, status: &str, body: &str) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let mut bytes = vec![0; body.len()];
    stream.read_exact(&mut bytes).await?;
    let head = String::from_utf8_lossy(&head);
    if !head.starts_with(&format!("HTTP/1.1 {status} ")) || bytes != body.as_bytes() {
        return Err(io::Error::other(format!("wrong answer: {head:?}")));
    }
    Ok(())
}

/// Is slow until it is cut; returns how late that was.
///
/// The deadline counts from an instant before anything that could start the server's timer, so a
/// cut that seems early is early, and the lateness is at most what this returns.
async fn slow_client(
    address: SocketAddr,
    (slow, _, sends, limit): (Slow, &str, &str, Duration),
) -> io::Result<Duration> {
    let deadline = Instant::now() + limit;
    let mut stream = connect(address).await?;
    stream.get_mut().write_all(sends.as_bytes()).await?;
    if slow == Slow::Idle {
        expect(&mut stream, "200", "hello\n").await?;
    }
    let mut writer = stream.get_ref().clone();
    let dribble = async {
        if slow != Slow::Dribble {
            return pending().await;
        }
        loop {
            smol::Timer::after(Duration::from_millis(40)).await;
            // Fails once the connection is cut.
            writer.write_all(b"x").await?;
        }
    };
    let answered = async { stream.fill_buf().await.map(|bytes| !bytes.is_empty()) };
    // An error is a cut too: closing resets the connection where bytes of the client are unread.
    let answered = smol::future::or(answered, dribble).await.unwrap_or(false);
    let late = Instant::now().checked_duration_since(deadline);
    match (answered, slow) {
        // The server has read the head, and owes an answer before it cuts.
        (true, Slow::Body | Slow::Handler) => {
            expect(&mut stream, "503", "that took too long\n").await?;
            if !stream.fill_buf().await?.is_empty() {
                return Err(io::Error::other("answered, but not cut"));
            }
        }
        (false, Slow::Silent | Slow::Dribble | Slow::Idle) => {}
        (true, _) => return Err(io::Error::other("answered")),
        (false, _) => return Err(io::Error::other("cut without an answer")),
    }
    late.ok_or_else(|| io::Error::other("cut early"))
}

/// Sends good requests on one connection until the time is up: whole ones, and some that rest for a
/// moment in the head or in the body, which is well within the limits.
async fn good_client(address: SocketAddr, number: u64, crowd: &Crowd) -> io::Result<()> {
    let start = Instant::now();
    let mut stream = connect(address).await?;
    let mut round = number;
    while start.elapsed() < GOOD_RUN {
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
        crowd.good.set(crowd.good.get() + 1);
        smol::Timer::after(Duration::from_millis(1 + round % 7)).await;
    }
    Ok(())
}

/// What the clients have seen so far.
#[derive(Default)]
struct Crowd {
    good: Cell<u64>,
    /// How late slow clients were cut, by kind.
    cuts: [RefCell<Vec<Duration>>; KINDS.len()],
    failures: RefCell<Vec<String>>,
}

impl Crowd {
    fn fail(&self, who: &str, what: io::Error) {
        self.failures.borrow_mut().push(format!("{who}: {what}"));
    }

    fn cut(&self) -> usize {
        self.cuts.iter().map(|cuts| cuts.borrow().len()).sum()
    }

    /// Runs all clients to their end.
    async fn run(&self, address: SocketAddr) {
        let executor = smol::LocalExecutor::new();
        let good = (0..GOOD_CLIENTS).map(|number| {
            executor.spawn(async move {
                if let Err(error) = good_client(address, number, self).await {
                    self.fail("a good client", error);
                }
            })
        });
        let good: Vec<_> = good.collect();
        let slow = (0..SLOW_CLIENTS).map(|number| {
            executor.spawn(async move {
                let kind = KINDS[number % KINDS.len()];
                smol::Timer::after(SLOW_EVERY * number as u32).await;
                let gives_up = async {
                    smol::Timer::after(GIVE_UP).await;
                    Err(io::Error::other("not cut"))
                };
                match smol::future::or(slow_client(address, kind), gives_up).await {
                    Ok(late) => self.cuts[number % KINDS.len()].borrow_mut().push(late),
                    Err(error) => self.fail(kind.1, error),
                }
            })
        });
        let slow: Vec<_> = slow.collect();
        let progress = executor.spawn(async {
            for second in 1.. {
                smol::Timer::after(Duration::from_secs(1)).await;
                let (good, cut) = (self.good.get(), self.cut());
                println!("{second:3} s: {good:6} good requests, {cut:3} slow clients cut");
            }
        });
        let all = async {
            for client in good.into_iter().chain(slow) {
                client.await;
            }
        };
        executor.run(all).await;
        drop(progress);
    }

    /// Prints what happened; returns whether all went well.
    fn report(&self, counters: &Counters) -> bool {
        let [served, header, idle, request] =
            [&counters.served, &counters.header_cuts, &counters.idle_cuts, &counters.request_cuts]
                .map(|counter| counter.load(Relaxed));
        println!("\n{} good requests, {served} requests served", self.good.get());
        println!("{} of {SLOW_CLIENTS} slow clients cut: by the server's count", self.cut());
        println!("{header} by the header, {idle} by the idle, {request} by the request limit");
        println!("\nCut so much after the deadline, as the clients see it:");
        println!("{:22} {:>7} {:>9} {:>9} {:>9} {:>9}", "", "clients", "p50", "p90", "p99", "max");
        let mut all = Vec::new();
        for ((_, name, ..), cuts) in KINDS.iter().zip(&self.cuts) {
            percentiles(name, &mut cuts.borrow_mut());
            all.extend_from_slice(&cuts.borrow());
        }
        percentiles("all", &mut all);
        histogram(&all);
        let stats = Timer::global().stats();
        println!(
            "\ntimers: {} armed, {} fired, {} cancelled; woken {:?} late at most",
            stats.armed, stats.fired, stats.cancelled, stats.lateness_max
        );
        println!("driver: {} wake-ups, {} unparks", stats.driver_wakeups, stats.unparks);
        // Each limit has clients of its own, so each must have cut some.
        for (name, cuts) in [("header", header), ("idle", idle), ("request", request)] {
            if cuts == 0 {
                self.fail(name, io::Error::other("a limit that cut nobody"));
            }
        }
        let failures = self.failures.borrow();
        for failure in failures.iter().take(20) {
            println!("FAILED: {failure}");
        }
        println!("{} failures", failures.len());
        failures.is_empty()
    }
}

fn percentiles(name: &str, cuts: &mut [Duration]) {
    cuts.sort_unstable();
    print!("{name:22} {:7}", cuts.len());
    for percent in [50, 90, 99, 100] {
        let rank = (cuts.len() * percent).div_ceil(100);
        let late = cuts.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        print!(" {:6.2} ms", late.as_secs_f64() * 1e3);
    }
    println!();
}

/// One line for each doubling of the lateness, from the least to the most.
fn histogram(cuts: &[Duration]) {
    let bucket = |late: &Duration| late.as_micros().max(1).ilog2();
    let (Some(low), Some(high)) = (cuts.iter().map(bucket).min(), cuts.iter().map(bucket).max())
    else {
        return;
    };
    println!();
    for power in low..=high {
        let clients = cuts.iter().filter(|late| bucket(late) == power).count();
        let bar = "#".repeat((clients * 60).div_ceil(cuts.len()));
        println!("  under {:8.2} ms {clients:4}  {bar}", (2_u64 << power) as f64 / 1e3);
    }
}

// The program.

async fn drive_itself() -> io::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let counters = Arc::new(Counters::default());
    let server = smol::spawn(serve(listener, Arc::clone(&counters)));
    println!(
        "{GOOD_CLIENTS} good clients and {SLOW_CLIENTS} slow ones on {address}; limits: \
         {HEADER_LIMIT:?} for a head, {IDLE_LIMIT:?} idle, {REQUEST_LIMIT:?} for a request"
    );
    let crowd = Crowd::default();
    crowd.run(address).await;
    drop(server);
    Ok(if crowd.report(&counters) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve_others(address: &str) -> io::Result<ExitCode> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}; GET /, GET /slow, POST /echo", listener.local_addr()?);
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
