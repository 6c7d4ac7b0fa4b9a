//! Rule on tests that documents name: they are there.

use super::documents::{backquoted, prose_lines};
use super::{Breach, breach};
use crate::tree::Tree;

/// Checks the tests that documents name.
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
