//! A cron that sleeps until the next job is due.
//!
//! ```text
//! tourbillon-crontab FILE...
//! tourbillon-crontab --next 20 FILE...
//! tourbillon-crontab --dry-run FILE...
//! ```
//!
//! The first runs the jobs, the second lists the next runs, and the third goes through a year in
//! virtual time. Other options:
//!
//! - `--zone NAME`: the time zone of lines without a `CRON_TZ`; the system's if not given, and if
//!   that has no name, an error that shows the setting;
//! - `--from TIME`: where `--next` and `--dry-run` begin, such as `2026-03-28T12:00Z`;
//! - `--system`, `--user`: the format of the files that follow, regardless of their names;
//! - `--catch-up`: jobs missed in suspend run once when the machine is back, as with anacron;
//! - `--version`: the version of the program, and of the time zones with the place they are from.
//!
//! Nothing ticks: each job is a stream, and a due one wakes the one task that waits for all of
//! them. If none was due for an hour, it looks at the files and the zones; one thread compares the
//! clocks every 30 seconds. The end, and `--dry-run`, report how often the task woke. Files are
//! looked at again when it wakes, and on SIGHUP. So are the machine's zone and the rules of all
//! zones, which a package may have replaced: jobs follow the new ones, and the log names both.
//!
//! SIGINT (Ctrl-C), SIGTERM and SIGQUIT end it. It asks all jobs to end by SIGTERM and, after ten
//! seconds or at another such signal, kills them, each with its whole process group. SIGKILL leaves
//! jobs running, without a reader for their output.
//!
//! # As Debian's cron, row by row
//!
//! `ci/crontab-debian.sh`, in the repository, runs each row under cron 3.0pl1 of Debian 12 and
//! under this program.
//!
//! | row | Debian's cron | here |
//! |---|---|---|
//! | `session-own` | a job leads a session and a process group of its own | the same |
//! | `session-terminal` | it has no controlling terminal: `/dev/tty` is not to be opened | the same |
//! | `groups-user` | it has its user's group, and the user's groups of `/etc/group` | the same |
//! | `groups-root` | so has a job of root, regardless of the groups of cron itself | the same |
//! | `groups-saved` | it cannot go back: the real, effective and saved users are its own | the same |
//! | `environment-all` | `SHELL`, `PATH`, `HOME`, `LOGNAME`, and nothing of cron's own | the same |
//! | `environment-set` | a file sets any of them but `LOGNAME` | the same |
//! | `environment-home` | a job runs in its home | the same |
//! | `environment-homeless` | without a home, in `/var/spool/cron` | in `/`, and the log says so |
//! | `environment-pam` | PAM adds `/etc/environment` and `/etc/default/locale` | no PAM |
//! | `limits-started` | limits and niceness are cron's own from its start | the same |
//! | `limits-all` | all limits, except the ones that PAM sets | the same |
//! | `limits-pam` | PAM sets the limits of `/etc/security/limits.conf` | no PAM |
//! | `limits-umask` | the umask is cron's own from its start, 022 from init | 022 |
//! | `descriptors-input` | there is nothing to read | the same |
//! | `descriptors-percent` | the text after a `%` is read | the same |
//! | `descriptors-others` | others that cron was started with are passed on; init leaves none | closed |
//! | `output-one` | output and errors are one stream | the same |
//! | `output-behind` | a process left in the background may print | the same |
//! | `output-much` | a job never waits for a reader of its output | the same |
//! | `signals-ignored` | signals that cron was started to ignore are ignored; init leaves none | none is |
//! | `signals-parent` | a job of another user cannot signal cron | the same |
//! | `signals-end` | jobs run on when cron ends | they are asked to end |
//! | `format-end-job` | a last line without a newline: the file is not used | the same |
//! | `format-end-variable` | the same of a variable | the same |
//! | `format-end-comment` | a comment may end so | the same |
//! | `format-end-blank` | so may blanks | the same |
//! | `format-backslash` | in a command `\\` is a `\`, and `\%` a `%` | the same |
//! | `format-input` | in its input only `\%` is different | the same |
//! | `format-fault` | a file with a fault is not used at all | the same |
//! | `format-never` | a time that never comes, `0 0 31 2 *` or `0 22-6 * * *`, does no harm to other lines | the same, and the log says so |
//! | `format-user` | an unknown user is a fault | only that job does not run |
//! | `format-case` | `@Reboot` is a fault | it is `@reboot` |
//! | `format-return` | a carriage return at the end of a command is a part of it | left out |
//! | `format-empty` | `A=` is a fault | it is empty, as with `A=""` |
//! | `format-long` | a command of 1000 bytes is a fault | it is none |
//! | `files-name` | a name with other than letters, digits, `_` and `-` is passed over | the same |
//! | `files-mode` | a file that others than its owner may write to is not used | the same |
//! | `files-owner` | nor is a file that root does not own | nor the user who runs this |
//! | `files-linked` | nor is one with a second hard link | the same |
//! | `files-symlink` | a symbolic link of root's is used | no symbolic link is |
//!
//! # Other differences
//!
//! According to cron's source, and not run beside it:
//!
//! - Lines may have a `CRON_TZ` above them, and `L`, `W` and `#` in their fields. A line that is
//!   not UTF-8, and no comment, is a fault.
//! - When daylight saving begins or ends, the rules of `tourbillon_cron` hold. In the night that
//!   has no such hour, cron runs `0,30 2 * * *` twice.
//! - A clock that is set back by more than three hours was wrong before, and the next runs follow
//!   the new time, as with cron. After it was set back by less, nothing runs until it has come to
//!   its old time again. With cron, jobs with a `*` for the minute or the hour run meanwhile.
//! - Jobs missed because the clock was set forward or the machine was suspended do not run later,
//!   unless it is within a minute; with `--catch-up` they run once. cron makes up for all of the
//!   last five minutes, and for fixed times in the last three hours.
//! - There is no mail. Output goes to the log line by line, escaped: of each line the first 4 KiB,
//!   and of each job the first mebibyte. `MAILTO` is a variable like any other. Nothing waits for a
//!   reader of the log: up to 4 MiB wait for it, and further lines are left out and counted.
//! - A user's file need not have the mode 0600. A file of more than a mebibyte is refused.
//!   (`--next` and `--dry-run` run nothing; they read any regular file. `/dev/stdin` is always
//!   read, once.)
//! - A process that a job leaves in the background can be ended with the job as long as it holds
//!   the job's output. Until then the job's ended shell stays as a zombie.
//! - A list of values with a range that ends before it starts, such as `1,22-6`, never comes, and
//!   the log says so. cron runs it at the other values.
//! - A file that is new or has changed is not seen within a minute, but when the next job is due,
//!   SIGHUP comes, or an hour has passed. On the other hand, a change of its mode or owner alone is
//!   seen as well.
//! - So it is with the machine's zone and the rules of all zones: cron follows the first within a
//!   minute, and reads the second at its start. `TZ` and `/etc/localtime` have to name a zone;
//!   cron takes the rules of a file without a name, and UTC where there are none.
//! - `@reboot` is each start of this program.

#[cfg(unix)]
mod program;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(not(unix))]
fn main() {
    eprintln!("crontab files are for Unix");
}
