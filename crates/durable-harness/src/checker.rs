//! Decides from the logs of a run and its final tables alone whether the promises were kept.
//!
//! The checker knows nothing of engines and stores. It trusts the stamps of the logs, which are of
//! one clock, and the nemesis's readings of the database's clock. Uncertainty counts in favour of
//! the run: a lost answer may mean either, and a start is early only if the database's clock, by
//! every reading around it, cannot have shown the time yet. [`Report::tolerance_us`] is the
//! uncertainty of the worst of those readings.
//!
//! A timer, and a schedule, is changed by one client only, one call after the other.

mod attempts;
mod clock;
mod history;
mod lateness;
mod once;
mod schedules;

use std::collections::BTreeSet;
use std::fmt;

use crate::log::Line;
use history::History;

macro_rules! verdicts {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The promise that was broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Verdict {
            $($(#[$doc])* $variant,)*
        }

        impl Verdict {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
        }

        impl fmt::Display for Verdict {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$variant => $text,)* })
            }
        }
    };
}

verdicts! {
    /// An occurrence that was due before the end has neither record nor timer.
    Lost = "lost",
    /// An occurrence that was due before the end is still a timer.
    Unfinished = "unfinished",
    /// Two timers or records stand for one occurrence.
    Doubled = "doubled",
    /// Something is there that nobody asked for.
    Unasked = "unasked",
    /// A handler started before its time, by the database's clock.
    Early = "early",
    /// A handler started after a client knew its timer cancelled or gone.
    AfterCancel = "after-cancel",
    /// A handler started after a client knew its schedule disabled.
    AfterDisable = "after-disable",
    /// A handler started after an attempt had completed.
    AfterDone = "after-done",
    /// A handler started after its occurrence was recorded as over.
    AfterRecord = "after-record",
    /// A handler started late, or its occurrence became due late, and nothing was in the way.
    Late = "late",
    /// An attempt started after a later one, or twice.
    OutOfOrder = "out-of-order",
    /// A further attempt started, and the one before neither failed nor met a fault.
    SecondStart = "second-start",
    /// Two attempts completed.
    CompletedTwice = "completed-twice",
    /// The record contradicts handlers and clients.
    WrongRecord = "wrong-record",
    /// An attempt is for a time that the timer did not have any more, or never had.
    WrongTime = "wrong-time",
    /// An occurrence was skipped, and nothing was in its way.
    SkippedFreely = "skipped-freely",
    /// The logs do not say enough, or contradict themselves.
    Unjudged = "unjudged",
}

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub verdict: Verdict,
    /// The timer's name, or the schedule's and the occurrence's time.
    pub key: String,
    /// Description of the breach.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.verdict, self.key, self.detail)
    }
}

/// Findings of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Breaches that were found.
    pub violations: Vec<Violation>,
    /// Number of occurrences that had to have an outcome.
    pub required: usize,
    /// Number of attempts that started.
    pub attempts: usize,
    /// Number of attempts after the first of their timer.
    pub repeated: usize,
    /// Number of these that were excused by a fault alone.
    pub excused: usize,
    /// Number of faults that were injected.
    pub faults: usize,
    /// Number of stalls that were noticed.
    pub stalls: usize,
    /// Number of calls that clients made.
    pub calls: usize,
    /// Number of those without an answer.
    pub unknown: usize,
    /// Greatest undetected earliness of a start, in microseconds.
    pub tolerance_us: i64,
}

impl Report {
    /// The verdicts, each once.
    pub fn verdicts(&self) -> BTreeSet<Verdict> {
        self.violations.iter().map(|violation| violation.verdict).collect()
    }

    fn add(&mut self, verdict: Verdict, key: impl fmt::Display, detail: impl Into<String>) {
        let violation = Violation { verdict, key: key.to_string(), detail: detail.into() };
        self.violations.push(violation);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} occurrences due, {} attempts ({} repeated, {} excused by a fault), \
             {} calls ({} without answer), {} faults, {} stalls, tolerance {} us",
            self.required,
            self.attempts,
            self.repeated,
            self.excused,
            self.calls,
            self.unknown,
            self.faults,
            self.stalls,
            self.tolerance_us,
        )?;
        for verdict in self.verdicts() {
            let all = self.violations.iter().filter(|violation| violation.verdict == verdict);
            writeln!(f, "VIOLATED {verdict}: {}", all.clone().count())?;
            for violation in all.take(5) {
                writeln!(f, "    {violation}")?;
            }
        }
        f.write_str(if self.violations.is_empty() { "all promises kept" } else { "FAILED" })
    }
}

/// Judges a run by all its lines, in any order.
pub fn check(lines: &[Line]) -> Report {
    let mut report = Report::default();
    let Some(history) = History::new(lines, &mut report) else { return report };
    attempts::check(&history, &mut report);
    once::check(&history, &mut report);
    schedules::check(&history, &mut report);
    lateness::check(&history, &mut report);
    let (required, attempts) = (report.required, report.attempts);
    if history.floor > required.min(attempts) as u64 {
        let detail = format!("{required} occurrences and {attempts} attempts: too few to judge by");
        report.add(Verdict::Unjudged, "run", detail);
    }
    report
}
