//! [`Service`]: the process that is measured, and the processor's time that it takes.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tourbillond::config::StoreAt;

use crate::{Options, Result};

/// The service, as a process. Dropped, it is killed.
pub(crate) struct Service {
    child: Child,
    store: StoreAt,
}

impl Service {
    /// Starts it, and returns the address of its API.
    pub(crate) fn start(options: &Options, folder: &Path) -> Result<(Self, SocketAddr)> {
        let config = folder.join("load.toml");
        std::fs::write(
            &config,
            "[apps.load]\nnetworks = ['127.0.0.0/8']\n\
             limits = { schedules = 10000000, due_per_second = 1000000, concurrent = 1024, \
             per_host = 1024 }\n",
        )?;
        let store = match &options.store {
            StoreAt::File(path) => path.clone().into_os_string(),
            StoreAt::Postgres(address) => address.into(),
        };
        // Beside the folder of examples.
        let own = std::env::current_exe()?;
        let built = own.parent().and_then(Path::parent).ok_or("no folder")?.join("tourbillond");
        let mut child = Command::new(options.service.as_ref().unwrap_or(&built))
            .args(["--listen", "127.0.0.1:0", "--log", "warn", "--config"])
            .arg(config)
            .arg("--store")
            .arg(store)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().ok_or("no output")?;
        BufReader::new(out).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://").ok_or("it did not start")?.parse()?;
        Ok((Self { child, store: options.store.clone() }, address))
    }

    /// Returns the processor's time that it and its database have taken; of a file, the second is
    /// none.
    pub(crate) fn processor(&self) -> Result<[Duration; 2]> {
        let database = match self.store {
            StoreAt::File(_) => Duration::ZERO,
            StoreAt::Postgres(_) => database_processor()?,
        };
        Ok([processor(self.child.id(), false)?, database])
    }

    /// Prints the processor's time that each of so many has taken since then.
    pub(crate) fn print_since(&self, before: [Duration; 2], what: &str, count: u64) -> Result<()> {
        let after = self.processor()?;
        let us = |of: usize| (after[of] - before[of]).as_secs_f64() * 1e6 / count as f64;
        println!("{what}: service {:.0} us, database {:.0} us of processor each", us(0), us(1));
        Ok(())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processor's time of a process, and of its children that are over if asked for.
fn processor(id: u32, with_children: bool) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // After the name, which may have spaces: fields 14 to 17 of proc(5).
    let (_, rest) = stat.rsplit_once(") ").ok_or("no such process")?;
    let fields = rest.split(' ').skip(11).take(if with_children { 4 } else { 2 });
    let mut ticks = 0;
    for field in fields {
        ticks += field.parse::<u64>()?;
    }
    // A hundred a second, on every Linux that there is.
    Ok(Duration::from_millis(ticks * 10))
}

/// The processor's time of the server that `ci/durable-postgres.sh` started; none without one.
fn database_processor() -> Result<Duration> {
    let Some(folder) = std::env::var_os("TOURBILLON_POSTGRES_DATA") else {
        return Ok(Duration::ZERO);
    };
    let file = std::fs::read_to_string(Path::new(&folder).join("postmaster.pid"))?;
    let server: u32 = file.lines().next().ok_or("no process")?.parse()?;
    let mut all = processor(server, true)?;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        // A process may end meanwhile.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { continue };
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if parent == Some(&server.to_string()) {
            all += processor(id, false).unwrap_or_default();
        }
    }
    Ok(all)
}
