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

/// Works until its standard input ends. Says before each delivery what it starts.
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
    // In one write, as others say something at the same time. The listener may have gone.
    let line = format!("start {}\n", fire.name().unwrap_or("?"));
    let _ = io::stdout().lock().write_all(line.as_bytes());
    let is_slow = fire.name() == Some(SLOW) && fire.attempt() == 1;
    sleep(if is_slow { Duration::from_secs(60) } else { DELIVERY }).await;
    // If it does not count, another attempt decides.
    let _ = fire.complete().await;
}

/// A worker, in the view of its parent.
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
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
        Ok(Self { child, input, output })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has said this.
    pub(crate) fn wait_for(&mut self, what: &str) -> Result<()> {
        for line in self.output.by_ref().lines() {
            if line? == what {
                return Ok(());
            }
        }
        Err(format!("the worker ended without `{what}`").into())
    }

    /// Kills it with SIGKILL, where there is one: nothing of it runs any more.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Makes it end in good order.
    pub(crate) fn stop(self) -> Result<()> {
        let Self { mut child, input, mut output } = self;
        drop(input);
        io::copy(&mut output, &mut io::sink())?;
        match child.wait()? {
            status if status.success() => Ok(()),
            status => Err(format!("the worker ended with {status}").into()),
        }
    }
}
