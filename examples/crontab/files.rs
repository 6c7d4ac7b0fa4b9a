//! Which files there are, and what they hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::table::{self, Format, Job};

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

/// What is in all files that have no faults, and the faults of the others.
pub(crate) struct Load {
    pub(crate) jobs: Vec<Arc<Entry>>,
    pub(crate) faults: Vec<String>,
}

pub(crate) struct Files {
    pub(crate) zone: String,
    sources: Vec<Source>,
    /// What there was when they were last read.
    seen: Vec<(PathBuf, Option<SystemTime>)>,
}

struct Source {
    path: PathBuf,
    format: Format,
}

impl Files {
    pub(crate) fn new(zone: String) -> Self {
        Self { zone, sources: Vec::new(), seen: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// A file, or a directory of files. Without a format it is told by the name.
    pub(crate) fn add(&mut self, path: &Path, format: Option<Format>) -> Result<(), String> {
        let told = |error| format!("{}: {error}", path.display());
        fs::metadata(path).map_err(told)?;
        let path = std::path::absolute(path).map_err(told)?;
        let is_system = path.is_dir()
            || path.ends_with("etc/crontab")
            || path.parent().is_some_and(|parent| parent.ends_with("cron.d"));
        let guess = if is_system { Format::System } else { Format::User };
        self.sources.push(Source { path, format: format.unwrap_or(guess) });
        Ok(())
    }

    /// Whether files have come, gone or changed since they were read.
    pub(crate) fn have_changed(&self) -> bool {
        let now: Vec<_> = self.list().into_iter().map(|(path, _)| stamped(path)).collect();
        now != self.seen
    }

    pub(crate) fn load(&mut self) -> Load {
        let mut load = Load { jobs: Vec::new(), faults: Vec::new() };
        let files = self.list();
        self.seen = files.iter().map(|(path, _)| stamped(path.clone())).collect();
        for (path, format) in files {
            let name = path.display();
            let text = match fs::read_to_string(&path) {
                Ok(text) => text,
                Err(error) => {
                    load.faults.push(format!("{name}: {error}"));
                    continue;
                }
            };
            match table::parse(&text, format, &self.zone) {
                Ok(table) => {
                    let path: Arc<Path> = path.into();
                    let entry = |job| Arc::new(Entry { path: Arc::clone(&path), job });
                    load.jobs.extend(table.jobs.into_iter().map(entry));
                }
                Err(faults) => {
                    load.faults.extend(faults.iter().map(|fault| format!("{name}:{fault}")));
                }
            }
        }
        load
    }

    fn list(&self) -> Vec<(PathBuf, Format)> {
        let mut files = Vec::new();
        for Source { path, format } in &self.sources {
            let Ok(directory) = fs::read_dir(path) else {
                files.push((path.clone(), *format));
                continue;
            };
            let mut inside: Vec<_> = directory
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .filter(|path| path.is_file() && is_taken(path))
                .map(|path| (path, *format))
                .collect();
            inside.sort_by(|a, b| a.0.cmp(&b.0));
            files.append(&mut inside);
        }
        files
    }
}

/// cron passes over `.placeholder`, `backup~` and `job.dpkg-old`.
fn is_taken(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.chars().all(is_plain)
}

fn stamped(path: PathBuf) -> (PathBuf, Option<SystemTime>) {
    let stamp = fs::metadata(&path).and_then(|file| file.modified()).ok();
    (path, stamp)
}
