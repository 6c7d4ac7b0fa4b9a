//! Rules on published packages, and on the programs that publish and check them.

use super::documents::backquoted;
use super::{Breach, breach};
use crate::tree::Tree;

/// Files that each package has beside its manifest.
const BESIDE: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Packages that are no library, and are released all the same.
const RELEASED: [&str; 1] = ["crates/tourbillond/"];

/// Checks the contents of packages, the names in their documents, and the actions of workflows.
pub fn check(tree: &Tree, breaches: &mut Vec<Breach>) {
    let folders = published(tree).collect::<Vec<_>>();
    for folder in folders.iter().copied().chain(RELEASED) {
        for name in BESIDE {
            let file = format!("{folder}{name}");
            let is_right = match tree.get(&file) {
                Some(text) => !name.starts_with("LICENSE") || tree.get(name) == Some(text),
                None => false,
            };
            if !is_right {
                let rule = "a package without its licences, changelog and README";
                breaches.push(breach(rule, &format!("{folder}Cargo.toml"), 1, name));
            }
        }
    }
    for (file, text) in tree.iter() {
        let innermost = |folder: &&&str| file.starts_with(**folder);
        let of = folders.iter().filter(innermost).max_by_key(|folder| folder.len());
        if let Some(folder) = of.filter(|folder| is_packaged(tree, folder, file)) {
            outside(tree, folder, file, text, breaches);
        }
    }
    releasing(tree, &folders, breaches);
    untested(tree, breaches);
    actions(tree, breaches);
}

/// Returns the folders of the packages that are published, each with a slash at its end or empty.
fn published(tree: &Tree) -> impl Iterator<Item = &str> {
    let manifests = tree.ending("Cargo.toml").filter(|(_, text)| {
        let is_private =
            |line: &str| line == "publish = false" || line == "publish.workspace = true";
        text.contains("[package]") && !text.lines().any(is_private)
    });
    manifests.filter_map(|(file, _)| file.strip_suffix("Cargo.toml"))
}

/// Returns whether a file is in the package of a folder, by the `include` of its manifest.
fn is_packaged(tree: &Tree, folder: &str, file: &str) -> bool {
    let manifest = tree.get(&format!("{folder}Cargo.toml")).unwrap_or_default();
    let Some(list) = manifest.lines().find_map(|line| line.strip_prefix("include = ")) else {
        return true;
    };
    let inside = &file[folder.len()..];
    let matches = |pattern: &str| match pattern.split_once('*') {
        Some((before, "*")) => inside.starts_with(before),
        Some((before, after)) => {
            inside.starts_with(before) && inside.ends_with(after) && !inside.contains('/')
        }
        None => pattern == inside,
    };
    let patterns = list.split('"').skip(1).step_by(2);
    let mut without = patterns.clone().filter_map(|pattern| pattern.strip_prefix('!'));
    patterns.clone().any(matches) && !without.any(matches)
}

/// Checks that a file which names others outside of its package says where they are, no later than
/// in the paragraph that names the first. A name is a text between backquotes, and in code each
/// word that is the path of a file.
fn outside(tree: &Tree, folder: &str, file: &str, text: &str, breaches: &mut Vec<Breach>) {
    let mut is_said = false;
    let (mut paragraph, mut named) = (String::new(), None);
    for (number, line) in (1..).zip(text.lines().chain([""])) {
        let said = line.trim().trim_start_matches(['/', '!', '#']).trim();
        paragraph = format!("{paragraph} {}", said.to_lowercase());
        is_said |= paragraph.contains("in the repository");
        if said.is_empty() {
            paragraph.clear();
            if let Some((number, name)) = named.take().filter(|_| !is_said) {
                let rule = "a file of a package names one that is in the repository alone";
                breaches.push(breach(rule, file, number, name));
                return;
            }
        }
        let is_path = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        let words = line.split(|c| !is_path(c)).map(|word| word.trim_end_matches('.'));
        let words = words.filter(|word| word.contains('/') && tree.get(word).is_some());
        let words = words.filter(|_| !file.ends_with(".md"));
        let mut names = backquoted(line).map(|(_, name)| name).chain(words);
        named = named.or(names.find(|name| is_outside(tree, folder, name)).map(|it| (number, it)));
    }
}

/// Returns whether a name is that of a file or a folder outside of the package of a folder.
fn is_outside(tree: &Tree, folder: &str, name: &str) -> bool {
    let name = name.split(' ').next().unwrap_or(name);
    let below = |start: &str| {
        let paths = tree.iter().map(|(path, _)| path);
        let mut inside = paths.filter(|path| path.starts_with(start)).peekable();
        inside.peek()?;
        Some(inside.any(|path| path.starts_with(folder) && is_packaged(tree, folder, path)))
    };
    let is_own = || below(&format!("{folder}{name}")) == Some(true);
    name.contains('/') && below(name) == Some(false) && !is_own()
}

/// Checks that RELEASING.md lists the packages, each after its dependencies.
fn releasing(tree: &Tree, folders: &[&str], breaches: &mut Vec<Breach>) {
    let file = "RELEASING.md";
    let text = tree.get(file).unwrap_or_default();
    let listed = text.lines().filter_map(|line| line.split_once(". `")?.1.split('`').next());
    let listed = listed.collect::<Vec<_>>();
    let name_of = |folder: &str| {
        let manifest = tree.get(&format!("{folder}Cargo.toml")).unwrap_or_default();
        let line = manifest.split("[package]").nth(1)?.lines().find(|line| !line.is_empty())?;
        Some((line.strip_prefix("name = ")?.trim_matches('"').to_owned(), manifest))
    };
    let rule = "RELEASING.md does not list the packages in their order";
    for (name, manifest) in folders.iter().filter_map(|folder| name_of(folder)) {
        let Some(place) = listed.iter().position(|other| *other == name) else {
            breaches.push(breach(rule, file, 1, &name));
            continue;
        };
        let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for later in &listed[place + 1..] {
            let is_needed = |line: &str| {
                line.strip_prefix(later).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            };
            if normal.split("[dependencies]").skip(1).flat_map(str::lines).any(is_needed) {
                breaches.push(breach(rule, file, 1, &name));
            }
        }
    }
}

/// Checks that `ci/lib.sh` lists each crate with tests: the scripts go by its list.
fn untested(tree: &Tree, breaches: &mut Vec<Breach>) {
    let listed = tree.get("ci/lib.sh").unwrap_or_default();
    for (file, manifest) in
        tree.ending("Cargo.toml").filter(|(file, _)| file.starts_with("crates/"))
    {
        let folder = file.trim_end_matches("Cargo.toml");
        let is_test =
            |(path, text): (&str, &str)| path.starts_with(folder) && text.contains("#[test]");
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap_or_default().trim_matches('"');
        let is_listed = listed.split([' ', ')', '\n']).any(|word| word == name);
        if tree.iter().any(is_test) && !is_listed {
            breaches.push(breach("a crate whose tests no script runs", file, 1, name));
        }
    }
}

/// Checks that workflows name actions by the hash of a commit, because a tag can be moved.
fn actions(tree: &Tree, breaches: &mut Vec<Breach>) {
    for (file, text) in tree.iter().filter(|(file, _)| file.starts_with(".github/workflows/")) {
        for (number, line) in (1..).zip(text.lines()) {
            let Some((_, action)) = line.split_once("uses: ") else { continue };
            let hash = action.split(' ').next().and_then(|action| action.split('@').nth(1));
            let is_hash =
                |hash: &str| hash.len() == 40 && hash.chars().all(|c| c.is_ascii_hexdigit());
            if !hash.is_some_and(is_hash) {
                let rule = "an action that is not named by the hash of a commit";
                breaches.push(breach(rule, file, number, action));
            }
        }
    }
}
