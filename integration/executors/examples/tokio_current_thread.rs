//! tokio's current-thread runtime: a task turns the wheels, and waits for their next deadline in
//! tokio's own reactor. However many timers there are, tokio sees one.
//!
//! Since tokio's timer counts milliseconds, all fire up to one late here. What is won is that no
//! thread is added, and that the tasks' timers are any library's that was written for ours.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tourbillon::Timer;
use tourbillon::driver::Driver;

/// Turns for ever, and counts what that fires.
async fn turn(driver: &mut Driver, unpark: &Notify, fired: &Cell<usize>) {
    loop {
        let turn = driver.turn();
        fired.set(fired.get() + turn.fired);
        // The permit that a call of the hook leaves is kept, so none is missed between the two.
        match turn.next {
            Some(next) => tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                () = unpark.notified() => {}
            },
            None => unpark.notified().await,
        }
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
    let unpark = Arc::new(Notify::new());
    let hook = Arc::clone(&unpark);
    let (timer, mut driver) = Timer::builder().build_manual(move || hook.notify_one())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fired = Cell::new(0);
    // On a busy machine a task may come to its sleep too late to arm it. Then again.
    while fired.get() < 4 {
        runtime.block_on(async {
            tokio::select! {
                result = tasks(timer.clone()) => result,
                () = turn(&mut driver, &unpark, &fired) => unreachable!("it turns for ever"),
            }
        })?;
    }
    println!("{} fired, {:?}", fired.get(), timer.stats());
    assert_eq!(timer.stats().driver_wakeups, 0);
    Ok(())
}
