//! A keep-alive deadline that every packet postpones, with [`Sleep::reset_after`].
//!
//! ```text
//! cargo run --release --example keep_alive
//! ```
//!
//! One sleep serves the connection for its whole life. By the system's clock, putting off a sleep
//! that is armed takes no lock and wakes nobody, so it may be done for each of very many packets.
//!
//! [`Sleep::reset_after`]: tourbillon::Sleep::reset_after

use std::time::Duration;

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::{StreamExt, future, select};
use tourbillon::Timer;
use tourbillon::virtual_time::VirtualClock;

const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Receives until the peer has been silent for too long; returns the number of packets.
async fn receive(timer: &Timer, mut packets: UnboundedReceiver<&str>) -> usize {
    let mut deadline = timer.sleep(KEEP_ALIVE);
    let mut received = 0;
    loop {
        select! {
            packet = packets.select_next_some() => {
                println!("    received {packet:?}");
                received += 1;
                deadline.reset_after(KEEP_ALIVE);
            }
            () = deadline => return received,
        }
    }
}

fn main() {
    // Virtual time, so that the example need not wait; a program would use `tourbillon::sleep`.
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().unwrap();
    let start = clock.now();

    let (packets, receiver) = unbounded();
    let peer = async {
        for (pause, packet) in [(1, "hello"), (4, "still here"), (3, "goodbye")] {
            timer.sleep(Duration::from_secs(pause)).await;
            println!("{:2} s: sends", (clock.now() - start).as_secs());
            packets.unbounded_send(packet).unwrap();
        }
    };
    let (received, ()) = clock.block_on(future::join(receive(&timer, receiver), peer));

    println!("{:2} s: cut, after {received} packets", (clock.now() - start).as_secs());
    assert_eq!((received, clock.now() - start), (3, Duration::from_secs(1 + 4 + 3 + 5)));
}
