//! A server that is a network away: a proxy that delays each way by half of a round trip.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes, and the time at which they arrive.
type Parcel = (Instant, Vec<u8>);

/// Starts a proxy in front of `server`, whose threads end with the process. Returns its address.
///
/// Bytes are read as they come and each part arrives half of `round_trip` later. So a request that
/// does not wait for the answer to the one before it is not delayed by that.
pub(super) fn put(server: SocketAddr, round_trip: Duration) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            // A connection that cannot be made is closed.
            let _ = connect(client, server, round_trip / 2);
        }
    });
    Ok(address)
}

fn connect(client: TcpStream, server: SocketAddr, delay: Duration) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let back = (server.try_clone()?, client.try_clone()?);
    for (from, to) in [(client, server), back] {
        let (send, parcels) = mpsc::channel();
        thread::spawn(move || deliver(&parcels, to));
        thread::spawn(move || {
            let (mut from, mut bytes) = (from, vec![0; 64 * 1024]);
            while let Ok(count @ 1..) = from.read(&mut bytes) {
                if send.send((Instant::now() + delay, bytes[..count].to_vec())).is_err() {
                    break;
                }
            }
        });
    }
    Ok(())
}

/// Writes each parcel at its time, until there are no more; then closes the connection.
fn deliver(parcels: &Receiver<Parcel>, mut to: TcpStream) {
    for (arrival, bytes) in parcels {
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // A closed connection stays closed.
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_together_arrives_together_and_a_round_trip_later() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let far = Duration::from_millis(40);
        let address = put(listener.local_addr().unwrap(), far).unwrap();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut byte = [0];
            while client.read_exact(&mut byte).is_ok() {
                client.write_all(&byte).unwrap();
            }
        });
        let mut client = TcpStream::connect(address).unwrap();
        let sent = Instant::now();
        client.write_all(&[1]).unwrap();
        client.write_all(&[2]).unwrap();
        let mut answer = [0; 2];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [1, 2]);
        assert!(sent.elapsed() >= far);
    }
}
