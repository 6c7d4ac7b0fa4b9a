//! A job's process: a shell in a session of its own that inherits nothing but its limits.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::unistd::{Gid, Uid, setgid, setuid};
use rustix::fs::Mode;

use super::user::User;
use tourbillon_crontab::Job;

/// Access that new files of a job do not have, the same as with a cron that init starts.
const UMASK: Mode = Mode::from_raw_mode(0o022);

/// Shell of a job that has been started.
pub(crate) struct Started {
    pub(crate) child: Child,
    /// Reason why it is not in its home.
    pub(crate) notice: Option<String>,
}

/// Starts a job in its user's home or, where that cannot be entered, in `/`. Blocks until the shell
/// runs.
pub(crate) fn start(job: &Job) -> Result<Started, String> {
    let (user, identity) = account(job)?;
    let set = |name: &str| {
        let mut values = job.variables.iter().rev();
        values.find(|(set, _)| set == name).map(|(_, value)| OsStr::new(value))
    };
    let shell = set("SHELL").unwrap_or(OsStr::new("/bin/sh"));
    let home = set("HOME").unwrap_or(user.home.as_os_str());
    let spawn = |directory: &OsStr| {
        let prepared =
            Prepared { identity: identity.clone(), directory: CString::new(directory.as_bytes())? };
        let mut command = Command::new(shell);
        command
            .arg("-c")
            .arg(&job.command)
            .env_clear()
            .envs(environment(job, &user))
            .stdin(if job.input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            // The same as its output, in a moment.
            .stderr(Stdio::null());
        // SAFETY: `become_job` allocates nothing and takes no lock: it only makes system calls. The
        // child is copied from a process with several threads, and has this one alone.
        unsafe { command.pre_exec(move || prepared.become_job()) };
        command.spawn()
    };
    // Whether a directory can be entered is for the job's user to find out. So is whether the shell
    // can be started, and the error does not say which of them it was. A second try does.
    let (child, notice) = match spawn(home) {
        Ok(child) => (child, None),
        Err(home_error) => {
            let child = spawn(OsStr::new("/")).map_err(|error| {
                let shell = Path::new(shell).display();
                format!("SHELL, which is {shell}, cannot be started by {}: {error}", user.name)
            })?;
            let home = Path::new(home).display();
            let notice = format!(
                "HOME of {}, which is {home}, cannot be entered ({home_error}); it runs in /",
                user.name
            );
            (child, Some(notice))
        }
    };
    Ok(Started { child, notice })
}

/// Returns a job's user, and the account that its process changes to, if it does.
fn account(job: &Job) -> Result<(User, Option<Identity>), String> {
    let me = User::current()?;
    let user = match &job.user {
        Some(name) if *name != me.name => User::named(name)?,
        _ => me.clone(),
    };
    // Without the rights of root, a job of another user fails at its start.
    if !me.id.is_root() && user.id == me.id {
        return Ok((user, None));
    }
    let identity = Identity { groups: user.groups()?, group: user.group, user: user.id };
    Ok((user, Some(identity)))
}

/// Returns a job's variables. Variables of its file come after the defaults, and before the
/// variable that it cannot set.
fn environment(job: &Job, user: &User) -> Vec<(OsString, OsString)> {
    let mut variables = vec![
        ("SHELL".into(), "/bin/sh".into()),
        ("PATH".into(), "/usr/bin:/bin".into()),
        ("HOME".into(), user.home.clone().into()),
    ];
    variables.extend(job.variables.iter().map(|(name, value)| (name.into(), value.into())));
    variables.push(("LOGNAME".into(), (&user.name).into()));
    variables
}

/// Account that a process changes to.
#[derive(Clone)]
struct Identity {
    groups: Vec<libc::gid_t>,
    group: Gid,
    user: Uid,
}

/// State that a child takes on before its shell is run, computed before the fork.
struct Prepared {
    identity: Option<Identity>,
    directory: CString,
}

impl Prepared {
    /// Runs in the child, between fork and exec.
    fn become_job(&self) -> io::Result<()> {
        // Without a terminal: else a job could type into root's.
        rustix::process::setsid()?;
        for signal in 1..=SIGNALS {
            // SAFETY: the default is no function of ours. A number that is no signal is refused.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // Nor does a job inherit signals blocked by this program's starter, or by a timer's thread.
        tourbillon::callback::unblock_signals()?;
        rustix::process::umask(UMASK);
        rustix::stdio::dup2_stderr(rustix::stdio::stdout())?;
        close_others_on_exec();
        if let Some(Identity { groups, group, user }) = &self.identity {
            // The user last: only root may change the others.
            set_groups(groups)?;
            setgid(*group)?;
            setuid(*user)?;
        }
        // As the user, because access may be denied that root has.
        rustix::process::chdir(&*self.directory)?;
        Ok(())
    }
}

/// Highest number of a signal on any system.
const SIGNALS: libc::c_int = 64;

fn set_groups(groups: &[libc::gid_t]) -> io::Result<()> {
    // SAFETY: there are that many numbers.
    match unsafe { libc::setgroups(groups.len() as _, groups.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Keeps all descriptors but the three standard ones from the job, also descriptors that this
/// program was started with. They stay open until exec: the standard library reports errors by one.
fn close_others_on_exec() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: it takes three numbers. A kernel that does not know it refuses.
        let marked =
            unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        if marked == 0 {
            return;
        }
    }
    // SAFETY: it takes a number.
    let end = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    for descriptor in 3..libc::c_int::try_from(end).unwrap_or(libc::c_int::MAX) {
        // SAFETY: it takes three numbers. A closed descriptor is refused.
        unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
