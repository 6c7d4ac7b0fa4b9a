//! The log of a run: each process writes one line per event.
//!
//! Each line is one `write` to a file opened to append, so that a killed process leaves whole
//! lines. A line is a tag and its words, in the order of the fields of its [`Line`]; `-` is none.
//! Processes stamp their lines by one clock, [`Stamp`]; the database's clock is [`Time`].

mod words;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};
use tourbillon_durable::{NodeId, Time, TimerId};

use words::{Word, choices};

/// Least gap that is a stall, in microseconds.
pub(crate) const STALL_US: i64 = 300_000;

/// Microseconds on the host's monotonic clock, which all processes share.
///
/// The stamp is read from the kernel itself: a library that sets a node's clocks off leaves it as
/// it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub i64);

impl Stamp {
    /// The clock as it is now.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
    }
}

/// A process of a node: which of the run's nodes, and its how-manieth start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    /// The node, from 0.
    pub node: u32,
    /// The start, from 1.
    pub start: u32,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Makes a timer for this time.
    Once(Time),
    /// Cancels a timer.
    Cancel,
    /// Gives a timer another time.
    Reschedule(Time),
    /// Makes a schedule, or gives it another period. Its occurrences are the multiples of that, in
    /// microseconds. They are due as much later as its policies allow; none if an occurrence may
    /// wait for others.
    Every(i64, Option<i64>),
    /// Enables a schedule, or disables it.
    Enable(bool),
}

choices! {
    /// Answer to a client's call.
    Answer {
        /// Done: created, cancelled, rescheduled, changed.
        Done = "done",
        /// Nothing to do. The state is otherwise unknown.
        Same = "same",
        /// Running, so nothing was changed.
        Running = "running",
        /// There is no such timer or schedule, any more.
        Gone = "gone",
        /// The store said that nothing was written.
        Refused = "refused",
        /// The answer was lost: it may have been done, or may still be.
        Unknown = "unknown",
    }
    /// End of an attempt, by its handler.
    How {
        /// Success.
        Ok = "ok",
        /// Failure that may be tried again.
        Failed = "failed",
        /// Failure for good.
        GaveUp = "gave-up",
        /// Handed back.
        Back = "back",
    }
    /// Answer to the end of a node's attempt.
    Taken {
        /// The end counts.
        Accepted = "accepted",
        /// The attempt was not this node's any more.
        Fenced = "fenced",
        /// The node does not know.
        Lost = "lost",
    }
    /// End of an occurrence in the history.
    Ended {
        /// An attempt succeeded.
        Succeeded = "succeeded",
        /// Its attempts failed, up to the permitted number.
        Dead = "dead",
        /// Its handler gave it up.
        GivenUp = "given-up",
        /// No node was there in time.
        Missed = "missed",
        /// Another of its schedule was unfinished.
        Overlap = "overlap",
        /// A client cancelled it.
        Cancelled = "cancelled",
        /// Its schedule was disabled, removed or changed.
        TimerUpdate = "withdrawn",
    }
}

macro_rules! lines {
    ($($(#[$doc:meta])* $variant:ident = $tag:literal {
        $($(#[$each:meta])* $field:ident: $type:ty,)*
    })*) => {
        /// One line of a log.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Line {
            $($(#[$doc])* $variant { $($(#[$each])* $field: $type,)* },)*
        }

        impl fmt::Display for Line {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant { $($field,)* } => {
                        f.write_str($tag)?;
                        $(f.write_str(" ")?; Word::write($field, f)?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl FromStr for Line {
            type Err = NoLine;

            fn from_str(text: &str) -> Result<Self, NoLine> {
                let mut words = text.split(' ');
                let wrong = || NoLine(text.to_owned());
                let line = match words.next() {
                    $(Some($tag) => Self::$variant { $(
                        $field: words.next().and_then(Word::read).ok_or_else(wrong)?,
                    )* },)*
                    _ => return Err(wrong()),
                };
                if words.next().is_none() { Ok(line) } else { Err(wrong()) }
            }
        }
    };
}

lines! {
    /// The run as a whole. Written by the nemesis.
    Run = "run" {
        /// Seed of all its random choices.
        seed: u64,
        /// A node's lease, in microseconds. The effects of a fault last as much longer.
        lease_us: i64,
        /// Lateness up to which an attempt may start without an obstacle, in microseconds.
        late_us: i64,
        /// Least number of occurrences to judge by, and of attempts.
        floor: u64,
    }
    /// One reading of the database's clock. Written by the nemesis.
    Clock = "clock" {
        /// Before it was asked for.
        before: Stamp,
        /// Time that the database said.
        time: Time,
        /// After the answer came.
        after: Stamp,
    }
    /// Time by which everything that was due has an outcome in the final tables. Written by the
    /// nemesis.
    End = "end" {
        /// When.
        at: Stamp,
    }
    /// A fault begins, injected or noticed.
    Fault = "fault" {
        /// Number that the line of its end refers to; unique in its file's process.
        number: u32,
        /// When.
        at: Stamp,
        /// Name of the fault.
        name: String,
        /// Node that it strikes; none for all.
        node: Option<u32>,
    }
    /// A fault is over.
    Over = "over" {
        /// The fault's.
        number: u32,
        /// When.
        at: Stamp,
    }
    /// A standby became the primary and may lack writes acknowledged in between. Written by the
    /// nemesis, if the standby is asynchronous.
    Behind = "behind" {
        /// Last time at which it certainly had all acknowledged writes.
        from: Stamp,
        /// Time from which it took writes.
        to: Stamp,
    }
    /// A process did not run, or the database did not answer, for a while, by nobody's doing.
    Stall = "stall" {
        /// Begin.
        from: Stamp,
        /// End.
        to: Stamp,
        /// Node; none for the database.
        node: Option<u32>,
    }
    /// A node's beat was answered with the end of its lease: from then on another may start its
    /// running attempts. That excuses nothing.
    Unleased = "unleased" {
        /// When.
        at: Stamp,
        /// Node.
        node: u32,
    }
    /// A node's wall clock is set off. That excuses nothing.
    Skew = "skew" {
        /// When.
        at: Stamp,
        /// Node.
        node: u32,
        /// Offset of its clock from here on, in seconds.
        seconds: i64,
    }
    /// A client calls. One client changes a timer or a schedule.
    Call = "call" {
        /// Client.
        client: u32,
        /// Number of the call.
        number: u32,
        /// When it calls.
        at: Stamp,
        /// Name of the timer, its alone, or of the schedule.
        name: String,
        /// Change that it asks for.
        op: Op,
    }
    /// A client's call returns.
    Return = "return" {
        /// Client.
        client: u32,
        /// Number of the call.
        number: u32,
        /// When it returns.
        at: Stamp,
        /// The answer.
        answer: Answer,
        /// Timers of a disabled schedule that still run.
        running: Vec<TimerId>,
    }
    /// A process has handlers from here on. Written by each node that starts.
    Handlers = "handlers" {
        /// The process.
        label: Label,
        /// Kind of the handlers.
        kind: String,
        /// Attempts that they carry out at a time.
        threads: u32,
    }
    /// A handler starts.
    Start = "start" {
        /// Stamp before the worker was asked for the attempt. So the worker's knowledge is no
        /// older, also if the process was stopped right after it.
        at: Stamp,
        /// When the handler had the attempt.
        began: Stamp,
        /// The process.
        label: Label,
        /// The kind of the handler.
        kind: String,
        /// The name of the timer, or of its schedule.
        name: String,
        /// True for an occurrence of a schedule.
        scheduled: bool,
        /// Scheduled time of the attempt.
        scheduled_for: Time,
        /// When it was due.
        due: Time,
        /// The timer.
        timer: TimerId,
        /// Number of the attempt.
        attempt: u32,
        /// The node's identity in the database.
        node: NodeId,
    }
    /// A handler has decided how its attempt ends, and is about to say so.
    Finish = "finish" {
        /// When.
        at: Stamp,
        /// The process.
        label: Label,
        /// The timer.
        timer: TimerId,
        /// Number of the attempt.
        attempt: u32,
        /// End that it is about to report.
        how: How,
    }
    /// Answer to an end.
    Taken = "taken" {
        /// When the answer came.
        at: Stamp,
        /// The process.
        label: Label,
        /// The timer.
        timer: TimerId,
        /// Number of the attempt.
        attempt: u32,
        /// The answer.
        taken: Taken,
    }
    /// A row of the final table of timers.
    Timer = "timer" {
        /// The timer.
        timer: TimerId,
        /// Its name, or its schedule's.
        name: String,
        /// True for an occurrence of a schedule, not a timer of its own.
        scheduled: bool,
        /// Its time.
        scheduled_for: Time,
        /// When it is due.
        due: Time,
        /// Number of times that it was claimed.
        attempt: u32,
    }
    /// A row of the final history.
    Record = "record" {
        /// The timer.
        timer: TimerId,
        /// Its name, or its schedule's.
        name: String,
        /// True if it was an occurrence of a schedule.
        scheduled: bool,
        /// Its time.
        scheduled_for: Time,
        /// Number of times that it was claimed.
        attempts: u32,
        /// Its end.
        ended: Ended,
        /// Node that ran the last attempt, if it ended by one.
        node: Option<NodeId>,
        /// When it was recorded.
        recorded: Time,
    }
}

/// A line that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoLine(String);

impl fmt::Display for NoLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no line of a log", self.0)
    }
}

impl std::error::Error for NoLine {}

/// A file that lines are appended to, by any thread.
#[derive(Debug)]
pub struct Log(File);

impl Log {
    /// Opens or makes the file.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        OpenOptions::new().create(true).append(true).open(path).map(Self)
    }

    /// Appends a line by one `write`.
    ///
    /// # Panics
    ///
    /// If it cannot be written: an event that is not logged cannot be judged.
    pub fn write(&self, line: &Line) {
        let text = format!("{line}\n");
        let written = (&self.0).write(text.as_bytes()).expect("the log cannot be written");
        assert_eq!(written, text.len(), "a line of the log was written in part");
    }
}

/// All lines of all logs in a directory.
///
/// # Errors
///
/// If a file cannot be read, or has a line that is none.
pub fn read(directory: &Path) -> io::Result<Vec<Line>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut lines = Vec::new();
    for path in paths {
        for line in std::fs::read_to_string(path)?.lines() {
            lines.push(
                line.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
            );
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_as_it_was_written() {
        let id = TimerId::from_bits;
        let call =
            |op| Line::Call { client: 1, number: 2, at: Stamp(3), name: "inv-42".into(), op };
        for line in [
            Line::Fault { number: 3, at: Stamp(-4), name: "kill".into(), node: None },
            call(Op::Once(Time::from_micros(-5))),
            call(Op::Cancel),
            call(Op::Reschedule(Time::NEVER)),
            call(Op::Every(7, Some(8))),
            call(Op::Every(7, None)),
            call(Op::Enable(false)),
            Line::Return {
                client: 1,
                number: 2,
                at: Stamp(3),
                answer: Answer::Unknown,
                running: vec![id(1), id(u128::MAX)],
            },
            Line::Taken {
                at: Stamp(3),
                label: Label { node: 2, start: 1 },
                timer: id(7),
                attempt: 1,
                taken: Taken::Fenced,
            },
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
    }

    #[test]
    fn a_line_with_a_word_too_few_or_too_many_is_none() {
        assert!("end 1".parse::<Line>().is_ok());
        for text in ["end", "end 1 2", "end x", "", "and 1"] {
            assert_eq!(text.parse::<Line>(), Err(NoLine(text.into())));
        }
    }
}
