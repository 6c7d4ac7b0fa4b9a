//! The worker process, and its parent's handle of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use std::{env, thread};

use tourbillon::sleep;
use tourbillon_durable::{Engine, Fire};

use super::{Result, SCHEDULES, SLOW, open};

/// The argument that makes a process a worker.
pub(crate) const ROLE: &str = "--worker";

/// Duration of a delivery.
const DELIVERY: Duration = Duration::from_millis(20);

/// Log of a worker: each line is a word, a name and the number of the attempt. `start` is
/// said before the work, `done` once the database has taken its end, and `early` never.
pub(crate) type Log = Vec<String>;

/// Works until its standard input ends.
pub(crate) fn run(store: &str) -> Result<()> {
    // Short, so that the example is: a node that died is found out after a second.
    let builder = Engine::builder()
        .lease(Duration::from_secs(1))
        .heartbeat(Duration::from_millis(200))
        .look_ahead(Duration::from_millis(200))
        .scan(Duration::from_millis(100))
        .schedule_interval(Duration::from_millis(200))
        .maintenance_interval(Duration::from_millis(200));
    let engine = builder.start(open(store)?)?;
    for kind in SCHEDULES.map(|(name, _)| name).into_iter().chain(["reminder"]) {
        let mut fires = engine.worker(kind, 16);
        thread::spawn(move || {
            smol::block_on(async {
                while let Some(fire) = fires.next().await {
                    smol::spawn(deliver(fire)).detach();
                }
            });
        });
    }
    io::stdin().read_to_end(&mut Vec::new())?;
    // Waits for deliveries under way.
    smol::block_on(engine.stop());
    Ok(())
}

async fn deliver(fire: Fire) {
    let what = format!("{} {}", fire.name().unwrap_or("?"), fire.attempt());
    say(if fire.claimed() < fire.due() { "early" } else { "start" }, &what);
    let is_slow = fire.name() == Some(SLOW) && fire.attempt() == 1;
    sleep(if is_slow { Duration::from_secs(60) } else { DELIVERY }).await;
    match fire.complete().await {
        Ok(()) => say("done", &what),
        // Another attempt decides.
        Err(error) => say("void", &format!("{what} {error}")),
    }
}

/// In one write, as others say something at the same time.
fn say(word: &str, what: &str) {
    let line = format!("{word} {what}\n");
    // The listener may have gone.
    let _ = io::stdout().lock().write_all(line.as_bytes());
}

/// A worker, in the view of its parent.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    log: Log,
}

impl Worker {
    pub(crate) fn start(store: &str) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .args([ROLE, store])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = "the worker has no pipe";
        let input = child.stdin.take().ok_or(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or(missing)?);
        Ok(Self { child, input, output, log: Log::new() })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has said something that begins so.
    pub(crate) fn wait_for(&mut self, beginning: &str) -> Result<()> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err(format!("the worker ended without `{beginning}`").into());
            }
            let is_it = line.starts_with(beginning);
            self.log.push(line.trim_end().to_owned());
            if is_it {
                return Ok(());
            }
        }
    }

    /// Kills it with SIGKILL, where there is one: nothing of it runs any more.
    pub(crate) fn kill(mut self) -> Result<Log> {
        self.child.kill()?;
        self.end(false)
    }

    /// Makes it end in good order.
    pub(crate) fn stop(self) -> Result<Log> {
        self.end(true)
    }

    fn end(self, in_good_order: bool) -> Result<Log> {
        let Self { mut child, input, output, mut log } = self;
        drop(input);
        for line in output.lines() {
            log.push(line?);
        }
        match child.wait()? {
            status if status.success() == in_good_order => Ok(log),
            status => Err(format!("the worker ended with {status}").into()),
        }
    }
}
