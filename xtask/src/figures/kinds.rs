//! Kinds of rows in which tokio is ahead, in plain words.

use std::fmt::Write as _;

use super::{PEERS, Run, range};

/// Kinds: their names in the document, and parts of the names of their rows. A row is of the first
/// kind that has a part of it.
pub type Kinds<'a> = &'a [(&'a str, &'a [&'a str])];

pub const KINDS: Kinds<'static> = &[
    ("arm + cancel: cache lines touched and written", &["cache lines: an arm + cancel"]),
    ("drop of a sleep that has fired", &["drop of a fired sleep"]),
    ("reset to earlier", &["reset to earlier"]),
    (
        "drop in random order of timers in cold memory, and some of arm and drop together",
        &["armed, dropped in random order"],
    ),
    ("a million fire within a second: lateness, p99", &["fire beside an inserter: lateness p99"]),
    (
        "arm in the one shard that a million fire from: p99.9, and the longest without them",
        &["wait for a shard that fires"],
    ),
    ("200 thousand tokio tasks that sleep once", &["200 thousand tokio tasks"]),
    (
        "turned in tokio's park: a thousand intervals of 10 ms, and loops of 10 ms",
        &["turned in the park"],
    ),
    (
        "current-thread runtime: a thousand intervals of 1 ms and of 10 ms, and loops of 10 ms",
        &["ms, current-thread"],
    ),
    (
        "multi-thread runtime: a thousand intervals of 1 ms and of 10 ms",
        &["intervals of 1 ms", "intervals of 10 ms"],
    ),
    ("multi-thread runtime: a thousand loops of 10 ms", &["loops of 10 ms"]),
    ("a million in one slot: lateness of the first", &["become due: lateness of the first"]),
    ("one interval of 1 us", &["1 interval of 1 us"]),
    ("an operation of 10 thousand a second", &["operation of 10 thousand"]),
    ("processor time of a single sleep", &["processor time of each"]),
    ("ten thousand sleeps a second: lateness, p99.9", &["10 thousand a second: p99.9"]),
    (
        "at rest, with nothing pending or 10 thousand far timers: processor time of 3 s",
        &["nothing pending: processor time", "far timers: processor time"],
    ),
    (
        "10 thousand limits of a minute: wake-ups and processor time",
        &["10 thousand limits of 60 s"],
    ),
    ("memory kept once a million have been dropped", &["each once dropped"]),
    ("memory kept where 1 in 256 of a million stay", &["1 in 256 left"]),
];

/// Returns a table of the kinds, with our multiples of tokio's figures in all rows in which tokio's
/// is lower on a machine. Fails if such a row is of no kind, or a kind has none.
pub fn ahead(runs: &[Run<'_>], kinds: Kinds<'_>) -> Result<String, String> {
    let mut ratios = vec![Vec::new(); kinds.len()];
    for row in runs.iter().flat_map(|run| &run.rows) {
        if row.ahead().all(|(name, _)| name != PEERS[0]) {
            continue;
        }
        let has_part = |parts: &[&str]| parts.iter().any(|part| row.name.contains(part));
        let kind = kinds.iter().position(|(_, parts)| has_part(parts));
        let kind = kind.ok_or_else(|| format!("no kind of rows has {:?}", row.name))?;
        ratios[kind].push(row.ratio);
    }
    let mut text = "| less with tokio's timers | ours, as a multiple |\n|---|---:|\n".to_owned();
    for ((name, _), ratios) in kinds.iter().zip(ratios) {
        if ratios.is_empty() {
            return Err(format!("tokio is ahead in no row of {name:?}"));
        }
        let _ = writeln!(text, "| {name} | {} |", range(ratios.into_iter()));
    }
    Ok(text)
}
