//! compio, by its interface for custom loops: the runtime's tasks run, the wheels are turned, and
//! the proactor waits for completions no longer than until the next timer. Without compio's `time`.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use compio::net::UdpSocket;
use compio::runtime::Runtime;
use tourbillon::Timer;
use tourbillon::driver::Driver;

/// Runs `future`; returns how many timers the wheels fired meanwhile as well.
fn block_on<F: Future>(runtime: &Runtime, driver: &mut Driver, future: F) -> (F::Output, usize) {
    runtime.enter(|| {
        let waker = runtime.waker();
        let mut future = pin!(future);
        let mut fired = 0;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return (output, fired);
            }
            let busy = runtime.run();
            let turned = driver.turn().fired;
            fired += turned;
            // A task woken on this thread is queued, and does not end the proactor's wait.
            let limit = if busy || turned > 0 { Some(Duration::ZERO) } else { driver.max_wait() };
            runtime.poll_with(limit);
        }
    })
}

async fn tasks(timer: Timer) -> std::io::Result<()> {
    let nap = Duration::from_millis(20);
    let start = Instant::now();
    let naps: Vec<_> = (1..=3).map(|n| compio::runtime::spawn(timer.sleep(nap * n))).collect();
    // A thread without a runtime arms an earlier timer than the proactor waits for, then sends.
    let socket = UdpSocket::bind("127.0.0.1:0").await?;
    let address = socket.local_addr()?;
    let remote = std::thread::spawn(move || {
        pollster::block_on(timer.sleep(nap / 4));
        std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", address)
    });
    assert_eq!(socket.recv(Vec::with_capacity(16)).await.0?, 5);
    assert_eq!(remote.join().expect("it does not panic")?, 5);
    for nap in naps {
        nap.await.expect("it does not panic");
    }
    assert!(start.elapsed() >= nap * 3);
    Ok(())
}

fn main() -> std::io::Result<()> {
    let runtime = Runtime::new()?;
    let waker = runtime.waker();
    let (timer, mut driver) = Timer::builder().build_manual(move || waker.wake_by_ref())?;
    let mut fired = 0;
    // On a busy machine a task may come to its sleep too late to arm it. Then again.
    while fired < 4 {
        let (result, more) = block_on(&runtime, &mut driver, tasks(timer.clone()));
        result?;
        fired += more;
    }
    println!("{:?}: {fired} fired, {:?}", runtime.driver_type(), timer.stats());
    assert_eq!(timer.stats().driver_wakeups, 0);
    Ok(())
}
