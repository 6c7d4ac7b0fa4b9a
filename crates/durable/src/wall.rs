//! [`Wall`]: the time on the wall that an occurrence was computed for, by the rules of then.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use tourbillon_cron::ZoneData;

/// Version of the data that zones are looked up in, once it was asked for.
static DATA: Mutex<Option<Arc<str>>> = Mutex::new(None);

/// Rules of a zone by which a schedule's next occurrence was computed.
///
/// With the offset, the time of the occurrence says what clocks in the zone were to show then. So
/// the occurrence is found again after the zone has got other rules: it comes when clocks show that
/// time by the new ones.
///
/// Stores that keep text write it by `Display`, and read it by [`FromStr`].
///
/// # Examples
///
/// ```
/// use tourbillon_durable::store::Wall;
///
/// let wall: Wall = "2025b -25200".parse()?;
/// assert_eq!((wall.offset_s(), wall.data()), (-7 * 3600, "2025b"));
/// assert_eq!(wall.to_string(), "2025b -25200");
/// # Ok::<(), std::num::ParseIntError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wall {
    offset_s: i32,
    data: Arc<str>,
}

impl Wall {
    /// The rules of a clock with this offset, by the data that this process has.
    pub(crate) fn new(offset_s: i32) -> Self {
        Self { offset_s, data: data() }
    }

    /// Offset of clocks in the zone from UTC, in seconds. If they are changed just then, the lower
    /// one of the two.
    pub fn offset_s(&self) -> i32 {
        self.offset_s
    }

    /// Version of the zone data, such as `2025b`; empty if the data do not say theirs. Later
    /// versions have greater texts.
    pub fn data(&self) -> &str {
        &self.data
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.data, self.offset_s)
    }
}

impl FromStr for Wall {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (data, offset_s) = text.rsplit_once(' ').unwrap_or(("", text));
        Ok(Self { offset_s: offset_s.parse()?, data: data.into() })
    }
}

/// Returns the version of the data that zones are looked up in; empty if it is unknown.
pub(crate) fn data() -> Arc<str> {
    let mut data = DATA.lock().unwrap_or_else(PoisonError::into_inner);
    data.get_or_insert_with(current).clone()
}

/// Looks whether the data have another version now. If so, zones are read anew.
pub(crate) fn look_at_data() {
    let now = current();
    let mut data = DATA.lock().unwrap_or_else(PoisonError::into_inner);
    // Before the version is known to others: what they compute by it is by the new rules.
    if data.replace(now.clone()).is_some_and(|before| before != now) {
        ZoneData::reload();
    }
}

fn current() -> Arc<str> {
    ZoneData::current().version().unwrap_or_default().into()
}
