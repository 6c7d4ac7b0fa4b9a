//! Rules on the names that a file may use.

use super::crates::Crate;
use super::source::Source;
use super::{Breach, breach};

/// Checks the paths of a crate's code.
pub fn check(of: &Crate, sources: &[Source], breaches: &mut Vec<Breach>) {
    for source in sources {
        let inside = source.file.strip_prefix(of.folder).unwrap_or(&source.file);
        for (path, line) in &source.paths {
            for reserved in of.reserved {
                if reserved.names(path) && !reserved.allows(inside) {
                    breaches.push(breach(reserved.rule, &source.file, *line, &path.join("::")));
                }
            }
            // A file of another folder that a module includes has no layer.
            let is_own = source.file.starts_with(of.folder);
            if let Some(rule) = wrong_way(of, of.module_of(&source.file), path).filter(|_| is_own) {
                breaches.push(breach(rule, &source.file, *line, &path.join("::")));
            }
        }
        if !of.unsafe_files.contains(&inside) {
            let rule = "unsafe code outside the files that may have it";
            let lines = source.unsafe_lines.iter();
            breaches.extend(lines.map(|line| breach(rule, &source.file, *line, "unsafe")));
        }
    }
}

/// Returns the rule that a path breaks by where it leads from a module.
fn wrong_way(of: &Crate, module: &str, path: &[String]) -> Option<&'static str> {
    let [first, used, ..] = path else { return None };
    if first != "crate" || of.layers.is_empty() {
        return None;
    }
    let rank = |name: &str| of.layers.iter().position(|layer| *layer == name);
    let Some(from) = rank(module) else { return Some("a module without a layer") };
    match rank(used) {
        None if from > 0 => Some("imports from the root, which hide the layer"),
        Some(to) if to < from && !of.upward.contains(&(module, used.as_str())) => {
            Some("imports that point up")
        }
        _ => None,
    }
}
