//! Runs all clients at once, and reports how they fared.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tourbillon::Timer;

use super::clients::{KINDS, good_client, leisurely_client, slow_client};
use super::limits::Limit;
use super::server::Counters;

const SLOW: usize = 400;
/// A slow client comes this often.
const SLOW_EVERY: Duration = Duration::from_millis(18);
const GOOD: u64 = 16;
const LEISURELY: usize = 4;
const GOOD_RUN: Duration = Duration::from_secs(9);
/// When a slow client no longer hopes to be cut.
const GIVE_UP: Duration = Duration::from_secs(30);

/// Events that the clients have seen so far.
#[derive(Default)]
pub(crate) struct Crowd {
    good: Cell<u64>,
    /// Lateness with which slow clients were cut, by kind.
    cuts: [RefCell<Vec<Duration>>; KINDS.len()],
    failures: RefCell<Vec<String>>,
}

impl Crowd {
    fn fail(&self, who: &str, what: io::Error) {
        self.failures.borrow_mut().push(format!("{who}: {what}"));
    }

    fn cut(&self) -> usize {
        self.cuts.iter().map(|cuts| cuts.borrow().len()).sum()
    }

    /// Runs all clients to their end.
    pub(crate) async fn run(&self, address: SocketAddr) {
        print!("{GOOD} good clients, {LEISURELY} leisurely and {SLOW} slow ones on {address}; ");
        let [idle, header, request, write] = Limit::ALL.map(Limit::span);
        println!("limits: {idle:?} idle, {header:?} head, {request:?} request, {write:?} write");

        let executor = smol::LocalExecutor::new();
        let is_good = || self.good.set(self.good.get() + 1);
        let good = (0..GOOD).map(|number| {
            let client = good_client(address, number, GOOD_RUN, is_good);
            executor.spawn(self.watch("a good client", client))
        });
        let mut all: Vec<_> = good.collect();
        all.extend((0..LEISURELY).map(|_| {
            let client = leisurely_client(address, GOOD_RUN, is_good);
            executor.spawn(self.watch("a leisurely client", client))
        }));
        all.extend((0..SLOW).map(|number| executor.spawn(self.be_slow(address, number))));
        let progress = executor.spawn(async {
            for second in 1.. {
                smol::Timer::after(Duration::from_secs(1)).await;
                let (good, cut) = (self.good.get(), self.cut());
                println!("{second:3} s: {good:6} good requests, {cut:3} slow clients cut");
            }
        });
        let all = async {
            for client in all {
                client.await;
            }
        };
        executor.run(all).await;
        drop(progress);
    }

    async fn watch(&self, name: &str, client: impl Future<Output = io::Result<()>>) {
        if let Err(error) = client.await {
            self.fail(name, error);
        }
    }

    /// Comes when it is this client's turn, and is slow.
    async fn be_slow(&self, address: SocketAddr, number: usize) {
        let place = number % KINDS.len();
        let kind = KINDS[place];
        smol::Timer::after(SLOW_EVERY * number as u32).await;
        let gives_up = async {
            smol::Timer::after(GIVE_UP).await;
            Err(io::Error::other("not cut"))
        };
        match smol::future::or(slow_client(address, kind), gives_up).await {
            Ok(late) => self.cuts[place].borrow_mut().push(late),
            Err(error) => self.fail(kind.name, error),
        }
    }

    /// Prints the results; returns whether all went well.
    pub(crate) fn report(&self, counters: &Counters) -> bool {
        let served = counters.served.load(Relaxed);
        println!("\n{} good requests, {served} requests served", self.good.get());
        let by_limit = Limit::ALL.map(|limit| {
            let cuts = counters.cuts(limit);
            // Each limit has clients of its own, so each must have cut some.
            if cuts == 0 {
                self.fail(limit.name(), io::Error::other("a limit that cut nobody"));
            }
            format!("{} {cuts}", limit.name())
        });
        println!(
            "{} of {SLOW} slow clients cut; by the server's count: {}",
            self.cut(),
            by_limit.join(", ")
        );
        println!("\nCut so much after the deadline, as the clients see it:");
        println!(
            "{:24} {:8} {:>7} {:>9} {:>9} {:>9} {:>9}",
            "", "limit", "clients", "p50", "p90", "p99", "max"
        );
        let mut all = Vec::new();
        for (kind, cuts) in KINDS.iter().zip(&self.cuts) {
            percentiles(kind.name, kind.limit.name(), &mut cuts.borrow_mut());
            all.extend_from_slice(&cuts.borrow());
        }
        percentiles("all", "", &mut all);
        let stats = Timer::global().stats();
        println!(
            "\ntimers: {} armed, {} fired, {} cancelled; woken {:?} late at most",
            stats.armed, stats.fired, stats.cancelled, stats.lateness_max
        );
        println!("driver: {} wake-ups, {} unparks", stats.driver_wakeups, stats.unparks);
        let failures = self.failures.borrow();
        for failure in failures.iter().take(20) {
            println!("FAILED: {failure}");
        }
        println!("{} failures", failures.len());
        failures.is_empty()
    }
}

fn percentiles(name: &str, limit: &str, cuts: &mut [Duration]) {
    cuts.sort_unstable();
    print!("{name:24} {limit:8} {:7}", cuts.len());
    for percent in [50, 90, 99, 100] {
        let rank = (cuts.len() * percent).div_ceil(100);
        let late = cuts.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        print!(" {:6.2} ms", late.as_secs_f64() * 1e3);
    }
    println!();
}
