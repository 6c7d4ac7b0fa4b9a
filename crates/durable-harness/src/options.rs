//! The arguments of a command: words, and pairs of `--name value`.

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::Result;

/// Options that a command was given.
#[derive(Debug, Default)]
pub(crate) struct Options {
    words: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Options {
    pub(crate) fn new(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.strip_prefix("--") {
                Some(name) => {
                    let value = arguments.next().ok_or_else(|| format!("--{name} what?"))?;
                    options.named.insert(name.to_owned(), value);
                }
                None => options.words.push(argument),
            }
        }
        Ok(options)
    }

    pub(crate) fn word(&self) -> Result<&str> {
        self.words.first().map(String::as_str).ok_or_else(|| "an argument is missing".into())
    }

    /// The value of an option that has to be there.
    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.optional(name).ok_or_else(|| format!("--{name} is missing").into())
    }

    pub(crate) fn optional(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let parsed = self.optional(name).map(|text| {
            text.parse().map_err(|_| format!("--{name} {text}: that is no number").into())
        });
        parsed.unwrap_or(Ok(default))
    }
}
