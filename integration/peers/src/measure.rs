//! The measurements: each starts processes of a system on databases of its own, and prints
//! `SYSTEM ROW VALUE` lines, which [`crate::table`] puts together.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::peer::now_us;
use crate::server::{Server, observer};
use crate::{Result, processor};

/// Jobs that are due at once.
const BACKLOG: usize = 100_000;

/// Jobs at a steady pace, and over how long they are due.
const PACED: (usize, Duration) = (10_000, Duration::from_secs(10));

/// Time in which paced jobs are inserted, and a worker starts and elects whom it has to.
const AHEAD: Duration = Duration::from_secs(10);

/// Jobs of a worker that is killed.
const HELD: usize = 10;

/// Time for the jobs that are not done by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time for workers of the first example: some would take hours for a backlog.
const LITTLE_PATIENCE: Duration = Duration::from_secs(10);

/// Time in which somebody has to miss a killed worker.
const MISSED: Duration = Duration::from_secs(180);

/// Measures rows of a system: `insert`, `drain`, `late`, `idle`, `takeover`.
pub(crate) fn measure(system: &str, address: &str, rows: &[&str]) -> Result<()> {
    let mut run = Run { system: System::named(system)?, server: Server::connect(address)? };
    for row in rows {
        match *row {
            "insert" => run.insert()?,
            "drain" => run.drain()?,
            "late" => run.late()?,
            "idle" => run.idle()?,
            "takeover" => run.takeover()?,
            other => return Err(format!("no row `{other}`").into()),
        }
    }
    Ok(())
}

/// A system that is measured.
struct System {
    name: &'static str,
    /// Whether there is a job that is not done.
    unfinished: &'static str,
    /// Its calls are answered by a program for Node.js.
    is_node: bool,
}

const SYSTEMS: [System; 4] = [
    System {
        name: "tourbillon-durable",
        unfinished: "SELECT 1 FROM tourbillon.timer LIMIT 1",
        is_node: false,
    },
    System {
        name: "riverqueue",
        unfinished: "SELECT 1 FROM river_job WHERE state <> 'completed' LIMIT 1",
        is_node: false,
    },
    System {
        name: "graphile_worker",
        unfinished: "SELECT 1 FROM graphile_worker._private_jobs LIMIT 1",
        is_node: false,
    },
    System {
        name: "pg-boss",
        unfinished: "SELECT 1 FROM pgboss.job WHERE name = 'bench' AND state < 'completed' LIMIT 1",
        is_node: true,
    },
];

impl System {
    fn named(name: &str) -> Result<&'static Self> {
        let found = SYSTEMS.iter().find(|system| system.name == name);
        found.ok_or_else(|| format!("no system `{name}`").into())
    }

    /// The program that answers its calls.
    fn program(&self) -> Result<Command> {
        if self.is_node {
            let node = std::env::var_os("PEERS_NODE").unwrap_or_else(|| "node".into());
            let mut command = Command::new(node);
            command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/node/pg-boss.mjs"));
            return Ok(command);
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(self.name);
        Ok(command)
    }

    /// Makes it answer a call, and returns its output.
    fn call(&self, words: &[&str]) -> Result<String> {
        let output = self.program()?.args(words).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("{} {}: {}", self.name, words[0], output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    }
}

/// A process that works. Dropped, it is killed.
struct Worker {
    child: Child,
    /// Channel with a message when all jobs that are expected have started.
    all: Receiver<()>,
    file: PathBuf,
}

/// Times at which each job started and was due, in microseconds since the epoch.
type Starts = Vec<(i64, i64)>;

impl Worker {
    fn start(
        system: &System,
        address: &str,
        settings: &str,
        count: usize,
        handler: &str,
    ) -> Result<Self> {
        let name = format!("tourbillon-peers-{}-{}", std::process::id(), now_us());
        let file = std::env::temp_dir().join(name);
        let mut child = system
            .program()?
            .args(["work", address, settings, &count.to_string(), handler])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (sender, all) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(std::result::Result::ok) {
                if line == "all" {
                    let _ = sender.send(());
                }
            }
        });
        Ok(Self { child, all, file })
    }

    /// Waits until all jobs have started. False if they have not by then.
    fn wait(&self, most: Duration) -> bool {
        self.all.recv_timeout(most).is_ok()
    }

    /// Ends it, and returns the starts of its jobs.
    fn end(mut self) -> Result<Starts> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        if !status.success() {
            return Err(format!("a worker ended: {status}").into());
        }
        let text = std::fs::read_to_string(&self.file)?;
        std::fs::remove_file(&self.file)?;
        let mut starts = Vec::new();
        for line in text.lines() {
            let (at, due) = line.split_once(' ').ok_or("half a line")?;
            starts.push((at.parse()?, due.parse()?));
        }
        starts.sort_unstable();
        Ok(starts)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // An ended process cannot be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Part that a worker has done of a backlog or of paced jobs.
struct Done {
    starts: Starts,
    /// Time at which nothing was left to do, in microseconds since the epoch; `None` if there is.
    finished_us: Option<i64>,
}

/// Measurements of a system under way.
struct Run {
    system: &'static System,
    server: Server,
}

impl Run {
    /// A database with the tables of the system.
    fn prepared(&mut self, row: &str) -> Result<(String, String)> {
        let name = format!("{}_{row}_{}", self.system.name.replace('-', "_"), now_us());
        let address = self.server.create(&name, None)?;
        self.system.call(&["prepare", &address])?;
        Ok((name, address))
    }

    /// Inserts jobs that are due over a span from a moment on, and returns how many a second.
    fn fill(&self, address: &str, count: usize, from_us: i64, span: Duration) -> Result<String> {
        let from = (from_us / 1_000).to_string();
        let span = span.as_millis().to_string();
        self.system.call(&["batch", address, &count.to_string(), &from, &span])
    }

    fn print(&self, row: &str, value: impl std::fmt::Display) {
        println!("{}\t{row}\t{value}", self.system.name);
    }

    fn insert(&mut self) -> Result<()> {
        let (name, address) = self.prepared("insert")?;
        for (row, callers) in [("single", "1"), ("callers", "64")] {
            self.print(row, self.system.call(&["single", &address, "3", callers])?);
        }
        self.server.remove(&name)
    }

    /// Drains the same backlog with each of the settings.
    fn drain(&mut self) -> Result<()> {
        let (full, address) = self.prepared("drain")?;
        self.print("batch", self.fill(&address, BACKLOG, now_us(), Duration::ZERO)?);
        // As a server would have done by itself after a while.
        observer(&address)?.batch_execute("VACUUM ANALYZE")?;
        for settings in ["default", "one", "fast"] {
            let name = format!("{full}_{settings}");
            let address = self.server.create(&name, Some(&full))?;
            let before = self.server.counts(&name)?;
            let worker = Worker::start(self.system, &address, settings, BACKLOG, "empty")?;
            let patience = if settings == "default" { LITTLE_PATIENCE } else { PATIENCE };
            let own = worker.child.id();
            let system = self.system;
            let (Done { starts, finished_us }, (own, after)) =
                finish(system, worker, &address, BACKLOG, patience, || {
                    Ok((processor::of(own)?, self.server.counts(&name)?))
                })?;
            let (Some((first, _)), Some((last, _))) = (starts.first(), starts.last()) else {
                return Err(format!("{}: nothing started", self.system.name).into());
            };
            let span = (finished_us.unwrap_or(*last) - first).max(1);
            self.print(&format!("drain-{settings}"), starts.len() as f64 * 1e6 / span as f64);
            if settings != "default" {
                let costs = after.since(&before, starts.len());
                let own = own.as_secs_f64() * 1e6 / starts.len() as f64;
                self.print(&format!("drain-{settings}-server-us"), costs.processor_us);
                self.print(&format!("drain-{settings}-own-us"), own);
                self.print(&format!("drain-{settings}-wal"), costs.wal_bytes);
                self.print(&format!("drain-{settings}-calls"), costs.calls);
            }
            self.server.remove(&name)?;
        }
        self.server.remove(&full)
    }

    /// Jobs that are due one after the other.
    fn late(&mut self) -> Result<()> {
        let (count, span) = PACED;
        for settings in ["default", "fast"] {
            let (name, address) = self.prepared("late")?;
            let from_us = now_us() + AHEAD.as_micros() as i64;
            let worker = Worker::start(self.system, &address, settings, count, "empty")?;
            self.fill(&address, count, from_us, span)?;
            let ahead = from_us - now_us();
            let ahead = u64::try_from(ahead).map_err(|_| "the inserts took too long")?;
            thread::sleep(Duration::from_micros(ahead));
            let own = worker.child.id();
            let (before, own_before) = (self.server.counts(&name)?, processor::of(own)?);
            let patience = span + LITTLE_PATIENCE;
            let system = self.system;
            let (Done { starts, finished_us }, (own_after, after)) =
                finish(system, worker, &address, count, patience, || {
                    Ok((processor::of(own)?, self.server.counts(&name)?))
                })?;
            let mut late: Vec<i64> = starts.iter().map(|(at, due)| at - due).collect();
            late.sort_unstable();
            let at = |per_cent: usize| late[(late.len() - 1) * per_cent / 100] as f64 / 1e3;
            let row = |what: &str| format!("late-{settings}-{what}");
            if finished_us.is_some() {
                self.print(&row("p50"), at(50));
                self.print(&row("p99"), at(99));
                self.print(&row("early"), late.iter().filter(|late| **late < 0).count());
            } else {
                self.print(&row("p50"), "unfinished");
                self.print(&row("p99"), "unfinished");
            }
            if finished_us.is_some() && settings == "fast" {
                let costs = after.since(&before, count);
                let own = (own_after - own_before).as_secs_f64() * 1e6 / count as f64;
                self.print("late-fast-server-us", costs.processor_us);
                self.print("late-fast-own-us", own);
                self.print("late-fast-wal", costs.wal_bytes);
                self.print("late-fast-calls", costs.calls);
            }
            self.server.remove(&name)?;
        }
        Ok(())
    }

    /// Statements of a worker that has nothing to do.
    fn idle(&mut self) -> Result<()> {
        for settings in ["default", "fast"] {
            let (name, address) = self.prepared("idle")?;
            let tomorrow = now_us() + 86_400_000_000;
            self.fill(&address, PACED.0, tomorrow, PACED.1)?;
            let worker = Worker::start(self.system, &address, settings, PACED.0, "empty")?;
            thread::sleep(Duration::from_secs(5));
            let (began, before) = (Instant::now(), self.server.counts(&name)?);
            thread::sleep(Duration::from_secs(15));
            let (after, seconds) = (self.server.counts(&name)?, began.elapsed().as_secs_f64());
            worker.end()?;
            self.print(&format!("idle-{settings}"), (after.calls - before.calls) / seconds);
            self.server.remove(&name)?;
        }
        Ok(())
    }

    /// A worker is killed that holds jobs; another is there.
    fn takeover(&mut self) -> Result<()> {
        let (name, address) = self.prepared("takeover")?;
        self.fill(&address, HELD, now_us(), Duration::ZERO)?;
        let held = Worker::start(self.system, &address, "fast", HELD, "hang")?;
        if !held.wait(PATIENCE) {
            return Err("the worker that is to be killed did not take all jobs".into());
        }
        let other = Worker::start(self.system, &address, "fast", HELD, "empty")?;
        thread::sleep(Duration::from_secs(5));
        let killed_us = now_us();
        drop(held);
        other.wait(MISSED);
        let starts = other.end()?;
        match starts.last() {
            Some((last, _)) if starts.len() == HELD => {
                self.print("takeover", (last - killed_us) as f64 / 1e6);
            }
            _ => self.print("takeover", "unfinished"),
        }
        self.server.remove(&name)
    }
}

/// Waits until nothing is left to do, but not for longer than that. `before_its_end` sees the
/// worker while it still runs, and with it the server's processes that end after it.
fn finish<T>(
    system: &System,
    worker: Worker,
    address: &str,
    count: usize,
    most: Duration,
    before_its_end: impl FnOnce() -> Result<T>,
) -> Result<(Done, T)> {
    let began = Instant::now();
    let mut finished_us = None;
    if worker.wait(most) {
        let mut client = observer(address)?;
        while finished_us.is_none() && began.elapsed() < most {
            if client.query_opt(system.unfinished, &[])?.is_none() {
                finished_us = Some(now_us());
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    let seen = before_its_end()?;
    let starts = worker.end()?;
    if starts.len() > count {
        return Err(format!("{} starts of {count} jobs", starts.len()).into());
    }
    Ok((Done { starts, finished_us }, seen))
}
