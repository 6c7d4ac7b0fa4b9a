//! Runs jobs when they are due.

use std::fs;
use std::future::poll_fn;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant, SystemTime};

use async_signal::{Signal, Signals};
use futures::StreamExt;
use smol::io::AsyncWriteExt;
use smol::process::Command;
use tourbillon::Timer;
use tourbillon::cron::{Missed, Tick};

use crate::due::Due;
use crate::files::{Entry, Files};
use crate::list::shown;

/// A clock that is set back by more than this was wrong, and cron starts from the new time.
const CORRECTION: Duration = Duration::from_secs(3 * 3600);

macro_rules! log {
    ($zone:expr, $($what:tt)*) => {
        println!("{} {}", shown(SystemTime::now(), $zone), format_args!($($what)*))
    };
}

/// What the one task that waits for everything was woken for.
enum Event {
    Due(Arc<Entry>, Tick),
    Signal(Signal),
    /// The clock was set back by very much.
    Corrected,
}

/// Runs `jobs`, and those that the files hold later, until SIGINT or SIGTERM.
pub(crate) fn run(mut files: Files, jobs: &[Arc<Entry>], catches_up: bool) -> Result<(), String> {
    let policy = if catches_up { Missed::Coalesce } else { Missed::Skip };
    let mut signals = Signals::new([Signal::Hup, Signal::Int, Signal::Term])
        .map_err(|error| format!("cannot watch for signals: {error}"))?;
    let zone = files.zone.clone();
    log!(&zone, "{} jobs", jobs.len());
    for entry in jobs.iter().filter(|entry| entry.job.when.is_none()) {
        smol::spawn(execute(Arc::clone(entry), zone.clone())).detach();
    }
    let mut due = streams(jobs, policy, SystemTime::now());
    let mut wake_ups = 0_u64;
    smol::block_on(async {
        loop {
            match event(&mut due, &mut signals, &mut wake_ups).await {
                // A file that changed before a job of it is due is read before the job is run.
                Event::Due(entry, tick) if !files.have_changed() => {
                    log!(
                        &zone,
                        "{}: due {}, {} missed",
                        entry.place(),
                        shown(tick.scheduled(), &zone),
                        tick.missed()
                    );
                    smol::spawn(execute(entry, zone.clone())).detach();
                }
                Event::Due(_, tick) => {
                    // With what is due just now.
                    let from = tick.scheduled() - Duration::from_nanos(1);
                    due = reload(&mut files, policy, from);
                }
                Event::Signal(Signal::Hup) | Event::Corrected => {
                    due = reload(&mut files, policy, SystemTime::now());
                }
                Event::Signal(_) => break,
            }
        }
    });
    let driver = Timer::global().stats().driver_wakeups;
    log!(&zone, "ends after {wake_ups} wake-ups, and {driver} of the timer's thread");
    Ok(())
}

fn streams(jobs: &[Arc<Entry>], policy: Missed, from: SystemTime) -> Due {
    Due::new(jobs, |ticks| ticks.missed(policy).restarted(from))
}

fn reload(files: &mut Files, policy: Missed, from: SystemTime) -> Due {
    let load = files.load();
    for fault in &load.faults {
        eprintln!("{fault}");
    }
    log!(&files.zone, "{} jobs", load.jobs.len());
    streams(&load.jobs, policy, from)
}

/// Waits for a job or a signal, and counts how often it is woken.
async fn event(due: &mut Due, signals: &mut Signals, wake_ups: &mut u64) -> Event {
    let mut latest = SystemTime::now();
    let mut was_polled = false;
    poll_fn(|cx| {
        *wake_ups += u64::from(std::mem::replace(&mut was_polled, true));
        let now = SystemTime::now();
        if latest.duration_since(now).is_ok_and(|back| back > CORRECTION) {
            return Poll::Ready(Event::Corrected);
        }
        latest = latest.max(now);
        if let Poll::Ready(Some(Ok(signal))) = signals.poll_next_unpin(cx) {
            return Poll::Ready(Event::Signal(signal));
        }
        match due.poll_next_unpin(cx) {
            Poll::Ready(Some((entry, tick))) => Poll::Ready(Event::Due(entry, tick)),
            _ => Poll::Pending,
        }
    })
    .await
}

/// Runs a job to its end, and logs what it prints.
async fn execute(entry: Arc<Entry>, zone: String) {
    let start = Instant::now();
    let place = entry.place();
    match output(&entry).await {
        Ok(Output { status, stdout, stderr }) => {
            for text in [&stdout, &stderr] {
                for line in String::from_utf8_lossy(text).lines() {
                    log!(&zone, "{place}: | {line}");
                }
            }
            log!(&zone, "{place}: {} after {:.1?}", ended(status), start.elapsed());
        }
        Err(error) => log!(&zone, "{place}: did not run: {error}"),
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

async fn output(entry: &Entry) -> io::Result<Output> {
    let job = &entry.job;
    let me = User::current()?;
    let user = match &job.user {
        Some(name) if *name != me.name => User::named(name)?,
        _ => me.clone(),
    };
    let set = |name: &str| {
        let mut values = job.variables.iter().rev();
        values.find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    };
    let mut command = std::process::Command::new(set("SHELL").unwrap_or("/bin/sh"));
    command
        .arg("-c")
        .arg(&job.command)
        .env_clear()
        .env("SHELL", "/bin/sh")
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &user.home)
        .envs(job.variables.iter().map(|(name, value)| (name, value)))
        .env("LOGNAME", &user.name)
        .env("USER", &user.name)
        .current_dir(set("HOME").unwrap_or(&user.home));
    if user.id != me.id {
        command.uid(user.id).gid(user.group);
    }
    let mut command = Command::from(command);
    let stdin = if job.input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let input = child.stdin.take().zip(job.input.as_deref());
    let write = async {
        if let Some((mut stdin, input)) = input {
            // A job need not read what it is given.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let ((), output) = futures::join!(write, child.output());
    output
}

/// A line of `/etc/passwd`.
#[derive(Clone)]
struct User {
    name: String,
    id: u32,
    group: u32,
    home: String,
}

impl User {
    fn named(name: &str) -> io::Result<Self> {
        Self::find(|user| user.name == name)
    }

    fn current() -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let id = fs::metadata("/proc/self")?.uid();
        Self::find(|user| user.id == id)
    }

    fn find(is_wanted: impl Fn(&Self) -> bool) -> io::Result<Self> {
        let passwd = fs::read_to_string("/etc/passwd")?;
        let mut users = passwd.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, id, group, _, home, ..] = fields[..] else { return None };
            let (id, group) = (id.parse().ok()?, group.parse().ok()?);
            Some(Self { name: name.to_owned(), id, group, home: home.to_owned() })
        });
        users.find(is_wanted).ok_or_else(|| io::Error::other("there is no such user"))
    }
}
