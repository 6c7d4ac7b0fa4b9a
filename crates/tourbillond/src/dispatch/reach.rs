//! Connections to whichever of a host's addresses answers first (RFC 8305).

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tourbillon::Timer;

use super::shortage::Shortage;
use crate::descriptors;

/// Longest time for one address.
pub(super) const CONNECT_ONE: Duration = Duration::from_secs(3);

/// Head start of an address before the next.
const STAGGER: Duration = Duration::from_millis(250);

/// Most hosts whose address is remembered.
const HOSTS_MAX: usize = 1_024;

/// Error for a name without an address.
const NO_ADDRESS: &str = "the host has no address";

/// Error of one address; a `Break` concerns the others too.
pub(super) type Missed = ControlFlow<io::Error, io::Error>;

/// Ways to hosts that have several addresses.
#[derive(Debug)]
pub(super) struct Reach {
    timer: Timer,
    /// Addresses that answered where an earlier one of their host did not.
    answered: Mutex<HashMap<String, IpAddr>>,
}

impl Reach {
    pub(super) fn new(timer: &Timer) -> Self {
        Self { timer: timer.clone(), answered: Mutex::default() }
    }

    /// Connects by TCP to the first address of a host that answers.
    pub(super) async fn connect(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
    ) -> io::Result<TcpStream> {
        self.first(host, addresses, |address| connect_one(&self.timer, address)).await
    }

    /// Calls `connect` with the addresses of a host, and returns its first success. Each address
    /// has its turn when the one before it has failed, or has not answered for 250 ms. The families
    /// take turns, but an address that answered where an earlier one did not is the first.
    ///
    /// # Errors
    ///
    /// The error of the address that failed last, or the first `Break`.
    pub(super) async fn first<T, F>(
        &self,
        host: &str,
        addresses: Vec<SocketAddr>,
        connect: impl Fn(SocketAddr) -> F,
    ) -> io::Result<T>
    where
        F: Future<Output = Result<T, Missed>>,
    {
        let mut turns = by_turns(addresses);
        let usual = turns.first().map(SocketAddr::ip);
        let known = self.answered().get(host).copied();
        if let Some(index) = turns.iter().position(|address| Some(address.ip()) == known) {
            turns[..=index].rotate_right(1);
        }
        let (address, reached) = side_by_side(&self.timer, turns, connect).await?;
        let mut answered = self.answered();
        if Some(address.ip()) == usual {
            // A name whose addresses are all well keeps the order of its server: that spreads load.
            answered.remove(host);
        } else {
            if answered.len() >= HOSTS_MAX {
                answered.clear();
            }
            answered.insert(host.to_owned(), address.ip());
        }
        Ok(reached)
    }

    fn answered(&self) -> std::sync::MutexGuard<'_, HashMap<String, IpAddr>> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the addresses of both families by turns, in the order of each.
fn by_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(is_ipv4) = addresses.first().map(SocketAddr::is_ipv4) else { return addresses };
    let mut counts = [0; 2];
    let place = |address: SocketAddr| {
        let family = usize::from(address.is_ipv4() != is_ipv4);
        counts[family] += 1;
        (counts[family], family, address)
    };
    let mut places = addresses.into_iter().map(place).collect::<Vec<_>>();
    places.sort_by_key(|(turn, family, _)| (*turn, *family));
    places.into_iter().map(|(.., address)| address).collect()
}

async fn side_by_side<T, F>(
    timer: &Timer,
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<(SocketAddr, T)>
where
    F: Future<Output = Result<T, Missed>>,
{
    let (connect, mut running) = (&connect, FuturesUnordered::new());
    let mut last = io::Error::new(io::ErrorKind::NotFound, NO_ADDRESS);
    let mut waiting = addresses.into_iter().enumerate();
    loop {
        if let Some((index, address)) = waiting.next() {
            running.push(async move {
                // The first has the descriptor of its caller.
                let own = (index > 0).then(descriptors::for_callback);
                if own.as_ref().is_some_and(Option::is_none) {
                    return Err(Continue(Shortage::DESCRIPTORS.into()));
                }
                connect(address).await.map(|reached| (address, reached))
            });
        }
        let ended = match waiting.len() {
            0 => running.next().await,
            _ => timer.timeout(STAGGER, running.next()).await.ok().flatten(),
        };
        match ended {
            Some(Ok(reached)) => return Ok(reached),
            Some(Err(Break(error))) => return Err(error),
            Some(Err(Continue(error))) => last = error,
            None if waiting.len() == 0 && running.is_empty() => return Err(last),
            None => {}
        }
    }
}

async fn connect_one(timer: &Timer, address: SocketAddr) -> Result<TcpStream, Missed> {
    let connected = timer.timeout(CONNECT_ONE, TcpStream::connect(address)).await;
    match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) => stream.set_nodelay(true).map(|()| stream).map_err(Break),
        Err(error) if !descriptors::is_shortage(&error) => Err(Continue(error)),
        // All ports to it are in use; or this host has no address of its kind. The latter is no
        // shortage.
        Err(error) if has_source(address) => Err(Break(error)),
        Err(error) => Err(Continue(io::Error::new(error.kind(), error.to_string()))),
    }
}

/// Returns whether this host has an address to call that one from, as far as it can tell.
fn has_source(address: SocketAddr) -> bool {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    // Nothing is sent. Where there is no socket for it, that is the shortage.
    match UdpSocket::bind((any, 0)) {
        Ok(socket) => socket.connect(address).is_ok(),
        Err(error) => descriptors::is_shortage(&error),
    }
}

#[cfg(test)]
mod tests;
