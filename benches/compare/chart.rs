//! The README's picture: where a timer costs more than tokio's, and where less.

use crate::picture::{GREEN, ORANGE, Picture, WIDTH, logarithmic};
use crate::scenario::{ASYNC_IO, COLUMNS, OURS, Row, TOKIO};
use crate::table::number;

/// The rows it shows, and what it calls them.
pub(crate) const ROWS: [(&str, &str); 9] = [
    ("arm + cancel, 10 thousand pending", "arm and cancel a timeout"),
    ("arm + cancel on 2 threads", "the same on two threads"),
    ("1 million armed, dropped in random order, each", "a million, dropped in random order"),
    ("armed here, dropped there", "arm here, cancel on another thread"),
    ("reset to later, 10 thousand", "move a deadline later"),
    ("1 million fire in 1 s, each", "fire a million timers"),
    ("200 thousand tokio tasks: per task", "wake 200 thousand tasks"),
    ("lateness of 1 ms: p50", "lateness of a 1 ms sleep"),
    ("1 million armed: allocated each", "memory for a timer"),
];

/// Parts of the picture from left to right, and the height of its lines.
const NAMES: f64 = 250.0;
const BARS: f64 = 420.0;
const HEAD: f64 = 74.0;
const LINE: f64 = 26.0;
/// The axis is logarithmic, and ends here.
const LEAST: f64 = 0.01;
const MOST: f64 = 10.0;

const AHEAD: &str = GREEN;
const BEHIND: &str = ORANGE;

/// A bar for each row, from tokio's cost to ours, and a ring for async-io's.
pub(crate) fn svg(rows: &[Row]) -> String {
    let rows: Vec<(&str, &Row, f64)> = ROWS
        .iter()
        .filter_map(|(name, label)| {
            let row = rows.iter().find(|row| row.name == *name)?;
            Some((*label, row, row.ratio(OURS)?))
        })
        .collect();
    let end = HEAD + LINE * rows.len() as f64;
    let title = "Cost as a multiple of tokio's: further left is better";
    let mut picture = Picture::new(end + 8.0, title);
    legend(&mut picture);
    for mark in [0.01, 0.1, 1.0, 10.0] {
        let width = if mark == 1.0 { 2.0 } else { 0.5 };
        picture.line((place(mark), HEAD - 4.0), (place(mark), end), width);
        let label = if mark == 1.0 { COLUMNS[TOKIO] } else { &format!("\u{d7} {mark}") };
        picture.text(place(mark), HEAD - 10.0, "middle", label);
    }
    for (index, (label, row, ratio)) in rows.iter().enumerate() {
        bar(&mut picture, HEAD + LINE * (index as f64 + 0.5), label, row, *ratio);
    }
    picture.svg()
}

fn legend(picture: &mut Picture) {
    let y = 42.0;
    picture.rect(0.0, y - 10.0, 20.0, AHEAD);
    picture.text(26.0, y, "start", "ahead of tokio");
    picture.rect(130.0, y - 10.0, 20.0, BEHIND);
    picture.text(156.0, y, "start", "behind");
    picture.ring(222.0, y - 4.0);
    picture.text(232.0, y, "start", COLUMNS[ASYNC_IO]);
}

fn bar(picture: &mut Picture, y: f64, label: &str, row: &Row, ratio: f64) {
    picture.text(NAMES - 12.0, y + 4.0, "end", label);
    let (ours, tokio) = (place(ratio), place(1.0));
    // Visible even where the two are equal.
    let width = (ours - tokio).abs().max(2.0);
    let colour = if ratio < 1.0 { AHEAD } else { BEHIND };
    picture.rect(ours.min(tokio), y - 6.0, width, colour);
    picture.text(WIDTH, y + 4.0, "end", &number(ratio));
    if let Some(other) = row.ratio(ASYNC_IO) {
        picture.ring(place(other), y);
    }
}

fn place(ratio: f64) -> f64 {
    NAMES + BARS * logarithmic(ratio, LEAST, MOST)
}
