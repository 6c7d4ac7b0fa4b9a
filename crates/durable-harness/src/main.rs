//! Runs the harness.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use tourbillon_durable_harness::bench::{self, BENCHES};
use tourbillon_durable_harness::canary::Bug;
use tourbillon_durable_harness::options::Options;
use tourbillon_durable_harness::{Result, checker, load, log, node, storm, wall_seconds};

const USAGE: &str = "\
harness check DIR       judges the logs in DIR
harness storm           nodes, clients and faults, and judges what comes of it
    --store sqlite:PATH | postgres://USER:PASSWORD@HOST:PORT/DATABASE
    --seed N            where all choices come from; printed
    --seconds S         how long there are faults (20)
    --nodes K           (3)
    --clients K         (4)
    --pause-us N        between two calls of a client, on average (10000)
    --lease-ms N        (2000)
    --away SECONDS      how long the server is away, or SQLite's file locked
    --standby synchronous | asynchronous
                        a standby, which becomes the primary once the faults are over
    --manager PROGRAM   does harm to servers that something else manages: PROGRAM harm NUMBER
    --beside PROGRAM    every second node is a process of this harness of another build
    --settle SECONDS    how long what is due may need to end at last (60)
    --faults A,B        which; all that fit the store if not said, none if empty
    --logs DIR          kept there; else in a temporary folder, kept if promises were broken
    --canary NAME       a bug that the nodes have
harness canaries        storms with each bug until the checker finds it, eight at most; succeeds if
                        it finds each. As for storm
harness bench NAME      measures, and prints a row of its BENCHES.md. Small if not said:
    --store as above, --nodes K (1), --connections K (1), --lease-ms N (15000)
    --timers N, --seconds S, or --full 1 for what others were measured with
    --beside PROGRAM    as above; also of the only node
    --shuffled 1        due in another order than inserted, with random ids
    --checkpoint 1      after the inserts, so that the log has an image of each page after it
    --claim-linger-us N how long a node lets a due timer wait for others
    --distance-us N     how much longer a round trip to the server takes
    --period S          of `schedules`: time between two occurrences of each (10)
    --aligned 1         of `schedules`: all have the same times
    --once 1            of `schedules`: one-shots at these times in their place
harness benches         lists them
harness node, clients, bench-node, time: processes of these";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let done = Options::new(arguments).and_then(|options| match command.as_str() {
        "check" => check(&options),
        "storm" => storm(&options),
        "bench" => bench(&options),
        "benches" => Ok(list_benches()),
        "bench-node" => bench::run_node(&options).map(|()| true),
        "canaries" => canaries(&options),
        "node" => node::run(&options).map(|()| true),
        "clients" => load::run(&options).map(|()| true),
        "time" => wall_seconds().map(|seconds| println!("{seconds}")).map(|()| true),
        _ => Err(USAGE.into()),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether the promises were kept.
fn check(options: &Options) -> Result<bool> {
    let report = checker::check(&log::read(Path::new(options.word()?))?);
    println!("{report}");
    Ok(report.violations.is_empty())
}

fn storm(options: &Options) -> Result<bool> {
    let seed = seed(options)?;
    println!("seed {seed}");
    let kept = options.optional("logs").map(PathBuf::from);
    let logs = kept.clone().unwrap_or_else(|| temporary(&seed.to_string()));
    let report = storm::run(&storm::Options {
        faults: options.optional("faults").map(str::to_owned),
        settle: Duration::from_secs(options.number("settle", 60)?),
        canary: options.canary()?,
        ..storm_options(options, seed, &logs)?
    })?;
    println!("{report}");
    let is_kept = report.violations.is_empty();
    if !is_kept {
        println!("seed {seed}, logs in {}", logs.display());
    } else if kept.is_none() {
        std::fs::remove_dir_all(logs)?;
    }
    Ok(is_kept)
}

/// Upper bound of the storms with one bug: it may show in none of the first few.
const STORMS: u64 = 8;

/// Returns whether the checker finds each bug, by this seed or by a later one.
fn canaries(options: &Options) -> Result<bool> {
    let seed = seed(options)?;
    println!("seed {seed}");
    let mut said = Vec::new();
    let has_standby = options.optional("standby").is_some();
    let mut are_found = true;
    for bug in Bug::ALL.iter().filter(|bug| bug.needs_standby() == has_standby) {
        println!("-- {}", bug.name());
        let mut is_found = false;
        for number in 0..STORMS {
            let verdicts = storm_with(*bug, options, seed.wrapping_add(number))?.verdicts();
            is_found = bug.verdicts().iter().any(|verdict| verdicts.contains(verdict));
            let names: Vec<_> = verdicts.iter().map(ToString::to_string).collect();
            let found = if is_found { "found" } else { "not found" };
            said.push(format!(
                "{}, storm {}: {found} ({})",
                bug.name(),
                number + 1,
                names.join(" ")
            ));
            if is_found {
                break;
            }
        }
        are_found &= is_found;
    }
    said.iter().for_each(|line| println!("{line}"));
    Ok(are_found)
}

fn storm_with(bug: Bug, options: &Options, seed: u64) -> Result<checker::Report> {
    let logs = temporary(bug.name());
    let mut storm = storm::Options {
        faults: Some(bug.faults().to_owned()),
        settle: Duration::from_secs(options.number("settle", 5)?),
        canary: Some(bug),
        ..storm_options(options, seed, &logs)?
    };
    if storm.store.starts_with("sqlite:") {
        // Each has a file of its own.
        storm.store += &format!("{}-{seed}", bug.name());
    }
    let report = storm::run(&storm)?;
    std::fs::remove_dir_all(logs)?;
    Ok(report)
}

fn bench(options: &Options) -> Result<bool> {
    let name = options.word()?;
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| format!("there is no measurement `{name}`"))?;
    let is_full = options.optional("full").is_some();
    let (timers, seconds) = if is_full { bench.full } else { bench.default };
    bench::run(
        bench,
        &bench::Options {
            store: options.text("store")?.to_owned(),
            nodes: options.number("nodes", 1)?,
            connections: options.number("connections", 1)?,
            timers: options.number("timers", timers)?,
            span: Duration::from_secs(options.number("seconds", seconds)?),
            lease: options.millis("lease-ms", 15_000)?,
            is_shuffled: options.optional("shuffled").is_some(),
            checkpoint: options.optional("checkpoint").is_some(),
            claim_linger: options.optional("claim-linger-us").map(str::to_owned),
            beside: options.optional("beside").map(PathBuf::from),
            distance: Duration::from_micros(options.number("distance-us", 0)?),
            period: Duration::from_secs(options.number("period", 10)?),
            is_aligned: options.optional("aligned").is_some(),
            once: options.optional("once").is_some(),
        },
    )?;
    Ok(true)
}

fn list_benches() -> bool {
    for bench in BENCHES {
        println!("{:10} {}", bench.name, bench.what);
    }
    true
}

fn seed(options: &Options) -> Result<u64> {
    let now = SystemTime::UNIX_EPOCH.elapsed()?.as_nanos();
    options.number("seed", (now % 1_000_000_007) as u64)
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("harness-{}-{name}", std::process::id()))
}

fn storm_options(options: &Options, seed: u64, logs: &Path) -> Result<storm::Options> {
    Ok(storm::Options {
        store: options.text("store")?.to_owned(),
        logs: logs.to_owned(),
        seed,
        span: Duration::from_secs(options.number("seconds", 20)?),
        nodes: options.number("nodes", 3)?,
        clients: options.number("clients", 4)?,
        pause: Duration::from_micros(options.number("pause-us", 10_000)?),
        lease: options.millis("lease-ms", 2_000)?,
        away: options.optional("away").map(str::parse).transpose()?.map(Duration::from_secs),
        standby: options.optional("standby").map(str::parse).transpose()?,
        manager: options.optional("manager").map(PathBuf::from),
        beside: options.optional("beside").map(PathBuf::from),
        settle: Duration::ZERO,
        faults: None,
        canary: None,
    })
}
