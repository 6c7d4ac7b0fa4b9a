//! Strokes that the pictures are drawn with.

use std::fmt::{Arguments, Write};

pub(crate) const WIDTH: f64 = 730.0;

/// Legible on white and on black, since the ground is transparent.
pub(crate) const INK: &str = "#6e7781";
pub(crate) const FAINT: &str = "#8c959f";
pub(crate) const GREEN: &str = "#2da44e";
pub(crate) const ORANGE: &str = "#cf6a1a";

/// A picture as SVG.
pub(crate) struct Picture(String);

impl Picture {
    pub(crate) fn new(height: f64, title: &str) -> Self {
        let mut picture = Self(String::new());
        picture.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-size=\"13\" fill=\"{INK}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">"
        ));
        picture.put(format_args!(
            "<text x=\"0\" y=\"18\" font-size=\"15\" font-weight=\"600\">{title}</text>"
        ));
        picture
    }

    pub(crate) fn svg(mut self) -> String {
        self.put(format_args!("</svg>"));
        self.0
    }

    fn put(&mut self, element: Arguments<'_>) {
        // Writing to a string does not fail.
        writeln!(self.0, "{element}").unwrap_or_default();
    }

    /// Upright or level.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), width: f64) {
        self.put(format_args!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" \
             stroke=\"{FAINT}\" stroke-width=\"{width}\"/>",
            from.0, to.0, from.1, to.1
        ));
    }

    /// Through points; dashes as SVG has them.
    pub(crate) fn curve(&mut self, points: &[(f64, f64)], colour: &str, width: f64, dashes: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\" stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        ));
    }

    pub(crate) fn ring(&mut self, x: f64, y: f64) {
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"none\" stroke=\"{INK}\" \
             stroke-width=\"2\"/>"
        ));
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }
}

/// Returns the place of a figure on an axis of length 1, from `least` to `most` in equal ratios.
pub(crate) fn logarithmic(figure: f64, least: f64, most: f64) -> f64 {
    (figure.clamp(least, most) / least).log10() / (most / least).log10()
}
