//! Rules that no compiler checks.

mod comments;
mod crates;
mod documents;
mod imports;
mod layers;
mod locks;
mod named_tests;
mod packages;
mod real_time;
mod scripts;
mod source;
#[cfg(test)]
mod tests;
mod words;

use crate::history::History;
use crate::tree::Tree;
use crate::{figures, ratchets};

/// A place that breaks a rule.
#[derive(Debug)]
pub struct Breach {
    /// Sentence that names the rule.
    pub rule: String,
    /// Place, as `file:line`, and the fault there.
    pub found: String,
}

fn breach(rule: &str, file: &str, line: usize, found: &str) -> Breach {
    Breach { rule: rule.to_owned(), found: format!("{file}:{line}: {found}") }
}

/// Finds all breaches. Fails if a file is malformed.
pub fn check(tree: &Tree) -> Result<Vec<Breach>, String> {
    let mut breaches = Vec::new();
    let mut sources = Vec::new();
    let defined = documents::identifiers(tree);
    for of in crates::CRATES {
        let roots = of.roots.iter().map(|root| format!("{}{root}", of.folder)).collect::<Vec<_>>();
        let roots = roots.iter().map(String::as_str).collect::<Vec<_>>();
        let read = source::read(tree, &roots)?;
        imports::check(of, &read, &mut breaches);
        layers::check(of, tree, &mut breaches);
        comments::check(of, tree, &read, &defined, &mut breaches);
        sources.extend(read);
    }
    comments::check_tests(tree, &mut breaches);
    locks::check(tree, &sources, &mut breaches);
    real_time::check(tree, &sources, &mut breaches);
    scripts::check(tree, &mut breaches);
    packages::check(tree, &mut breaches);
    documents::check(tree, &sources, &defined, &mut breaches);
    words::check(tree, &mut breaches);
    for (file, text) in figures::written(tree)? {
        if tree.get(file) != Some(&text) {
            let rule = "figures that are not those of the kept runs: cargo xtask figures";
            breaches.push(breach(rule, file, 1, "differs"));
        }
    }
    documents::faults(tree, &mut breaches);
    documents::recipes(tree, &mut breaches);
    documents::figures(tree, &mut breaches);
    named_tests::check(tree, &mut breaches);
    lines(tree, &mut breaches);
    Ok(breaches)
}

/// Checks the weight of the repository, and the commits if git has them.
pub fn limits(tree: &Tree, history: Option<&History>) -> Vec<Breach> {
    let rule = "weight that is not that of the limits";
    let faults = ratchets::faults(tree).into_iter();
    let weight = faults.map(|(line, what)| breach(rule, ratchets::FILE, line, &what));
    let commits = history.into_iter().flat_map(|history| history.faults(tree));
    let commits = commits.map(|(rule, found)| Breach { rule: rule.to_owned(), found });
    weight.chain(commits).collect()
}

/// Checks single lines, of every file.
fn lines(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.iter() {
        let is_listed = |endings: &[&str]| endings.iter().any(|ending| file.ends_with(ending));
        let is_code = is_listed(&[".rs"]) || file.starts_with("ci/") && !file.contains("mutants");
        for (number, line) in (1..).zip(text.lines()) {
            let open = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")]
                .iter()
                .find(|word| line.contains(*word));
            if let Some(word) = open.filter(|_| is_listed(&[".rs", ".toml", ".md", ".js", ".mjs"]))
            {
                breaches.push(breach("left open", file, number, word));
            }
            let is_table = line.contains("//! |") || line.contains("/// |");
            if is_code && !is_table && line.chars().count() > 100 {
                breaches.push(breach("lines of more than 100 columns", file, number, line));
            }
        }
    }
}
