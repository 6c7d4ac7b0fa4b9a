//! Idle limits of a server's connections, exact and with a tolerance.
//!
//! ```text
//! cargo run --release --example tolerance
//! ```
//!
//! Each request puts off the limit of its connection, which takes no lock and wakes nobody. But the
//! driver wakes up where a limit was before, and finds it put off, unless another limit was close
//! enough to share that wake-up. No client notices whether it is cut after 2.0 or 2.2 seconds.

use std::fs;
use std::time::{Duration, Instant};

use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use futures::executor::ThreadPool;
use futures::future::join_all;
use futures::task::SpawnExt;
use futures::{StreamExt, select};
use tourbillon::Timer;
use tourbillon::timer::Tolerance;

const CONNECTIONS: usize = 5_000;
const LIMIT: Duration = Duration::from_secs(2);
/// For so long there are requests; then the connections are cut as their limits come.
const SPAN: Duration = Duration::from_secs(3);

/// Serves requests until the client has been idle for too long. Returns how many there were.
async fn serve(timer: Timer, mut requests: UnboundedReceiver<()>) -> usize {
    let mut idle = timer.sleep(LIMIT);
    let mut served = 0;
    loop {
        select! {
            () = requests.select_next_some() => {
                served += 1;
                idle.reset_after(LIMIT);
            }
            () = idle => return served,
        }
    }
}

/// Requests served, wake-ups of the driver, and the system's counts for its thread: how often it
/// has slept, and its processor time in milliseconds.
struct Figures([Option<u64>; 4]);

fn run(name: &str, tolerance: Tolerance) -> Figures {
    let timer = Timer::builder().thread_name(name).tolerance(tolerance).build().unwrap();
    let server = ThreadPool::builder().pool_size(1).create().unwrap();
    let (clients, connections): (Vec<_>, Vec<_>) = (0..CONNECTIONS)
        .map(|_| {
            let (client, requests) = unbounded();
            (client, server.spawn_with_handle(serve(timer.clone(), requests)).unwrap())
        })
        .unzip();

    let start = Instant::now();
    for client in (0..CONNECTIONS).map(|n| n * 2_713 % CONNECTIONS).cycle() {
        if start.elapsed() > SPAN {
            break;
        }
        // Fails if that connection was cut.
        let _ = clients[client].unbounded_send(());
        std::thread::sleep(Duration::from_micros(200));
    }
    let served: usize = pollster::block_on(join_all(connections)).into_iter().sum();
    let [switches, time] = of_thread(name).map_or([None; 2], |figures| figures.map(Some));
    Figures([Some(served as u64), Some(timer.stats().driver_wakeups), switches, time])
}

/// Voluntary context switches, and milliseconds on a processor, where there is `/proc`.
fn of_thread(name: &str) -> Option<[u64; 2]> {
    let mut tasks = fs::read_dir("/proc/self/task").ok()?.map_while(Result::ok);
    let is_named = |path: &fs::DirEntry| {
        fs::read_to_string(path.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let path = tasks.find(is_named)?.path();
    let status = fs::read_to_string(path.join("status")).ok()?;
    let switches = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    let times = fs::read_to_string(path.join("schedstat")).ok()?;
    let nanos: u64 = times.split_whitespace().next()?.parse().ok()?;
    Some([switches.trim().parse().ok()?, nanos / 1_000_000])
}

fn main() {
    let exact = run("exact", Tolerance::default());
    let tolerant = run("tolerant", Tolerance::percent_of_delay(10, Duration::from_secs(1)));

    println!("{:28} {:>8} {:>8}", "tolerance", "none", "10 %");
    let shown = |figure: Option<u64>| figure.map_or("?".to_owned(), |figure| figure.to_string());
    let rows = ["requests", "wake-ups of the driver", "its context switches", "its processor ms"];
    for (row, (exact, tolerant)) in rows.iter().zip(exact.0.into_iter().zip(tolerant.0)) {
        println!("{row:28} {:>8} {:>8}", shown(exact), shown(tolerant));
    }
}
