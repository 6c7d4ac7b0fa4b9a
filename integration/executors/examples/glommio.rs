//! glommio, with the driver thread. Its wakers may be woken on any thread, so it needs no recipe.
//!
//! It needs io_uring. Where a kernel or a container does not allow that, this says so, and exits
//! with 77, which `ci/consumers.sh` takes for neither passed nor failed.

#[cfg(target_os = "linux")]
fn main() {
    use std::time::{Duration, Instant};

    use glommio::{LocalExecutorBuilder, Placement};
    use tourbillon::Timer;

    let builder = LocalExecutorBuilder::new(Placement::Unbound);
    let executor = match builder.make() {
        Ok(executor) => executor,
        Err(error) => {
            println!("not run: {error}");
            std::process::exit(77);
        }
    };
    executor.run(async {
        let nap = Duration::from_millis(20);
        while Timer::global().stats().fired < 4 {
            let start = Instant::now();
            let naps: Vec<_> =
                (1..=3).map(|n| glommio::spawn_local(tourbillon::sleep(nap * n))).collect();
            let never = std::future::pending::<()>();
            assert!(tourbillon::timeout(nap / 4, never).await.is_err());
            for nap in naps {
                nap.await;
            }
            assert!(start.elapsed() >= nap * 3);
        }
    });
    let stats = Timer::global().stats();
    println!("{} fired, {stats:?}", stats.fired);
    assert_eq!(stats.waker_panics, 0);
}

#[cfg(not(target_os = "linux"))]
fn main() {}
