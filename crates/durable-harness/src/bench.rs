//! Measurements: each starts nodes as processes, and prints a row.

mod costs;
mod distance;
mod idle;
mod insert;
mod node;
mod notified;
mod schedules;
mod spread;
mod takeover;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

pub use node::run as run_node;
use tourbillon_durable::store::NewTimer;
use tourbillon_durable::{Store, Time, TimerId};

use crate::Result;
use crate::children::Process;
use crate::database::Address;

/// The kind of all timers except hanging ones.
const KIND: &str = "bench";

/// The kind whose first attempts never end.
const HANGS: &str = "hangs";

/// Timers in one insert.
const BATCH: usize = 1_000;

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address of the database; of PostgreSQL, a database is made on its server.
    pub store: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Connections for a node's claims.
    pub connections: usize,
    /// Number of timers.
    pub timers: usize,
    /// Over how long they are due, or for how long is measured.
    pub span: Duration,
    /// The lease of the nodes.
    pub lease: Duration,
    /// True if timers are due in another order than they were inserted in, and have random ids.
    pub is_shuffled: bool,
    /// True if the server writes all pages to the disk after the inserts.
    pub checkpoint: bool,
    /// Wait of a due timer for others, in microseconds; the engine's default if not given.
    pub claim_linger: Option<String>,
    /// Program of another build, which every second node runs, or the only one.
    pub beside: Option<PathBuf>,
    /// Time that a round trip to the server takes, beside what it takes anyway.
    pub distance: Duration,
    /// Time from one occurrence of a schedule to the next.
    pub period: Duration,
    /// True if the occurrences of schedules are due at the same times as each other's.
    pub is_aligned: bool,
    /// True if one-shots are made in place of the occurrences of schedules.
    pub once: bool,
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub struct Bench {
    /// Its name.
    pub name: &'static str,
    /// Purpose, and the columns.
    pub what: &'static str,
    /// Default number of timers, and of seconds.
    pub default: (usize, u64),
    /// The same at full size.
    pub full: (usize, u64),
    run: fn(&Run) -> Result<String>,
}

/// All measurements.
pub const BENCHES: &[Bench] = &[
    Bench {
        name: "lateness",
        what: "timers at a steady pace, p50 / p99 / p99.9 / max ms",
        default: (1_000, 10),
        full: (1_000, 60),
        run: spread::spread,
    },
    Bench {
        name: "hundred",
        what: "a hundred thousand, p50 / p99 / p99.9 / max ms",
        default: (10_000, 3),
        full: (100_000, 30),
        run: spread::spread,
    },
    Bench {
        name: "million",
        what: "a million due in a minute, p50 / p99 / p99.9 / max ms",
        default: (50_000, 3),
        full: (1_000_000, 60),
        run: spread::spread,
    },
    Bench {
        name: "drain",
        what: "all due at once, timers a second, longest time in which none starts",
        default: (20_000, 0),
        full: (200_000, 0),
        run: spread::drain,
    },
    Bench {
        name: "sustained",
        what: "inserted and fired together, p50 / p99 / p99.9 / max ms, and the tables' growth",
        default: (20_000, 10),
        full: (1_200_000, 60),
        run: spread::sustained,
    },
    Bench {
        name: "held",
        what: "as sustained, beside a transaction that never ends, p50 / p99 / p99.9 / max ms",
        default: (10_000, 10),
        full: (1_800_000, 1_800),
        run: spread::held,
    },
    Bench {
        name: "schedules",
        what: "occurrences of so many schedules, one each period, p50 / p99 / p99.9 / max ms",
        default: (1_000, 10),
        full: (10_000, 60),
        run: schedules::schedules,
    },
    Bench {
        name: "insert",
        what: "timers a second: batched, one by one, by 64 callers at once",
        default: (20_000, 3),
        full: (500_000, 10),
        run: insert::insert,
    },
    Bench {
        name: "notified",
        what: "inserted by another process to be due at once, p50 / p99 / p99.9 / max ms",
        default: (200, 20),
        full: (1_000, 60),
        run: notified::notified,
    },
    Bench {
        name: "takeover",
        what: "kill -9 of one node of several: what ran starts anew after, what is due is late by",
        default: (90, 5),
        full: (90, 5),
        run: takeover::takeover,
    },
    Bench {
        name: "idle",
        what: "calls of the store a second a node, with that many timers far ahead",
        default: (10_000, 10),
        full: (1_000_000, 60),
        run: idle::idle,
    },
];

/// Runs a measurement and prints its row.
///
/// # Errors
///
/// If it could not take place, or something was lost, early or done twice.
pub fn run(bench: &Bench, options: &Options) -> Result<()> {
    let mut address = Address::new(&options.store)?.for_a_run()?;
    if !options.distance.is_zero() {
        address = address.at(&[distance::put(address.server()?, options.distance)?]);
    }
    let mut store = address.open()?;
    if !store.timers(&Default::default())?.is_empty() {
        return Err("the database has timers".into());
    }
    let folder = std::env::temp_dir().join(format!("harness-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let measured = (bench.run)(&Run { options: options.clone(), address, folder: folder.clone() });
    std::fs::remove_dir_all(folder)?;
    let kind = if options.store.starts_with("sqlite:") { "SQLite" } else { "PostgreSQL" };
    println!(
        "| {} | {kind} | {} | {} in {} s | {} |",
        bench.name,
        options.nodes,
        options.timers,
        options.span.as_secs(),
        measured?,
    );
    Ok(())
}

/// One measurement under way.
struct Run {
    options: Options,
    address: Address,
    /// For the nodes' measurements.
    folder: PathBuf,
}

impl Run {
    fn start_nodes(&self) -> Result<Vec<Process>> {
        (0..self.options.nodes).map(|number| self.start_node(number)).collect()
    }

    fn start_node(&self, number: u32) -> Result<Process> {
        let out = self.file(number);
        let connections = self.options.connections.to_string();
        let lease = self.options.lease.as_millis().to_string();
        let out = out.to_str().ok_or("the temporary folder is no UTF-8")?;
        let arguments = ["bench-node", "--store", self.address.as_str(), "--out", out];
        let further = ["--connections", &connections, "--lease-ms", &lease];
        let mut all: Vec<_> =
            arguments.iter().chain(&further).map(|text| (*text).to_owned()).collect();
        if let Some(micros) = &self.options.claim_linger {
            all.extend(["--claim-linger-us".to_owned(), micros.clone()]);
        }
        let is_other = number % 2 == 1 || self.options.nodes == 1;
        let other = self.options.beside.as_deref().filter(|_| is_other);
        Process::of_build(other, &all, &[])
    }

    /// Inserts as the options want it.
    fn fill(&self, store: &mut dyn Store, from: Time, span: Duration) -> Result<()> {
        fill(store, self.options.timers, (from, span), self.options.is_shuffled)
    }

    fn file(&self, number: u32) -> PathBuf {
        self.folder.join(format!("node-{number}"))
    }

    /// Ends the nodes, and joins their measurements.
    fn end_nodes(&self, nodes: Vec<Process>) -> Result<Measured> {
        nodes.into_iter().try_for_each(Process::end)?;
        let mut all = Measured::default();
        for number in 0..self.options.nodes {
            if let Ok(text) = std::fs::read_to_string(self.file(number)) {
                all.add(&text)?;
            }
        }
        all.starts.sort_unstable();
        Ok(all)
    }

    /// Waits until there are no timers.
    fn wait_until_done(&self, store: &mut dyn Store) -> Result<()> {
        while !store.timers(&tourbillon_durable::store::TimerQuery::new().limit(1))?.is_empty() {
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Measurements of nodes.
#[derive(Debug, Default)]
struct Measured {
    /// Start of each attempt, and the time it was due, in microseconds.
    starts: Vec<(i64, i64)>,
    /// Starts of second attempts.
    again: Vec<Time>,
    /// Number of calls of stores.
    calls: u64,
    /// Statements that the database ended for want of a lock.
    lock_timeouts: u64,
    /// Processor time that the nodes used.
    processor: Duration,
}

impl Measured {
    fn add(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            let (tag, number) = line.split_once(' ').ok_or("a node wrote half a line")?;
            match tag {
                "start" => {
                    let (at, due) = number.split_once(' ').ok_or("a node wrote half a start")?;
                    self.starts.push((at.parse()?, due.parse()?));
                }
                "again" => self.again.push(Time::from_micros(number.parse()?)),
                "calls" => self.calls += number.parse::<u64>()?,
                "lock-timeouts" => self.lock_timeouts += number.parse::<u64>()?,
                "processor" => self.processor += Duration::from_micros(number.parse()?),
                _ => return Err(format!("a node wrote `{line}`").into()),
            }
        }
        Ok(())
    }

    /// Its quantiles, once it is certain that `count` timers were done once and not early.
    fn quantiles(&self, count: usize) -> Result<Quantiles> {
        if self.starts.len() != count {
            return Err(format!("{} attempts of {count} timers", self.starts.len()).into());
        }
        let mut late: Vec<i64> = self.starts.iter().map(|(at, due)| at - due).collect();
        late.sort_unstable();
        if late.first().is_some_and(|first| *first < 0) {
            return Err(format!("early by {} us", -late[0]).into());
        }
        let at = |per_mille: usize| late[(count - 1) * per_mille / 1_000];
        Ok(Quantiles([at(500), at(990), at(999), at(1_000)]))
    }

    /// Returns the longest time with a due timer and no start.
    fn longest_pause(&self) -> Duration {
        let (mut longest, mut next, mut first_due) = (0, i64::MAX, i64::MAX);
        for (at, due) in self.starts.iter().rev() {
            longest = longest.max(next.saturating_sub(first_due.max(*at)));
            (next, first_due) = (*at, first_due.min(*due));
        }
        longest = longest.max(next.saturating_sub(first_due));
        Duration::from_micros(longest.max(0).unsigned_abs())
    }

    /// Costs of the timers for the nodes.
    fn own_costs(&self) -> String {
        let each = |sum: f64| sum / self.starts.len() as f64;
        let processor = each(self.processor.as_micros() as f64);
        format!("node {processor:.1} us and {:.2} calls a timer", each(self.calls as f64))
    }

    /// The longest pause, and lock timeouts.
    fn hitches(&self) -> String {
        let pause = self.longest_pause().as_secs_f64() * 1e3;
        format!("longest pause {pause:.0} ms, {} lock timeouts", self.lock_timeouts)
    }
}

/// p50, p99, p99.9 and the greatest, in microseconds.
struct Quantiles([i64; 4]);

impl fmt::Display for Quantiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99, p999, max] = self.0.map(|micros| micros as f64 / 1_000.0);
        write!(f, "{p50:.2} / {p99:.1} / {p999:.1} / {max:.0}")
    }
}

fn now() -> Time {
    SystemTime::now().into()
}

fn timer(kind: &str, at: Time) -> NewTimer {
    let mut timer = NewTimer::new(TimerId::new(now()), kind, at);
    timer.payload = vec![0; 32];
    timer
}

/// Inserts so many, due one after the other over `span` from `from` on; if shuffled, in a random
/// order and with random ids.
fn fill(
    store: &mut dyn Store,
    count: usize,
    (from, span): (Time, Duration),
    is_shuffled: bool,
) -> Result<()> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut numbers: Vec<usize> = (0..count).collect();
    if is_shuffled {
        random.shuffle(&mut numbers);
    }
    for part in numbers.chunks(BATCH) {
        let timers = part.iter().map(|number| {
            let mut timer = timer(KIND, from + step(span, *number, count));
            if is_shuffled {
                timer.id = TimerId::from_bits(random.u128(..));
            }
            timer
        });
        store.insert(&timers.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn step(span: Duration, number: usize, count: usize) -> Duration {
    span.mul_f64(number as f64 / count.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Measured;

    fn pause(starts: &[(i64, i64)]) -> Duration {
        Measured { starts: starts.to_vec(), ..Measured::default() }.longest_pause()
    }

    #[test]
    fn a_pause_is_a_time_in_which_a_timer_is_due_and_none_starts() {
        let micros = Duration::from_micros;
        assert_eq!(pause(&[]), micros(0));
        assert_eq!(pause(&[(12, 10)]), micros(2));
        // Nothing is due from 12 to 100.
        assert_eq!(pause(&[(12, 10), (103, 100)]), micros(3));
        // The timer that starts last is due first.
        assert_eq!(pause(&[(12, 10), (103, 100), (104, 50)]), micros(53));
        assert_eq!(pause(&[(12, 10), (40, 10), (103, 10)]), micros(63));
    }
}
