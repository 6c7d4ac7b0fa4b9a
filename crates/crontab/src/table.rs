//! crontab(5) files, read like Debian's cron, except for the differences that `main.rs` lists.

use std::fmt;
use std::ops::Range;

use tourbillon_cron::{Cron, Field, ParseError, ParseErrorKind};

use crate::visible;

/// Format of a file, by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A user's own, of `crontab -e`.
    User,
    /// `/etc/crontab` and the files in `/etc/cron.d`: the user stands before the command.
    System,
}

/// A file without faults.
#[derive(Debug, Default)]
pub struct Table {
    /// Its jobs, in order.
    pub jobs: Vec<Job>,
    /// Lines whose time never comes, such as `0 0 31 2 *` or `0 22-6 * * *`; each says why. cron
    /// takes such a line, and never runs it.
    pub never: Vec<Fault>,
}

/// Job of a line.
#[derive(Debug)]
pub struct Job {
    /// Number of the line, from 1 on.
    pub line: usize,
    /// Its times; `None` for `@reboot`.
    pub when: Option<Cron>,
    /// Its user; `None` in a user's own file.
    pub user: Option<String>,
    /// Command for the shell.
    pub command: String,
    /// Text behind the first `%`.
    pub input: Option<String>,
    /// The variables set above it, in order; the last of a name counts.
    pub variables: Vec<(String, String)>,
}

/// Fault of a line.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line of the fault, from 1 on.
    pub line: usize,
    /// The line's text.
    pub text: String,
    /// Faulty bytes of the text.
    pub range: Range<usize>,
    /// Reason.
    pub message: String,
}

/// Most characters of a line that are shown, of the faulty part and on each side of it.
const EXCERPT: usize = 60;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = &self.text[..self.range.start];
        let column = before.chars().count() + 1;
        let start = before.char_indices().rev().take(EXCERPT).last().map_or(0, |(place, _)| place);
        let before = visible(&before.as_bytes()[start..]);
        let wrong = first(&self.text[self.range.clone()], EXCERPT);
        let after = first(&self.text[self.range.end..], EXCERPT);
        // A tab stays a tab, so that the marks stand below the faulty part.
        let blank = |c: char| if c == '\t' { c } else { ' ' };
        let indent: String = before.chars().map(blank).collect();
        let marks = "^".repeat(wrong.chars().count().max(1));
        writeln!(f, "{}:{column}: {}", self.line, visible(self.message.as_bytes()))?;
        write!(f, "    {before}{wrong}{after}\n    {indent}{marks}")
    }
}

/// The first characters of `text`, escaped.
fn first(text: &str, count: usize) -> String {
    let end = text.char_indices().nth(count).map_or(text.len(), |(place, _)| place);
    visible(&text.as_bytes()[..end])
}

/// Reads a file. `zone` applies to lines without a `CRON_TZ` above them.
///
/// # Errors
///
/// With all faults of the file, in order. cron uses no line of a file that has one. A line that
/// [never](Table::never) comes is none.
pub fn parse(text: impl AsRef<[u8]>, format: Format, zone: &str) -> Result<Table, Vec<Fault>> {
    let mut table = Table::default();
    let mut faults = Vec::new();
    let mut variables = Vec::new();
    let mut zone = zone.to_owned();
    let mut lines = text.as_ref().split(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((place, bytes)) = lines.next() {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = &*String::from_utf8_lossy(bytes);
        let start = text.len() - text.trim_start_matches([' ', '\t']).len();
        let body = &text[start..];
        if body.is_empty() || body.starts_with('#') {
            continue;
        }
        let line = Line { number: place + 1, text };
        if lines.peek().is_none() {
            faults.push(line.fault_at(text.len()..text.len(), NO_LINE_END));
        }
        if let Err(error) = std::str::from_utf8(bytes) {
            // The part before it is the same in the text, and one character is in its place.
            let at = error.valid_up_to();
            faults.push(line.fault_at(at..at + char::REPLACEMENT_CHARACTER.len_utf8(), NOT_UTF8));
            continue;
        }
        if let Some((name, value, value_at)) = variable(body) {
            if name == "CRON_TZ" {
                match Cron::parse("@daily", &value) {
                    Ok(_) => zone.clone_from(&value),
                    Err(error) => faults.push(line.fault(start + value_at, &error)),
                }
            }
            variables.push((name, value));
            continue;
        }
        if let Err(fault) = line.read(start, format, &zone, &variables, &mut table) {
            faults.push(fault);
        }
    }
    if faults.is_empty() { Ok(table) } else { Err(faults) }
}

/// Faults of a time that cron takes for one without any occurrence.
const NEVER: [ParseErrorKind; 2] = [ParseErrorKind::NeverOccurs, ParseErrorKind::Reversed];

const NOT_UTF8: &str = "this is not UTF-8";
const NO_LINE_END: &str = "the last line does not end with a newline";

#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl Line<'_> {
    /// `error` counts from `start` bytes into the line.
    fn fault(self, start: usize, error: &ParseError) -> Fault {
        let range = error.range();
        self.fault_at(start + range.start..start + range.end, error.to_string())
    }

    fn fault_at(self, range: Range<usize>, message: impl Into<String>) -> Fault {
        let text = self.text.to_owned();
        Fault { line: self.number, text, range, message: message.into() }
    }

    /// Adds the job whose first word begins `start` bytes into the line.
    fn read(
        self,
        start: usize,
        format: Format,
        zone: &str,
        variables: &[(String, String)],
        table: &mut Table,
    ) -> Result<(), Fault> {
        let mut rest = Words { text: self.text, at: start };
        let fields = if self.text[start..].starts_with('@') { 1 } else { 5 };
        let mut end = start;
        for _ in 0..fields {
            end = rest.next().map_or(end, |word| word.end);
        }
        let mut never = None;
        let when = match Cron::parse(&self.text[start..end], zone) {
            Ok(cron) => Some(cron),
            Err(error) if error.kind() == ParseErrorKind::Reboot => None,
            Err(error) if NEVER.contains(&error.kind()) => {
                never = Some(self.fault(start, &error));
                None
            }
            Err(error) if error.field() == Some(Field::Zone) => {
                return Err(self.fault_at(start..end, error.to_string()));
            }
            Err(error) => return Err(self.fault(start, &error)),
        };
        let user = match format {
            Format::User => None,
            Format::System => {
                let user = rest.next().ok_or_else(|| self.missing("the user"))?;
                Some(self.text[user].to_owned())
            }
        };
        let command = rest.next().ok_or_else(|| self.missing("the command"))?;
        let (command, input) = split(&self.text[command.start..]);
        let variables = variables.to_vec();
        let job = Job { line: self.number, when, user, command, input, variables };
        match never {
            Some(why) => table.never.push(why),
            None => table.jobs.push(job),
        }
        Ok(())
    }

    fn missing(self, what: &str) -> Fault {
        let end = self.text.trim_end().len();
        self.fault_at(end..end, format!("{what} is missing"))
    }
}

/// The places of words with blanks between them.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Words<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        const BLANK: [char; 2] = [' ', '\t'];
        let rest = &self.text[self.at..];
        let start = self.at + rest.find(|c| !BLANK.contains(&c))?;
        let length = self.text[start..].find(BLANK);
        self.at = length.map_or(self.text.len(), |length| start + length);
        Some(start..self.at)
    }
}

/// `name = value`, each with or without quotes, and the place of the value.
fn variable(text: &str) -> Option<(String, String, usize)> {
    let (name, name_end) = match text.chars().next().filter(|c| is_quote(*c)) {
        Some(quote) => {
            let end = 1 + text[1..].find(quote)?;
            (&text[1..end], end + 1)
        }
        None => {
            let end = text.find(['=', ' ', '\t'])?;
            (&text[..end], end)
        }
    };
    let rest = text[name_end..].trim_start_matches([' ', '\t']);
    let value = rest.strip_prefix('=')?.trim_start_matches([' ', '\t']);
    if name.is_empty() {
        return None;
    }
    let at = text.len() - value.len();
    let value = value.trim_end();
    let quoted = value
        .chars()
        .next()
        .filter(|quote| is_quote(*quote) && value.len() > 1 && value.ends_with(*quote));
    Some(match quoted {
        Some(_) => (name.to_owned(), value[1..value.len() - 1].to_owned(), at + 1),
        None => (name.to_owned(), value.to_owned(), at),
    })
}

fn is_quote(c: char) -> bool {
    c == '"' || c == '\''
}

/// Parts a command from its input at the first `%`. Later ones are line ends, and `\%` is a `%`. In
/// the command, but not in its input, `\\` is a `\`.
fn split(text: &str) -> (String, Option<String>) {
    let mut command = String::new();
    let mut input: Option<String> = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let c = match c {
            '\\' if rest.peek() == Some(&'%') => rest.next().unwrap_or(c),
            '\\' if rest.peek() == Some(&'\\') && input.is_none() => rest.next().unwrap_or(c),
            '%' if input.is_none() => {
                input = Some(String::new());
                continue;
            }
            '%' => '\n',
            _ => c,
        };
        input.as_mut().unwrap_or(&mut command).push(c);
    }
    if let Some(input) = input.as_mut().filter(|input| !input.is_empty() && !input.ends_with('\n'))
    {
        input.push('\n');
    }
    (command, input)
}
