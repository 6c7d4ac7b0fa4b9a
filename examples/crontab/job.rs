//! Runs a job, as the user it is for.

use std::env;
use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use smol::io::AsyncWriteExt;
use smol::process::{Child, Command};

use super::files::Entry;
use super::log::Log;
use super::output::{self, Budget, OUTPUT_MAX};
use super::table::Job;

/// Runs a job to its end, and logs what it prints as it prints it.
pub(crate) async fn execute(entry: Arc<Entry>, log: Log) {
    let place = entry.place();
    let start = Instant::now();
    match run(&entry.job, |text| log.tell(format_args!("{place}: {text}"))).await {
        Ok(status) => {
            log.tell(format_args!("{place}: {} after {:.1?}", ended(status), start.elapsed()));
        }
        Err(error) => log.tell(format_args!("{place}: did not run: {error}")),
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

async fn run(job: &Job, tell: impl Fn(&str) + Sync) -> Result<ExitStatus, String> {
    let mut child = start(job, &tell)?;
    let input = child.stdin.take().zip(job.input.as_deref());
    let write = async {
        if let Some((mut stdin, input)) = input {
            // A job need not read what it is given.
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let budget = Budget::new();
    let line = |text: &str| tell(&format!("| {text}"));
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let copy = async {
        let stdout = output::copy(stdout.expect("it is piped"), &budget, line);
        let stderr = output::copy(stderr.expect("it is piped"), &budget, line);
        // As with cron, a job has ended when nobody can print for it any more.
        futures::join!(stdout, stderr)
    };
    let ((), (stdout, stderr), status) = futures::join!(write, copy, child.status());
    for error in [stdout, stderr].into_iter().filter_map(Result::err) {
        tell(&format!("its output cannot be read: {error}"));
    }
    if budget.dropped() > 0 {
        tell(&format!("{} bytes of output beyond {OUTPUT_MAX} are left out", budget.dropped()));
    }
    status.map_err(|error| error.to_string())
}

/// Starts a job in its user's home or, where that cannot be entered, in `/`.
fn start(job: &Job, tell: impl Fn(&str)) -> Result<Child, String> {
    let me = User::current()?;
    let user = match &job.user {
        Some(name) if *name != me.name => User::named(name)?,
        _ => me.clone(),
    };
    let set = |name: &str| {
        let mut values = job.variables.iter().rev();
        values.find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    };
    let shell = set("SHELL").unwrap_or("/bin/sh");
    let home = set("HOME").unwrap_or(&user.home);
    let spawn = |directory: &str| {
        let mut command = std::process::Command::new(shell);
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
            .current_dir(directory);
        if user.id != me.id {
            command.uid(user.id).gid(user.group);
        }
        let mut command = Command::from(command);
        let stdin = if job.input.is_some() { Stdio::piped() } else { Stdio::null() };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    // Whether a directory can be entered is for the job's user to find out. So is whether the shell
    // can be started, and the error does not say which of them it was. A second try does.
    spawn(home).or_else(|home_error| {
        let child = spawn("/").map_err(|error| {
            format!("SHELL, which is {shell}, cannot be started by {}: {error}", user.name)
        })?;
        tell(&format!(
            "HOME of {}, which is {home}, cannot be entered ({home_error}); it runs in /",
            user.name
        ));
        Ok(child)
    })
}

const PASSWD: &str = "/etc/passwd";

/// What a line of it says.
#[derive(Clone)]
struct User {
    name: String,
    id: u32,
    group: u32,
    home: String,
}

impl User {
    fn named(name: &str) -> Result<Self, String> {
        let found = Self::find(|user| user.name == name)?;
        found.ok_or_else(|| format!("{PASSWD} has no user named {name}"))
    }

    /// The user who runs this. Where accounts are kept elsewhere, the environment knows as well.
    fn current() -> Result<Self, String> {
        let id = rustix::process::geteuid().as_raw();
        if let Some(user) = Self::find(|user| user.id == id)? {
            return Ok(user);
        }
        let (Ok(name), Ok(home)) = (env::var("LOGNAME"), env::var("HOME")) else {
            let what = "nor are both LOGNAME and HOME set in the environment";
            return Err(format!("{PASSWD} has no user with the number {id}, {what}"));
        };
        Ok(Self { name, id, group: rustix::process::getegid().as_raw(), home })
    }

    fn find(is_wanted: impl Fn(&Self) -> bool) -> Result<Option<Self>, String> {
        let passwd = fs::read_to_string(PASSWD).map_err(|error| format!("{PASSWD}: {error}"))?;
        let mut users = passwd.lines().filter_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, id, group, _, home, ..] = fields[..] else { return None };
            let (id, group) = (id.parse().ok()?, group.parse().ok()?);
            Some(Self { name: name.to_owned(), id, group, home: home.to_owned() })
        });
        Ok(users.find(is_wanted))
    }
}
