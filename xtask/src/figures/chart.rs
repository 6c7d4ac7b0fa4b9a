//! The README's picture: where a timer costs more than tokio's, and where less.

use std::fmt::{Arguments, Write};

use super::{PEERS, Row, Run, value};

/// Rows it shows: their names in the kept runs, and in the picture.
const ROWS: [(&str, &str); 12] = [
    ("arm + cancel, 10 thousand pending", "arm and cancel a timeout"),
    ("arm + cancel on 2 threads", "the same on two threads"),
    ("1 million armed, dropped in random order, each", "a million, dropped in random order"),
    ("armed here, dropped there", "arm here, cancel on another thread"),
    ("reset to later, 10 thousand", "move a deadline later"),
    ("1 million fire in 1 s, each", "fire a million timers"),
    ("200 thousand tokio tasks: per task", "wake 200 thousand tasks"),
    ("a tick of 1 thousand intervals of 1 ms", "tick of a thousand 1 ms intervals"),
    ("a round of 1 thousand loops of 10 ms", "round of a thousand 10 ms loops"),
    ("lateness of 1 ms: p50", "lateness of a 1 ms sleep"),
    ("1 million armed: allocated each", "memory for a timer"),
    ("1 million in boxes, 1 in 256 left: resident", "memory after a burst"),
];

/// Parts of the picture from left to right, and the height of its lines and bars.
const NAMES: f64 = 262.0;
const BARS: f64 = 385.0;
const HEAD: f64 = 74.0;
const LINE: f64 = 28.0;
const BAR: f64 = 9.0;
/// The axis is logarithmic, and ends here.
const LEAST: f64 = 0.01;
const MOST: f64 = 10.0;

const WIDTH: f64 = 730.0;
/// Legible on white and on black, since the ground is transparent.
const INK: &str = "#6e7781";
const FAINT: &str = "#8c959f";
const AHEAD: &str = "#2da44e";
const BEHIND: &str = "#cf6a1a";

/// Draws for each row, and each run in it, a bar from tokio's cost to ours, and a ring for
/// async-io's.
pub fn svg(runs: &[Run<'_>]) -> Result<String, String> {
    let end = HEAD + LINE * ROWS.len() as f64;
    let title = "Cost as a multiple of tokio's: further left is better";
    let mut picture = Picture::new(end + 8.0, title);
    legend(&mut picture, runs);
    for mark in [0.01, 0.1, 1.0, 10.0] {
        let width = if mark == 1.0 { 2.0 } else { 0.5 };
        picture.line((place(mark), HEAD - 4.0), (place(mark), end), FAINT, width);
        let label = if mark == 1.0 { PEERS[0] } else { &format!("\u{d7} {mark}") };
        picture.text(place(mark), HEAD - 10.0, "middle", label);
    }
    for (index, (kept, label)) in ROWS.iter().enumerate() {
        let middle = HEAD + LINE * (index as f64 + 0.5);
        let rows: Vec<_> = runs.iter().filter_map(|run| run.row(kept)).collect();
        let mut ratios = Vec::new();
        for (index, row) in rows.iter().enumerate() {
            let y = middle + BAR * (index as f64 - (rows.len() - 1) as f64 / 2.0);
            let ratio = value(row.ratio).ok_or_else(|| format!("tokio has no row {kept}"))?;
            ratios.push(row.ratio.trim_start_matches('~'));
            bar(&mut picture, y, row, ratio);
        }
        if ratios.is_empty() {
            return Err(format!("no kept run has a row {kept}"));
        }
        picture.text(NAMES - 12.0, middle + 4.0, "end", label);
        picture.text(WIDTH, middle + 4.0, "end", &ratios.join(", "));
    }
    Ok(picture.svg())
}

fn legend(picture: &mut Picture, runs: &[Run<'_>]) {
    let y = 42.0;
    picture.line((0.0, y - 4.0), (20.0, y - 4.0), AHEAD, BAR);
    picture.text(26.0, y, "start", "ahead of tokio");
    picture.line((130.0, y - 4.0), (150.0, y - 4.0), BEHIND, BAR);
    picture.text(156.0, y, "start", "behind");
    picture.ring(222.0, y - 4.0);
    picture.text(232.0, y, "start", PEERS[1]);
    let is_shown = |run: &&Run<'_>| ROWS.iter().any(|(kept, _)| run.row(kept).is_some());
    let names: Vec<_> = runs.iter().filter(is_shown).map(|run| run.machine).collect();
    let order = format!("machines {}, from top to bottom", names.join(", "));
    picture.text(WIDTH, y, "end", &order);
}

fn bar(picture: &mut Picture, y: f64, row: &Row<'_>, ours: f64) {
    let colour = if ours < 1.0 { AHEAD } else { BEHIND };
    let (from, to) = (place(ours.min(1.0)), place(ours.max(1.0)));
    // Visible even where the two are equal.
    picture.line((from, y), (to.max(from + 2.0), y), colour, BAR - 1.0);
    if let (Some(other), Some(tokio)) = (value(row.peers[1]), value(row.peers[0])) {
        picture.ring(place(other / tokio), y);
    }
}

fn place(ratio: f64) -> f64 {
    NAMES + BARS * ((ratio.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10())
}

/// A picture as SVG.
struct Picture(String);

impl Picture {
    fn new(height: f64, title: &str) -> Self {
        let mut picture = Self(String::new());
        picture.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-size=\"13\" fill=\"{INK}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n\
             <text x=\"0\" y=\"18\" font-size=\"15\" font-weight=\"600\">{title}</text>"
        ));
        picture
    }

    fn svg(mut self) -> String {
        self.put(format_args!("</svg>"));
        self.0
    }

    fn put(&mut self, element: Arguments<'_>) {
        // Writing to a string does not fail.
        writeln!(self.0, "{element}").unwrap_or_default();
    }

    /// Upright or level.
    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
             stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, to.0, from.1, to.1
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
