//! The README's picture: where a timer costs more than tokio's, and where less.

use std::fmt::{Arguments, Write};

use crate::scenario::{ASYNC_IO, COLUMNS, OURS, Row, TOKIO};
use crate::table::number;

/// The rows it shows, and what it calls them.
const ROWS: [(&str, &str); 8] = [
    ("arm + cancel, 10 thousand pending", "arm and cancel a timeout"),
    ("arm + cancel on 2 threads", "the same on two threads"),
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
const FIGURES: f64 = 60.0;
const WIDTH: f64 = NAMES + BARS + FIGURES;
const HEAD: f64 = 74.0;
const LINE: f64 = 26.0;
/// The axis is logarithmic, and ends here.
const LEAST: f64 = 0.01;
const MOST: f64 = 10.0;

/// Legible on white and on black, since the ground is transparent.
const INK: &str = "#6e7781";
const FAINT: &str = "#8c959f";
const AHEAD: &str = "#2da44e";
const BEHIND: &str = "#cf6a1a";

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
    let height = end + 8.0;
    let mut picture = Picture::default();
    picture.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-size=\"13\" fill=\"{INK}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">"
    ));
    picture.head();
    for mark in [0.01, 0.1, 1.0, 10.0] {
        let width = if mark == 1.0 { 2.0 } else { 0.5 };
        picture.line(place(mark), HEAD - 4.0, end, width);
        let label = if mark == 1.0 { COLUMNS[TOKIO] } else { &format!("\u{d7} {mark}") };
        picture.text(place(mark), HEAD - 10.0, "middle", label);
    }
    for (index, (label, row, ratio)) in rows.iter().enumerate() {
        picture.row(HEAD + LINE * index as f64, label, row, *ratio);
    }
    picture.put(format_args!("</svg>"));
    picture.0
}

#[derive(Default)]
struct Picture(String);

impl Picture {
    fn put(&mut self, element: Arguments<'_>) {
        // Writing to a string does not fail.
        writeln!(self.0, "{element}").unwrap_or_default();
    }

    /// Title and legend.
    fn head(&mut self) {
        self.put(format_args!(
            "<text x=\"0\" y=\"18\" font-size=\"15\" font-weight=\"600\">\
             Cost as a multiple of tokio's: further left is better</text>"
        ));
        let y = 42.0;
        self.rect(0.0, y - 10.0, 20.0, AHEAD);
        self.text(26.0, y, "start", "ahead of tokio");
        self.rect(130.0, y - 10.0, 20.0, BEHIND);
        self.text(156.0, y, "start", "behind");
        self.ring(222.0, y - 4.0);
        self.text(232.0, y, "start", COLUMNS[ASYNC_IO]);
    }

    fn row(&mut self, y: f64, label: &str, row: &Row, ratio: f64) {
        let middle = y + LINE / 2.0;
        self.text(NAMES - 12.0, middle + 4.0, "end", label);
        let (ours, tokio) = (place(ratio), place(1.0));
        // Visible even where the two are equal.
        let width = (ours - tokio).abs().max(2.0);
        let colour = if ratio < 1.0 { AHEAD } else { BEHIND };
        self.rect(ours.min(tokio), middle - 6.0, width, colour);
        self.text(WIDTH, middle + 4.0, "end", &number(ratio));
        if let Some(other) = row.ratio(ASYNC_IO) {
            self.ring(place(other), middle);
        }
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, colour: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"12\" fill=\"{colour}\"/>"
        ));
    }

    fn line(&mut self, x: f64, top: f64, bottom: f64, width: f64) {
        self.put(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{FAINT}\" stroke-width=\"{width}\"/>"
        ));
    }

    fn ring(&mut self, x: f64, y: f64) {
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"{INK}\" \
             stroke-width=\"2\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }
}

fn place(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10();
    NAMES + BARS * share
}
