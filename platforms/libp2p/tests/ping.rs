//! Two peers that ping each other, where no thread can be started (futures-timer#85).

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use libp2p_core::transport::{MemoryTransport, Transport as _};
use libp2p_core::upgrade::Version;
use libp2p_identity::Keypair;
use libp2p_ping as ping;
use libp2p_swarm::{Config, Swarm, SwarmEvent};
use tourbillon::Timer;
use wstd::runtime::{block_on, spawn};

const INTERVAL: Duration = Duration::from_millis(10);

fn peer() -> Swarm<ping::Behaviour> {
    let key = Keypair::generate_ed25519();
    let transport = MemoryTransport::new()
        .upgrade(Version::V1)
        .authenticate(libp2p_plaintext::Config::new(&key))
        .multiplex(libp2p_yamux::Config::default())
        .boxed();
    let behaviour = ping::Behaviour::new(ping::Config::new().with_interval(INTERVAL));
    let config = Config::with_executor(|task| spawn(task).detach());
    Swarm::new(transport, behaviour, key.public().to_peer_id(), config)
}

#[test]
fn two_peers_ping_each_other_again_and_again() {
    let timer = tourbillon_wstd::timer();
    Timer::set_global(timer.clone()).expect("nothing has slept yet");
    let start = Instant::now();
    let pings = block_on(async {
        let (mut one, mut two) = (peer(), peer());
        one.listen_on("/memory/1".parse().unwrap()).unwrap();
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = one.select_next_some().await {
                break address;
            }
        };
        two.dial(address).unwrap();
        let mut pings = [0, 0];
        while pings.iter().any(|count| *count < 5) {
            let next = select(one.next(), two.next()).await;
            let (event, peer) = match next {
                Either::Left((event, _)) => (event, 0),
                Either::Right((event, _)) => (event, 1),
            };
            match event.expect("a swarm has no end") {
                SwarmEvent::Behaviour(event) => {
                    event.result.expect("it is answered");
                    pings[peer] += 1;
                }
                SwarmEvent::ConnectionClosed { cause, .. } => panic!("{cause:?}"),
                _ => {}
            }
        }
        pings
    });
    // The first follows the connection at once.
    assert!(start.elapsed() >= 4 * INTERVAL && pings.iter().all(|count| *count >= 5));
    assert!(timer.stats().fired >= 8);
}
