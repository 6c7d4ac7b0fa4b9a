//! Rules on comments in code.

use std::collections::HashSet;

use super::crates::Crate;
use super::documents::{backquoted, is_name};
use super::source::Source;
use super::{Breach, breach};
use crate::tree::Tree;

/// Lines above an atomic operation among which its reason stands.
const REASON_WITHIN: usize = 8;

/// Most paragraphs of documentation, in a thousand, that may open with a clause.
const CLAUSES: usize = 20;

/// Checks the comments of a crate's code.
pub fn check(
    of: &Crate,
    tree: &Tree,
    sources: &[Source],
    defined: &HashSet<&str>,
    breaches: &mut Vec<Breach>,
) {
    let mut read = Paragraphs::default();
    for source in sources {
        let lines = tree.get(&source.file).unwrap_or_default().lines().collect::<Vec<_>>();
        orderings(source, &lines, breaches);
        names(source, &lines, defined, breaches);
        read.add(&source.file, &lines, |line| source.is_test(line));
    }
    read.check(of.name, breaches);
}

/// Checks the comments of tests, benches and examples, as one group.
pub fn check_tests(tree: &Tree, breaches: &mut Vec<Breach>) {
    let mut read = Paragraphs::default();
    for (file, text) in tree.ending(".rs").filter(|(file, _)| is_of_tests(file)) {
        read.add(file, &text.lines().collect::<Vec<_>>(), |_| false);
    }
    read.check("tests and examples", breaches);
}

/// Returns whether a file is a test, a bench or an example, or a program that tests a platform.
fn is_of_tests(file: &str) -> bool {
    let folders = match file.strip_prefix("crates/").and_then(|file| file.split_once('/')) {
        Some((_, inside)) => return is_of_tests(inside),
        None => ["tests/", "benches/", "examples/", "platforms/bare/", "platforms/web/"],
    };
    folders.iter().any(|folder| file.starts_with(folder))
}

/// Paragraphs of documentation in a group of files.
#[derive(Default)]
struct Paragraphs {
    count: usize,
    /// Places and first lines of the paragraphs that open with a clause.
    clauses: Vec<(String, usize, String)>,
}

impl Paragraphs {
    fn add(&mut self, file: &str, lines: &[&str], is_test: impl Fn(usize) -> bool) {
        for (line, opening) in openings(lines, is_test) {
            self.count += 1;
            if is_clause(&opening) {
                self.clauses.push((file.to_owned(), line, opening));
            }
        }
    }

    /// Checks that no more than [`CLAUSES`] open with a clause.
    fn check(&self, name: &str, breaches: &mut Vec<Breach>) {
        let Self { count, clauses } = self;
        if clauses.len() * 1000 > CLAUSES * count {
            let rule = format!(
                "{} of {count} paragraphs of documentation in {name} open with a clause; there \
                 may be {CLAUSES} in a thousand",
                clauses.len(),
            );
            breaches
                .extend(clauses.iter().map(|(file, line, text)| breach(&rule, file, *line, text)));
        }
    }
}

/// Every atomic operation has its reason in a comment labelled `ORDERING:`.
fn orderings(source: &Source, lines: &[&str], breaches: &mut Vec<Breach>) {
    const ORDERINGS: [&str; 6] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst", "*"];
    for (path, line) in &source.paths {
        let [.., kind, ordering] = &path[..] else { continue };
        if kind != "Ordering" || !ORDERINGS.contains(&ordering.as_str()) {
            continue;
        }
        let above = &lines[line.saturating_sub(REASON_WITHIN + 1)..*line];
        if !above.iter().any(|line| line.contains("ORDERING")) {
            let rule = "an ordering without its reason";
            breaches.push(breach(rule, &source.file, *line, ordering));
        }
    }
}

/// Names that an `ORDERING:` comment gives are there, and models that any comment gives.
fn names(source: &Source, lines: &[&str], defined: &HashSet<&str>, breaches: &mut Vec<Breach>) {
    let mut reasons = false;
    let mut before = "";
    for (number, line) in (1..).zip(lines) {
        let line = line.trim_start();
        if !line.starts_with("//") {
            (reasons, before) = (false, "");
            continue;
        }
        reasons |= line.contains("ORDERING:");
        for (at, name) in backquoted(line) {
            let own = line[..at].trim_end_matches(['`', ' ', '/', '!']);
            let text = if own.is_empty() { before } else { own };
            let is_model = text.to_lowercase().ends_with("loom");
            if (reasons && is_name(name, 2) || is_model) && !defined.contains(name) {
                let rule = "comments name what is not there";
                breaches.push(breach(rule, &source.file, number, name));
            }
        }
        before = line;
    }
}

/// Returns the first lines of the documentation's paragraphs. Headings, lists, tables and code are
/// no paragraphs.
fn openings(lines: &[&str], is_test: impl Fn(usize) -> bool) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut inside, mut fenced) = (false, false);
    for (number, line) in (1..).zip(lines) {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim);
        let Some(text) = text.filter(|_| !is_test(number)) else {
            (inside, fenced) = (false, false);
            continue;
        };
        if text.starts_with("```") {
            fenced = !fenced;
        }
        let is_prose = !fenced && !text.is_empty() && !text.starts_with("```");
        if is_prose && !inside && !text.starts_with(['#', '-', '*', '|', '[']) {
            found.push((number, text.to_owned()));
        }
        inside = is_prose;
    }
    found
}

/// Returns whether a paragraph opens with a clause in place of a noun or a verb.
fn is_clause(text: &str) -> bool {
    const OPENERS: [&str; 24] = [
        "What", "How", "Which", "Whose", "Whether", "Has", "Have", "Of", "By", "Those", "That",
        "Where", "Who", "As", "Until", "Under", "From", "For how", "To whom", "Why", "The same",
        "One that", "It", "Up to",
    ];
    OPENERS.iter().any(|opener| {
        let rest = text.strip_prefix(opener);
        rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    })
}
