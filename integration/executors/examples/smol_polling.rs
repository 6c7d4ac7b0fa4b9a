//! smol's executor, with `polling` for a reactor: run the ready tasks, turn the wheels, and wait
//! for sockets, wake-ups and the next timer in one place.

use std::future::Future;
use std::net::UdpSocket;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use std::{io, thread};

use async_executor::LocalExecutor;
use polling::{Event, Events, Poller};
use tourbillon::Timer;
use tourbillon::driver::Driver;

/// Ends the poller's wait.
struct Notify(Arc<Poller>);

impl Wake for Notify {
    fn wake(self: Arc<Self>) {
        self.0.notify().expect("the poller is open");
    }
}

/// Runs `future`, and until a socket is readable; returns how many timers the wheels fired
/// meanwhile, and that socket's key.
fn block_on<F: Future>(
    poller: &Arc<Poller>,
    driver: &mut Driver,
    future: F,
) -> io::Result<(usize, usize)> {
    let waker = Waker::from(Arc::new(Notify(Arc::clone(poller))));
    let mut future = pin!(future);
    let (mut done, mut fired, mut readable) = (false, 0, None);
    let mut events = Events::new();
    loop {
        done = done || future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        if let (true, Some(key)) = (done, readable) {
            return Ok((fired, key));
        }
        // Each wake-up from here notifies the poller, and ends its wait at once.
        fired += driver.turn().fired;
        events.clear();
        poller.wait(&mut events, driver.max_wait())?;
        readable = events.iter().map(|event| event.key).next().or(readable);
    }
}

fn run(timer: &Timer, poller: &Arc<Poller>, driver: &mut Driver) -> io::Result<usize> {
    let nap = Duration::from_millis(20);
    let start = Instant::now();
    let executor = LocalExecutor::new();
    let naps: Vec<_> = (1..=3).map(|n| executor.spawn(timer.sleep(nap * n))).collect();

    // A thread without an executor arms an earlier timer than the poller waits for, then sends.
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    // SAFETY: the socket is deleted from the poller below, before it is dropped.
    unsafe { poller.add(&socket, Event::readable(7))? };
    let early = timer.sleep(nap / 4);
    let remote = thread::spawn(move || {
        pollster::block_on(early);
        UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", address)
    });
    let all = executor.run(async {
        for nap in naps {
            nap.await;
        }
    });
    let (fired, readable) = block_on(poller, driver, all)?;
    poller.delete(&socket)?;
    assert_eq!((remote.join().expect("it does not panic")?, readable), (5, 7));
    assert!(start.elapsed() >= nap * 3);
    Ok(fired)
}

fn main() -> io::Result<()> {
    let poller = Arc::new(Poller::new()?);
    let hook = Arc::clone(&poller);
    let (timer, mut driver) =
        Timer::builder().build_manual(move || hook.notify().expect("the poller is open"))?;
    let mut fired = 0;
    // On a busy machine a task may come to its sleep too late to arm it. Then again.
    while fired < 4 {
        fired += run(&timer, &poller, &mut driver)?;
    }
    println!("{fired} fired, {:?}", timer.stats());
    assert_eq!(timer.stats().driver_wakeups, 0);
    Ok(())
}
