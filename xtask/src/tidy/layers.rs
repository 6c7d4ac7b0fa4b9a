//! Documents that draw the order of a crate's modules draw the checked order.

use super::crates::Crate;
use super::documents::backquoted;
use super::{Breach, breach};
use crate::tree::Tree;

/// Checks a crate's drawing: the first fenced block of names with arrows between them.
///
/// Its names are in the order of the layers. A layer that it leaves out is named in the text.
pub fn check(of: &Crate, tree: &Tree, breaches: &mut Vec<Breach>) {
    let Some(document) = of.drawn_in else { return };
    let text = tree.get(document).unwrap_or_default();
    let (line, drawn) = drawing(text).unwrap_or_default();
    let mut report = |found: &str| {
        let rule = "a drawing of layers that are others";
        breaches.push(breach(rule, document, line, found));
    };
    let mut below = 0;
    for name in &drawn {
        match of.layers.iter().position(|layer| layer == name) {
            Some(place) if place >= below => below = place + 1,
            _ => report(name),
        }
    }
    let named = text.lines().flat_map(backquoted).map(|(_, name)| name).collect::<Vec<_>>();
    let is_root =
        |layer: &&str| of.roots.iter().any(|root| root.strip_suffix(".rs") == Some(layer));
    for layer in of.layers.iter().filter(|layer| !is_root(layer)) {
        if !drawn.contains(layer) && !named.contains(layer) {
            report(layer);
        }
    }
}

/// Returns the names of the first block that has nothing but names and arrows, and its first line.
fn drawing(text: &str) -> Option<(usize, Vec<&str>)> {
    let mut from = 1;
    for (place, block) in text.split("\n```").enumerate() {
        let words = block.lines().skip(1).flat_map(str::split_whitespace).collect::<Vec<_>>();
        let is_name = |word: &&str| {
            let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            **word == *"->" || word.chars().all(is_part)
        };
        if place % 2 == 1 && words.contains(&"->") && words.iter().all(is_name) {
            return Some((from + 1, words.into_iter().filter(|word| *word != "->").collect()));
        }
        from += block.lines().count();
    }
    None
}
