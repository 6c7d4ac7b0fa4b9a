//! Finds a leak of timers: counts the armed ones by the place that made them.
//!
//! A client keeps a limit for each request, and forgets to drop the limit of a request that failed.
//! `Timer::pending` shows the line, and how old its timers are.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures::FutureExt;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

/// Limits of the requests that have no answer yet, by number.
#[derive(Default)]
struct Limits {
    of: HashMap<u32, Sleep>,
    /// Line that makes them, to be found.
    made_at: u32,
}

impl Limits {
    fn begin(&mut self, request: u32, timer: &Timer) {
        let (mut limit, line) = (timer.sleep(Duration::from_secs(3600)), line!());
        self.made_at = line;
        // As the task that waits for the answer does.
        assert!((&mut limit).now_or_never().is_none());
        self.of.insert(request, limit);
    }

    fn end(&mut self, request: u32, answer: Result<(), ()>) {
        // The leak: the limit of a request that failed stays.
        if answer.is_ok() {
            self.of.remove(&request);
        }
    }
}

fn main() -> std::io::Result<()> {
    // A virtual clock, so that an hour's leak takes no time.
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build()?;
    let mut limits = Limits::default();
    let mut heartbeat = timer.interval(Duration::from_secs(5));
    for request in 0..1_000 {
        limits.begin(request, &timer);
        clock.advance(Duration::from_secs(1));
        limits.end(request, if request % 10 == 0 { Err(()) } else { Ok(()) });
        while heartbeat.tick().now_or_never().is_some() {}
    }

    let mut ages = BTreeMap::<_, Vec<Duration>>::new();
    for pending in timer.pending() {
        let place = (pending.place.file(), pending.place.line());
        ages.entry(place).or_default().push(pending.age);
    }
    println!("armed    oldest  made at");
    for ((file, line), ages) in &ages {
        // In the order of their arming.
        println!("{:>5} {:>7} s  {file}:{line}", ages.len(), ages[0].as_secs());
    }
    let most = ages.iter().max_by_key(|(_, ages)| ages.len());
    assert_eq!(most.map(|((_, line), ages)| (*line, ages.len())), Some((limits.made_at, 100)));
    Ok(())
}
