//! Policies for occurrences that are missed, that overlap or that fail; as text for stores.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Policy for occurrences that were due while no node was there to make timers of them.
///
/// An occurrence that is found late is *on time* all the same if the next is not due yet and it is
/// not later than [`Policies::on_time_within`]. What is found together and not on time was missed.
/// What had become a timer before the nodes went away runs, however late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// They are skipped, and recorded as [`Reason::Missed`](crate::Reason::Missed).
    Skip,
    /// The last of them runs, and stands for the others, which are recorded as
    /// [`Reason::Coalesced`](crate::Reason::Coalesced).
    #[default]
    Coalesce,
    /// They run, as far as these limits go; older ones are skipped.
    CatchUp {
        /// Most that run: the newest that are found together. Clamped to 10,000.
        max_count: u64,
        /// Longest time since the oldest of them was due when it is found.
        max_age: Duration,
    },
}

/// Policy for an occurrence that is due while another of its schedule is not finished.
///
/// An occurrence is unfinished from when it is due until its outcome is recorded, its waits between
/// two attempts included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overlap {
    /// The occurrence runs beside the other.
    #[default]
    Allow,
    /// The occurrence is skipped, and recorded as [`Reason::Overlap`](crate::Reason::Overlap).
    Skip,
    /// The occurrence waits, and is due when the others before it are finished, oldest first.
    Queue {
        /// Most that may wait; beyond that occurrences are skipped. At least 1.
        at_most: u32,
    },
}

/// Policy for failed attempts: how often another follows, and when.
///
/// The pause before the n-th further attempt is `first * 2^(n-1)`, at most `longest`. An attempt
/// that was handed back, or whose node died, does not count as failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Retry {
    /// Number of attempts that may fail before the outcome is [`Dead`](crate::Outcome::Dead). 0
    /// counts as 1.
    pub attempts: u32,
    /// The pause after the first failure.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Retry {
    /// No second attempt after a failed one.
    pub const NEVER: Self = Self { attempts: 1, first: Duration::ZERO, longest: Duration::ZERO };

    /// The pause before the next attempt once `failures` of them have failed; `None` if there is to
    /// be no other.
    pub fn pause(&self, failures: u32) -> Option<Duration> {
        if failures >= self.attempts.max(1) {
            return None;
        }
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        Some(self.first.saturating_mul(doubled).min(self.longest))
    }
}

impl Default for Retry {
    /// Ten attempts, a second apart at first and five minutes at last.
    fn default() -> Self {
        Self { attempts: 10, first: Duration::from_secs(1), longest: Duration::from_secs(300) }
    }
}

/// The policies of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policies {
    /// Policy for occurrences that no node was there for.
    pub missed: Missed,
    /// Lateness up to which an occurrence is on time when it is found, if the next is not due yet.
    pub on_time_within: Duration,
    /// Policy for occurrences that overlap.
    pub overlap: Overlap,
    /// Each occurrence is due up to this much later than scheduled. By how much depends on the
    /// schedule and the occurrence alone, so that every node comes to the same.
    pub jitter: Duration,
    /// Policy for attempts that fail.
    pub retry: Retry,
}

impl Default for Policies {
    /// The last missed occurrence runs, overlapping ones run side by side, no jitter, ten attempts.
    fn default() -> Self {
        Self {
            missed: Missed::Coalesce,
            on_time_within: Duration::from_secs(60),
            overlap: Overlap::Allow,
            jitter: Duration::ZERO,
            retry: Retry::default(),
        }
    }
}

impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.attempts, written(self.first), written(self.longest))
    }
}

impl FromStr for Retry {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut words = text.split(',');
        let retry = Self {
            attempts: word(&mut words, text)?,
            first: micros(&mut words, text)?,
            longest: micros(&mut words, text)?,
        };
        end(words, text).map(|()| retry)
    }
}

impl fmt::Display for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.missed {
            Missed::Skip => write!(f, "skip")?,
            Missed::Coalesce => write!(f, "coalesce")?,
            Missed::CatchUp { max_count, max_age } => {
                write!(f, "catch-up {max_count} {}", written(max_age))?;
            }
        }
        write!(f, ";{};", written(self.on_time_within))?;
        match self.overlap {
            Overlap::Allow => write!(f, "allow")?,
            Overlap::Skip => write!(f, "skip")?,
            Overlap::Queue { at_most } => write!(f, "queue {at_most}")?,
        }
        write!(f, ";{};{}", written(self.jitter), self.retry)
    }
}

impl FromStr for Policies {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(';');
        let mut missed = parts.next().unwrap_or("").split(' ');
        let missed = match missed.next() {
            Some("skip") => Missed::Skip,
            Some("coalesce") => Missed::Coalesce,
            Some("catch-up") => Missed::CatchUp {
                max_count: word(&mut missed, text)?,
                max_age: micros(&mut missed, text)?,
            },
            _ => return Err(PolicyError::new(text)),
        };
        let on_time_within = micros(&mut parts, text)?;
        let mut overlap = parts.next().unwrap_or("").split(' ');
        let overlap = match overlap.next() {
            Some("allow") => Overlap::Allow,
            Some("skip") => Overlap::Skip,
            Some("queue") => Overlap::Queue { at_most: word(&mut overlap, text)? },
            _ => return Err(PolicyError::new(text)),
        };
        let jitter = micros(&mut parts, text)?;
        let retry = parts.next().ok_or_else(|| PolicyError::new(text))?.parse()?;
        end(parts, text).map(|()| Self { missed, on_time_within, overlap, jitter, retry })
    }
}

fn word<'a, T: FromStr>(
    words: &mut impl Iterator<Item = &'a str>,
    text: &str,
) -> Result<T, PolicyError> {
    words.next().and_then(|word| word.parse().ok()).ok_or_else(|| PolicyError::new(text))
}

fn micros<'a>(
    words: &mut impl Iterator<Item = &'a str>,
    text: &str,
) -> Result<Duration, PolicyError> {
    // A span may have been written in full.
    word(words, text).map(|micros: u128| Duration::from_micros(saturated(micros)))
}

/// A span as it is written: in microseconds, and no longer than can be read.
fn written(span: Duration) -> u64 {
    saturated(span.as_micros())
}

fn saturated(micros: u128) -> u64 {
    u64::try_from(micros).unwrap_or(u64::MAX)
}

fn end<'a>(mut words: impl Iterator<Item = &'a str>, text: &str) -> Result<(), PolicyError> {
    words.next().map_or(Ok(()), |_| Err(PolicyError::new(text)))
}

/// A text that is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    text: String,
}

impl PolicyError {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned() }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a policy", self.text)
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Missed, Overlap, Policies, Retry};

    fn with(span: Duration) -> Policies {
        Policies {
            missed: Missed::CatchUp { max_count: u64::MAX, max_age: span },
            on_time_within: span,
            overlap: Overlap::Queue { at_most: u32::MAX },
            jitter: span,
            retry: Retry { attempts: u32::MAX, first: span, longest: span },
        }
    }

    #[test]
    fn policies_are_read_as_they_were_written() {
        let longest = Duration::from_micros(u64::MAX);
        for span in [Duration::ZERO, Duration::from_micros(1), longest] {
            assert_eq!(with(span).to_string().parse(), Ok(with(span)));
        }
        for span in [Duration::from_secs(u64::MAX), Duration::MAX] {
            assert_eq!(with(span).to_string().parse(), Ok(with(longest)));
        }
        let default = Policies::default();
        assert_eq!(default.to_string().parse(), Ok(default));
    }

    #[test]
    fn a_span_that_was_written_in_full_is_read_as_the_longest() {
        let text = format!("1,0,{}", Duration::MAX.as_micros());
        let longest = Duration::from_micros(u64::MAX);
        assert_eq!(text.parse(), Ok(Retry { attempts: 1, first: Duration::ZERO, longest }));
    }
}
