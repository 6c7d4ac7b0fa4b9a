//! quinn over our timers, on smol and on loopback: no tokio runtime runs.
//!
//! Its runtime is quinn's own for smol, behind a socket that loses chosen datagrams, and with our
//! timers for its own. quinn asks for one timer per connection and one present per event. Both come
//! from a timer of ours that nothing else uses, so that timer's counters show its work.
#![cfg(test)]

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, Connection, ConnectionError, Endpoint,
    EndpointConfig, Runtime, ServerConfig, SmolRuntime, TransportConfig, UdpPoller,
};
use tourbillon::Timer;
use tourbillon::quinn_0_11::WithTimer;
use tourbillon::virtual_time::VirtualClock;

/// Which datagrams are lost: none at 0, all at 1, every third at 3.
#[derive(Debug, Default)]
struct Loss {
    every: AtomicUsize,
    sent: AtomicUsize,
    lost: AtomicUsize,
}

impl Loss {
    fn set(&self, every: usize) {
        self.every.store(every, Ordering::SeqCst);
    }

    fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }

    fn loses_next(&self) -> bool {
        let sent = self.sent.fetch_add(1, Ordering::SeqCst);
        let every = self.every.load(Ordering::SeqCst);
        let loses = every != 0 && sent.is_multiple_of(every);
        self.lost.fetch_add(usize::from(loses), Ordering::SeqCst);
        loses
    }
}

/// smol's runtime over a network with losses. It has no timers.
#[derive(Debug)]
struct Lossy(Arc<Loss>);

impl Runtime for Lossy {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        panic!("quinn is to sleep on our timer alone")
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        SmolRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let socket = SmolRuntime.wrap_udp_socket(socket)?;
        Ok(Arc::new(LossySocket { socket, loss: Arc::clone(&self.0) }))
    }
}

/// A socket that sends one datagram at a time, or says that it did.
#[derive(Debug)]
struct LossySocket {
    socket: Arc<dyn AsyncUdpSocket>,
    loss: Arc<Loss>,
}

impl AsyncUdpSocket for LossySocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if self.loss.loses_next() { Ok(()) } else { self.socket.try_send(transmit) }
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, buffers, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

/// Two ends of a connection, each with a timer, and the losses of the client's network.
struct Pair {
    client: Connection,
    server: Connection,
    client_loss: Arc<Loss>,
    server_loss: Arc<Loss>,
    /// An endpoint that is dropped closes nothing, but its socket is gone with the last of it.
    _endpoints: [Endpoint; 2],
}

fn endpoint(timer: &Timer, server: Option<ServerConfig>) -> io::Result<(Endpoint, Arc<Loss>)> {
    let loss = Arc::new(Loss::default());
    let runtime = WithTimer::new(Arc::new(Lossy(Arc::clone(&loss))), timer);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let config = EndpointConfig::default();
    Ok((Endpoint::new(config, server, socket, Arc::new(runtime))?, loss))
}

async fn try_connect(
    client_timer: &Timer,
    server_timer: &Timer,
    idle: Duration,
) -> Result<Pair, ConnectionError> {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
    let certificate = certified.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let mut transport = TransportConfig::default();
    transport.max_idle_timeout(Some(idle.try_into().expect("it fits a QUIC integer")));
    let transport = Arc::new(transport);

    let mut server = ServerConfig::with_single_cert(vec![certificate.clone()], key.into())
        .expect("the key is the certificate's");
    server.transport_config(Arc::clone(&transport));
    let (server, server_loss) = endpoint(server_timer, Some(server)).expect("loopback works");

    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("it is a certificate");
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots)).expect("it has a root");
    config.transport_config(transport);
    let (client, client_loss) = endpoint(client_timer, None).expect("loopback works");

    let address = server.local_addr().expect("it is bound");
    let connecting = client.connect_with(config, address, "localhost").expect("a valid name");
    let accepting = smol::spawn({
        let server = server.clone();
        async move { server.accept().await.expect("somebody comes").await }
    });
    let client_end = connecting.await?;
    let server_end = accepting.await?;
    Ok(Pair {
        client: client_end,
        server: server_end,
        client_loss,
        server_loss,
        _endpoints: [client, server],
    })
}

/// Connects, with a longer limit each time that a handshake was idle for longer than the limit: on
/// a machine that is busy enough it may be.
async fn connect(client_timer: &Timer, server_timer: &Timer, mut idle: Duration) -> Pair {
    loop {
        match try_connect(client_timer, server_timer, idle).await {
            Ok(pair) => return pair,
            Err(error) => assert_eq!(error, ConnectionError::TimedOut),
        }
        idle *= 2;
    }
}

fn timer() -> Timer {
    Timer::builder().build().expect("the options are valid")
}

/// Sends back the bytes of the next stream.
async fn echo(connection: &Connection) {
    let (mut send, mut receive) = connection.accept_bi().await.expect("the client opens a stream");
    let bytes = receive.read_to_end(1 << 20).await.expect("the client sends");
    send.write_all(&bytes).await.expect("the client receives");
    send.finish().expect("the stream is open");
}

async fn ask(connection: &Connection, bytes: &[u8]) -> Vec<u8> {
    let (mut send, mut receive) = connection.open_bi().await.expect("there is room for a stream");
    send.write_all(bytes).await.expect("the server receives");
    send.finish().expect("the stream is open");
    receive.read_to_end(1 << 20).await.expect("the server answers")
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_request_whose_every_datagram_was_lost_is_sent_again() {
    smol::block_on(async {
        let timer = timer();
        let pair = connect(&timer, &Timer::global(), LONG).await;
        pair.client_loss.set(1);
        let before = timer.stats().fired;
        let exchange = smol::future::zip(echo(&pair.server), ask(&pair.client, b"hello"));
        // With all that the client sends lost, nothing comes back that could make it try again but
        // its own timer.
        let heal = async {
            while pair.client_loss.lost() < 2 || timer.stats().fired == before {
                smol::Timer::after(Duration::from_millis(1)).await;
            }
            pair.client_loss.set(0);
        };
        let (((), answer), ()) = smol::future::zip(exchange, heal).await;
        assert_eq!(answer, b"hello");
    });
}

#[test]
fn a_transfer_survives_a_network_that_loses_a_fifth_both_ways() {
    smol::block_on(async {
        let (client_timer, server_timer) = (timer(), timer());
        let pair = connect(&client_timer, &server_timer, LONG).await;
        pair.client_loss.set(5);
        pair.server_loss.set(5);
        let bytes: Vec<u8> = (0..64 * 1024_u32).map(|n| (n % 251) as u8).collect();
        let exchange = smol::future::zip(echo(&pair.server), ask(&pair.client, &bytes));
        let ((), answer) = exchange.await;
        assert!(answer == bytes, "what came back differs");
        assert!(pair.client_loss.lost() > 5 && pair.server_loss.lost() > 5);
        for timer in [client_timer, server_timer] {
            assert!(timer.stats().armed >= 1, "{:?}", timer.stats());
        }
    });
}

#[test]
fn a_connection_that_hears_nothing_times_out_in_virtual_time() {
    const IDLE: Duration = Duration::from_secs(600);
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let start = clock.now();
    smol::block_on(async {
        let pair = connect(&timer, &timer, IDLE).await;
        // Acknowledgements still due from the handshake would delay the end.
        pair.client_loss.set(1);
        pair.server_loss.set(1);
        let (client, server) = (pair.client.clone(), pair.server.clone());
        let closed = async move { smol::future::zip(client.closed(), server.closed()).await };
        let closed = smol::spawn(closed);
        while !closed.is_finished() {
            clock.advance(IDLE / 10);
            smol::Timer::after(Duration::from_millis(1)).await;
        }
        assert_eq!(closed.await, (ConnectionError::TimedOut, ConnectionError::TimedOut));
    });
    assert!(clock.now() - start >= IDLE);
    assert!(timer.stats().fired >= 1);
}
