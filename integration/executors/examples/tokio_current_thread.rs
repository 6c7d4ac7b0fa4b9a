//! tokio's current-thread runtime: a task turns the wheels when the driver's descriptor is readable
//! (Linux). However many timers there are, tokio sees one descriptor, and needs no timer itself.
//!
//! No thread is added, and a timer wakes a task on the task's own thread: these are the gains.
//! Where there is no such descriptor, wait as `monoio.rs` does.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UdpSocket;
use tourbillon::Timer;
use tourbillon::driver::Driver;

/// Turns for ever, and counts the timers fired.
async fn turn(driver: &mut Driver, fired: &Cell<usize>) -> io::Result<Infallible> {
    // SAFETY: the pointer keeps the descriptor open, and never shows another one.
    let due = unsafe { AsyncFd::register_with_interest(driver.turn_fd()?, Interest::READABLE)? };
    loop {
        due.readable().await?.clear_ready();
        fired.set(fired.get() + driver.turn().fired);
    }
}

async fn tasks(timer: Timer) -> io::Result<()> {
    let nap = Duration::from_millis(20);
    let start = Instant::now();
    let naps: Vec<_> = (1..=3).map(|n| tokio::spawn(timer.sleep(nap * n))).collect();
    // A thread without a runtime arms an earlier timer than the reactor waits for, then sends.
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let address = socket.local_addr()?;
    let remote = std::thread::spawn(move || {
        pollster::block_on(timer.sleep(nap / 4));
        std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", address)
    });
    assert_eq!(socket.recv(&mut [0; 16]).await?, 5);
    assert_eq!(remote.join().expect("it does not panic")?, 5);
    for nap in naps {
        nap.await.expect("it does not panic");
    }
    assert!(start.elapsed() >= nap * 3);
    Ok(())
}

fn main() -> io::Result<()> {
    // The descriptor takes the place of the hook.
    let (timer, mut driver) = Timer::builder().build_manual(|| {})?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let fired = Cell::new(0);
    // On a busy machine a task may come to its sleep too late to arm it. Then again.
    while fired.get() < 4 {
        runtime.block_on(async {
            tokio::select! {
                result = tasks(timer.clone()) => result,
                result = turn(&mut driver, &fired) => result.map(|never| match never {}),
            }
        })?;
    }
    println!("{} fired, {:?}", fired.get(), timer.stats());
    assert_eq!(timer.stats().driver_wakeups, 0);
    Ok(())
}
