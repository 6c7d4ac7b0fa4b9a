//! The tracked files of the repository.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// Texts of files by path from the root. Files that are not UTF-8 have an empty text.
#[derive(Clone, Debug)]
pub struct Tree(BTreeMap<String, String>);

impl Tree {
    /// Reads the files that git tracks below `root`, from the working tree.
    pub fn tracked(root: &Path) -> io::Result<Self> {
        let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
        if !listed.status.success() {
            return Err(io::Error::other("git ls-files failed"));
        }
        let names = String::from_utf8_lossy(&listed.stdout);
        let names = names.split_terminator('\0').filter(|name| root.join(name).is_file());
        let read = |name: &str| Ok((name.to_owned(), text(fs::read(root.join(name))?)));
        names.map(read).collect::<io::Result<_>>().map(Self)
    }

    /// Returns the text of a file.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns the files whose path has this ending, in order.
    pub fn ending<'a>(&'a self, ending: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(move |(path, _)| path.ends_with(ending))
    }

    /// Returns all files, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Replaces the text of a file, or adds one.
    #[cfg(test)]
    pub fn put(&mut self, path: &str, text: String) {
        self.0.insert(path.to_owned(), text);
    }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}
