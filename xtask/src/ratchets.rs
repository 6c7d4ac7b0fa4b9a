//! Limits on the weight of the repository: they fall by themselves, and rise with a reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::tree::Tree;

/// File with the limits.
pub const FILE: &str = "ci/ratchets.txt";

/// Head of the file.
const HEAD: &str = "\
# Limits that `cargo xtask tidy` holds: lines of Rust, and in `src` and documents the sentences of a
# hundred that have a clause with what, who or which; \"one that\" or \"those that\"; \", as\".
# `cargo xtask ratchets` lowers them to the tree. One is raised by hand, with the reason behind `#`.
";

/// Row that limits the number of scripts.
const SCRIPTS: &str = "scripts";

/// Limits are rounded up to multiples of this many lines.
const STEP: usize = 100;

/// Limits, or measured figures, by name: lines, and three rates in tenths.
type Figures = BTreeMap<String, Vec<usize>>;

/// A line of the file.
#[derive(Debug)]
struct Row {
    line: usize,
    name: String,
    limits: Vec<usize>,
    reason: String,
}

/// Returns the violated or outdated lines of the file, each with its fault.
pub fn faults(tree: &Tree) -> Vec<(usize, String)> {
    let mut left = measured(tree);
    let mut found = Vec::new();
    for Row { line, name, limits, .. } in rows(tree.get(FILE).unwrap_or_default()) {
        let Some(figures) = left.remove(&name).filter(|figures| figures.len() == limits.len())
        else {
            found.push((line, format!("{name}: other figures are there: cargo xtask ratchets")));
            continue;
        };
        for (column, (figure, limit)) in figures.into_iter().zip(limits).enumerate() {
            let said = format!("{name}: {} of {}", shown(column, figure), shown(column, limit));
            if figure > limit {
                found.push((line, format!("{said}: lower it, or raise the limit with a reason")));
            } else if limit > ceiling(&name, column, figure) + slack(&name, column) {
                found.push((line, format!("{said}: cargo xtask ratchets lowers the limit")));
            }
        }
    }
    found.extend(left.into_keys().map(|name| (1, format!("{name}: cargo xtask ratchets adds it"))));
    found
}

/// Returns the limits that were lower before and have no new reason, with their lines.
pub fn raised(tree: &Tree, before: &str) -> Vec<(usize, String)> {
    let before = rows(before);
    let rows = rows(tree.get(FILE).unwrap_or_default()).into_iter().filter(|row| {
        let same = before.iter().find(|old| old.name == row.name);
        same.is_some_and(|old| {
            let rises = row.limits.iter().zip(&old.limits).any(|(new, old)| new > old);
            rises && (row.reason.is_empty() || row.reason == old.reason)
        })
    });
    rows.map(|row| (row.line, format!("{}: say why behind `#`", row.name))).collect()
}

/// Returns the file with each limit lowered to the tree. A row that is missing is added.
pub fn lowered(tree: &Tree) -> String {
    let before = rows(tree.get(FILE).unwrap_or_default());
    let mut text = HEAD.to_owned();
    for (name, figures) in measured(tree) {
        let old = before.iter().find(|row| row.name == name);
        let old = old.filter(|row| row.limits.len() == figures.len());
        let mut row = format!("{name:<24}");
        for (column, figure) in figures.into_iter().enumerate() {
            let limit = ceiling(&name, column, figure);
            let limit = old.map_or(limit, |row| limit.min(row.limits[column]));
            let _ = write!(row, " {:>6}", shown(column, limit));
        }
        if let Some(old) = old.filter(|old| !old.reason.is_empty()) {
            let _ = write!(row, "  # {}", old.reason);
        }
        text += &row;
        text.push('\n');
    }
    text
}

fn rows(text: &str) -> Vec<Row> {
    let rows = (1..).zip(text.lines()).filter_map(|(line, row)| {
        let (row, reason) = row.split_once('#').unwrap_or((row, ""));
        let mut cells = row.split_whitespace();
        let name = cells.next()?.to_owned();
        // A word that is not a number limits everything.
        let limits = cells.map(|cell| cell.replace('.', "").parse().unwrap_or(0)).collect();
        Some(Row { line, name, limits, reason: reason.trim().to_owned() })
    });
    rows.collect()
}

fn shown(column: usize, figure: usize) -> String {
    if column == 0 { figure.to_string() } else { format!("{}.{}", figure / 10, figure % 10) }
}

fn ceiling(name: &str, column: usize, figure: usize) -> usize {
    if column == 0 && name != SCRIPTS { figure.next_multiple_of(STEP) } else { figure }
}

/// Returns how far a limit may exceed its figure.
fn slack(name: &str, column: usize) -> usize {
    match (name, column) {
        (SCRIPTS, _) => 0,
        (_, 0) => 2 * STEP,
        _ => 2,
    }
}

/// Returns the figures of the tree.
fn measured(tree: &Tree) -> Figures {
    let mut figures = Figures::new();
    let mut prose = BTreeMap::<String, Sentences>::new();
    for (file, text) in tree.ending(".rs") {
        let name = package(file);
        figures.entry(name.clone()).or_insert_with(|| vec![0])[0] += text.lines().count();
        let folder = if name == "core" { String::new() } else { format!("{name}/") };
        if file.strip_prefix(&folder).is_some_and(is_product) {
            prose.entry(name).or_default().add(comments(text));
        }
    }
    for (file, text) in tree.ending(".md").filter(|(file, _)| !file.ends_with("CHANGELOG.md")) {
        prose.entry(package(file)).or_default().add(paragraphs(text));
    }
    for (name, read) in prose {
        figures.entry(name).or_default().extend(read.rates());
    }
    let is_script = |file: &str| {
        file.strip_prefix("ci/").is_some_and(|name| name.ends_with(".sh") && !name.contains('/'))
    };
    let scripts = tree.iter().filter(|(file, _)| is_script(file)).count();
    figures.insert(SCRIPTS.to_owned(), vec![scripts]);
    figures
}

/// Returns the row that a file belongs to.
fn package(file: &str) -> String {
    let mut parts = file.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => format!("crates/{name}"),
        (Some(folder @ ("xtask" | "integration" | "platforms" | "examples")), Some(_)) => {
            folder.to_owned()
        }
        _ => "core".to_owned(),
    }
}

/// Returns whether a file, within its package, is product code.
fn is_product(file: &str) -> bool {
    let is_of_tests = |part: &str| ["tests", "models", "fuzz"].contains(&part);
    file.starts_with("src/")
        && !file.split('/').any(is_of_tests)
        && !file.ends_with("tests.rs")
        && !file.ends_with("model.rs")
}

/// Returns the lines of a Rust file's comments; `None` for each of code.
fn comments(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.lines().map(|line| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.strip_prefix(['/', '!']).unwrap_or(comment).trim())
    })
}

/// Returns the lines of a document; `None` before each paragraph and item of a list.
fn paragraphs(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.lines().map(str::trim).flat_map(|line| {
        let is_item = line.starts_with("- ") || line.starts_with(|c: char| c.is_ascii_digit());
        let breaks = line.is_empty() || line.starts_with('#') || is_item;
        [breaks.then_some(None), (!line.is_empty()).then_some(Some(line))].into_iter().flatten()
    })
}

/// Number of sentences, and of each of three forms.
#[derive(Debug, Default)]
struct Sentences {
    count: usize,
    forms: [usize; 3],
}

impl Sentences {
    /// Adds the sentences of a file's lines; `None` is no prose. A code span is a word.
    fn add<'a>(&mut self, lines: impl Iterator<Item = Option<&'a str>>) {
        let (mut prose, mut fenced) = (String::new(), false);
        for line in lines {
            let Some(line) = line else {
                prose.push('\n');
                continue;
            };
            let is_fence = line.starts_with("```");
            fenced ^= is_fence;
            if !fenced && !is_fence && !line.starts_with(['#', '|']) {
                prose.push_str(line);
                prose.push(' ');
            }
        }
        let spans = prose.split('`').enumerate();
        let prose = spans.map(|(at, part)| if at % 2 == 0 { part } else { "X" });
        for block in prose.collect::<String>().lines() {
            let mut sentence = Vec::new();
            for word in block.split_whitespace() {
                let begins = word.starts_with(|first: char| first.is_ascii_uppercase());
                let ends = |last: &&str| last.ends_with(['.', '!', '?', ':']);
                if begins && sentence.last().is_some_and(ends) {
                    self.count(&std::mem::take(&mut sentence));
                }
                sentence.push(word);
            }
            self.count(&sentence);
        }
    }

    fn count(&mut self, words: &[&str]) {
        if words.len() < 4 {
            return;
        }
        self.count += 1;
        const CLAUSES: [&str; 3] = ["what", "who", "which"];
        const VERBS: [&str; 18] = [
            "is", "was", "are", "were", "has", "have", "had", "come", "comes", "goes", "may",
            "can", "will", "it", "they", "a", "an", "the",
        ];
        const PRONOUNS: [&str; 3] = ["one", "ones", "those"];
        const RELATIVES: [&str; 4] = ["that", "of", "who", "which"];
        const SUBJECTS: [&str; 12] = [
            "it", "they", "that", "the", "a", "its", "there", "this", "these", "no", "nobody",
            "nothing",
        ];
        let pair = |before: &[&str], behind: &[&str]| {
            words.windows(2).any(|pair| {
                before.contains(&last(pair[0]).to_lowercase().as_str())
                    && behind.contains(&first(pair[1]).to_lowercase().as_str())
            })
        };
        let reasons = words.windows(3).any(|three| {
            three[0].ends_with(',') && three[1] == "as" && SUBJECTS.contains(&first(three[2]))
        });
        let found = [pair(&CLAUSES, &VERBS), pair(&PRONOUNS, &RELATIVES), reasons];
        for (count, found) in self.forms.iter_mut().zip(found) {
            *count += usize::from(found);
        }
    }

    /// Returns the forms among a thousand sentences, rounded up.
    fn rates(&self) -> [usize; 3] {
        self.forms.map(|count| (count * 1000).div_ceil(self.count.max(1)))
    }
}

fn is_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the letters that a text begins with.
fn first(text: &str) -> &str {
    text.split(|c| !is_part(c)).next().unwrap_or(text)
}

/// Returns the letters that a text ends with.
fn last(text: &str) -> &str {
    text.rsplit(|c| !is_part(c)).next().unwrap_or(text)
}
