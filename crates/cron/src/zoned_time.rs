//! [`ZonedTime`]: a time on the clocks of a zone.

use std::fmt;

use jiff::Zoned;

/// A time as clocks in a zone show it; from [`Cron::zoned`](crate::Cron::zoned).
///
/// `Display` writes it in the format of RFC 9557: `2026-03-29T03:00:00+02:00[Europe/Berlin]`. Width
/// and alignment apply to the whole.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_cron::Cron;
///
/// let cron = Cron::parse("@daily", "Asia/Kathmandu")?;
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_774_656_059);
/// let time = cron.zoned(time).expect("within range");
/// assert_eq!((time.year(), time.month(), time.day()), (2026, 3, 28));
/// assert_eq!((time.hour(), time.minute(), time.second()), (5, 45, 59));
/// assert_eq!(time.offset_s(), (5 * 60 + 45) * 60);
/// # Ok::<(), tourbillon_cron::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZonedTime(Zoned);

impl ZonedTime {
    pub(crate) fn new(time: Zoned) -> Self {
        Self(time)
    }

    /// The year; negative before the year 0.
    pub fn year(&self) -> i16 {
        self.0.year()
    }

    /// The month, 1 to 12.
    pub fn month(&self) -> u8 {
        self.0.month().unsigned_abs()
    }

    /// The day of the month, 1 to 31.
    pub fn day(&self) -> u8 {
        self.0.day().unsigned_abs()
    }

    /// The hour, 0 to 23.
    pub fn hour(&self) -> u8 {
        self.0.hour().unsigned_abs()
    }

    /// The minute, 0 to 59.
    pub fn minute(&self) -> u8 {
        self.0.minute().unsigned_abs()
    }

    /// The second, 0 to 59.
    pub fn second(&self) -> u8 {
        self.0.second().unsigned_abs()
    }

    /// Returns the zone's offset from UTC at that time, in seconds; negative in the west.
    pub fn offset_s(&self) -> i32 {
        self.0.offset().seconds()
    }
}

impl fmt::Display for ZonedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl fmt::Debug for ZonedTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
