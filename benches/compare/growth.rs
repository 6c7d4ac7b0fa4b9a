//! The second picture: how costs grow with timers, threads and shards.

use crate::picture::{FAINT, GREEN, INK, ORANGE, Picture, WIDTH, logarithmic};
use crate::scenario::{COLUMNS, Row};
use crate::suite::Series;

/// Parts of the picture.
const HEAD: f64 = 96.0;
const HEIGHT: f64 = 200.0;
const UNITS: f64 = 52.0;
/// Between panels, for the ends of their labels.
const GAP: f64 = 44.0;
const FOOT: f64 = 26.0;
/// End of the axis, in nanoseconds.
const LEAST: f64 = 10.0;
const MOST: f64 = 10_000.0;

/// Styles of all columns except `std`, because it has no timers: colour, width, dashes.
const STYLES: [(&str, f64, &str); 4] =
    [(GREEN, 3.5, ""), (ORANGE, 2.0, ""), (INK, 2.0, ""), (FAINT, 2.0, "4 4")];
const WITH_RINGS: usize = 2;

/// A panel for each series, with a line for each column.
pub(crate) fn svg(rows: &[Row], series: &[Series]) -> String {
    let mut picture = Picture::new(HEAD + HEIGHT + FOOT, "How costs grow: lower is better");
    let mut x = 0.0;
    for (column, (colour, width, dashes)) in STYLES.into_iter().enumerate() {
        picture.curve(&[(x, 38.0), (x + 24.0, 38.0)], colour, width, dashes);
        if column == WITH_RINGS {
            picture.ring(x + 12.0, 38.0);
        }
        picture.text(x + 30.0, 42.0, "start", COLUMNS[column]);
        x += 50.0 + 8.0 * COLUMNS[column].len() as f64;
    }
    for (figure, label) in [(10.0, "10 ns"), (100.0, "100 ns"), (1e3, "1 us"), (1e4, "10 us")] {
        picture.line((UNITS, height(figure)), (WIDTH, height(figure)), 0.5);
        picture.text(UNITS - 8.0, height(figure) + 4.0, "end", label);
    }
    let width = (WIDTH - UNITS) / series.len() as f64 - GAP;
    for (index, series) in series.iter().enumerate() {
        let left = UNITS + GAP / 2.0 + (width + GAP) * index as f64;
        panel(&mut picture, left, width, rows, series);
    }
    picture.svg()
}

fn panel(picture: &mut Picture, left: f64, width: f64, rows: &[Row], series: &Series) {
    picture.text(left, HEAD - 18.0, "start", series.label);
    let (least, most) =
        (series.points[0].0 as f64, series.points[series.points.len() - 1].0 as f64);
    let place = |number: usize| left + width * logarithmic(number as f64, least, most);
    for (number, _) in &series.points {
        picture.text(place(*number), HEAD + HEIGHT + 18.0, "middle", &short(*number));
    }
    for (column, (colour, width, dashes)) in STYLES.into_iter().enumerate() {
        let point = |(number, name): &(usize, String)| {
            let row = rows.iter().find(|row| row.name == *name)?;
            Some((place(*number), height(row.figures[column]?.median)))
        };
        let points: Vec<_> = series.points.iter().filter_map(point).collect();
        picture.curve(&points, colour, width, dashes);
        if column == WITH_RINGS {
            points.iter().for_each(|(x, y)| picture.ring(*x, *y));
        }
    }
}

fn height(figure: f64) -> f64 {
    HEAD + HEIGHT * (1.0 - logarithmic(figure, LEAST, MOST))
}

fn short(number: usize) -> String {
    match number {
        1_000_000.. => format!("{} M", number / 1_000_000),
        1_000.. => format!("{} k", number / 1_000),
        _ => number.to_string(),
    }
}
