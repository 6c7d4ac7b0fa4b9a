//! The processes of a storm.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use rustix::process::{Pid, Signal, kill_process};

use crate::Result;

/// A process of this program, which ends when its standard input does. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process(Child);

impl Process {
    /// Starts this program with the arguments and the environment.
    pub(crate) fn start(arguments: &[String], environment: &[(&str, String)]) -> Result<Self> {
        Self::of_build(None, arguments, environment)
    }

    /// Starts this program or, if there is one, that of another build.
    pub(crate) fn of_build(
        other: Option<&Path>,
        arguments: &[String],
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let program = other.map_or_else(std::env::current_exe, |other| Ok(other.to_owned()))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Ok(Self(command.spawn()?))
    }

    /// Stops it where it is.
    pub(crate) fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets it continue.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.0), signal)?)
    }

    /// Ends it in good order, and waits until it has ended.
    pub(crate) fn end(mut self) -> Result<()> {
        drop(self.0.stdin.take());
        let status = self.0.wait()?;
        if status.success() { Ok(()) } else { Err(format!("a process ended: {status}").into()) }
    }

    /// Returns whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        self.0.try_wait().map(|status| status.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
        // Left over by a killed process with a shifted clock.
        for name in ["faketime_shm", "sem.faketime_sem"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{name}_{}", self.0.id()));
        }
    }
}

/// A wall clock that is off, for one process, by a library that is loaded before others.
#[derive(Debug)]
pub(crate) struct Skew {
    file: PathBuf,
    library: PathBuf,
}

impl Skew {
    /// A clock that is right, kept in a file at this path.
    pub(crate) fn new(file: PathBuf) -> Result<Self> {
        let library = library().ok_or("no libfaketime here: install Debian's `faketime`")?;
        let skew = Self { file, library };
        skew.set(1_000)?;
        if skew.seconds()? < wall_seconds()? + 900 {
            return Err("libfaketime does not set a process's clock off".into());
        }
        skew.set(0)?;
        Ok(skew)
    }

    /// Returns the time as a process of this program sees it.
    fn seconds(&self) -> Result<u64> {
        let mut command = Command::new(std::env::current_exe()?);
        let environment = self.environment();
        let output = command.arg("time").envs(environment).stderr(Stdio::inherit()).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().parse()?)
    }

    /// Sets it off by so many seconds, within a second.
    pub(crate) fn set(&self, seconds: i64) -> Result<()> {
        // In its place at once, so that nobody reads half of it.
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n"))?;
        Ok(std::fs::rename(new, &self.file)?)
    }

    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        vec![
            ("LD_PRELOAD", text(&self.library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            ("FAKETIME_CACHE_DURATION", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}

/// Seconds since the Unix epoch, by the wall clock of this process.
///
/// # Errors
///
/// If the clock is before that.
pub fn wall_seconds() -> Result<u64> {
    Ok(SystemTime::UNIX_EPOCH.elapsed()?.as_secs())
}

fn library() -> Option<PathBuf> {
    let below = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path());
    let places = below.map(|path| path.join("faketime/libfaketimeMT.so.1"));
    places.chain([PathBuf::from("/usr/lib/faketime/libfaketimeMT.so.1")]).find(|path| path.exists())
}
