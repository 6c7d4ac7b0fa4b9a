//! [`Proxy`]: a TCP proxy that cuts, delays and swallows.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Period of a held-up connection's checks whether it still is.
const POLL: Duration = Duration::from_millis(2);

/// First text of a connection that listens.
const LISTEN: &[u8] = b"LISTEN ";

/// Longest time that a connection to the server may take.
const CONNECT: Duration = Duration::from_secs(2);

/// Fault that the proxy makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Lets it pass.
    Pass,
    /// Lets it pass this much later, each way.
    Delay(Duration),
    /// Keeps clients' requests until the mode changes.
    HoldRequests,
    /// Keeps the server's answers until the mode changes.
    HoldAnswers,
    /// Keeps everything until the mode changes.
    HoldBoth,
    /// Keeps the server's answers to listeners until the mode changes.
    Deafen,
    /// Closes the connections that are there, and each new one.
    Cut,
    /// Passes requests on, and closes the connection in place of one answer in this many.
    CutAnswers(u32),
}

impl Mode {
    fn holds(self, direction: Direction, listens: bool) -> bool {
        match self {
            Self::HoldBoth => true,
            Self::Deafen => listens && direction == Direction::Answer,
            Self::HoldRequests => direction == Direction::Request,
            Self::HoldAnswers => direction == Direction::Answer,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Request,
    Answer,
}

/// A proxy in front of one server, with threads of its own that end with the process.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    server: SocketAddr,
    mode: Mode,
    random: fastrand::Rng,
    /// Both ends of each connection that is open, or was.
    open: Vec<(TcpStream, TcpStream)>,
}

impl Proxy {
    /// Listens on a free port of the loopback. Its choices come from `seed`.
    ///
    /// # Errors
    ///
    /// If it cannot listen.
    pub fn start(server: SocketAddr, seed: u64) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let random = fastrand::Rng::with_seed(seed);
        let state = Mutex::new(State { server, mode: Mode::Pass, random, open: Vec::new() });
        let shared = Arc::new(Shared { state });
        let of = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let of = of.clone();
                // A connection that cannot be made is closed.
                thread::spawn(move || connect(&of, client));
            }
        });
        Ok(Self { address, shared })
    }

    /// Returns its own address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Does this from now on.
    pub fn set(&self, mode: Mode) {
        let mut state = self.shared.lock();
        state.mode = mode;
        if mode == Mode::Cut {
            state.close();
        }
    }

    /// Leads to another server from now on, and closes the connections that there are.
    pub fn lead(&self, server: SocketAddr) {
        let mut state = self.shared.lock();
        state.server = server;
        state.close();
    }
}

impl State {
    fn close(&mut self) {
        for (client, server) in self.open.drain(..) {
            close(&client, &server);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the mode has it. Whether the bytes are to be passed on.
    fn admits(&self, direction: Direction, listens: bool) -> bool {
        let came = Instant::now();
        loop {
            let mut state = self.lock();
            match state.mode {
                Mode::Cut => return false,
                Mode::CutAnswers(of) if direction == Direction::Answer => {
                    return state.random.u32(..of.max(1)) != 0;
                }
                Mode::Delay(span) if came.elapsed() < span => {}
                mode if mode.holds(direction, listens) => {}
                _ => return true,
            }
            drop(state);
            thread::sleep(POLL);
        }
    }
}

fn close(client: &TcpStream, server: &TcpStream) {
    // A closed connection stays closed.
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn connect(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    if !shared.admits(Direction::Request, false) {
        return Ok(());
    }
    let address = shared.lock().server;
    let server = TcpStream::connect_timeout(&address, CONNECT)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ends = (client.try_clone()?, server.try_clone()?);
    {
        let mut state = shared.lock();
        if state.mode == Mode::Cut || state.server != address {
            return Ok(());
        }
        // Those whose other side has gone are forgotten.
        state.open.retain(|(client, _)| client.peer_addr().is_ok());
        state.open.push((client.try_clone()?, server.try_clone()?));
    }
    let (of, listens) = (shared.clone(), Arc::new(AtomicBool::new(false)));
    let of_answers = listens.clone();
    thread::spawn(move || pass(&of, ends.1, ends.0, Direction::Answer, &of_answers));
    pass(shared, client, server, Direction::Request, &listens);
    Ok(())
}

/// Passes on until either side ends, then ends both.
fn pass(
    shared: &Shared,
    mut from: TcpStream,
    mut to: TcpStream,
    direction: Direction,
    listens: &AtomicBool,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_listen = |part: &[u8]| part == LISTEN;
        if direction == Direction::Request && bytes[..count].windows(LISTEN.len()).any(is_listen) {
            // ORDERING: Relaxed; the server answers later.
            listens.store(true, Ordering::Relaxed);
        }
        // ORDERING: Relaxed; as above.
        let listens = listens.load(Ordering::Relaxed);
        if !shared.admits(direction, listens) || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    close(&from, &to);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A server that answers each byte by the byte plus one, a proxy to it, and the bytes it got.
    fn served() -> (Proxy, mpsc::Receiver<u8>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap(), 1).unwrap();
        let (sender, got) = mpsc::channel();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() {
                        sender.send(byte[0]).unwrap();
                        stream.write_all(&[byte[0] + 1]).unwrap();
                    }
                });
            }
        });
        (proxy, got)
    }

    fn ask(stream: &mut TcpStream, byte: u8) -> io::Result<u8> {
        stream.write_all(&[byte])?;
        answer(stream)
    }

    fn answer(stream: &mut TcpStream) -> io::Result<u8> {
        let mut byte = [0];
        stream.read_exact(&mut byte).map(|()| byte[0])
    }

    fn is_silent(stream: &mut TcpStream) -> bool {
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let kind = answer(stream).unwrap_err().kind();
        stream.set_read_timeout(None).unwrap();
        matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    }

    #[test]
    fn a_request_that_is_held_arrives_when_the_hold_ends() {
        let (proxy, got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        assert_eq!(got.recv().unwrap(), 1);
        proxy.set(Mode::HoldRequests);
        stream.write_all(&[3]).unwrap();
        assert!(is_silent(&mut stream));
        assert!(got.try_recv().is_err());
        proxy.set(Mode::Pass);
        assert_eq!(answer(&mut stream).unwrap(), 4);
    }

    #[test]
    fn an_answer_that_is_held_was_asked_for_all_the_same() {
        let (proxy, got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        proxy.set(Mode::HoldAnswers);
        stream.write_all(&[1]).unwrap();
        assert_eq!(got.recv().unwrap(), 1);
        assert!(is_silent(&mut stream));
        proxy.set(Mode::Pass);
        assert_eq!(answer(&mut stream).unwrap(), 2);
    }

    #[test]
    fn a_delay_delays() {
        let (proxy, _got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        let span = Duration::from_millis(20);
        proxy.set(Mode::Delay(span));
        let began = Instant::now();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        assert!(began.elapsed() >= 2 * span);
    }

    #[test]
    fn a_cut_closes_what_is_open_and_what_is_opened() {
        let (proxy, _got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        proxy.set(Mode::Cut);
        assert!(ask(&mut stream, 1).is_err());
        let mut other = TcpStream::connect(proxy.address()).unwrap();
        assert!(ask(&mut other, 1).is_err());
        proxy.set(Mode::Pass);
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
    }

    #[test]
    fn a_proxy_that_leads_elsewhere_closes_what_was_open() {
        let (proxy, _got) = served();
        let (other, got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(ask(&mut stream, 1).unwrap(), 2);
        proxy.lead(other.shared.lock().server);
        assert!(ask(&mut stream, 1).is_err());
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        assert_eq!(ask(&mut stream, 3).unwrap(), 4);
        assert_eq!(got.recv().unwrap(), 3);
    }

    #[test]
    fn an_answer_is_cut_after_the_request_was_passed_on() {
        let (proxy, got) = served();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        proxy.set(Mode::CutAnswers(1));
        assert!(ask(&mut stream, 1).is_err());
        assert_eq!(got.recv().unwrap(), 1);
    }
}
