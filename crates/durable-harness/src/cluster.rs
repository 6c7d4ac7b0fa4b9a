//! The PostgreSQL server that `ci/durable-postgres.sh` started, to be stopped and started again.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process, test_kill_process};

use crate::Result;
use crate::processor;

/// Tries of a start while the remains of a killed server are in its way.
const TRIES: u32 = 100;

#[derive(Debug)]
pub(crate) struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    /// Options that the server was started with, quoted for a shell.
    options: String,
}

impl Cluster {
    /// Returns the cluster that the environment names.
    pub(crate) fn from_environment() -> Result<Self> {
        let named = |name: &str| {
            let error = || format!("{name} is not set: run it by ci/durable-postgres.sh");
            std::env::var_os(name).map(PathBuf::from).ok_or_else(error)
        };
        let programs = named("TOURBILLON_POSTGRES_BIN")?;
        let data = named("TOURBILLON_POSTGRES_DATA")?;
        let started = std::fs::read_to_string(data.join("postmaster.opts"))?;
        let (_, options) = started.trim().split_once(' ').ok_or("started without options")?;
        Ok(Self { programs, data, options: options.to_owned() })
    }

    /// Returns the processor time that the server's processes have used.
    pub(crate) fn processor(&self) -> Result<Duration> {
        processor::family(u32::try_from(self.process()?.as_raw_nonzero().get())?)
    }

    fn process(&self) -> Result<Pid> {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid"))?;
        let pid = file.lines().next().and_then(|line| line.parse().ok()).and_then(Pid::from_raw);
        Ok(pid.ok_or("the server has no process")?)
    }

    /// Kills the server, and waits until it has gone.
    pub(crate) fn kill(&self) -> Result<()> {
        let pid = self.process()?;
        kill_process(pid, Signal::KILL)?;
        while test_kill_process(pid).is_ok() {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Stops the server: `fast` ends running statements, `immediate` does not even write its state
    /// down.
    pub(crate) fn stop(&self, mode: &str) -> Result<()> {
        self.control(&["stop", "-m", mode])
    }

    /// Starts the server, and waits until it answers.
    pub(crate) fn start(&self) -> Result<()> {
        for _ in 1..TRIES {
            if self.control(&["start", "-o", &self.options, "-l", "/dev/null"]).is_ok() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(100));
        }
        self.control(&["start", "-o", &self.options, "-l", "/dev/null"])
    }

    fn control(&self, arguments: &[&str]) -> Result<()> {
        let program = self.programs.join("pg_ctl");
        // The server refuses to run as root.
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.args(arguments).args(["-w", "-s", "-D"]).arg(&self.data);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.current_dir("/").status()?;
        let what = arguments[0];
        if status.success() { Ok(()) } else { Err(format!("pg_ctl {what}: {status}").into()) }
    }
}
