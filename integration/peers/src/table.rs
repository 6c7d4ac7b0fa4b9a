//! The table of measurements: medians, and the best of each row.

use std::collections::BTreeMap;

use crate::Result;

/// Better direction of a row.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Better {
    More,
    Less,
    /// It follows from the settings.
    Neither,
}
use Better::{Less, More, Neither};

/// The rows in their order, with their names.
const ROWS: &[(&str, &str, Better)] = &[
    ("single", "inserted a second, one by one", More),
    ("callers", "the same by 64 callers", More),
    ("batch", "inserted a second, 1,000 at once", More),
    ("drain-default", "100,000 due at once, first example: ended a second", More),
    ("drain-one", "the same, one connection, fast settings", More),
    ("drain-fast", "the same, fast settings", More),
    ("drain-one-server-us", "server's processor, us a job of that, one connection", Less),
    ("drain-one-own-us", "worker's processor, us a job, one connection", Less),
    ("drain-one-wal", "WAL, bytes a job, one connection", Less),
    ("drain-one-calls", "statements a job, one connection", Less),
    ("drain-fast-server-us", "server's processor, us a job, fast settings", Less),
    ("drain-fast-own-us", "worker's processor, us a job, fast settings", Less),
    ("drain-fast-wal", "WAL, bytes a job, fast settings", Less),
    ("drain-fast-calls", "statements a job, fast settings", Less),
    ("late-default-p50", "1,000 a second, first example: p50 late, ms", Less),
    ("late-default-p99", "p99 late, ms", Less),
    ("late-fast-p50", "1,000 a second, fast settings: p50 late, ms", Less),
    ("late-fast-p99", "p99 late, ms", Less),
    ("late-default-early", "of 10,000 early, first example", Less),
    ("late-fast-early", "of 10,000 early, fast settings", Less),
    ("late-fast-server-us", "server's processor, us a job", Less),
    ("late-fast-own-us", "worker's processor, us a job", Less),
    ("late-fast-wal", "WAL, bytes a job", Less),
    ("late-fast-calls", "statements a job", Less),
    ("takeover", "killed worker's jobs started anew, s", Neither),
    ("idle-default", "statements a second of an idle worker, first example", Less),
    ("idle-fast", "the same, fast settings", Less),
    ("make", "made a second, by 64 callers", More),
    ("read", "read a second, by 64 callers", More),
    ("burst-rate", "10,000 due at once: callbacks a second", More),
    ("burst-own-us", "processor of what calls back, us a callback", Less),
    ("paced-p50", "1,000 a second: p50 late at the receiver, ms", Less),
    ("paced-p99", "p99 late, ms", Less),
    ("paced-early", "of 10,000 early", Less),
    ("paced-own-us", "processor of what calls back, us a callback", Less),
];

/// Prints the table of a file of `SYSTEM ROW VALUE` lines.
pub(crate) fn print(file: &str) -> Result<()> {
    print!("{}", table(&std::fs::read_to_string(file)?)?);
    Ok(())
}

fn table(text: &str) -> Result<String> {
    let mut systems: Vec<&str> = Vec::new();
    let mut values: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for line in text.lines() {
        let [system, row, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("`{line}` is no result").into());
        };
        if !ROWS.iter().any(|(name, ..)| *name == row) {
            return Err(format!("no row `{row}`").into());
        }
        if !systems.contains(&system) {
            systems.push(system);
        }
        values.entry((row, system)).or_default().push(value);
    }
    let mut lines =
        format!("| | {} |\n|---|{}\n", systems.join(" | "), "---|".repeat(systems.len()));
    for (row, title, better) in ROWS {
        let cells: Vec<_> = systems
            .iter()
            .map(|system| values.get(&(*row, *system)).map_or(Cell::None, |all| Cell::of(all)))
            .collect();
        if cells.iter().all(|cell| matches!(cell, Cell::None)) {
            continue;
        }
        let medians = cells.iter().filter_map(Cell::median);
        let best = match better {
            More => medians.reduce(f64::max),
            Less => medians.reduce(f64::min),
            Neither => None,
        };
        let texts: Vec<_> = cells.iter().map(|cell| cell.text(best)).collect();
        lines += &format!("| {title} | {} |\n", texts.join(" | "));
    }
    Ok(lines)
}

/// Figures of a row of a system.
enum Cell {
    None,
    /// At least one run came to no end.
    Unfinished,
    /// All figures, in order.
    Figures(Vec<f64>),
}

impl Cell {
    fn of(values: &[&str]) -> Self {
        let figures: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
        figures.map_or(Self::Unfinished, |mut figures| {
            figures.sort_unstable_by(f64::total_cmp);
            Self::Figures(figures)
        })
    }

    fn median(&self) -> Option<f64> {
        match self {
            Self::Figures(figures) => Some(figures[figures.len() / 2]),
            Self::None | Self::Unfinished => None,
        }
    }

    /// The median, in bold if it is the best, with the least and the greatest.
    fn text(&self, best: Option<f64>) -> String {
        match self {
            Self::None => String::new(),
            Self::Unfinished => "not done".into(),
            Self::Figures(figures) => {
                let median = figures[figures.len() / 2];
                let mark = if Some(median) == best { "**" } else { "" };
                let (least, greatest) = (figures[0], figures[figures.len() - 1]);
                let spread = match (short(least), short(greatest)) {
                    (least, greatest) if least == greatest => String::new(),
                    (least, greatest) => format!(" ({least}-{greatest})"),
                };
                format!("{mark}{}{mark}{spread}", short(median))
            }
        }
    }
}

/// The figure with three digits or so, and its thousands with a comma.
fn short(figure: f64) -> String {
    if figure == 0.0 {
        return "0".into();
    }
    if figure < 0.1 {
        return format!("{figure:.4}");
    }
    if figure < 10.0 {
        return format!("{figure:.2}");
    }
    if figure < 100.0 {
        return format!("{figure:.1}");
    }
    let digits = format!("{figure:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_row_has_medians_their_spread_and_its_best() {
        let text = "a\tsingle\t900\na\tsingle\t1200\na\tsingle\t1000\nb\tsingle\t0.0125\n\
                    a\ttakeover\t16.25\nb\ttakeover\tunfinished\n";
        let wanted = "\
            | | a | b |\n\
            |---|---|---|\n\
            | inserted a second, one by one | **1,000** (900-1,200) | 0.0125 |\n\
            | killed worker's jobs started anew, s | 16.2 | not done |\n";
        assert_eq!(table(text).unwrap(), wanted);
    }

    #[test]
    fn a_line_that_is_no_result_is_refused() {
        assert!(table("a single 900").is_err());
        assert!(table("a\tno-such-row\t900").is_err());
    }
}
