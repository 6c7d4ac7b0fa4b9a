//! Errors of expressions: the reason for a refusal, and the place.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::ops::Range;

/// Most characters of a faulty text that an error keeps and shows: longer than any field that is
/// meant, and short enough for a line of a log.
const SHOWN_CHARS: usize = 32;

/// A part of the text given to [`Cron::parse`](crate::Cron::parse).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Field {
    /// The first of six fields; 0 to 59.
    Second,
    /// 0 to 59.
    Minute,
    /// 0 to 23.
    Hour,
    /// 1 to 31, `L`, `L-3`, `LW`, `15W`.
    DayOfMonth,
    /// 1 to 12, `JAN` to `DEC`.
    Month,
    /// 0 to 7, both ends being Sunday, `SUN` to `SAT`, `5L`, `5#3`.
    DayOfWeek,
    /// The name of the time zone.
    Zone,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::DayOfMonth => "day of month",
            Self::Month => "month",
            Self::DayOfWeek => "day of week",
            Self::Zone => "time zone",
        })
    }
}

/// Faults of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParseErrorKind {
    /// There are fewer than five fields.
    TooFewFields,
    /// There are more than six fields. There is none for the year.
    TooManyFields,
    /// An unknown word with `@`.
    UnknownNickname,
    /// `@reboot` is no time.
    Reboot,
    /// The text after `@every` is no period, such as `90s` or `1h30m`, of a second or more.
    BadPeriod,
    /// Nothing stands where a value should.
    Empty,
    /// Neither a number nor a name that the field knows.
    NotAValue,
    /// A number that is too small or too large for the field, or for its use there.
    OutOfRange {
        /// The smallest that is allowed.
        min: u8,
        /// The largest that is allowed.
        max: u8,
    },
    /// A range whose end comes before its start.
    Reversed,
    /// The step is no number from 1.
    BadStep,
    /// A step after a single value.
    StepWithoutRange,
    /// `L` and `LW` together.
    TwoLastDays,
    /// Each field is valid, but no day matches them all: the 30th of February.
    NeverOccurs,
    /// The database has no time zone of this name, or a file of this name that is no place; or the
    /// system has no database.
    UnknownZone,
}

/// Error of [`Cron::parse`](crate::Cron::parse): the fault of an expression or a zone, and its
/// place.
///
/// # Examples
///
/// ```
/// use tourbillon_cron::{Cron, Field, ParseErrorKind};
///
/// let error = Cron::parse("0 2,26 * * *", "UTC").unwrap_err();
/// assert_eq!(error.kind(), ParseErrorKind::OutOfRange { min: 0, max: 23 });
/// assert_eq!(error.field(), Some(Field::Hour));
/// assert_eq!((error.found(), error.range()), ("26", 4..6));
/// assert_eq!(error.to_string(), "hour: `26` is not within 0 to 23");
///
/// let error = Cron::parse("0 0 30 2 *", "UTC").unwrap_err();
/// assert_eq!(error.to_string(), "day of month: `30 2` never comes");
///
/// let error = Cron::parse("0 0 * * *", "Mars/Olympus").unwrap_err();
/// assert_eq!(error.to_string(), "time zone: `Mars/Olympus` is not known");
///
/// // Long text is cut, and control characters are escaped.
/// let error = Cron::parse(&"\u{1b}[2J".repeat(1_000_000), "UTC").unwrap_err();
/// assert_eq!(error.range(), 0..4_000_000);
/// assert_eq!(error.found().len(), 32);
/// assert!(error.to_string().starts_with(r"`\u{1b}[2J\u{1b}[2J"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    kind: ParseErrorKind,
    field: Option<Field>,
    /// The first `SHOWN_CHARS` characters of the text at `range`.
    found: String,
    range: Range<usize>,
}

impl ParseError {
    /// `found` begins `start` bytes into the parsed text.
    pub(crate) fn new(
        kind: ParseErrorKind,
        field: impl Into<Option<Field>>,
        found: &str,
        start: usize,
    ) -> Self {
        let range = start..start + found.len();
        let end = found.char_indices().nth(SHOWN_CHARS).map_or(found.len(), |(end, _)| end);
        Self { kind, field: field.into(), found: found[..end].to_owned(), range }
    }

    /// Returns the fault.
    pub fn kind(&self) -> ParseErrorKind {
        self.kind
    }

    /// Returns the field with the fault; `None` if there are too few or too many, or one nickname
    /// for all.
    pub fn field(&self) -> Option<Field> {
        self.field
    }

    /// The faulty text, unescaped; its first 32 characters if it is longer. All of it is at
    /// [`range`](Self::range).
    pub fn found(&self) -> &str {
        &self.found
    }

    /// Returns the range of the faulty text, in bytes: in the zone's name if the field is
    /// [`Field::Zone`], otherwise in the expression.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl fmt::Display for ParseError {
    /// Shows 32 characters of the faulty text at most. Control characters and others that do not
    /// print are escaped, so that the message can go to a terminal or a log as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = self.field {
            write!(f, "{field}: ")?;
        }
        let found = Shown { text: &self.found, cut: self.found.len() < self.range.len() };
        match self.kind {
            ParseErrorKind::TooFewFields => write!(f, "`{found}` has fewer than five fields"),
            ParseErrorKind::TooManyFields => write!(f, "`{found}` follows the sixth field"),
            ParseErrorKind::UnknownNickname => write!(f, "`{found}` is not known"),
            ParseErrorKind::Reboot => write!(f, "`{found}` is no time"),
            ParseErrorKind::BadPeriod => {
                write!(f, "`{found}` is not a period such as `90s` or `1h30m`")
            }
            ParseErrorKind::Empty => f.write_str("a value is missing"),
            ParseErrorKind::NotAValue => write!(f, "`{found}` is not a value"),
            ParseErrorKind::OutOfRange { min, max } => {
                write!(f, "`{found}` is not within {min} to {max}")
            }
            ParseErrorKind::Reversed => write!(f, "`{found}` ends before it starts"),
            ParseErrorKind::BadStep => write!(f, "`{found}` is not a step"),
            ParseErrorKind::StepWithoutRange => {
                write!(f, "`{found}` has a step, but no range or `*`")
            }
            ParseErrorKind::TwoLastDays => write!(f, "`{found}` has both `L` and `LW`"),
            ParseErrorKind::NeverOccurs => write!(f, "`{found}` never comes"),
            ParseErrorKind::UnknownZone => write!(f, "`{found}` is not known"),
        }
    }
}

impl Error for ParseError {}

/// Text from outside, escaped for a message.
pub(crate) struct Shown<'a> {
    pub(crate) text: &'a str,
    /// True if more follows.
    pub(crate) cut: bool,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.text.chars() {
            match character {
                '\'' | '"' | '\\' => f.write_char(character)?,
                _ => write!(f, "{}", character.escape_debug())?,
            }
        }
        f.write_str(if self.cut { "…" } else { "" })
    }
}
