//! monoio, with its timers off: a task turns the wheels and waits for their next deadline in
//! monoio's own reactor: io_uring where the kernel has it, and otherwise epoll.
//!
//! Without monoio's feature `sync` its wakers must not leave their thread, so a driver thread
//! cannot wake its tasks. Here the loop's own thread wakes them, and all timers are armed there.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use monoio::{FusionDriver, RuntimeBuilder};
use tokio::sync::Notify;
use tourbillon::Timer;
use tourbillon::driver::Driver;

/// Turns for ever. The permit that a call of the hook leaves is kept, so none is missed between a
/// turn and the wait.
async fn turn(mut driver: Driver, unpark: Arc<Notify>) {
    loop {
        match driver.turn().next {
            Some(next) => tokio::select! {
                () = monoio::time::sleep_until(next.into()) => {}
                () = unpark.notified() => {}
            },
            None => unpark.notified().await,
        }
    }
}

/// Acts like a library: it uses the process-wide timer, and knows nothing of monoio.
async fn tasks() {
    let nap = Duration::from_millis(20);
    let start = Instant::now();
    let naps: Vec<_> = (1..=3).map(|n| monoio::spawn(tourbillon::sleep(nap * n))).collect();
    let never = std::future::pending::<()>();
    assert!(tourbillon::timeout(nap / 4, never).await.is_err());
    for nap in naps {
        nap.await;
    }
    assert!(start.elapsed() >= nap * 3);
}

/// Shows why: a driver thread cannot wake the task, which hangs. It reports that once.
async fn a_driver_thread_cannot_wake() -> io::Result<()> {
    let (tell, told) = std::sync::mpsc::channel();
    let loud = move || tell.send(std::thread::current().name().map(str::to_owned)).unwrap();
    let timer = Timer::builder().thread_name("driver").on_waker_panic(loud).build()?;
    println!("a panic of a waker follows, which is caught");
    let nap = Duration::from_millis(5);
    let mut told_by = None;
    // On a busy machine the task may come to its sleep too late to arm it. Then again.
    while told_by.is_none() {
        let task = monoio::spawn(timer.sleep(nap));
        while !task.is_finished() && timer.stats().waker_panics == 0 {
            tourbillon::sleep(nap).await;
        }
        told_by = told.try_recv().ok();
    }
    assert_eq!(told_by, Some(Some("driver".to_owned())));
    Ok(())
}

/// Compares the loop above with the guide's.
fn the_guide_has_this_loop() {
    let (_, rest) = include_str!("monoio.rs").split_once("\n    loop {\n").expect("it is above");
    let (recipe, _) = rest.split_once("\n}\n").expect("the function ends");
    assert!(include_str!("../../../src/guide/migration.md").contains(recipe));
}

fn main() -> io::Result<()> {
    the_guide_has_this_loop();
    let unpark = Arc::new(Notify::new());
    let hook = Arc::clone(&unpark);
    // A waker that is woken on another thread panics. The program ends then, where it would hang.
    let builder = Timer::builder().on_waker_panic(|| std::process::abort());
    let (timer, driver) = builder.build_manual(move || hook.notify_one())?;
    Timer::set_global(timer).expect("nothing has slept yet");
    let mut runtime = RuntimeBuilder::<FusionDriver>::new().enable_timer().build()?;
    runtime.block_on(async {
        let turning = monoio::spawn(turn(driver, unpark));
        // On a busy machine a task may come to its sleep too late to arm it. Then again.
        while Timer::global().stats().fired < 4 {
            tasks().await;
        }
        a_driver_thread_cannot_wake().await?;
        drop(turning);
        io::Result::Ok(())
    })?;
    let stats = Timer::global().stats();
    let reactor = if monoio::utils::detect_uring() { "io_uring" } else { "epoll" };
    println!("{reactor}: {} fired, {stats:?}", stats.fired);
    assert_eq!((stats.driver_wakeups, stats.waker_panics), (0, 0));
    Ok(())
}
