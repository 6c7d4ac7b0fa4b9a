//! Rules on prose: the things that it names exist, and it says nothing twice.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::source::Source;
use super::{Breach, breach};
use crate::tree::Tree;

/// Documents whose names of two capitals are all of code here.
const OF_CODE: [&str; 4] =
    ["docs/HAZARDS.md", "docs/PROOF.md", "ARCHITECTURE.md", "src/driver/PROTOCOL.md"];

/// Figures that a program writes.
const GENERATED: &str = "benches/RESULTS.md";

/// Documents of kept runs, and of other projects' figures.
const OF_RUNS: [&str; 3] =
    [GENERATED, "crates/durable/docs/BENCHES.md", "crates/tourbillond/docs/FEATURES.md"];

/// Page with the code of programs that are run.
const RECIPES: &str = "src/guide/recipes.md";

/// Documents that name files and functions of other projects.
const OF_OTHERS: [&str; 2] = ["docs/PLATFORMS.md", "src/guide/migration.md"];

/// Checks all documents, and the sentences of all comments.
pub fn check(tree: &Tree, sources: &[Source], defined: &HashSet<&str>, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.ending(".md").filter(|(file, _)| *file != GENERATED) {
        let prose = (1..).zip(prose_lines(text)).filter(|_| !OF_OTHERS.contains(&file));
        for (number, line) in prose {
            for (_, name) in backquoted(line) {
                let is_named = is_name(name, 3) || OF_CODE.contains(&file) && is_type(name);
                if is_named && !defined.contains(name) {
                    let rule = "documents name what is not there";
                    breaches.push(breach(rule, file, number, name));
                }
                if is_path(name) && !is_there(tree, file, name) {
                    let rule = "documents name a file that is not there";
                    breaches.push(breach(rule, file, number, name));
                }
            }
        }
        sentences(file, text.lines().map(|line| Some(line.trim())), breaches);
    }
    for source in sources {
        let text = tree.get(&source.file).unwrap_or_default();
        let lines = text.lines().map(|line| {
            let line = line.trim_start().strip_prefix("//")?;
            Some(line.trim_start_matches(['/', '!']).trim())
        });
        sentences(&source.file, lines, breaches);
    }
}

/// Checks that PROOF.md counts the faults of the list, how many of them no test can detect, and how
/// many of these only cost time.
pub fn faults(tree: &Tree, breaches: &mut Vec<Breach>) {
    let list = tree.get("ci/mutants/list").unwrap_or_default();
    let names = list.lines().filter_map(|line| line.strip_prefix("mutant "));
    let names = names.map(|name| name.split(':').next()).collect::<BTreeSet<_>>().len();
    let argued = list.lines().filter(|line| line.starts_with("= ")).count();
    let cost = list.lines().filter(|line| *line == "= cost only").count();
    let proof = tree.get("docs/PROOF.md").unwrap_or_default();
    let proof = proof.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("Of the {names}, no test of behaviour can fail {argued}."),
        format!("These {cost} cost time"),
    ] {
        if !proof.contains(&said) {
            let rule = "PROOF.md counts other faults than there are";
            breaches.push(breach(rule, "docs/PROOF.md", 1, &said));
        }
    }
}

/// Checks that no document has a measured figure outside of the marks of a program that prints it:
/// "some 40 us", "160 to 250 ns".
pub fn figures(tree: &Tree, breaches: &mut Vec<Breach>) {
    let documents = tree.ending(".md").filter(|(file, _)| !file.ends_with("CHANGELOG.md"));
    for (file, text) in documents.filter(|(file, _)| !OF_RUNS.contains(file)) {
        let (mut words, mut printed) = (Vec::new(), false);
        for (number, line) in (1..).zip(prose_lines(text)) {
            printed |= line.starts_with("<!-- figures: ") || line.starts_with("<!-- printed by ");
            printed &= line != "<!-- end of figures -->";
            let typed = line.split_whitespace().filter(|_| !printed);
            words.extend(typed.map(|word| (number, word)));
        }
        for four in words.windows(4) {
            let [low, (_, about), (number, figure), (_, unit)] = four else { continue };
            let unit = unit.trim_end_matches(['.', ',', ';', ':', ')']);
            let is_time = ["ns", "us", "ms"].contains(&unit);
            let is_unit = is_time || ["s", "KB", "KiB", "MB", "bytes"].contains(&unit);
            let is_rounded = ["some", "about", "nearly"].contains(about) && is_unit;
            let is_range = *about == "to" && is_figure(low.1) && is_time;
            if is_figure(figure) && (is_rounded || is_range) {
                let rule = "a figure that no program has written: delete it, or let one print it";
                breaches.push(breach(rule, file, *number, &format!("{about} {figure} {unit}")));
            }
        }
    }
}

fn is_figure(word: &str) -> bool {
    let word = word.trim_start_matches(['~', '(']);
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ".,".contains(c))
}

/// Compares each piece of code in the recipes with the file named before it. A line with dots alone
/// stands for an omission.
pub fn recipes(tree: &Tree, breaches: &mut Vec<Breach>) {
    let (mut file, mut code) = (None, None::<(usize, String)>);
    for (number, line) in (1..).zip(tree.get(RECIPES).unwrap_or_default().lines()) {
        match (&mut code, line.starts_with("```")) {
            (None, true) => code = Some((number, String::new())),
            (Some((begun, text)), true) => {
                let run = file.and_then(|file| tree.get(file)).unwrap_or_default();
                if text.is_empty() || !text.split("    // ...\n").all(|part| run.contains(part)) {
                    let rule = "a recipe that is not the code that is run";
                    breaches.push(breach(rule, RECIPES, *begun, file.unwrap_or("no file")));
                }
                code = None;
            }
            (Some((_, text)), false) => *text += &format!("{line}\n"),
            (None, false) => {
                let paths = backquoted(line).map(|(_, path)| path);
                file = paths.filter(|path| is_path(path)).last().or(file);
            }
        }
    }
}

/// Returns the texts between backquotes in a line, with the places of their starts.
pub fn backquoted(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let parts = line.split('`').map(move |part| {
        let begin = at;
        at += part.len() + 1;
        (begin, part)
    });
    parts.skip(1).step_by(2)
}

/// Returns whether it is a name of at least so many words in lower case.
pub fn is_name(text: &str, words: usize) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    text.split('_').count() >= words && text.split('_').all(is_word)
}

/// Returns whether it is a name of at least two words with capitals.
fn is_type(text: &str) -> bool {
    const OF_OTHERS: [&str; 2] = ["AcqRel", "SeqCst"];
    let capitals = text.chars().filter(char::is_ascii_uppercase).count();
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_alphabetic())
        && capitals >= 2
        && capitals < text.len()
        && !OF_OTHERS.contains(&text)
}

/// Returns whether it is a path of a file that could be tracked.
fn is_path(text: &str) -> bool {
    const ENDINGS: [&str; 12] =
        [".rs", ".sh", ".md", ".toml", ".txt", ".awk", ".js", ".mjs", ".c", ".py", ".sql", ".svg"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    text.contains('/')
        && !text.starts_with(['/', '.'])
        && text.chars().all(is_plain)
        && ENDINGS.iter().any(|ending| text.ends_with(ending))
        && !text.starts_with("target/")
}

/// Returns whether a document's path leads to a file: from the root, from the document's folder, or
/// from a folder of code.
fn is_there(tree: &Tree, document: &str, path: &str) -> bool {
    let folder = document.rsplit_once('/').map_or("", |(folder, _)| folder);
    let bases = ["", "src", folder, &format!("{folder}/src")].map(str::to_owned);
    bases.iter().any(|base| {
        let whole = format!("{base}/{path}");
        tree.get(whole.trim_start_matches('/')).is_some()
    })
}

/// Returns all names in the code of all files: a test, a constant, a table's column.
pub fn identifiers(tree: &Tree) -> HashSet<&str> {
    // The program itself, in its tests, names things that do not exist.
    let is_code = |file: &str| {
        !file.ends_with(".md") && !file.ends_with(".lock") && !file.starts_with("xtask/")
    };
    let code = tree.iter().filter(|(file, _)| is_code(file));
    let lines = code.flat_map(|(_, text)| text.lines());
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    lines.flat_map(|line| line.split(move |c| !is_part(c))).collect()
}

/// Returns the lines of a document, with lines of code made empty.
pub fn prose_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence { "" } else { line }
    })
}

/// No sentence stands twice in a paragraph, and no long one twice in a file. `None` is a line that
/// is no prose.
fn sentences<'a>(
    file: &str,
    lines: impl Iterator<Item = Option<&'a str>>,
    breaches: &mut Vec<Breach>,
) {
    let mut read = Sentences { file, paragraph: 0, seen: BTreeMap::new(), breaches };
    let (mut text, mut begun, mut fenced) = (String::new(), 0, false);
    for (number, line) in (1..).zip(lines.chain([None])) {
        let is_fence = line.is_some_and(|line| line.starts_with("```"));
        fenced = line.is_some() && fenced ^ is_fence;
        let prose = line.filter(|line| !fenced && !is_fence && !line.is_empty());
        let prose = prose.filter(|line| !line.starts_with(['|', '#']));
        let numbered = |line: &str| {
            let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
            digits.len() < line.len() && digits.starts_with(". ")
        };
        let ends = prose
            .is_none_or(|line| line.starts_with("- ") || line.starts_with("* ") || numbered(line));
        if ends {
            read.paragraph(&std::mem::take(&mut text), begun);
        }
        if let Some(line) = prose {
            if text.is_empty() {
                begun = number;
            }
            text.push(' ');
            text.push_str(line);
        }
    }
}

/// Sentences of a file so far.
struct Sentences<'a> {
    file: &'a str,
    paragraph: usize,
    /// Paragraph in which a sentence stood last.
    seen: BTreeMap<String, usize>,
    breaches: &'a mut Vec<Breach>,
}

impl Sentences<'_> {
    fn paragraph(&mut self, text: &str, line: usize) {
        self.paragraph += 1;
        let text = text.replace(['.', ':', ';', '!', '?'], ".");
        for sentence in text.split(". ") {
            let sentence = sentence.trim().trim_end_matches('.');
            let words = sentence.split_whitespace().count();
            let last = self.seen.insert(sentence.to_owned(), self.paragraph);
            if words >= 4 && last == Some(self.paragraph) || words >= 8 && last.is_some() {
                let rule = "a sentence stands twice";
                self.breaches.push(breach(rule, self.file, line, sentence));
            }
        }
    }
}
