//! Files of jobs, and their contents.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tourbillon_cron::{ZoneData, system_zone};
use tourbillon_crontab::{Fault, Format, Job, visible};

/// The largest file that is read, in bytes.
const FILE_MAX: u64 = 1024 * 1024;
/// A file of any kind whose text is read once, when it is named.
const STDIN: &str = "/dev/stdin";

/// A job and the file that it is from.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: Arc<Path>,
    pub(crate) job: Job,
}

impl Entry {
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.job.line)
    }
}

/// Jobs of all files that have no faults, and the faults of the others.
pub(crate) struct Load {
    pub(crate) jobs: Vec<Arc<Entry>>,
    pub(crate) faults: Vec<String>,
    /// Lines of the same files that are left out.
    pub(crate) never: Vec<String>,
}

pub(crate) struct Files {
    /// Zone of lines without a `CRON_TZ`.
    pub(crate) zone: String,
    /// True if that is the machine's own, whatever it is at the time.
    follows: bool,
    /// Owner that a file may have besides root, if its jobs are to be run; else any file is read.
    pub(crate) owner: Option<u32>,
    sources: Vec<Source>,
    /// Stamps of the files when they were last read.
    seen: Vec<Stamp>,
    /// Zones of the jobs, with the rules that were read.
    zones: BTreeMap<String, Option<TimeZone>>,
}

struct Source {
    path: PathBuf,
    format: Format,
    /// Text of the standard input.
    text: Option<Vec<u8>>,
}

/// A file, and its text if that is kept.
type Listed<'a> = (PathBuf, Format, Option<&'a [u8]>);

/// Changes with a file's text, its mode, its owner and its links.
type Stamp = (PathBuf, Option<(u64, i64, i64)>);

impl Files {
    /// `zone` is that of lines without a `CRON_TZ`; the machine's own if not given.
    pub(crate) fn new(zone: Option<String>) -> Result<Self, String> {
        let follows = zone.is_none();
        let zone = match zone {
            Some(zone) => zone,
            None => system_zone().map_err(|error| format!("{error}: use --zone NAME"))?,
        };
        let (sources, seen, zones) = (Vec::new(), Vec::new(), BTreeMap::new());
        Ok(Self { zone, follows, owner: None, sources, seen, zones })
    }

    /// A file, or a directory of files. Without a format, the name decides.
    pub(crate) fn add(&mut self, path: &Path, format: Option<Format>) -> Result<(), String> {
        let told = |error| fault(path, error);
        let text = match path.to_str() {
            Some(STDIN) => Some(read(io::stdin()).map_err(told)?),
            _ => None,
        };
        fs::symlink_metadata(path).map_err(told)?;
        let path = std::path::absolute(path).map_err(told)?;
        let is_system = path.is_dir()
            || path.ends_with("etc/crontab")
            || path.parent().is_some_and(|parent| parent.ends_with("cron.d"));
        let guess = if is_system { Format::System } else { Format::User };
        self.sources.push(Source { path, format: format.unwrap_or(guess), text });
        Ok(())
    }

    /// Returns whether files have come, gone or changed since they were read, or the machine's zone
    /// or the rules of a job's.
    pub(crate) fn have_changed(&self) -> bool {
        ZoneData::reload();
        let now: Vec<_> = self.list().iter().map(stamped).collect();
        now != self.seen
            || self.follows && system_zone().is_ok_and(|zone| zone != self.zone)
            || self.zones.iter().any(|(name, rules)| TimeZone::get(name).ok() != *rules)
    }

    pub(crate) fn load(&mut self) -> Load {
        let mut load = Load { jobs: Vec::new(), faults: Vec::new(), never: Vec::new() };
        ZoneData::reload();
        if self.follows {
            match system_zone() {
                Ok(zone) => self.zone = zone,
                Err(error) => load.faults.push(format!("{error}: {} stays in force", self.zone)),
            }
        }
        let files = self.list();
        // Before they are read, so that a change meanwhile shows later.
        let seen = files.iter().map(stamped).collect();
        for (path, format, text) in files {
            let text = text.map_or_else(|| self.text(&path), |text| Ok(text.to_vec()));
            let table = match text {
                Ok(text) => tourbillon_crontab::parse(&text, format, &self.zone),
                Err(error) => {
                    load.faults.push(fault(&path, error));
                    continue;
                }
            };
            let path: Arc<Path> = path.into();
            let told =
                |fault: &Fault| format!("{}:{fault}", visible(path.as_os_str().as_encoded_bytes()));
            match table {
                Ok(table) => {
                    let left_out = |fault| told(fault) + "\n    this line is left out";
                    load.never.extend(table.never.iter().map(left_out));
                    let entry = |job| Arc::new(Entry { path: Arc::clone(&path), job });
                    load.jobs.extend(table.jobs.into_iter().map(entry));
                }
                Err(faults) => load.faults.extend(faults.iter().map(told)),
            }
        }
        let zones = load.jobs.iter().filter_map(|entry| Some(entry.job.when.as_ref()?.zone()));
        let rules = |name: &str| (name.to_owned(), TimeZone::get(name).ok());
        self.zones = zones.map(rules).collect();
        self.seen = seen;
        load
    }

    /// Returns the text of a file. It is opened without waiting, then judged by its descriptor: its
    /// path may name another by now.
    fn text(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        if self.owner.is_some() {
            flags |= libc::O_NOFOLLOW;
        }
        let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(io::Error::other("refused: it is a symbolic link"));
            }
            file => file?,
        };
        match refusal(&file.metadata()?, self.owner) {
            Some(reason) => Err(io::Error::other(format!("refused: {reason}"))),
            None => read(file),
        }
    }

    /// The files there are now, in order.
    fn list(&self) -> Vec<Listed<'_>> {
        let mut files = Vec::new();
        for Source { path, format, text } in &self.sources {
            let Ok(directory) = fs::read_dir(path) else {
                files.push((path.clone(), *format, text.as_deref()));
                continue;
            };
            let mut inside: Vec<_> = directory
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .filter(|path| is_taken(path))
                .map(|path| (path, *format, None))
                .collect();
            inside.sort_by(|a, b| a.0.cmp(&b.0));
            files.append(&mut inside);
        }
        files
    }
}

/// Returns the reason not to use a file, if any. As with cron, only root and the user who runs it
/// decide on its jobs: nobody else may own it, write to it, or put a link to another file there.
fn refusal(file: &Metadata, owner: Option<u32>) -> Option<String> {
    if !file.is_file() {
        return Some("it is not a regular file".to_owned());
    }
    let owner = owner?;
    let (uid, mode, links) = (file.uid(), file.mode() & 0o7777, file.nlink());
    if uid != 0 && uid != owner {
        Some(format!("its owner is user {uid}, which is neither root nor user {owner}"))
    } else if mode & 0o022 != 0 {
        Some(format!("others than its owner may write to it (mode {mode:04o})"))
    } else if links != 1 {
        Some(format!("it has {links} hard links"))
    } else {
        None
    }
}

fn read(file: impl Read) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    if file.take(FILE_MAX + 1).read_to_end(&mut text)? as u64 > FILE_MAX {
        return Err(io::Error::other(format!("refused: it is larger than {FILE_MAX} bytes")));
    }
    Ok(text)
}

fn fault(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", visible(path.as_os_str().as_encoded_bytes()))
}

/// cron passes over `.placeholder`, `backup~` and `job.dpkg-old`.
fn is_taken(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.chars().all(is_plain)
}

fn stamped((path, _, text): &Listed<'_>) -> Stamp {
    let file = fs::symlink_metadata(path).ok().filter(|_| text.is_none());
    let stamp = file.map(|file| (file.ino(), file.ctime(), file.ctime_nsec()));
    (path.clone(), stamp)
}
