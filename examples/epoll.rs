//! Timers in a plain epoll loop. It waits for nothing but descriptors, and a descriptor of them is
//! readable when a timer is due.
//!
//! ```text
//! cargo run --release --example epoll
//! ```
//!
//! The loop cuts connections whose peers are silent for too long. Another thread plays the peers.
//! It sleeps on the same timer, until deadlines earlier than the loop's.

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::future::Future;
    use std::io::{self, Read, Write};
    use std::os::unix::net::UnixStream;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Wake, Waker};
    use std::thread;
    use std::time::{Duration, Instant};

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use tourbillon::driver::Budget;
    use tourbillon::{Sleep, Timer};

    const SILENCE: Duration = Duration::from_millis(60);

    /// The event of the timer; each other belongs to the connection of that number.
    const TIMER: u64 = u64::MAX;

    /// Sockets are served between two turns of so many timers.
    const BUDGET: Budget = Budget::Timers(64);

    struct Connection {
        socket: UnixStream,
        silence: Sleep,
        waker: Waker,
    }

    impl Connection {
        /// Is ready once the peer has been silent for too long.
        fn poll_silent(&mut self) -> Poll<()> {
            Pin::new(&mut self.silence).poll(&mut Context::from_waker(&self.waker))
        }
    }

    /// Puts a connection on the list to be looked at.
    struct Look {
        number: u64,
        list: Arc<Mutex<Vec<u64>>>,
    }

    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            self.list.lock().unwrap().push(self.number);
        }
    }

    pub(super) fn main() -> io::Result<()> {
        let start = Instant::now();
        let log = |what: &str| println!("{:3} ms: {what}", start.elapsed().as_millis());

        // The hook has nothing to do: the descriptor ends the wait.
        let (timer, mut driver) = Timer::builder().build_manual(|| {})?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, driver.turn_fd()?, EventData::new_u64(TIMER), EventFlags::IN)?;

        let due = Arc::new(Mutex::new(Vec::new()));
        let mut connections = HashMap::new();
        let mut peers = Vec::new();
        for number in 0..2 {
            let (socket, peer) = UnixStream::pair()?;
            epoll::add(&epoll, &socket, EventData::new_u64(number), EventFlags::IN)?;
            let waker = Arc::new(Look { number, list: Arc::clone(&due) }).into();
            let mut connection = Connection { socket, silence: timer.sleep(SILENCE), waker };
            assert!(connection.poll_silent().is_pending());
            connections.insert(number, connection);
            peers.push(peer);
        }

        // The second peer speaks up twice, and then waits until it is cut.
        let peers = thread::spawn(move || {
            for _ in 0..2 {
                pollster::block_on(timer.sleep(SILENCE / 2));
                peers[1].write_all(b"hello")?;
            }
            peers[1].read(&mut [0; 1])
        });

        let mut cut = Vec::new();
        let mut events = Vec::with_capacity(16);
        while !connections.is_empty() {
            epoll::wait(&epoll, spare_capacity(&mut events), None)?;
            for event in events.drain(..) {
                if event.data.u64() == TIMER {
                    driver.turn_within(BUDGET);
                } else if let Some(connection) = connections.get_mut(&event.data.u64()) {
                    let length = connection.socket.read(&mut [0; 16])?;
                    connection.silence.reset_after(SILENCE);
                    log(&format!("{} has sent {length} bytes", event.data.u64()));
                }
            }
            for number in std::mem::take(&mut *due.lock().unwrap()) {
                if connections.get_mut(&number).is_some_and(|one| one.poll_silent().is_ready()) {
                    connections.remove(&number);
                    cut.push(number);
                    log(&format!("{number} is cut"));
                }
            }
        }
        assert!(cut == [0, 1] && start.elapsed() >= SILENCE * 2);
        assert_eq!(peers.join().unwrap()?, 0);
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("epoll is Linux's");
}
