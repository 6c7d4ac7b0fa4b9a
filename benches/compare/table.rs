//! The rows as a table.

use crate::scenario::{COLUMNS, Figure, OURS, Row, TOKIO};

/// A Markdown table that reads well as plain text, too. What did not repeat has a `~`.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let head = ["", "unit"].into_iter().chain(COLUMNS).chain(["ratio to tokio"]);
    let mut cells = vec![head.map(str::to_owned).collect::<Vec<_>>()];
    cells.extend(rows.iter().map(line));
    let widths: Vec<usize> = (0..cells[0].len())
        .map(|column| cells.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let rule = widths.iter().enumerate().map(|(column, width)| match column {
        0 | 1 => "-".repeat(*width),
        _ => format!("{}:", "-".repeat(width - 1)),
    });
    cells.insert(1, rule.collect());
    let pad = |line: &Vec<String>| {
        let padded = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
    };
    cells.iter().map(pad).collect::<Vec<_>>().join("\n")
}

fn line(row: &Row) -> Vec<String> {
    let cell = |repeats, figure| format!("{}{}", if repeats { "" } else { "~" }, number(figure));
    let figure = |figure: &Figure| cell(figure.repeats, figure.median);
    let figures = row.figures.iter().map(|own| own.as_ref().map_or(String::new(), figure));
    let repeat = [OURS, TOKIO]
        .iter()
        .all(|column| row.figures[*column].as_ref().is_none_or(|figure| figure.repeats));
    let mut line = vec![row.name.clone(), row.unit.to_owned()];
    line.extend(figures);
    line.push(row.ratio().map_or(String::new(), |ratio| cell(repeat, ratio)));
    line
}

/// Three digits that matter.
pub(crate) fn number(figure: f64) -> String {
    let size = figure.abs();
    let digits = match size {
        _ if figure == figure.round() => 0,
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    format!("{figure:.digits$}")
}
