//! The ratios to tokio as a picture.

use std::fmt::{Arguments, Write};

use crate::scenario::{ASYNC_IO, COLUMNS, Goal, OURS, Row, TOKIO};
use crate::table::number;

/// Of the picture's parts, from left to right...
const NAMES: f64 = 350.0;
const BARS: f64 = 480.0;
const FIGURES: f64 = 70.0;
const WIDTH: f64 = NAMES + BARS + FIGURES;
/// ...and from top to bottom.
const HEAD: f64 = 96.0;
const LINE: f64 = 22.0;
const FOOT: f64 = 14.0;
/// The axis is logarithmic, and what lies beyond either end is drawn there.
const LEAST: f64 = 0.001;
const MOST: f64 = 10.0;

const INK: &str = "#24292f";
const FAINT: &str = "#d0d7de";
const STRIPE: &str = "#f6f8fa";
const MET: &str = "#2f7d4f";
const MISSED: &str = "#c0702a";
const NO_GOAL: &str = "#8fa3b8";
const SOFT: &str = "#57606a";

/// A bar for each row that tokio has a figure in, from tokio's to ours; a tick at the goal, and a
/// ring for async-io.
pub(crate) fn svg(rows: &[Row]) -> String {
    let rows: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| row.ratio(OURS).map(|ratio| (row, ratio))).collect();
    let end = HEAD + LINE * rows.len() as f64;
    let mut picture = Picture::default();
    picture.put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" font-size=\"12\" fill=\"{INK}\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">",
        height = end + FOOT,
    ));
    picture.rect(0.0, 0.0, WIDTH, end + FOOT, "#ffffff");
    picture.head();
    for index in (0..rows.len()).step_by(2) {
        picture.rect(0.0, HEAD + LINE * index as f64, WIDTH, LINE, STRIPE);
    }
    for mark in [0.001, 0.01, 0.1, 1.0, 10.0] {
        let (x, colour) = (place(mark), if mark == 1.0 { INK } else { FAINT });
        picture.line(x, HEAD, end + 4.0, colour, 1.0);
        let label = if mark == 1.0 { "as tokio".to_owned() } else { format!("\u{d7} {mark}") };
        picture.text(x, HEAD - 8.0, "middle", SOFT, &label);
    }
    for (index, (row, ratio)) in rows.iter().enumerate() {
        picture.row(HEAD + LINE * index as f64, row, *ratio);
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
            "<text x=\"14\" y=\"26\" font-size=\"16\" font-weight=\"600\">\
             {}: cost as a multiple of tokio's, further left is better</text>",
            COLUMNS[OURS],
        ));
        let y = 50.0;
        let mut x = 14.0;
        for (colour, label, width) in
            [(MET, "goal met", 108.0), (MISSED, "goal missed", 126.0), (NO_GOAL, "no goal", 102.0)]
        {
            self.rect(x, y - 10.0, 22.0, 12.0, colour);
            self.text(x + 28.0, y, "start", INK, label);
            x += width;
        }
        self.line(x, y - 12.0, y + 4.0, INK, 2.5);
        self.text(x + 8.0, y, "start", INK, "goal");
        self.ring(x + 64.0, y - 4.0);
        self.text(x + 74.0, y, "start", INK, COLUMNS[ASYNC_IO]);
        self.text(WIDTH - 14.0, HEAD - 8.0, "end", SOFT, "ratio");
    }

    fn row(&mut self, y: f64, row: &Row, ratio: f64) {
        let middle = y + LINE / 2.0;
        let goals = row.metric.goals;
        let missed = goals.iter().any(|goal| row.meets(*goal) == Some(false));
        let met = goals.iter().any(|goal| row.meets(*goal) == Some(true));
        let colour = match (missed, met) {
            (true, _) => MISSED,
            (false, true) => MET,
            (false, false) => NO_GOAL,
        };
        self.text(NAMES - 12.0, middle + 4.0, "end", INK, &row.name);
        let (ours, tokio) = (place(ratio), place(1.0));
        // Seen even where the two are equal.
        let width = (ours - tokio).abs().max(2.0);
        self.rect(ours.min(tokio), y + 5.0, width, LINE - 10.0, colour);
        self.text(WIDTH - 14.0, middle + 4.0, "end", INK, &number(ratio));
        if let Some(other) = row.ratio(ASYNC_IO) {
            self.ring(place(other), middle);
        }
        for goal in goals {
            let goal = match goal {
                Goal::Of(TOKIO, times) => Some(*times),
                Goal::Of(..) => None,
                Goal::Figure(figure) => row.figures[TOKIO].map(|tokio| figure / tokio),
            };
            if let Some(goal) = goal {
                self.line(place(goal), y + 2.0, y + LINE - 2.0, INK, 2.5);
            }
        }
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        ));
    }

    fn line(&mut self, x: f64, top: f64, bottom: f64, colour: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" \
             stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        ));
    }

    fn ring(&mut self, x: f64, y: f64) {
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"#ffffff\" \
             stroke=\"{SOFT}\" stroke-width=\"1.5\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">\
             {}</text>",
            escape(text),
        ));
    }
}

fn place(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10();
    NAMES + BARS * share
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
