//! The ratios to tokio as a picture.

use std::fmt::Write;

use crate::scenario::{ASYNC_IO, COLUMNS, Goal, OURS, Row, TOKIO};
use crate::table::number;

const NAMES: f64 = 300.0;
const BARS: f64 = 480.0;
const FIGURES: f64 = 60.0;
const LINE: f64 = 22.0;
const HEAD: f64 = 64.0;
/// The axis is logarithmic, and what lies beyond either end is drawn there.
const LEAST: f64 = 0.001;
const MOST: f64 = 10.0;

const INK: &str = "#24292f";
const FAINT: &str = "#d0d7de";
const MET: &str = "#2f7d4f";
const NOT_MET: &str = "#c0702a";
const OTHERS: &str = "#6e7781";

/// A bar for each row that tokio has a figure in, a tick at the goal, and dots for the others.
pub(crate) fn svg(rows: &[Row]) -> String {
    let rows: Vec<(&Row, f64)> =
        rows.iter().filter_map(|row| row.ratio(OURS).map(|ratio| (row, ratio))).collect();
    let (width, height) = (NAMES + BARS + FIGURES, HEAD + LINE * rows.len() as f64 + 12.0);
    let mut out = String::new();
    // Writing to a string does not fail.
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(out, "{line}").unwrap_or_default();
    put(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"{INK}\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"600\">{} against tokio: \
         what it costs, shorter is better</text>\n\
         <text x=\"12\" y=\"42\" fill=\"{OTHERS}\">bar: ratio to tokio (log scale), green where \
         the goal is met; line: goal; ring: {}</text>",
        COLUMNS[OURS], COLUMNS[ASYNC_IO],
    ));
    for mark in [0.001, 0.01, 0.1, 1.0, 10.0] {
        let (x, colour) = (place(mark), if mark == 1.0 { INK } else { FAINT });
        put(format_args!(
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{HEAD}\" y2=\"{:.1}\" stroke=\"{colour}\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{OTHERS}\">{mark}</text>",
            height - 8.0,
            HEAD - 6.0,
        ));
    }
    for (index, (row, ratio)) in rows.iter().enumerate() {
        let y = HEAD + LINE * index as f64;
        let middle = y + LINE / 2.0;
        let missed = row.metric.goals.iter().any(|goal| row.meets(*goal) == Some(false));
        let colour = if missed { NOT_MET } else { MET };
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
             <rect x=\"{NAMES}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 10.0,
            middle + 4.0,
            escape(&row.name),
            y + 4.0,
            place(*ratio) - NAMES,
            LINE - 8.0,
            NAMES + BARS + 10.0,
            middle + 4.0,
            number(*ratio),
        ));
        if let Some(other) = row.ratio(ASYNC_IO) {
            put(format_args!(
                "<circle cx=\"{:.1}\" cy=\"{middle:.1}\" r=\"3.5\" fill=\"#ffffff\" \
                 stroke=\"{OTHERS}\" stroke-width=\"1.5\"/>",
                place(other),
            ));
        }
        for goal in row.metric.goals {
            if let Goal::Of(TOKIO, times) = goal {
                let x = place(*times);
                put(format_args!(
                    "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
                     stroke=\"{INK}\" stroke-width=\"2\"/>",
                    y + 1.0,
                    y + LINE - 1.0,
                ));
            }
        }
    }
    put(format_args!("</svg>"));
    out
}

fn place(ratio: f64) -> f64 {
    let share = (ratio.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10();
    NAMES + BARS * share
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
