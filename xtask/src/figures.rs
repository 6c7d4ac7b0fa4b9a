//! Figures in documents, written from the kept run of the comparison.

use std::fmt::Write as _;

use crate::tree::Tree;

/// Document with the kept run.
const RESULTS: &str = "benches/RESULTS.md";

/// Rows of the README's table: their names there, and in the kept run.
const SHOWN: &[(&str, &str)] = &[
    ("arm + cancel among 10 thousand, ns", "arm + cancel, 10 thousand pending"),
    ("the same from 2 threads, ns", "arm + cancel on 2 threads"),
    ("reset to later, ns", "reset to later, 10 thousand"),
    (
        "a million armed, and dropped in random order, ns each",
        "1 million armed, dropped in random order, each",
    ),
    ("a million fire within a second, ns of processor each", "1 million fire in 1 s, each"),
    (
        "meanwhile, an arm + cancel elsewhere, p99.9, us",
        "1 million fire beside an inserter: insert p99.9",
    ),
    ("200 thousand tokio tasks sleep, ns of processor each", "200 thousand tokio tasks: per task"),
    ("lateness of a 1 ms sleep, p50, us", "lateness of 1 ms: p50"),
    ("bytes allocated per armed timer, future included", "1 million armed: allocated each"),
];

/// Names of the columns with a peer.
const PEERS: [&str; 3] = ["tokio", "async-io", "futures-timer"];

/// A row of the kept run.
struct Row<'a> {
    name: &'a str,
    unit: &'a str,
    ours: &'a str,
    peers: [&'a str; 3],
}

impl Row<'_> {
    /// Returns the peers whose figure is lower than ours.
    fn ahead(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ours = value(self.ours);
        let peers = PEERS.into_iter().zip(self.peers);
        peers.filter(move |(_, theirs)| value(theirs).zip(ours).is_some_and(|(a, b)| a < b))
    }
}

/// Returns each document that has figures, with them written as the kept run has them.
pub fn written(tree: &Tree) -> Result<Vec<(&'static str, String)>, String> {
    let results = tree.get(RESULTS).ok_or("there is no kept run")?;
    let rows = rows(results);
    let readme = tree.get("README.md").ok_or("there is no README.md")?;
    let readme = replaced(readme, "rows", &shown(&rows)?)?;
    let readme = replaced(&readme, "count", &count(&rows))?;
    let results = replaced(results, "ahead", &ahead(&rows))?;
    Ok(vec![("README.md", readme), (RESULTS, results)])
}

/// Returns the rows of the largest table.
fn rows(results: &str) -> Vec<Row<'_>> {
    let cells = results.lines().filter_map(|line| {
        let cells = line.strip_prefix('|')?.split('|').map(str::trim).collect::<Vec<_>>();
        let [name, unit, ours, tokio, async_io, futures_timer, ..] = cells[..] else { return None };
        let is_row = value(ours).is_some() && cells.len() > 8;
        is_row.then_some(Row { name, unit, ours, peers: [tokio, async_io, futures_timer] })
    });
    cells.collect()
}

/// Returns a figure. A `~` before it says that it does not repeat.
fn value(text: &str) -> Option<f64> {
    text.trim_start_matches('~').parse().ok()
}

/// Returns the README's table.
fn shown(rows: &[Row<'_>]) -> Result<String, String> {
    let mut text = "| | tourbillon | tokio 1.54 | async-io 2.6 | futures-timer 3.0 |\n".to_owned();
    text += "|---|---:|---:|---:|---:|\n";
    for (name, kept) in SHOWN {
        let row = rows.iter().find(|row| row.name == *kept);
        let row = row.ok_or_else(|| format!("{RESULTS} has no row {kept}"))?;
        let [tokio, async_io, futures_timer] = row.peers;
        let _ =
            writeln!(text, "| {name} | {} | {tokio} | {async_io} | {futures_timer} |", row.ours);
    }
    Ok(text)
}

/// Returns a sentence on how many rows a peer is ahead in.
fn count(rows: &[Row<'_>]) -> String {
    let compared = rows.iter().filter(|row| row.peers.iter().any(|cell| value(cell).is_some()));
    let any = rows.iter().filter(|row| row.ahead().next().is_some()).count();
    let tokio = rows.iter().filter(|row| row.ahead().any(|(name, _)| name == "tokio")).count();
    format!(
        "Of {} rows with a peer, another crate has the lower figure in {any}, and tokio in \
         {tokio}.\n",
        compared.count()
    )
}

/// Returns a table of the rows in which a peer is ahead.
fn ahead(rows: &[Row<'_>]) -> String {
    let mut text = "| | unit | tourbillon | ahead |\n|---|---|---:|---|\n".to_owned();
    for row in rows {
        let peers = row.ahead().map(|(name, figure)| format!("{name} {figure}"));
        let peers = peers.collect::<Vec<_>>().join(", ");
        if !peers.is_empty() {
            let _ = writeln!(text, "| {} | {} | {} | {peers} |", row.name, row.unit, row.ours);
        }
    }
    text
}

/// Replaces what stands between the marks of a name.
fn replaced(document: &str, name: &str, text: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- figures: {name} -->\n"), "<!-- end of figures -->");
    let missing = || format!("the marks of the figures `{name}` are missing");
    let (before, rest) = document.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}
