use std::cell::RefCell;
use std::pin::pin;

use futures_util::FutureExt as _;
use tourbillon::virtual_time::VirtualClock;

use super::*;

/// A way to hosts, with its clock.
fn reach() -> (Reach, VirtualClock) {
    let (clock, timer) = crate::watched::clocked();
    (Reach::new(&timer), clock)
}

fn addresses<const N: usize>(texts: [&str; N]) -> Vec<SocketAddr> {
    texts.map(|text| SocketAddr::new(text.parse().unwrap(), 80)).into()
}

/// Conduct of addresses by their last number: 0 hangs, 1 to 8 answer, and 9 refuses.
#[derive(Default)]
struct Network(RefCell<Vec<u8>>);

impl Network {
    async fn connect(&self, address: SocketAddr) -> Result<u8, Missed> {
        let last = match address.ip() {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(address) => address.octets()[15],
        };
        self.0.borrow_mut().push(last);
        match last {
            0 => std::future::pending().await,
            9 => Err(Continue(io::ErrorKind::ConnectionRefused.into())),
            other => Ok(other),
        }
    }

    /// Reaches a host within these many of the pauses between addresses. Returns what was called.
    fn calls(
        &self,
        (reach, clock): (&Reach, &VirtualClock),
        addresses: Vec<SocketAddr>,
        pauses: u32,
    ) -> Vec<u8> {
        let mut first = pin!(reach.first("host", addresses, |address| self.connect(address)));
        for _ in 0..pauses {
            assert!((&mut first).now_or_never().is_none());
            clock.advance(STAGGER - Duration::from_nanos(1));
            assert!((&mut first).now_or_never().is_none());
            clock.advance(Duration::from_nanos(1));
        }
        first.now_or_never().unwrap().unwrap();
        self.0.take()
    }
}

#[test]
fn the_next_address_has_its_turn_beside_one_that_is_silent_and_is_the_first_from_then_on() {
    let (reach, clock) = reach();
    let (network, on) = (Network::default(), (&reach, &clock));
    let all = || addresses(["10.0.0.0", "10.1.0.0", "10.0.0.1", "10.0.0.2"]);
    assert_eq!(network.calls(on, all(), 2), [0, 0, 1]);
    assert_eq!(network.calls(on, all(), 0), [1]);
    // It is gone from the name, or has left by itself.
    assert_eq!(network.calls(on, addresses(["10.0.0.0", "10.0.0.2"]), 1), [0, 2]);
    assert_eq!(network.calls(on, all(), 0), [2]);
}

#[test]
fn addresses_that_are_all_well_keep_the_order_of_their_name() {
    let (reach, clock) = reach();
    let (network, on) = (Network::default(), (&reach, &clock));
    assert_eq!(network.calls(on, addresses(["10.0.0.1", "10.0.0.2"]), 0), [1]);
    assert_eq!(network.calls(on, addresses(["10.0.0.2", "10.0.0.1"]), 0), [2]);
    assert_eq!(network.calls(on, addresses(["10.0.0.9", "10.0.0.1"]), 0), [9, 1]);
    // As soon as the name itself has it first, it is like any other.
    assert_eq!(network.calls(on, addresses(["10.0.0.1", "10.0.0.2"]), 0), [1]);
    assert_eq!(network.calls(on, addresses(["10.0.0.2", "10.0.0.1"]), 0), [2]);
}

#[test]
fn without_an_address_that_answers_the_last_error_counts() {
    let (reach, clock) = reach();
    let network = Network::default();
    let error = |addresses| {
        let first = reach.first("host", addresses, |address| network.connect(address));
        first.now_or_never().map(|reached| reached.unwrap_err().kind())
    };
    assert_eq!(error(Vec::new()), Some(io::ErrorKind::NotFound));
    let refused = addresses(["10.0.0.9", "10.1.0.9"]);
    assert_eq!(error(refused), Some(io::ErrorKind::ConnectionRefused));
    assert_eq!(error(addresses(["10.0.0.9", "10.0.0.0"])), None);
    drop(clock);
}

#[test]
fn an_error_that_concerns_all_addresses_ends_the_search() {
    let (reach, _clock) = reach();
    let called = RefCell::new(0);
    let connect = async |_| {
        *called.borrow_mut() += 1;
        Err::<(), _>(Break(io::ErrorKind::OutOfMemory.into()))
    };
    let all = addresses(["10.0.0.9", "10.0.0.1"]);
    let ended = reach.first("host", all, connect).now_or_never().unwrap();
    assert_eq!((ended.unwrap_err().kind(), called.take()), (io::ErrorKind::OutOfMemory, 1));
}

#[test]
fn the_families_of_addresses_take_turns() {
    let mixed = addresses(["fd00::1", "fd00::2", "fd00::3", "10.0.0.1", "10.0.0.2"]);
    let turns = by_turns(mixed).into_iter().map(|address| address.ip().to_string());
    let expected = ["fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2", "fd00::3"];
    assert_eq!(turns.collect::<Vec<_>>(), expected);
}

#[test]
fn an_address_that_this_host_cannot_call_from_is_no_shortage() {
    assert!(has_source("127.0.0.1:9".parse().unwrap()));
    // An address of documentation bound to an interface that is not there.
    let nowhere = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, u32::MAX);
    assert!(!has_source(nowhere.into()));
}
