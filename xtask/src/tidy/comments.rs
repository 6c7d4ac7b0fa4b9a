//! Rules on comments in code.

use std::collections::BTreeSet;

use super::crates::Crate;
use super::documents::{backquoted, is_name};
use super::source::Source;
use super::{Breach, breach};
use crate::tree::Tree;

/// Lines above an atomic operation among which its reason stands.
const REASON_WITHIN: usize = 8;

/// Checks the comments of a crate's code.
pub fn check(
    of: &Crate,
    tree: &Tree,
    sources: &[Source],
    defined: &BTreeSet<&str>,
    breaches: &mut Vec<Breach>,
) {
    let mut paragraphs = 0;
    let mut clauses = Vec::new();
    for source in sources {
        let lines = tree.get(&source.file).unwrap_or_default().lines().collect::<Vec<_>>();
        orderings(source, &lines, breaches);
        names(source, &lines, defined, breaches);
        for (line, opening) in openings(source, &lines) {
            paragraphs += 1;
            if is_clause(&opening) {
                clauses.push((source, line, opening));
            }
        }
    }
    if clauses.len() * 1000 > of.clauses * paragraphs {
        let rule = format!(
            "{} of {paragraphs} paragraphs of documentation in {} open with a clause; there may be \
             {} in a thousand",
            clauses.len(),
            of.name,
            of.clauses
        );
        let found =
            clauses.iter().map(|(source, line, text)| breach(&rule, &source.file, *line, text));
        breaches.extend(found);
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
fn names(source: &Source, lines: &[&str], defined: &BTreeSet<&str>, breaches: &mut Vec<Breach>) {
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
fn openings(source: &Source, lines: &[&str]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut inside, mut fenced) = (false, false);
    for (number, line) in (1..).zip(lines) {
        let line = line.trim_start();
        let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim);
        let Some(text) = text.filter(|_| !source.is_test(number)) else {
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
