//! Rules on locks: the table of `fork.rs` says for each how a child of `fork` treats it.

use std::collections::BTreeSet;

use super::source::Source;
use super::{Breach, breach};
use crate::tree::Tree;

/// File with the table.
const TABLE: &str = "src/fork.rs";

/// Types that threads wait for, or that hold a value of one process.
const LOCKS: [&str; 8] =
    ["Condvar", "Lock", "Mutex", "PerProcess", "RwLock", "SetOnce", "Signal", "Waiters"];

/// Checks that each lock of the core has a row, and each row a lock.
pub fn check(tree: &Tree, sources: &[Source], breaches: &mut Vec<Breach>) {
    let rows = rows(tree.get(TABLE).unwrap_or_default());
    let mut locks = BTreeSet::new();
    for source in sources {
        let Some(file) = source.file.strip_prefix("src/") else { continue };
        // The locks themselves.
        if file == "sync.rs" || file.starts_with("sync/") {
            continue;
        }
        for place in &source.places {
            let is_lock = place.types.iter().any(|name| LOCKS.contains(&name.as_str()));
            if !is_lock || place.is_reference {
                continue;
            }
            let lock = (file.to_owned(), place.name.clone());
            if !rows.iter().any(|(row, _)| *row == lock) {
                let rule = "a lock has no row in the table of fork.rs";
                breaches.push(breach(rule, &source.file, place.line, &place.name));
            }
            locks.insert(lock);
        }
    }
    for ((file, name), line) in rows {
        if !locks.contains(&(file.clone(), name.clone())) {
            let rule = "a row of the table of fork.rs names no lock";
            breaches.push(breach(rule, TABLE, line, &format!("{file} {name}")));
        }
    }
}

/// Returns the file and the name of each lock that the table has, with its line.
fn rows(text: &str) -> Vec<((String, String), usize)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(row) = line.strip_prefix("//! | `") else { continue };
        let mut cells = row.split('|').map(|cell| cell.trim().trim_matches('`'));
        let (Some(file), Some(names)) = (cells.next(), cells.next()) else { continue };
        for name in names.split([':', ',']).map(|name| name.trim().trim_matches('`')) {
            found.push(((file.to_owned(), name.to_owned()), number));
        }
    }
    found
}
