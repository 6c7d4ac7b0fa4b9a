//! The commits since the rules on them, and the limits that they had.

use std::path::Path;
use std::process::Command;

use crate::ratchets;
use crate::tree::Tree;

/// Last commit before the rules.
const BASE: &str = "7b5d9c2";

/// Most characters of a subject.
const LONGEST: usize = 72;

/// Commits after the base.
#[derive(Debug)]
pub struct History {
    /// Short hash, number of parents and subject of each.
    pub commits: Vec<(String, usize, String)>,
    /// Files of limits that the last commit has, and the one before.
    pub limits: Vec<String>,
}

impl History {
    /// Reads them. `None` if git does not have them, as in a shallow clone.
    pub fn read(root: &Path) -> Option<Self> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        git(&["merge-base", "--is-ancestor", BASE, "HEAD"])?;
        let log = git(&["log", "--format=%h%x09%p%x09%s", &format!("{BASE}..HEAD")])?;
        let commits = log.lines().filter_map(|line| {
            let [hash, parents, subject] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
                return None;
            };
            Some((hash.to_owned(), parents.split(' ').count(), subject.to_owned()))
        });
        let limits =
            ["HEAD", "HEAD^"].map(|at| git(&["show", &format!("{at}:{}", ratchets::FILE)]));
        Some(Self { commits: commits.collect(), limits: limits.into_iter().flatten().collect() })
    }

    /// Returns the faults, each as a rule and a place.
    pub fn faults(&self, tree: &Tree) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for (hash, parents, subject) in &self.commits {
            if *parents > 1 {
                found.push(("merge commits", format!("{hash}: {subject}")));
            } else if !is_subject(subject) {
                found.push(("subjects that are not `area: what`", format!("{hash}: {subject}")));
            }
        }
        for (line, what) in self.limits.iter().flat_map(|old| ratchets::raised(tree, old)) {
            let place = format!("{}:{line}: {what}", ratchets::FILE);
            found.push(("limits that rise without a reason", place));
        }
        found
    }
}

/// Returns whether it is a subject as CONTRIBUTING.md wants it.
pub fn is_subject(subject: &str) -> bool {
    let refused = ["style:", "merge"].iter().any(|word| subject.to_lowercase().starts_with(word));
    let parts = subject.split_once(": ");
    let is_whole = parts.is_some_and(|(area, what)| !area.is_empty() && !what.trim().is_empty());
    is_whole && !refused && subject.chars().count() <= LONGEST
}
