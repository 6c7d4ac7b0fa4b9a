//! The arguments of a command: words, and pairs of `--name value`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use crate::Result;
use crate::canary::Bug;

/// Options that a command was given.
#[derive(Debug, Default)]
pub struct Options {
    words: Vec<String>,
    named: BTreeMap<String, String>,
}

impl Options {
    /// Reads arguments.
    ///
    /// # Errors
    ///
    /// If the last option has no value.
    pub fn new(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
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

    /// The first word.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn word(&self) -> Result<&str> {
        self.words.first().map(String::as_str).ok_or_else(|| "an argument is missing".into())
    }

    /// The value of an option.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn text(&self, name: &str) -> Result<&str> {
        self.optional(name).ok_or_else(|| format!("--{name} is missing").into())
    }

    /// The value of an option, if it is there.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// The number that an option has, or its default.
    ///
    /// # Errors
    ///
    /// If the value is no number.
    pub fn number<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        let parsed = self.optional(name).map(|text| {
            text.parse().map_err(|_| format!("--{name} {text}: that is no number").into())
        });
        parsed.unwrap_or(Ok(default))
    }

    /// The span that an option has in milliseconds, or its default.
    ///
    /// # Errors
    ///
    /// If the value is no number.
    pub fn millis(&self, name: &str, default: u64) -> Result<Duration> {
        self.number(name, default).map(Duration::from_millis)
    }

    /// The bug that is switched on, if any.
    ///
    /// # Errors
    ///
    /// If there is no bug of that name.
    pub fn canary(&self) -> Result<Option<Bug>> {
        self.optional("canary").map(Bug::named).transpose()
    }
}
