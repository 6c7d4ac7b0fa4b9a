//! Rules on tests that documents name, and on the table of features beside other systems.

use super::documents::{backquoted, prose_lines};
use super::{Breach, breach};
use crate::tree::Tree;

/// Table of features.
const FEATURES: &str = "crates/tourbillond/docs/FEATURES.md";

/// Rows of each of its tables, ours first.
pub const SYSTEMS: [&str; 11] = [
    "**tourbillond**",
    "River",
    "Sidekiq",
    "pg-boss",
    "Temporal",
    "cron-job.org",
    "Google",
    "Amazon",
    "dkron",
    "Ofelia",
    "Cronicle",
];

/// Checks the tests that documents name, and the tables.
pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.ending(".md") {
        for (number, line) in (1..).zip(prose_lines(text)) {
            for (_, name) in backquoted(line).filter(|(_, name)| is_named_test(name)) {
                if !is_shown(tree, file, name) {
                    let rule = "documents name a test that is not there";
                    breaches.push(breach(rule, file, number, name));
                }
            }
        }
    }
    let text = tree.get(FEATURES).unwrap_or_default();
    let lines = text.lines().collect::<Vec<_>>();
    let mut at = 0;
    while at < lines.len() {
        let rows = lines[at..].iter().take_while(|line| line.starts_with('|')).count();
        if rows > 0 {
            let below = lines[at + rows..].iter().take_while(|line| !line.starts_with('#'));
            let table = Table { first: at + 1, rows: &lines[at..at + rows] };
            table.check(tree, text, &below.copied().collect::<Vec<_>>(), breaches);
        }
        at += rows.max(1);
    }
}

/// A table of the document.
struct Table<'a> {
    /// Line of its head, counted from 1.
    first: usize,
    /// Its lines, with the head and the line below it.
    rows: &'a [&'a str],
}

impl Table<'_> {
    /// Checks that it has each system, that others' cells have their source, and that each of ours
    /// says `no`, says `untested`, or is in the list below the table with what shows it.
    fn check(&self, tree: &Tree, text: &str, below: &[&str], breaches: &mut Vec<Breach>) {
        let rows = self.rows.iter().map(|row| cells(row)).collect::<Vec<_>>();
        let (head, body) = (&rows[0], rows.get(2..).unwrap_or_default());
        let systems = body.iter().map(|row| row[0]).collect::<Vec<_>>();
        if systems != SYSTEMS || rows.iter().any(|row| row.len() != head.len()) {
            let rule = "a table of features without a cell for each system";
            breaches.push(breach(rule, FEATURES, self.first, &systems.join(", ")));
            return;
        }
        for (column, cell) in head.iter().zip(&body[0]).skip(1) {
            let is_open = ["no", "untested"].iter().any(|word| {
                let rest = cell.strip_prefix(word);
                rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
            });
            let listed = format!("- {column}: ");
            let is_listed =
                below.iter().filter_map(|line| line.strip_prefix(&listed)).any(|line| {
                    let mut shown = backquoted(line).map(|(_, name)| name);
                    shown.any(|name| is_named_test(name) || tree.get(name).is_some())
                });
            if !is_open && !is_listed {
                let rule = "a feature of ours without what shows it";
                breaches.push(breach(rule, FEATURES, self.first + 2, column));
            }
        }
        for (number, row) in (self.first + 3..).zip(&body[1..]) {
            for cell in row[1..].iter().filter(|cell| !is_sourced(cell, text)) {
                let rule = "a feature of another system without its source";
                breaches.push(breach(rule, FEATURES, number, cell));
            }
        }
    }
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<&str> {
    row.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// Returns whether a cell is unknown, or has links that all lead somewhere.
fn is_sourced(cell: &str, text: &str) -> bool {
    let mut links = cell.split("][").skip(1).map(|rest| rest.split(']').next().unwrap_or_default());
    let leads = |link: &str| text.contains(&format!("\n[{link}]: https://"));
    cell.starts_with("unknown") || cell.contains("][") && links.all(leads)
}

/// Returns whether it names a test, as `tests/file.rs::name` or `tests/file.mjs::title`.
fn is_named_test(name: &str) -> bool {
    name.contains(".rs::") || name.contains(".mjs::")
}

/// Returns whether a named test is there: in a file below the root, the document's folder or the
/// folder above.
fn is_shown(tree: &Tree, document: &str, name: &str) -> bool {
    let Some((path, test)) = name.split_once("::") else { return false };
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
    let bases = ["", folder, above].map(|base| format!("{base}/{path}"));
    let mut texts = bases.iter().filter_map(|path| tree.get(path.trim_start_matches('/')));
    texts.any(|text| match path.ends_with(".rs") {
        true => is_test(text, test),
        false => text.contains(&format!("test('{test}'")),
    })
}

/// Returns whether a Rust file has a function of this name that is a test.
fn is_test(text: &str, name: &str) -> bool {
    let lines = text.lines().map(str::trim_start).collect::<Vec<_>>();
    let head = format!("fn {name}(");
    (0..lines.len()).any(|at| {
        let mut above = lines[..at].iter().rev().take_while(|line| line.starts_with(['#', '/']));
        lines[at].trim_start_matches("async ").starts_with(&head)
            && above.any(|line| {
                line.starts_with("#[") && line.contains("test") && !line.contains("cfg")
            })
    })
}
