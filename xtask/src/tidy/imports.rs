//! Rules on the names that a file may use, and on its functions.

use std::collections::HashSet;

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
        let is_long = |(name, _): &&(String, usize)| !of.long_functions.contains(&(inside, name));
        for (name, line) in source.long_functions.iter().filter(is_long) {
            breaches.push(breach("functions of more than 50 lines", &source.file, *line, name));
        }
    }
    circles(of, sources, breaches);
}

/// Finds modules side by side that import each other, directly or through others. A module and
/// those inside it are one.
fn circles(of: &Crate, sources: &[Source], breaches: &mut Vec<Breach>) {
    let modules = sources.iter().map(|source| &*source.module).collect::<HashSet<_>>();
    let mut imports = Vec::new();
    for Source { file, module, paths, .. } in sources {
        for (path, line) in paths.iter().filter(|(path, _)| path[0] == "crate") {
            let apart = module.iter().zip(&path[1..]).take_while(|(own, used)| own == used).count();
            let ends = module.get(..=apart).zip(path[1..].get(..=apart));
            let Some((own, used)) = ends.filter(|(_, used)| modules.contains(used)) else {
                continue;
            };
            // At the root the layers are the rule, if there are any.
            let is_layered = apart == 0 && !of.layers.is_empty();
            if !is_layered && !of.upward.contains(&(&own.join("::"), &used.join("::"))) {
                let rule = "modules that import each other in a circle";
                imports.push((own, used, breach(rule, file, *line, &path.join("::"))));
            }
        }
    }
    // An import of a module that is in no circle, or by one, is in none.
    loop {
        let before = imports.len();
        let (importing, imported): (HashSet<_>, HashSet<_>) =
            imports.iter().map(|(own, used, _)| (*own, *used)).unzip();
        imports.retain(|(own, used, _)| imported.contains(own) && importing.contains(used));
        if imports.len() == before {
            return breaches.extend(imports.into_iter().map(|(.., found)| found));
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
