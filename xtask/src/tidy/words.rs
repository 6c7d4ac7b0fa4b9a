//! Words to avoid in comments and documents, because a plainer one exists.

use super::{Breach, breach};
use crate::tree::Tree;

/// Refused words, in lower case, each with its replacement.
const REFUSED: [(&str, &str); 6] = [
    ("told", "notified, informed, configured, distinguished"),
    ("goes on", "continues"),
    ("go on", "continue"),
    ("of which", "a sentence of its own"),
    ("whoever", "a name"),
    ("in vain", "without success"),
];

/// Documents of proofs, which keep their words.
const PROOFS: [&str; 2] = ["docs/PROOF.md", "src/driver/PROTOCOL.md"];

/// Checks the comments of all code, scripts and settings, and all documents.
pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.iter().filter(|(file, _)| !PROOFS.contains(file)) {
        let Some(read) = prose_of(file) else { continue };
        let (mut block, mut fenced) = (Block::default(), false);
        for (number, line) in (1..).zip(text.lines()) {
            let prose = read(line).map(str::trim);
            let is_fence = prose.is_some_and(|prose| prose.starts_with("```"));
            fenced = prose.is_some() && fenced ^ is_fence;
            match prose.filter(|prose| !fenced && !is_fence && !prose.is_empty()) {
                Some(prose) => block.push(number, prose),
                None => std::mem::take(&mut block).check(file, breaches),
            }
        }
        block.check(file, breaches);
    }
}

/// Returns the function that finds the prose in a line of a file; `None` for an unknown kind.
fn prose_of(file: &str) -> Option<fn(&str) -> Option<&str>> {
    let name = file.rsplit('/').next().unwrap_or(file);
    Some(match name.rsplit('.').next().unwrap_or(name) {
        "rs" | "c" => |line| comment(line, "//"),
        "js" | "mjs" | "css" => |line| block_comment(line).or_else(|| comment(line, "//")),
        "sh" | "run" | "awk" | "py" | "toml" | "yaml" | "yml" | "service" | "Containerfile" => {
            |line| comment(line, "#")
        }
        "sql" => |line| comment(line, "--"),
        "md" => |line| Some(line),
        _ => return None,
    })
}

/// Returns the text of the comment in a line of code, if there is a comment with this mark.
fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    let whole = line.trim_start().strip_prefix(mark);
    // A comment behind code, and not a part of a text.
    let behind = || {
        let (code, comment) = line.split_once(&format!(" {mark} "))?;
        code.replace("\\\"", "").matches('"').count().is_multiple_of(2).then_some(comment)
    };
    whole.map(|text| text.trim_start_matches(['/', '!', '#'])).or_else(behind)
}

/// Returns the text of a line of a comment that may have several, as JavaScript's.
fn block_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["/**", "/*", "* "].iter().find_map(|mark| line.strip_prefix(mark));
    text.map(|text| text.trim_end_matches("*/"))
}

/// Lines of prose that follow each other, as words.
#[derive(Default)]
struct Block {
    /// Words in lower case, with the numbers of their lines.
    words: Vec<(usize, String)>,
    /// True inside a code span, which may end in another line.
    in_code: bool,
}

impl Block {
    /// Adds a line. A code span becomes a word that is in no list.
    fn push(&mut self, line: usize, prose: &str) {
        let mut text = String::new();
        for (at, part) in prose.split('`').enumerate() {
            self.in_code ^= at > 0;
            text.push_str(if self.in_code { "`" } else { part });
        }
        // A sign is a word, too, so that the words beside it do not follow each other.
        let is_sign = |c: char| !c.is_alphanumeric() && !c.is_whitespace() && c != '_';
        let text = text.replace(is_sign, " ` ");
        let words = text.split_whitespace();
        self.words.extend(words.map(|word| (line, word.to_lowercase())));
    }

    fn check(self, file: &str, breaches: &mut Vec<Breach>) {
        for (refused, instead) in REFUSED {
            let refused = refused.split(' ').collect::<Vec<_>>();
            for place in self.words.windows(refused.len()) {
                if place.iter().map(|(_, word)| word).eq(&refused) {
                    let found = format!("{}: write {instead}", refused.join(" "));
                    let rule = "words for which there is a plainer one";
                    breaches.push(breach(rule, file, place[0].0, &found));
                }
            }
        }
    }
}
