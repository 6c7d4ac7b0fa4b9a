//! Figures in documents, written from the kept runs of the comparison.

mod chart;
mod kinds;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::tree::Tree;

/// Document with the kept runs.
const RESULTS: &str = "benches/RESULTS.md";

/// Picture of some rows.
const PICTURE: &str = "benches/compare.svg";

/// Start of the heading above each run. The name of its machine follows.
const HEADING: &str = "### Machine ";

/// Rows of the README's table: their names there, and in the kept runs.
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

/// Guides with figures.
const GUIDES: [&str; 2] = ["src/guide/many_processors.md", "src/guide/migration.md"];

/// The same of the table of wheels that a runtime turns. Each has three rows of ours.
const TURNED: [(&str, &str); 6] = [
    ("current-thread: intervals of 1 ms", "a tick of 1 thousand intervals of 1 ms, current-thread"),
    ("intervals of 10 ms", "a tick of 1 thousand intervals of 10 ms, current-thread"),
    ("loops with a sleep of 10 ms", "a round of 1 thousand loops of 10 ms, current-thread"),
    ("multi-thread: intervals of 1 ms", "a tick of 1 thousand intervals of 1 ms"),
    ("intervals of 10 ms", "a tick of 1 thousand intervals of 10 ms"),
    ("loops with a sleep of 10 ms", "a round of 1 thousand loops of 10 ms"),
];

/// Names of the columns with a peer.
const PEERS: [&str; 3] = ["tokio", "async-io", "futures-timer"];

/// A kept run.
struct Run<'a> {
    /// Name of its machine.
    machine: &'a str,
    rows: Vec<Row<'a>>,
}

impl<'a> Run<'a> {
    fn row(&self, name: &str) -> Option<&Row<'a>> {
        self.rows.iter().find(|row| row.name == name)
    }
}

/// A row of a kept run.
struct Row<'a> {
    name: &'a str,
    unit: &'a str,
    ours: &'a str,
    peers: [&'a str; 3],
    /// Ours as a multiple of tokio's, by the figures before they were rounded.
    ratio: &'a str,
}

impl Row<'_> {
    /// Returns the peers whose figure is lower than ours.
    fn ahead(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let ours = value(self.ours);
        let peers = PEERS.into_iter().zip(self.peers);
        peers.filter(move |(_, theirs)| value(theirs).zip(ours).is_some_and(|(a, b)| a < b))
    }
}

/// Returns each document that has figures, with them written as the kept runs have them; and the
/// picture.
pub fn written(tree: &Tree) -> Result<Vec<(&'static str, String)>, String> {
    let results = tree.get(RESULTS).ok_or("there are no kept runs")?;
    let runs = runs(results);
    let readme = tree.get("README.md").ok_or("there is no README.md")?;
    let readme = replaced(readme, "rows", &shown(&runs)?)?;
    let readme = replaced(&readme, "count", &count(&runs))?;
    let read = |file| tree.get(file).ok_or_else(|| format!("there is no {file}"));
    let [processors, migration] = GUIDES;
    let fires = replaced(read(processors)?, "fires", &fires(&runs)?)?;
    let turns = replaced(read(migration)?, "turns", &turns(&runs)?)?;
    let picture = chart::svg(&runs)?;
    let results = replaced(results, "kinds", &kinds::ahead(&runs, kinds::KINDS)?)?;
    let results = replaced(&results, "ahead", &ahead(&runs))?;
    let documents = [("README.md", readme), (processors, fires), (migration, turns)];
    Ok(documents.into_iter().chain([(RESULTS, results), (PICTURE, picture)]).collect())
}

/// Returns the runs. Each is below a heading of its own.
fn runs(results: &str) -> Vec<Run<'_>> {
    let parts = results.split("\n#").filter_map(|part| part.strip_prefix(&HEADING[1..]));
    parts
        .map(|part| {
            let (machine, table) = part.split_once('\n').unwrap_or((part, ""));
            Run { machine, rows: rows(table) }
        })
        .collect()
}

/// Returns the rows of a table.
fn rows(table: &str) -> Vec<Row<'_>> {
    let cells = table.lines().filter_map(|line| {
        let cells = line.strip_prefix('|')?.split('|').map(str::trim).collect::<Vec<_>>();
        let [name, unit, ours, tokio, async_io, futures_timer, _std, ratio, _end] = cells[..]
        else {
            return None;
        };
        let peers = [tokio, async_io, futures_timer];
        value(ours).is_some().then_some(Row { name, unit, ours, peers, ratio })
    });
    cells.collect()
}

/// Returns the names of the rows in all runs: first the last run's, then the others'.
fn names<'a>(runs: &[Run<'a>]) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let names = runs.iter().rev().flat_map(|run| run.rows.iter().map(|row| row.name));
    names.filter(|name| seen.insert(*name)).collect()
}

/// Returns a figure. A `~` before it says that it does not repeat.
fn value(text: &str) -> Option<f64> {
    text.trim_start_matches('~').parse().ok()
}

/// Returns the lowest and the highest of some figures.
fn range<'a>(figures: impl Iterator<Item = &'a str>) -> String {
    let mut figures = figures.filter_map(|text| Some((value(text)?, text))).collect::<Vec<_>>();
    figures.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    match figures[..] {
        [] => String::new(),
        [(low, text), .., (high, _)] if low == high => text.to_owned(),
        [(_, figure)] => figure.to_owned(),
        [(_, low), .., (_, high)] => format!("{low} to {high}"),
    }
}

/// Returns the README's table.
fn shown(runs: &[Run<'_>]) -> Result<String, String> {
    let mut text = "| | tourbillon | tokio 1.54 | async-io 2.6 | futures-timer 3.0 |\n".to_owned();
    text += "|---|---:|---:|---:|---:|\n";
    for (name, kept) in SHOWN {
        let [ours, tokio, async_io, futures_timer] = ranges(runs, kept)?;
        let _ = writeln!(text, "| {name} | {ours} | {tokio} | {async_io} | {futures_timer} |");
    }
    Ok(text)
}

/// Returns the figures of a row in all runs: ours, and each peer's.
fn ranges(runs: &[Run<'_>], kept: &str) -> Result<[String; 4], String> {
    let rows = runs.iter().filter_map(|run| run.row(kept)).collect::<Vec<_>>();
    if rows.is_empty() {
        return Err(format!("{RESULTS} has no row {kept}"));
    }
    let peer = |peer: usize| range(rows.iter().map(|row| row.peers[peer]));
    Ok([range(rows.iter().map(|row| row.ours)), peer(0), peer(1), peer(2)])
}

/// Returns a sentence on the time that a fire takes.
fn fires(runs: &[Run<'_>]) -> Result<String, String> {
    let [each, ..] = ranges(runs, "1 million fire in 1 s, each")?;
    Ok(format!(
        "Each of a million timers that fire within a second takes it {each} ns of processor, with \
         a waker that only counts.\n"
    ))
}

/// Returns a table of the processor time with a driver thread, and turned in the runtime's park.
fn turns(runs: &[Run<'_>]) -> Result<String, String> {
    let mut text = "| | driver thread | turned in the park | the same, with 1 ms of tolerance | \
                    tokio's timers |\n|---|---:|---:|---:|---:|\n"
        .to_owned();
    for (name, kept) in TURNED {
        let [thread, tokio, ..] = ranges(runs, kept)?;
        let in_park = format!("{kept}, turned in the park");
        let [park, ..] = ranges(runs, &in_park)?;
        let [tolerant, ..] = ranges(runs, &format!("{in_park}, 1 ms of tolerance"))?;
        let _ = writeln!(text, "| {name} | {thread} | {park} | {tolerant} | {tokio} |");
    }
    Ok(text)
}

/// Returns a sentence on how many rows a peer is ahead in.
fn count(runs: &[Run<'_>]) -> String {
    let names = names(runs);
    let count = |holds: &dyn Fn(&Row<'_>) -> bool| {
        let is_so = |name: &&&str| runs.iter().filter_map(|run| run.row(name)).any(holds);
        names.iter().filter(is_so).count()
    };
    format!(
        "Of {} rows with a peer, another crate has the lower figure in {} on at least one of the \
         machines, and tokio in {}.\n",
        count(&|row| row.peers.iter().any(|cell| value(cell).is_some())),
        count(&|row| row.ahead().next().is_some()),
        count(&|row| row.ahead().any(|(name, _)| name == PEERS[0])),
    )
}

/// Returns a table of the rows that a peer leads on a machine.
fn ahead(runs: &[Run<'_>]) -> String {
    let (mut head, mut rule) = ("| | unit |".to_owned(), "|---|---|".to_owned());
    for run in runs {
        let _ = write!(head, " {}: tourbillon | {0}: ahead |", run.machine);
        rule += "---:|---|";
    }
    let mut text = format!("{head}\n{rule}\n");
    for name in names(runs) {
        let rows = runs.iter().map(|run| run.row(name)).collect::<Vec<_>>();
        if !rows.iter().flatten().any(|row| row.ahead().next().is_some()) {
            continue;
        }
        let unit = rows.iter().flatten().map(|row| row.unit).next().unwrap_or_default();
        let _ = write!(text, "| {name} | {unit} |");
        for row in rows {
            let peers = row.into_iter().flat_map(Row::ahead);
            let peers = peers.map(|(name, figure)| format!("{name} {figure}")).collect::<Vec<_>>();
            let ours = row.map_or("", |row| row.ours);
            let _ = write!(text, " {ours} | {} |", peers.join(", "));
        }
        text.push('\n');
    }
    text
}

/// Replaces the text between the marks of a name.
fn replaced(document: &str, name: &str, text: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- figures: {name} -->\n"), "<!-- end of figures -->");
    let missing = || format!("the marks of the figures `{name}` are missing");
    let (before, rest) = document.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "
| a table of something else | 1 |

## Runs

### Machine A

| | unit | ours | tokio | async-io | futures-timer | std | ratio |
| - | - | -: | -: | -: | -: | -: | -: |
| both | ns | 3 | ~2 | 5 | 4 | | 1.5 |
| gone | ns | 1 | 2 | | | | 0.5 |

### Machine B

| both | ns | ~1 | 2 | 7 | | | 0.5 |
| new | us | 9 | | 8 | | | |

## Where a peer is ahead
";

    #[test]
    fn a_row_is_named_if_a_peer_is_ahead_on_either_machine() {
        let rows = "\
| | unit | A: tourbillon | A: ahead | B: tourbillon | B: ahead |
|---|---|---:|---|---:|---|
| both | ns | 3 | tokio ~2 | ~1 |  |
| new | us |  |  | 9 | async-io 8 |
";
        let runs = runs(RESULTS);
        assert_eq!(ahead(&runs), rows);
        let counts = "Of 3 rows with a peer, another crate has the lower figure in 2 on at least \
                      one of the machines, and tokio in 1.\n";
        assert_eq!(count(&runs), counts);
    }

    #[test]
    fn a_row_with_tokio_ahead_has_a_kind_and_a_kind_has_such_a_row() {
        let runs = runs(RESULTS);
        let kinds: kinds::Kinds<'_> = &[("the first", &["bo"]), ("news", &["new"])];
        let table = "| less with tokio's timers | ours, as a multiple |\n|---|---:|\n\
                     | the first | 1.5 |\n";
        assert_eq!(kinds::ahead(&runs, &kinds[..1]), Ok(table.to_owned()));
        let error = Err("no kind of rows has \"both\"".to_owned());
        assert_eq!(kinds::ahead(&runs, &kinds[1..]), error);
        let error = Err("tokio is ahead in no row of \"news\"".to_owned());
        assert_eq!(kinds::ahead(&runs, kinds), error);
    }

    #[test]
    fn a_range_has_the_lowest_and_the_highest_figure() {
        assert_eq!(range(["3", "~1", "", "2"].into_iter()), "~1 to 3");
        assert_eq!(range(["", "~2"].into_iter()), "~2");
        assert_eq!(range(["7", "7"].into_iter()), "7");
        assert_eq!(range([""].into_iter()), "");
    }
}
