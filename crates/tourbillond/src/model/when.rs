//! Times of a schedule's runs.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::{Bounds, Window};

/// Times of a schedule's runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum When {
    /// The times of a crontab(5) expression in a named zone.
    Cron(CronWhen),
    /// Multiples of a period.
    Every(EveryWhen),
    /// One-shot at a time.
    At(AtWhen),
    /// One-shot after a delay.
    After(AfterWhen),
}

/// Schedule by a cron expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct CronWhen {
    /// Expression as in crontab(5).
    pub cron: String,
    /// Time zone of the expression, by its IANA name; `UTC` if it is missing.
    #[schema(required = false, default = "UTC")]
    pub zone: String,
    /// Start, end and excluded windows.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// Schedule by a fixed period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct EveryWhen {
    /// Period, such as `90s`, `1h 30m` or `PT5M`; a second at least.
    pub every: String,
    /// Time that the periods are counted from, RFC 3339. The first run is one period later. The
    /// start of the year 1970 if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    /// Start, end and excluded windows.
    #[serde(flatten)]
    pub bounds: Bounds,
}

/// One-shot at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AtWhen {
    /// Time of the callback, RFC 3339.
    pub at: String,
}

/// One-shot after a delay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AfterWhen {
    /// Delay from the arrival of the request at the database, such as `30m`.
    pub after: String,
}

impl When {
    /// Returns the bounds of a schedule; `None` of a one-shot.
    pub(crate) fn bounds(&self) -> Option<&Bounds> {
        match self {
            Self::Cron(CronWhen { bounds, .. }) | Self::Every(EveryWhen { bounds, .. }) => {
                Some(bounds)
            }
            Self::At(_) | Self::After(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for When {
    /// Reads by hand, because an error of serde's own for an enum without a tag names no field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            cron: Option<String>,
            zone: Option<String>,
            every: Option<String>,
            anchor: Option<String>,
            at: Option<String>,
            after: Option<String>,
            start: Option<String>,
            end: Option<String>,
            #[serde(default)]
            excluded: Vec<Window>,
        }
        let Fields { cron, zone, every, anchor, at, after, start, end, excluded } =
            Fields::deserialize(deserializer)?;
        let bounds = Bounds { start, end, excluded };
        if zone.is_some() && cron.is_none() {
            return Err(D::Error::custom("`zone` goes with `cron`"));
        }
        if anchor.is_some() && every.is_none() {
            return Err(D::Error::custom("`anchor` goes with `every`"));
        }
        let repeats = cron.is_some() || every.is_some();
        if !repeats && bounds != Bounds::default() {
            let why = "`start`, `end` and `excluded` go with `cron` or `every`";
            return Err(D::Error::custom(why));
        }
        match (cron, every, at, after) {
            (Some(cron), None, None, None) => {
                Ok(Self::Cron(CronWhen { cron, zone: zone.unwrap_or_else(utc), bounds }))
            }
            (None, Some(every), None, None) => Ok(Self::Every(EveryWhen { every, anchor, bounds })),
            (None, None, Some(at), None) => Ok(Self::At(AtWhen { at })),
            (None, None, None, Some(after)) => Ok(Self::After(AfterWhen { after })),
            _ => Err(D::Error::custom("give exactly one of `cron`, `every`, `at` and `after`")),
        }
    }
}

fn utc() -> String {
    "UTC".to_owned()
}
